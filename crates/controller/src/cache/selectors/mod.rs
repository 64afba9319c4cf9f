//! Which autoscalers select which pods.

mod namespace;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::HashMap;
use hpa_calc::{api::Pod, selector::Selector};
use parking_lot::RwLock;

use crate::key::HpaKey;
use namespace::Namespace;

/// The pod selector of every HorizontalPodAutoscaler's target, to find the autoscalers that share pods
/// (`AmbiguousSelector`).
///
/// Whoever reconciles an autoscaler keeps its selector here up to date, and clears it when the target has none or is
/// gone: a selector left behind makes others look ambiguous.
#[derive(Debug, Default)]
pub struct SelectorIndex {
    namespaces: RwLock<HashMap<Arc<str>, Arc<RwLock<Namespace>>>>,
}

impl SelectorIndex {
    /// An index without selectors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an autoscaler's selector, or clears it. Cheap if nothing changes.
    pub fn set(&self, key: &HpaKey, selector: Option<Selector>) {
        let Some(selector) = selector else { return self.remove(key) };
        // Held while the selector is set, so that the namespace is not dropped as empty meanwhile.
        let namespaces = self.namespaces.read();
        if let Some(shard) = namespaces.get(&key.namespace) {
            if !shard.read().has(key, &selector) {
                shard.write().set(key, selector);
            }
            return;
        }
        drop(namespaces);
        let mut namespaces = self.namespaces.write();
        namespaces.entry(Arc::clone(&key.namespace)).or_default().write().set(key, selector);
    }

    /// Forgets an autoscaler.
    pub fn remove(&self, key: &HpaKey) {
        let Some(shard) = self.shard(&key.namespace) else { return };
        let is_empty = {
            let mut shard = shard.write();
            shard.remove(key);
            shard.is_empty()
        };
        if is_empty {
            let mut namespaces = self.namespaces.write();
            if namespaces.get(&key.namespace).is_some_and(|shard| shard.read().is_empty()) {
                namespaces.remove(&key.namespace);
            }
        }
    }

    /// The autoscalers of a namespace whose selector matches at least one of `pods`, of whichever API, sorted by name.
    pub fn controlling(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<HpaKey> {
        let Some(shard) = self.shard(namespace) else { return Vec::new() };
        shard.read().matching(pods)
    }

    /// The number of autoscalers that have a selector.
    pub fn len(&self) -> usize {
        self.namespaces.read().values().map(|shard| shard.read().len()).sum()
    }

    /// Whether no autoscaler has a selector.
    pub fn is_empty(&self) -> bool {
        self.namespaces.read().is_empty()
    }

    fn shard(&self, namespace: &str) -> Option<Arc<RwLock<Namespace>>> {
        self.namespaces.read().get(namespace).cloned()
    }
}
