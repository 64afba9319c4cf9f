//! A map behind several locks, so that autoscalers of different namespaces hardly ever wait for each other.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

const SHARDS: usize = 16;

/// A map in [`SHARDS`] parts. A lock is held for the length of a closure, never across an await.
pub(crate) struct Shards<K, V> {
    parts: [Mutex<HashMap<K, V>>; SHARDS],
    hasher: DefaultHashBuilder,
    sweep_interval: Duration,
    /// When all parts are swept next.
    sweep_at: Mutex<Instant>,
    keep: Box<Keep<V>>,
}

/// Whether an entry may stay, at an instant.
type Keep<V> = dyn Fn(&mut V, Instant) -> bool + Send + Sync;

impl<K: Hash + Eq, V> Shards<K, V> {
    /// A map that is swept when it is used, at most once per interval: entries go that `keep` refuses.
    pub(crate) fn new(
        sweep_interval: Duration,
        keep: impl Fn(&mut V, Instant) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            parts: std::array::from_fn(|_| Mutex::default()),
            hasher: DefaultHashBuilder::default(),
            sweep_interval,
            sweep_at: Mutex::new(Instant::now() + sweep_interval),
            keep: Box::new(keep),
        }
    }

    /// Gives `act` the part that `key` belongs to, after a sweep if one is due.
    pub(crate) fn with<Q: Hash + ?Sized, R>(
        &self,
        key: &Q,
        act: impl FnOnce(&mut HashMap<K, V>) -> R,
    ) -> R {
        self.sweep_if_due(Instant::now());
        act(&mut self.shard(key).lock())
    }

    /// Sweeps all parts: what is in one that nobody asks for is memory all the same.
    fn sweep_if_due(&self, now: Instant) {
        {
            let mut sweep_at = self.sweep_at.lock();
            if now < *sweep_at {
                return;
            }
            *sweep_at = now + self.sweep_interval;
        }
        for part in &self.parts {
            part.lock().retain(|_, value| (self.keep)(value, now));
        }
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> &Mutex<HashMap<K, V>> {
        // The bits in the middle: the map inside uses those at both ends.
        let index = usize::try_from((self.hasher.hash_one(key) >> 32) & 0xffff).unwrap_or_default()
            % SHARDS;
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder by the length")]
        &self.parts[index]
    }

    /// The number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|shard| shard.lock().len()).sum()
    }
}
