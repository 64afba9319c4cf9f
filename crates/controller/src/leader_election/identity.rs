//! Who an instance is to the others.

use std::hash::{BuildHasher, RandomState};

/// A name that no other instance has, nor this one after a restart: the host's name, `_`, and a random UUID, as
/// client-go makes it.
pub fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{}", uuid(random(), random()))
}

/// A number that is random enough to be nobody else's: a hash under keys that the system gave.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// A version 4 UUID of these bits.
fn uuid(high: u64, low: u64) -> String {
    let high = (high & !0xf000) | 0x4000;
    let low = (low & (u64::MAX >> 2)) | (1 << 63);
    let hex = format!("{high:016x}{low:016x}");
    let mut text = String::with_capacity(36);
    for (index, digit) in hex.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_another() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        assert_eq!(one.rsplit('_').next().expect("a UUID").len(), 36);
    }

    #[test]
    fn version_and_variant_are_marked() {
        assert_eq!(uuid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
