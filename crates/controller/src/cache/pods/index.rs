//! An index of pods by namespace, name and labels.

use std::sync::Arc;

use hashbrown::HashMap;
use hpa_calc::{api::Pod, selector::Selector};
use hpa_metrics::LABEL_LIMIT_LOG;
use parking_lot::{Mutex, RwLock};

use super::{namespace::NamespacePods, undecodable::UndecodablePods};
use crate::cache::watch_age::WatchAge;

/// Pods by namespace, name and labels.
///
/// One informer writes, any number of reconciles read. Writes to one namespace don't block readers
/// of another. Pods of a namespace usually share equal label sets, and equal requests and limits.
///
/// Pods that [exceed the limits of labels](Pod::exceeds_label_limits) are logged and not stored,
/// because no selector matches them.
#[derive(Debug, Default)]
pub struct PodIndex {
    namespaces: RwLock<Namespaces>,
    list: Mutex<Option<ListInProgress>>,
    undecodable: Mutex<UndecodablePods>,
    watch_age: Arc<WatchAge>,
}

#[derive(Debug, Default)]
struct ListInProgress {
    namespaces: HashMap<Box<str>, NamespacePods>,
    undecodable: UndecodablePods,
}

type Namespaces = HashMap<Box<str>, Arc<RwLock<NamespacePods>>>;

impl PodIndex {
    /// Records that a new or changed pod could not be decoded. Unknown names and namespaces are
    /// empty strings.
    pub fn add_undecodable(&self, namespace: &str, name: &str) {
        self.undecodable.lock().add(namespace, name);
    }

    /// Whether pods of a namespace are missing, or stale, because they could not be decoded.
    pub fn is_incomplete(&self, namespace: &str) -> bool {
        self.undecodable.lock().affects(namespace)
    }

    /// The time since the watch last confirmed the index.
    pub fn watch_age(&self) -> &Arc<WatchAge> {
        &self.watch_age
    }

    /// Adds a pod, or replaces the pod of that name.
    pub fn apply(&self, namespace: &str, pod: Pod) {
        if pod.exceeds_label_limits {
            self.delete(namespace, &pod.name);
            LABEL_LIMIT_LOG.add(namespace, &pod.name);
        } else {
            self.add(namespace, pod);
        }
        // Also logs pods that were added less than a minute after the last warning.
        LABEL_LIMIT_LOG.log_if_due();
    }

    fn add(&self, namespace: &str, pod: Pod) {
        self.undecodable.lock().remove(namespace, &pod.name);
        // Locked until the pod is added, so that `delete` can't remove the namespace as empty.
        let namespaces = self.namespaces.read();
        if let Some(pods) = namespaces.get(namespace) {
            pods.write().apply(pod);
            return;
        }
        drop(namespaces);
        let mut namespaces = self.namespaces.write();
        namespaces.entry(namespace.into()).or_default().write().apply(pod);
    }

    /// Removes a pod. Returns whether it was cached.
    pub fn delete(&self, namespace: &str, name: &str) -> bool {
        self.undecodable.lock().remove(namespace, name);
        let Some(pods) = self.namespace_pods(namespace) else { return false };
        let (was_cached, is_empty) = {
            let mut pods = pods.write();
            (pods.delete(name), pods.is_empty())
        };
        if is_empty {
            let mut namespaces = self.namespaces.write();
            if namespaces.get(namespace).is_some_and(|pods| pods.read().is_empty()) {
                namespaces.remove(namespace);
            }
        }
        was_cached
    }

    /// Starts a list, and discards a list that did not finish. Readers see the state before it
    /// until [`PodIndex::finish_list`].
    pub fn begin_list(&self) {
        *self.list.lock() = Some(ListInProgress::default());
    }

    /// Adds a pod of the list.
    pub fn list_apply(&self, namespace: &str, pod: Pod) {
        let mut list = self.list.lock();
        let Some(list) = list.as_mut() else { return self.apply(namespace, pod) };
        if pod.exceeds_label_limits {
            LABEL_LIMIT_LOG.add(namespace, &pod.name);
            return;
        }
        // Unchanged pods are shared with the state before the list, to save memory.
        let unchanged = self.get(namespace, &pod.name).filter(|cached| **cached == pod);
        list.namespaces.entry(namespace.into()).or_default().apply_shared(unchanged, pod);
    }

    /// Records that a pod of the list could not be decoded. Unknown names and namespaces are empty
    /// strings.
    pub fn list_add_undecodable(&self, namespace: &str, name: &str) {
        if let Some(list) = self.list.lock().as_mut() {
            list.undecodable.add(namespace, name);
        }
    }

    /// Replaces the index with the list.
    pub fn finish_list(&self) {
        let Some(list) = self.list.lock().take() else { return };
        let namespaces = list
            .namespaces
            .into_iter()
            .map(|(name, namespace)| (name, Arc::new(RwLock::new(namespace))))
            .collect();
        let previous = std::mem::replace(&mut *self.namespaces.write(), namespaces);
        *self.undecodable.lock() = list.undecodable;
        LABEL_LIMIT_LOG.log_if_due();
        // Dropped only after the lock is released, because dropping takes time.
        drop(previous);
    }

    /// The pods that a selector matches, sorted by name.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<Pod>> {
        self.namespace_pods(namespace).map_or_else(Vec::new, |pods| pods.read().select(selector))
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.namespace_pods(namespace)?.read().get(name)
    }

    /// The number of pods in all namespaces.
    pub fn len(&self) -> usize {
        self.namespaces.read().values().map(|pods| pods.read().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.namespaces.read().is_empty()
    }

    fn namespace_pods(&self, namespace: &str) -> Option<Arc<RwLock<NamespacePods>>> {
        self.namespaces.read().get(namespace).cloned()
    }
}

#[cfg(test)]
impl PodIndex {
    /// The number of distinct label sets, label pairs and resources of a namespace.
    pub(super) fn distinct_counts(&self, namespace: &str) -> (usize, usize, usize) {
        self.namespace_pods(namespace).map_or((0, 0, 0), |pods| pods.read().distinct_counts())
    }
}
