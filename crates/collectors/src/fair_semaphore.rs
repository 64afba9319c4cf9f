//! A semaphore with a limit per namespace.

use std::sync::Arc;

use hpa_metrics::KeyedSemaphores;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A semaphore that gives each namespace at most half of the permits, rounded up. With two or more
/// permits, a namespace whose reads hang can't block others.
pub(crate) struct FairSemaphore {
    all: Arc<Semaphore>,
    namespaces: KeyedSemaphores,
}

#[derive(Debug)]
pub(crate) struct Permit {
    _all: OwnedSemaphorePermit,
    _namespace: OwnedSemaphorePermit,
}

impl FairSemaphore {
    pub(crate) fn new(count: usize) -> Self {
        let namespaces = KeyedSemaphores::new(count.div_ceil(2));
        Self { all: Arc::new(Semaphore::new(count)), namespaces }
    }

    /// Waits until the namespace is below its limit, then for a free permit. In this order, a
    /// request that waits for its own namespace occupies no permit. `None` can't happen: the
    /// semaphores are never closed.
    pub(crate) async fn acquire(&self, namespace: &str) -> Option<Permit> {
        let of_namespace = self.namespaces.semaphore(namespace).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(Permit { _all: of_all, _namespace: of_namespace })
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
        let semaphore = FairSemaphore::new(4);
        let take = |namespace: &str| semaphore.acquire(namespace).now_or_never().flatten();
        let hostile: Vec<_> = (0..90).filter_map(|_| take("hostile")).collect();
        assert_eq!(hostile.len(), 2);
        let first = take("shop").expect("a permit beside the hostile namespace");
        assert!(take("bank").is_some() && semaphore.available() == 1);
        drop((hostile, first));
        assert_eq!(semaphore.available(), 4);
        assert!(take("shop").is_some());
    }
}
