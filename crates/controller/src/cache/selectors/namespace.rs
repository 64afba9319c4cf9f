//! The selectors of one namespace.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::{HashMap, HashSet};
use hpa_calc::{api::Pod, selector::Selector};

use crate::{cache::StrPair, key::HpaKey};

type OwnedPair = (Box<str>, Box<str>);

/// The selectors of one namespace's autoscalers. Each is indexed under one label pair that it
/// requires, so that a pod is matched only against the selectors under its label pairs and those
/// that require no pair.
#[derive(Debug, Default)]
pub(super) struct NamespaceSelectors {
    by_key: HashMap<HpaKey, IndexedSelector>,
    /// Each list is sorted. Most have one element, for which a `Vec` takes less memory than a tree.
    by_pair: HashMap<OwnedPair, Vec<HpaKey>>,
    /// Autoscalers whose selectors require no pair.
    without_pair: BTreeSet<HpaKey>,
}

#[derive(Debug)]
struct IndexedSelector {
    selector: Selector,
    index_pair: Option<OwnedPair>,
}

impl NamespaceSelectors {
    pub(super) fn has(&self, key: &HpaKey, selector: &Selector) -> bool {
        self.by_key.get(key).is_some_and(|indexed| indexed.selector == *selector)
    }

    pub(super) fn set(&mut self, key: &HpaKey, selector: Selector) {
        self.remove(key);
        let list_length = |(label, value): &(&str, &str)| {
            self.by_pair.get(&StrPair(label, value)).map_or(0, Vec::len)
        };
        // Under the pair with the fewest selectors, the fewest are matched against a pod.
        let index_pair = selector
            .required_pairs()
            .min_by_key(list_length)
            .map(|(label, value)| (label.into(), value.into()));
        match &index_pair {
            Some(pair) => {
                let keys = self.by_pair.entry_ref(pair).or_default();
                if let Err(index) = keys.binary_search(key) {
                    if keys.is_empty() {
                        keys.reserve_exact(1);
                    }
                    keys.insert(index, key.clone());
                }
            }
            None => _ = self.without_pair.insert(key.clone()),
        }
        self.by_key.insert(key.clone(), IndexedSelector { selector, index_pair });
    }

    pub(super) fn remove(&mut self, key: &HpaKey) {
        let Some(indexed) = self.by_key.remove(key) else { return };
        let Some(pair) = indexed.index_pair else {
            self.without_pair.remove(key);
            return;
        };
        if let Some(keys) = self.by_pair.get_mut(&pair) {
            if let Ok(index) = keys.binary_search(key) {
                keys.remove(index);
            }
            if keys.is_empty() {
                self.by_pair.remove(&pair);
            }
        }
    }

    /// The autoscalers whose selector matches at least one of the pods, sorted.
    pub(super) fn matching(&self, pods: &[Arc<Pod>]) -> Vec<HpaKey> {
        let mut matching: BTreeSet<&HpaKey> = BTreeSet::new();
        let mut seen = HashSet::new();
        for pod in pods {
            // Pods of a workload share a label set. Each set needs to be matched only once.
            if !seen.insert(pod.labels.as_ptr()) {
                continue;
            }
            let keys = pod
                .labels
                .iter()
                .filter_map(|(label, value)| self.by_pair.get(&StrPair(label, value)))
                .flatten();
            for key in keys.chain(&self.without_pair) {
                if !matching.contains(key) && self.matches(key, pod) {
                    matching.insert(key);
                }
            }
        }
        matching.into_iter().cloned().collect()
    }

    fn matches(&self, key: &HpaKey, pod: &Pod) -> bool {
        self.by_key.get(key).is_some_and(|indexed| pod.is_selected_by(&indexed.selector))
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
