//! Limits of concurrency by key.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// A limit of concurrency for each key, such as a namespace. A key keeps its entry while its
/// semaphore is in use. When a key is added, unused entries are removed if there are at least 64
/// entries and twice as many as after the last removal.
#[derive(Debug)]
pub struct KeyedSemaphores {
    permits: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    semaphores: HashMap<Box<str>, Weak<Semaphore>>,
    /// The number of entries at which unused ones are removed.
    sweep_at: usize,
}

impl KeyedSemaphores {
    const MIN_SWEEP: usize = 64;

    /// Creates semaphores with `permits` permits for each key.
    pub fn new(permits: usize) -> Self {
        let entries = Entries { semaphores: HashMap::new(), sweep_at: Self::MIN_SWEEP };
        Self { permits, entries: Mutex::new(entries) }
    }

    /// The semaphore of a key. It is never closed.
    pub fn semaphore(&self, key: &str) -> Arc<Semaphore> {
        let mut entries = self.entries.lock();
        if let Some(semaphore) = entries.semaphores.get(key).and_then(Weak::upgrade) {
            return semaphore;
        }
        if entries.semaphores.len() >= entries.sweep_at {
            entries.semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
            entries.sweep_at = (entries.semaphores.len() * 2).max(Self::MIN_SWEEP);
        }
        let semaphore = Arc::new(Semaphore::new(self.permits));
        entries.semaphores.insert(key.into(), Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_unused_keys_are_removed() {
        let semaphores = KeyedSemaphores::new(1);
        let used = semaphores.semaphore("used");
        for index in 0..1000 {
            drop(semaphores.semaphore(&format!("unused-{index}")));
        }
        assert!(semaphores.entries.lock().semaphores.len() <= KeyedSemaphores::MIN_SWEEP);
        assert!(Arc::ptr_eq(&used, &semaphores.semaphore("used")));
    }
}
