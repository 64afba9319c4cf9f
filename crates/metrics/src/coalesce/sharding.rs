//! A map with several locks, because concurrent callers with different keys then rarely wait.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

const SHARDS: usize = 16;

/// A map in [`SHARDS`] shards, each with a lock. A lock is held only while a closure runs, so never
/// across an await.
pub(crate) struct ShardedMap<K, V> {
    shards: [Mutex<HashMap<K, V>>; SHARDS],
    hasher: DefaultHashBuilder,
    sweep_interval: Duration,
    /// Time of the next sweep.
    sweep_at: Mutex<Instant>,
    retain: Box<Retain<V>>,
}

/// Returns whether to retain an entry at the given time.
type Retain<V> = dyn Fn(&mut V, Instant) -> bool + Send + Sync;

impl<K: Hash + Eq, V> ShardedMap<K, V> {
    /// Creates a map that drops the entries for which `retain` returns false. This happens during
    /// [`with`](Self::with), at most once per interval.
    pub(crate) fn new(
        sweep_interval: Duration,
        retain: impl Fn(&mut V, Instant) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: DefaultHashBuilder::default(),
            sweep_interval,
            sweep_at: Mutex::new(Instant::now() + sweep_interval),
            retain: Box::new(retain),
        }
    }

    /// Calls `act` with the shard of `key`, after a sweep if one is due.
    pub(crate) fn with<Q: Hash + ?Sized, R>(
        &self,
        key: &Q,
        act: impl FnOnce(&mut HashMap<K, V>) -> R,
    ) -> R {
        self.sweep_if_due(Instant::now());
        act(&mut self.shard(key).lock())
    }

    /// Sweeps all shards, because unused shards also take memory.
    fn sweep_if_due(&self, now: Instant) {
        {
            let mut sweep_at = self.sweep_at.lock();
            if now < *sweep_at {
                return;
            }
            *sweep_at = now + self.sweep_interval;
        }
        for shard in &self.shards {
            shard.lock().retain(|_, value| (self.retain)(value, now));
        }
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> &Mutex<HashMap<K, V>> {
        // Any bits of the hash will do, because the inner maps hash with other seeds.
        let index = usize::try_from((self.hasher.hash_one(key) >> 32) & 0xffff).unwrap_or_default()
            % SHARDS;
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder by the length")]
        &self.shards[index]
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
