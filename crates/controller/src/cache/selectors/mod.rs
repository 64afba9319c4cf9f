//! An index of the targets' pod selectors.

mod namespace;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::HashMap;
use hpa_calc::{api::Pod, selector::Selector};
use parking_lot::RwLock;

use self::namespace::NamespaceSelectors;
use crate::key::HpaKey;

/// The pod selectors of all autoscalers' targets, to find autoscalers that share pods
/// (`AmbiguousSelector`).
///
/// A reconcile sets the selector of its autoscaler, and clears it if the target has no selector or
/// doesn't exist: an outdated selector would make others ambiguous.
#[derive(Debug, Default)]
pub struct SelectorIndex {
    namespaces: RwLock<HashMap<Arc<str>, Arc<RwLock<NamespaceSelectors>>>>,
}

impl SelectorIndex {
    /// Sets an autoscaler's selector, or clears it if it is `None`. An unchanged selector takes no
    /// write lock.
    pub fn set(&self, key: &HpaKey, selector: Option<Selector>) {
        let Some(selector) = selector else { return self.remove(key) };
        // Locked until the selector is set, so that `remove` can't remove the namespace as empty.
        let namespaces = self.namespaces.read();
        if let Some(selectors) = namespaces.get(&key.namespace) {
            if !selectors.read().has(key, &selector) {
                selectors.write().set(key, selector);
            }
            return;
        }
        drop(namespaces);
        let mut namespaces = self.namespaces.write();
        namespaces.entry(Arc::clone(&key.namespace)).or_default().write().set(key, selector);
    }

    pub fn remove(&self, key: &HpaKey) {
        let Some(selectors) = self.namespace_selectors(&key.namespace) else { return };
        let is_empty = {
            let mut selectors = selectors.write();
            selectors.remove(key);
            selectors.is_empty()
        };
        if is_empty {
            let mut namespaces = self.namespaces.write();
            if namespaces.get(&key.namespace).is_some_and(|selectors| selectors.read().is_empty()) {
                namespaces.remove(&key.namespace);
            }
        }
    }

    /// The autoscalers of a namespace, of both APIs, whose selector matches at least one of the
    /// pods. Sorted.
    pub fn controlling(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<HpaKey> {
        let Some(selectors) = self.namespace_selectors(namespace) else { return Vec::new() };
        selectors.read().matching(pods)
    }

    fn namespace_selectors(&self, namespace: &str) -> Option<Arc<RwLock<NamespaceSelectors>>> {
        self.namespaces.read().get(namespace).cloned()
    }
}
