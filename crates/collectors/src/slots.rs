//! Permits with a limit per namespace.

use std::sync::Arc;

use hpa_metrics::KeyedSemaphores;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of permits. One namespace gets at most half of them, so a tenant whose reads hang can't
/// block others.
pub(crate) struct Slots {
    all: Arc<Semaphore>,
    namespaces: KeyedSemaphores,
}

/// A permit of a namespace.
#[derive(Debug)]
pub(crate) struct Slot {
    _all: OwnedSemaphorePermit,
    _namespace: OwnedSemaphorePermit,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        let namespaces = KeyedSemaphores::new(count.div_ceil(2));
        Self { all: Arc::new(Semaphore::new(count)), namespaces }
    }

    /// Waits for a permit: first the namespace's, then a common one. A request that waits for its
    /// namespace holds no common permit. Never `None`, because no semaphore is closed.
    pub(crate) async fn acquire(&self, namespace: &str) -> Option<Slot> {
        let namespace = self.namespaces.of(namespace).acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Slot { _all: all, _namespace: namespace })
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
    fn one_namespace_gets_at_most_half() {
        let slots = Slots::new(4);
        let take = |namespace: &str| slots.acquire(namespace).now_or_never().flatten();
        let hostile: Vec<_> = (0..90).filter_map(|_| take("hostile")).collect();
        assert_eq!(hostile.len(), 2);
        let first = take("shop").expect("a permit beside the hostile namespace");
        assert!(take("bank").is_some() && slots.available() == 1);
        drop((hostile, first));
        assert_eq!(slots.available(), 4);
        assert!(take("shop").is_some());
    }
}
