//! An index of the targets' pod selectors.

mod namespace;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::HashMap;
use hpa_calc::{api::Pod, selector::Selector};
use parking_lot::RwLock;

use self::namespace::Namespace;
use crate::key::HpaKey;

/// The pod selectors of all autoscalers' targets, to find autoscalers that share pods
/// (`AmbiguousSelector`).
///
/// A reconcile sets the selector of its autoscaler, and clears it if the target has no selector or
/// doesn't exist: a selector that remains would make others ambiguous.
#[derive(Debug, Default)]
pub struct SelectorIndex {
    namespaces: RwLock<HashMap<Arc<str>, Arc<RwLock<Namespace>>>>,
}

impl SelectorIndex {
    /// Sets or clears an autoscaler's selector. Takes no write lock if nothing changes.
    pub fn set(&self, key: &HpaKey, selector: Option<Selector>) {
        let Some(selector) = selector else { return self.remove(key) };
        // Locked until the selector is set, so that `remove` can't remove the namespace as empty.
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

    /// The autoscalers of a namespace, of both APIs, whose selector matches at least one of the
    /// pods. Sorted.
    pub fn controlling(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<HpaKey> {
        let Some(shard) = self.shard(namespace) else { return Vec::new() };
        shard.read().matching(pods)
    }

    /// The number of autoscalers with a selector.
    pub fn len(&self) -> usize {
        self.namespaces.read().values().map(|shard| shard.read().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.namespaces.read().is_empty()
    }

    fn shard(&self, namespace: &str) -> Option<Arc<RwLock<Namespace>>> {
        self.namespaces.read().get(namespace).cloned()
    }
}
