use std::{collections::BTreeMap, hash::Hash};

use hashbrown::HashMap;

/// A map that forgets the entry not used for longest when it is full.
pub(super) struct Lru<K, V> {
    entries: HashMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    clock: u64,
    capacity: usize,
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    /// `capacity` must not be zero.
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), by_use: BTreeMap::new(), clock: 0, capacity }
    }

    /// The entry of a key, made if there is none, and counted as used now.
    pub(super) fn get_or_insert_with(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        self.clock += 1;
        let now = self.clock;
        if !self.entries.contains_key(key)
            && self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.by_use.insert(now, key.clone());
        let (used, value) = self.entries.entry(key.clone()).or_insert_with(|| (now, make()));
        if *used != now {
            self.by_use.remove(used);
            *used = now;
        }
        value
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.entries.len(), self.by_use.len());
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn forgets_what_was_not_used_for_longest() {
        let mut lru = Lru::new(2);
        *lru.get_or_insert_with(&"a", || 0) = 1;
        *lru.get_or_insert_with(&"b", || 0) = 2;
        assert_eq!(*lru.get_or_insert_with(&"a", || 0), 1);
        assert_eq!(*lru.get_or_insert_with(&"c", || 3), 3);
        assert_eq!(*lru.get_or_insert_with(&"a", || 0), 1);
        assert_eq!(*lru.get_or_insert_with(&"b", || 0), 0);
        assert_eq!(lru.len(), 2);
    }
}
