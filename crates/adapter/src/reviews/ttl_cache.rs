//! A cache whose entries expire.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// A bounded cache. If it is full, a new entry evicts the one that expires first.
#[derive(Debug)]
pub(crate) struct TtlCache<K, V> {
    capacity: usize,
    state: Mutex<State<K, V>>,
}

#[derive(Debug)]
struct State<K, V> {
    entries: HashMap<K, (V, Instant)>,
    /// The time after which an insertion removes expired entries.
    next_purge: Instant,
}

impl<K: Clone + Eq + Hash, V: Clone> TtlCache<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = State { entries: HashMap::new(), next_purge: Instant::now() };
        Self { capacity, state: Mutex::new(state) }
    }

    /// The entry, unless it has expired.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = &mut self.state.lock().entries;
        let (value, expires) = entries.get(key)?;
        if Instant::now() < *expires {
            return Some(value.clone());
        }
        entries.remove(key);
        None
    }

    /// Stores an entry for `lifetime`, unless that is zero.
    pub(crate) fn insert(&self, key: K, value: V, lifetime: Duration) {
        if lifetime.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut state = self.state.lock();
        let State { entries, next_purge } = &mut *state;
        // A new value of an entry needs no room.
        let is_new = !entries.contains_key(&key);
        if is_new && entries.len() >= self.capacity || now >= *next_purge {
            entries.retain(|_, (_, expires)| now < *expires);
            *next_purge = now + lifetime;
        }
        if is_new && entries.len() >= self.capacity {
            let earliest = entries.iter().min_by_key(|(_, (_, expires))| *expires);
            let earliest = earliest.map(|(key, _)| key.clone());
            earliest.and_then(|key| entries.remove(&key));
        }
        entries.insert(key, (value, now + lifetime));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_expire() {
        let cache = TtlCache::new(10);
        cache.insert("a", 1, Duration::from_secs(10));
        cache.insert("b", 2, Duration::ZERO);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(1), None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_entries_are_removed_without_being_read() {
        let cache = TtlCache::new(10);
        for key in 0..5 {
            cache.insert(key, (), Duration::from_secs(10));
            tokio::time::advance(Duration::from_secs(11)).await;
        }
        assert_eq!(cache.state.lock().entries.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn full_cache_replaces_the_entry_that_expires_first() {
        let cache = TtlCache::new(2);
        cache.insert("a", 1, Duration::from_secs(10));
        cache.insert("b", 2, Duration::from_secs(5));
        cache.insert("c", 3, Duration::from_secs(7));
        assert_eq!((cache.get(&"a"), cache.get(&"b"), cache.get(&"c")), (Some(1), None, Some(3)));
        cache.insert("a", 4, Duration::from_secs(10));
        assert_eq!((cache.get(&"a"), cache.get(&"c")), (Some(4), Some(3)), "the same key");
    }
}
