use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// A limit of concurrency for each key, such as a namespace. Only keys with requests that wait or
/// are in flight take memory.
#[derive(Debug)]
pub struct KeyedSemaphores {
    permits: usize,
    used: Mutex<Used>,
}

#[derive(Debug)]
struct Used {
    semaphores: HashMap<Box<str>, Weak<Semaphore>>,
    /// When to remove the unused ones: at this number of entries.
    sweep_at: usize,
}

impl KeyedSemaphores {
    const MIN_SWEEP: usize = 64;

    /// `permits` is the limit of each key.
    pub fn new(permits: usize) -> Self {
        let used = Used { semaphores: HashMap::new(), sweep_at: Self::MIN_SWEEP };
        Self { permits, used: Mutex::new(used) }
    }

    /// The semaphore of a key. It is never closed.
    pub fn of(&self, key: &str) -> Arc<Semaphore> {
        let mut used = self.used.lock();
        if let Some(semaphore) = used.semaphores.get(key).and_then(Weak::upgrade) {
            return semaphore;
        }
        if used.semaphores.len() >= used.sweep_at {
            used.semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
            used.sweep_at = (used.semaphores.len() * 2).max(Self::MIN_SWEEP);
        }
        let semaphore = Arc::new(Semaphore::new(self.permits));
        used.semaphores.insert(key.into(), Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_keys_are_forgotten() {
        let semaphores = KeyedSemaphores::new(1);
        let used = semaphores.of("used");
        for index in 0..1000 {
            drop(semaphores.of(&format!("unused-{index}")));
        }
        assert!(semaphores.used.lock().semaphores.len() <= KeyedSemaphores::MIN_SWEEP);
        assert!(Arc::ptr_eq(&used, &semaphores.of("used")));
    }
}
