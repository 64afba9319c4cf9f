//! The pods of one namespace.

use std::{
    borrow::Borrow,
    hash::{BuildHasher, Hash, Hasher},
    sync::Arc,
};

use hashbrown::{HashMap, HashSet, hash_map::Entry};
use hpa_calc::{
    api::{Pod, PodResources},
    selector::Selector,
};

type Labels = Arc<[(Box<str>, Box<str>)]>;

/// The pods of one namespace, grouped by label set. A selector is matched once per group, and only
/// against the groups with the rarest of the label pairs that it requires, if it requires any.
#[derive(Debug, Default)]
pub(super) struct NamespacePods {
    by_name: HashSet<ByName>,
    /// The pods of each label set, sorted by name.
    groups: HashMap<Labels, Vec<Arc<Pod>>>,
    /// The label sets that contain a pair of key and value, by the hash of the pair: a copy of each
    /// pair costs more memory than the labels themselves. Pairs of equal hashes share an entry.
    by_pair_hash: HashMap<u64, LabelSets>,
    /// Distinct requests and limits, each with the number of pods that have them.
    resources: HashMap<Arc<PodResources>, usize>,
}

impl NamespacePods {
    pub(super) fn apply(&mut self, pod: Pod) {
        self.apply_shared(None, pod);
    }

    /// Like [`Self::apply`], but stores `equal` instead of the equal `pod`, if it is given.
    pub(super) fn apply_shared(&mut self, equal: Option<Arc<Pod>>, pod: Pod) {
        // The old pod leaves its group last, so that a group of both pods isn't dropped.
        let old = self.by_name.take(&*pod.name);
        let pod = equal.unwrap_or_else(|| self.intern(pod));
        *self.resources.entry(Arc::clone(&pod.resources)).or_insert(0) += 1;
        match old {
            // Compares label sets by content, not by address: a pod that is shared with the cache
            // before a list may have its own allocation.
            Some(ByName(old)) if old.labels == pod.labels => {
                self.with_group(&pod, |group, at| {
                    if let Some(slot) = at.ok().and_then(|at| group.get_mut(at)) {
                        *slot = Arc::clone(&pod);
                    }
                });
                self.release_resources(&old);
            }
            old => {
                self.join_group(&pod);
                if let Some(ByName(old)) = old {
                    self.leave_group(&old);
                    self.release_resources(&old);
                }
            }
        }
        self.by_name.insert(ByName(pod));
    }

