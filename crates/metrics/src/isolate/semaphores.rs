//! Limits of concurrency by key, such as a namespace.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

/// A semaphore that gives each namespace at most half of the permits, rounded up. With two or more
/// permits, a namespace whose reads hang can't block others.
#[derive(Debug)]
pub struct FairSemaphore {
    all: Arc<Semaphore>,
    namespaces: KeyedSemaphores,
}

/// A permit of a [`FairSemaphore`], returned on drop.
#[derive(Debug)]
pub struct FairPermit {
    _all: OwnedSemaphorePermit,
    _namespace: OwnedSemaphorePermit,
}

impl FairSemaphore {
    /// A semaphore with `count` permits.
    pub fn new(count: usize) -> Self {
        let namespaces = KeyedSemaphores::new(count.div_ceil(2));
        Self { all: Arc::new(Semaphore::new(count)), namespaces }
    }

    /// Waits until the namespace is below its limit, then for a free permit. In this order, a
    /// request that waits for its own namespace occupies no permit. `None` can't happen: the
    /// semaphores are never closed.
    pub async fn acquire(&self, namespace: &str) -> Option<FairPermit> {
        let of_namespace = self.namespaces.semaphore(namespace).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(FairPermit { _all: of_all, _namespace: of_namespace })
    }

    /// A permit, unless the namespace has half of them or none is free.
    pub fn try_acquire(&self, namespace: &str) -> Option<FairPermit> {
        let of_namespace = self.namespaces.semaphore(namespace).try_acquire_owned().ok()?;
        let of_all = self.all.clone().try_acquire_owned().ok()?;
        Some(FairPermit { _all: of_all, _namespace: of_namespace })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

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

    #[test]
    fn one_namespace_gets_at_most_half() {
        let semaphore = FairSemaphore::new(4);
        let take = |namespace: &str| semaphore.acquire(namespace).now_or_never().flatten();
        let hostile: Vec<_> = (0..90).filter_map(|_| take("hostile")).collect();
        assert_eq!(hostile.len(), 2);
        assert!(semaphore.try_acquire("hostile").is_none());
        let first = take("shop").expect("a permit beside the hostile namespace");
        assert!(take("bank").is_some() && semaphore.all.available_permits() == 1);
        drop((hostile, first));
        assert_eq!(semaphore.all.available_permits(), 4);
        assert!(take("shop").is_some());
    }
}
