//! The cache of pods, with an index by namespace and label, for the controller and for metric
//! sources.

mod index;
mod namespace;
#[cfg(test)]
mod tests;
mod undecodable;

use std::sync::{Arc, OnceLock};

use hpa_calc::{api::Pod, selector::Selector};

pub use index::PodIndex;

use crate::key::{ByScope, Scope};

/// The cached pods: an index for each scope, because each scope has its own informer.
#[derive(Debug)]
pub struct Pods(ByScope<PodIndex>);

impl Pods {
    pub fn for_scopes(scopes: &[Scope]) -> Self {
        Self(ByScope::new(scopes, PodIndex::default))
    }

    /// The index with the pods of a namespace. `None` if the namespace is in no scope.
    pub fn index(&self, namespace: &str) -> Option<&PodIndex> {
        self.0.for_namespace(namespace)
    }

    /// The pods that a selector matches, sorted by name.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<Pod>> {
        self.index(namespace).map(|index| index.select(namespace, selector)).unwrap_or_default()
    }

    /// Whether pods of a namespace are missing, or stale, because they could not be decoded.
    pub fn is_incomplete(&self, namespace: &str) -> bool {
        self.index(namespace).is_some_and(|index| index.is_incomplete(namespace))
    }

    pub fn len(&self) -> usize {
        self.0.entries().iter().map(|(_, index)| index.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The pods of a running controller, for a metric source that selects pods itself.
#[derive(Clone, Debug, Default)]
pub struct PodLookup(Arc<OnceLock<Arc<Pods>>>);

impl PodLookup {
    /// Connects the cache of a controller, once it has synced. Later calls have no effect.
    pub(crate) fn attach(&self, pods: Arc<Pods>) {
        _ = self.0.set(pods);
    }

    /// The selected pods, sorted by name. `None` if they are unknown: the caches have not synced,
    /// the namespace is in no scope, or some of its pods are missing or stale.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>> {
        let index = self.0.get()?.index(namespace)?;
        (!index.is_incomplete(namespace)).then(|| index.select(namespace, selector))
    }
}
