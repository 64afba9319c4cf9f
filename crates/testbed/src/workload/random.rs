//! Chance that is the same in every run with the same seed, in whatever order it is asked for.

use fastrand::Rng;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// A hash that is the same on every machine and in every release (FNV-1a).
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let mut hash = FNV_OFFSET;
    for part in parts {
        // A byte that no text has keeps the parts apart.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    hash
}

/// The numbers that belong to one key (by its hash) at one moment (by its index).
pub(crate) fn rng(seed: u64, key: u64, index: u64) -> Rng {
    let mut mixer = Rng::with_seed(seed ^ key.rotate_left(17));
    Rng::with_seed(mixer.u64(..) ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Something like a normal deviation of 1 that is never beyond 3.
pub(crate) fn deviation(rng: &mut Rng) -> f64 {
    (rng.f64() + rng.f64() + rng.f64() - 1.5) * 2.0
}
