//! Permits of which one namespace can have a part only.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of permits. One namespace gets at most half of them, so that a tenant whose reads hang
/// leaves some to others.
pub(crate) struct Slots {
    all: Arc<Semaphore>,
    share: usize,
    /// Those of namespaces that wait or have a permit.
    namespaces: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A permit of a namespace.
#[derive(Debug)]
pub(crate) struct Slot {
    _all: OwnedSemaphorePermit,
    _namespace: OwnedSemaphorePermit,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        let all = Arc::new(Semaphore::new(count));
        Self { all, share: count.div_ceil(2), namespaces: Mutex::default() }
    }

    /// Waits for a permit. The namespace's comes first, so that requests that wait for it hold none
    /// of the others. `None` never happens, because neither semaphore is closed.
    pub(crate) async fn acquire(&self, namespace: &str) -> Option<Slot> {
        let own = self.namespace(namespace).acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Slot { _all: all, _namespace: own })
    }

    fn namespace(&self, namespace: &str) -> Arc<Semaphore> {
        let mut namespaces = self.namespaces.lock();
        if let Some(slots) = namespaces.get(namespace).and_then(Weak::upgrade) {
            return slots;
        }
        namespaces.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(self.share));
        namespaces.insert(namespace.to_owned(), Arc::downgrade(&slots));
        slots
    }

    #[cfg(test)]
    pub(crate) fn available(&self) -> usize {
        self.all.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn one_namespace_leaves_half_to_others() {
        let slots = Slots::new(4);
        let take = |namespace: &str| slots.acquire(namespace).now_or_never().flatten();
        let hostile: Vec<_> = (0..90).filter_map(|_| take("hostile")).collect();
        assert_eq!(hostile.len(), 2);
        let first = take("shop").expect("a permit beside the hostile namespace");
        assert!(take("bank").is_some() && slots.available() == 1);
        drop((hostile, first));
        assert_eq!(slots.available(), 4);
        assert!(take("shop").is_some());
        assert_eq!(slots.namespaces.lock().len(), 1, "unused namespaces are forgotten");
    }
}
