//! Identities and names that the server makes up, and times as it writes them.

use std::hash::{BuildHasher, RandomState};

use jiff::Timestamp;

/// What the API ends generated names with: no vowels, no 0, 1 or 3.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// A random UUID (version 4).
pub(crate) fn uid() -> String {
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff,
    )
}

/// A name that starts with `prefix`.
pub(crate) fn generate(prefix: &str) -> String {
    let mut rest = random();
    let mut name = prefix.to_owned();
    for _ in 0..SUFFIX_LENGTH {
        let count = ALPHABET.len() as u64;
        let index = usize::try_from(rest % count).unwrap_or_default();
        name.extend(ALPHABET.get(index).copied().map(char::from));
        rest /= count;
    }
    name
}

/// A time in whole seconds, as the API writes it.
pub(crate) fn time(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
