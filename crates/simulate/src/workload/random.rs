//! Random numbers that depend only on the seed, the subject and the time, not on the order of use.

pub use fastrand::Rng;

/// The characters of generated names. Without vowels, 0, 1 and 3 they can't form words.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a, which is stable across machines and releases, unlike `std`'s hashers.
pub fn hash(parts: &[&str]) -> u64 {
    let mut hash = FNV_OFFSET;
    for part in parts {
        // A byte that UTF-8 never contains separates the parts.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    hash
}

// Independent random numbers about the same subject and time: `seed ^ MISSED_SCRAPES` selects those
// for missed scrapes.
pub(crate) const MISSED_SCRAPES: u64 = 1;
pub(crate) const NOISE: u64 = 2;
pub(crate) const POD_FAILURES: u64 = 3;

/// The random numbers of one subject (`key` is its hash) at one time, or at one value of a counter
/// (`index`).
pub fn rng(seed: u64, key: u64, index: u64) -> Rng {
    let mut mixer = Rng::with_seed(seed ^ key.rotate_left(17));
    Rng::with_seed(mixer.u64(..) ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// An approximately normal number with standard deviation 1, bounded by ±3.
pub fn deviation(rng: &mut Rng) -> f64 {
    (rng.f64() + rng.f64() + rng.f64() - 1.5) * 2.0
}

/// Random characters as Kubernetes uses them in names.
pub fn suffix(rng: &mut Rng, length: usize) -> String {
    (0..length).filter_map(|_| rng.choice(NAME_ALPHABET)).copied().map(char::from).collect()
}
