//! Generated names, and timestamps in the format of the API.

use fastrand::Rng;
pub(crate) use hpa_simulate::workload::random::suffix as random_suffix;
use jiff::Timestamp;

const SUFFIX_LENGTH: usize = 5;

/// The name for an object with this `metadata.generateName`.
pub(crate) fn generate_name(prefix: &str) -> String {
    format!("{prefix}{}", random_suffix(&mut Rng::new(), SUFFIX_LENGTH))
}

/// Formats a time in RFC 3339, truncated to seconds as in `metav1.Time`.
pub(crate) fn timestamp(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