    pub(super) fn delete(&mut self, name: &str) -> bool {
        let Some(ByName(pod)) = self.by_name.take(name) else { return false };
        self.leave_group(&pod);
        self.release_resources(&pod);
        true
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Pod>> {
        self.by_name.get(name).map(|ByName(pod)| Arc::clone(pod))
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn select(&self, selector: &Selector) -> Vec<Arc<Pod>> {
        let mut selected = Vec::new();
        let mut take = |pods: &[Arc<Pod>]| {
            if pods.first().is_some_and(|pod| pod.is_selected_by(selector)) {
                selected.extend_from_slice(pods);
            }
        };
        let required = selector
            .required_pairs()
            .map(|(key, value)| self.by_pair_hash.get(&self.pair_hash(key, value)));
        match required.min_by_key(|sets| sets.map_or(0, LabelSets::len)) {
            // One of the required pairs is on no pod.
            Some(None) => {}
            Some(Some(rarest)) => {
                for labels in rarest.iter() {
                    take(self.groups.get(labels).map_or(&[], Vec::as_slice));
                }
            }
            None => {
                for pods in self.groups.values() {
                    take(pods);
                }
            }
        }
        // The stable sort is fast on groups, which are sorted already.
        selected.sort_by(|one, two| one.name.cmp(&two.name));
        selected
    }

    /// Shares labels and resources with the pods that have equal ones, and an equal owner with the
    /// first pod of the group.
    fn intern(&self, mut pod: Pod) -> Arc<Pod> {
        if let Some((labels, group)) = self.groups.get_key_value(&pod.labels) {
            pod.labels = Arc::clone(labels);
            // Mostly, pods with equal labels have the same owner.
            if let Some(sibling) = group.first()
                && sibling.controller == pod.controller
            {
                pod.controller.clone_from(&sibling.controller);
            }
        }
        if let Some((resources, _)) = self.resources.get_key_value(&pod.resources) {
            pod.resources = Arc::clone(resources);
        }
        Arc::new(pod)
    }

    /// Calls `change` with the pod's group and the result of a binary search for the pod in it.
    fn with_group(
        &mut self,
        pod: &Pod,
        change: impl FnOnce(&mut Vec<Arc<Pod>>, Result<usize, usize>),
    ) {
        if let Some(group) = self.groups.get_mut(&pod.labels) {
            let at = group.binary_search_by(|other| other.name.cmp(&pod.name));
            change(group, at);
        }
    }

    fn join_group(&mut self, pod: &Arc<Pod>) {
        if !self.groups.contains_key(&pod.labels) {
            for (key, value) in &*pod.labels {
                self.by_pair_hash
                    .entry(self.pair_hash(key, value))
                    .and_modify(|sets| sets.insert(&pod.labels))
                    .or_insert_with(|| LabelSets::One(Arc::clone(&pod.labels)));
            }
            self.groups.insert(Arc::clone(&pod.labels), Vec::new());
        }
        self.with_group(pod, |group, at| {
            if let Err(at) = at {
                group.insert(at, Arc::clone(pod));
            }
        });
    }

    fn leave_group(&mut self, pod: &Pod) {
        self.with_group(pod, |group, at| {
            if let Ok(at) = at {
                group.remove(at);
            }
        });
        if self.groups.get(&pod.labels).is_none_or(|group| !group.is_empty()) {
            return;
        }
        let Some((labels, _)) = self.groups.remove_entry(&pod.labels) else { return };
        for (key, value) in &*labels {
            if let Entry::Occupied(mut sets) = self.by_pair_hash.entry(self.pair_hash(key, value))
                && sets.get_mut().remove(&labels)
            {
                sets.remove();
            }
        }
    }

    fn pair_hash(&self, key: &str, value: &str) -> u64 {
        self.by_pair_hash.hasher().hash_one((key, value))
    }

    fn release_resources(&mut self, pod: &Pod) {
        let Some(pod_count) = self.resources.get_mut(&pod.resources) else { return };
        *pod_count -= 1;
        if *pod_count == 0 {
            self.resources.remove(&pod.resources);
        }
    }

    /// The number of distinct label sets, label pairs and resources.
    #[cfg(test)]
    pub(super) fn distinct_counts(&self) -> (usize, usize, usize) {
        (self.groups.len(), self.by_pair_hash.len(), self.resources.len())
    }
}

/// A pod with the hash and equality of its name.
#[derive(Debug)]
struct ByName(Arc<Pod>);

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

/// Label sets of [`NamespacePods::groups`], at least one. Only one group has a pair such as the
/// name of a pod: a hash set for each of these pairs would multiply the memory.
#[derive(Debug)]
enum LabelSets {
    One(Labels),
    Many(Box<HashSet<ByAddress>>),
}

impl LabelSets {
    fn insert(&mut self, labels: &Labels) {
        let added = ByAddress(Arc::clone(labels));
        match self {
            Self::One(one) if Arc::ptr_eq(one, labels) => {}
            Self::One(one) => {
                let both = HashSet::from_iter([ByAddress(Arc::clone(one)), added]);
                *self = Self::Many(Box::new(both));
            }
            Self::Many(sets) => {
                sets.insert(added);
            }
        }
    }

    /// Removes a label set. Returns whether none is left, and the value must be dropped.
    fn remove(&mut self, labels: &Labels) -> bool {
        match self {
            Self::One(one) => Arc::ptr_eq(one, labels),
            Self::Many(sets) => {
                sets.remove(&ByAddress(Arc::clone(labels)));
                sets.is_empty()
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(sets) => sets.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Labels> {
        let (one, many) = match self {
            Self::One(labels) => (Some(labels), None),
            Self::Many(sets) => (None, Some(sets.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten().map(|ByAddress(labels)| labels))
    }
}

/// A label set of [`NamespacePods::groups`], with the hash and equality of its address. Equal sets
/// in the groups share one allocation.
#[derive(Debug)]
struct ByAddress(Labels);

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByAddress {}

impl Hash for ByAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}
