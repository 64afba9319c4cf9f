//! Generated names, and timestamps in the format of the API.

use fastrand::Rng;
use jiff::Timestamp;

/// The characters of generated names. Without vowels, 0, 1 and 3 they can't form words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// Random characters as Kubernetes uses them in names.
pub(crate) fn random_suffix(rng: &mut Rng, length: usize) -> String {
    (0..length).filter_map(|_| rng.choice(ALPHABET)).copied().map(char::from).collect()
}

/// The name for an object with this `metadata.generateName`.
pub(crate) fn generate_name(prefix: &str) -> String {
    format!("{prefix}{}", random_suffix(&mut Rng::new(), SUFFIX_LENGTH))
}

/// `time` in RFC 3339, truncated to seconds as in `metav1.Time`.
pub(crate) fn timestamp(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
