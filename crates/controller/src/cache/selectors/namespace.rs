//! The selectors of one namespace.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::{HashMap, HashSet};
use hpa_calc::{api::Pod, selector::Selector};

use crate::{cache::StrPair, key::HpaKey};

type OwnedPair = (Box<str>, Box<str>);

/// The maximum number of comparisons of a requirement with a pod's labels in one search. Each
/// reconcile that needs metrics waits for a search. Usual autoscalers need a few comparisons for
/// each label set of their pods.
pub(super) const MAX_COMPARISONS: usize = 200_000;

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

    /// The autoscalers whose selector matches at least one of the pods, sorted. A search that needs
    /// more than [`MAX_COMPARISONS`] ends early, and the rest counts as not matching. This can't
    /// change the decision for an autoscaler that shares no pods.
    pub(super) fn matching(&self, pods: &[Arc<Pod>]) -> Vec<HpaKey> {
        let mut matching: BTreeSet<&HpaKey> = BTreeSet::new();
        let mut seen = HashSet::new();
        let mut comparisons = 0;
        // Pods of a workload share a label set. Each set needs to be matched only once.
        'search: for pod in pods.iter().filter(|pod| seen.insert(pod.labels.as_ptr())) {
            for (key, selector) in self.candidates(pod) {
                comparisons += selector.requirements().len().max(1);
                if comparisons > MAX_COMPARISONS {
                    break 'search;
                }
                if !matching.contains(key) && pod.is_selected_by(selector) {
                    matching.insert(key);
                }
            }
        }
        matching.into_iter().cloned().collect()
    }

    /// The selectors under the pod's label pairs, and those that require no pair.
    fn candidates<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = (&'a HpaKey, &'a Selector)> {
        let keys = pod
            .labels
            .iter()
            .filter_map(move |(label, value)| self.by_pair.get(&StrPair(label, value)))
            .flatten();
        keys.chain(&self.without_pair)
            .filter_map(move |key| Some((key, &self.by_key.get(key)?.selector)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
