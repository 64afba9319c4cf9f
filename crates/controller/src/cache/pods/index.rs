use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use hashbrown::HashMap;
use hpa_calc::{api::Pod, selector::Selector};
use parking_lot::{Mutex, RwLock};

use super::namespace::Namespace;

/// All pods of the cluster by namespace, name and labels.
///
/// One task feeds it from a watch, any number read. Readers of one namespace are not held up by changes in another.
/// Equal label sets of a namespace are held once, and so are equal requests.
#[derive(Debug, Default)]
pub struct PodIndex {
    namespaces: RwLock<Namespaces>,
    /// What a list in progress has brought so far.
    listed: Mutex<Option<HashMap<Box<str>, Namespace>>>,
    /// Some pods could not be decoded since they were listed last.
    incomplete: AtomicBool,
}

type Namespaces = HashMap<Box<str>, Arc<RwLock<Namespace>>>;

impl PodIndex {
    /// An index without pods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes whether there are pods that could not be decoded.
    pub fn set_incomplete(&self, incomplete: bool) {
        self.incomplete.store(incomplete, Ordering::Relaxed);
    }

    /// Whether there are pods that could not be decoded.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete.load(Ordering::Relaxed)
    }

    /// Adds a pod, or replaces the one of that name.
    pub fn apply(&self, namespace: &str, pod: Pod) {
        // Held while the pod is added, so that the namespace is not dropped as empty meanwhile.
        let namespaces = self.namespaces.read();
        if let Some(shard) = namespaces.get(namespace) {
            shard.write().apply(pod);
            return;
        }
        drop(namespaces);
        let mut namespaces = self.namespaces.write();
        namespaces.entry(namespace.into()).or_default().write().apply(pod);
    }

    /// Removes a pod. Returns whether it was there.
    pub fn delete(&self, namespace: &str, name: &str) -> bool {
        let Some(shard) = self.shard(namespace) else { return false };
        let (was_there, is_empty) = {
            let mut shard = shard.write();
            (shard.delete(name), shard.is_empty())
        };
        if is_empty {
            let mut namespaces = self.namespaces.write();
            if namespaces.get(namespace).is_some_and(|shard| shard.read().is_empty()) {
                namespaces.remove(namespace);
            }
        }
        was_there
    }

    /// Begins to take in a full list, as a watch does at its start and after it lost track. Readers see the state
    /// before it until [`PodIndex::finish_list`]. A list begun before and not done is dropped.
    pub fn begin_list(&self) {
        *self.listed.lock() = Some(HashMap::new());
    }

    /// Takes in a pod of the list. Without [`PodIndex::begin_list`] it is the same as [`PodIndex::apply`].
    pub fn list_apply(&self, namespace: &str, pod: Pod) {
        let mut listed = self.listed.lock();
        let Some(listed) = listed.as_mut() else { return self.apply(namespace, pod) };
        // A pod that did not change is shared with the state before, or memory would double for the time of the list.
        let before = self.get(namespace, &pod.name).filter(|before| **before == pod);
        listed.entry(namespace.into()).or_default().apply_shared(before, pod);
    }

    /// Ends the list: what it did not bring is gone.
    pub fn finish_list(&self) {
        let Some(listed) = self.listed.lock().take() else { return };
        let listed = listed
            .into_iter()
            .map(|(name, namespace)| (name, Arc::new(RwLock::new(namespace))))
            .collect();
        let before = std::mem::replace(&mut *self.namespaces.write(), listed);
        // Freed here, after the lock is.
        drop(before);
    }

    /// The pods of a namespace that a selector matches, sorted by name.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<Pod>> {
        self.shard(namespace).map_or_else(Vec::new, |shard| shard.read().select(selector))
    }

    /// A pod by its name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.shard(namespace)?.read().get(name)
    }

    /// The number of pods in all namespaces.
    pub fn len(&self) -> usize {
        self.namespaces.read().values().map(|shard| shard.read().len()).sum()
    }

    /// Whether there is no pod at all.
    pub fn is_empty(&self) -> bool {
        self.namespaces.read().is_empty()
    }

    fn shard(&self, namespace: &str) -> Option<Arc<RwLock<Namespace>>> {
        self.namespaces.read().get(namespace).cloned()
    }
}

#[cfg(test)]
impl PodIndex {
    /// How many distinct label sets, label pairs and requests the namespace holds.
    pub(super) fn interned(&self, namespace: &str) -> (usize, usize, usize) {
        self.shard(namespace).map_or((0, 0, 0), |shard| shard.read().interned())
    }
}
