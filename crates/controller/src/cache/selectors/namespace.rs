use std::{collections::BTreeSet, sync::Arc};

use hashbrown::{HashMap, HashSet};
use hpa_calc::{api::Pod, selector::Selector};

use crate::{cache::StrPair, key::HpaKey};

type OwnedPair = (Box<str>, Box<str>);

/// The selectors of one namespace's autoscalers.
///
/// Each is filed under one label pair that it requires, so that only the selectors filed under a pair of a pod are
/// matched against it.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    by_key: HashMap<HpaKey, Filed>,
    /// Sorted, and mostly one: a list is a tenth of the smallest tree.
    by_pair: HashMap<OwnedPair, Vec<HpaKey>>,
    /// Those that require no pair.
    others: BTreeSet<HpaKey>,
}

#[derive(Debug)]
struct Filed {
    selector: Selector,
    under: Option<OwnedPair>,
}

impl Namespace {
    pub(super) fn has(&self, key: &HpaKey, selector: &Selector) -> bool {
        self.by_key.get(key).is_some_and(|filed| filed.selector == *selector)
    }

    pub(super) fn set(&mut self, key: &HpaKey, selector: Selector) {
        self.remove(key);
        let filed_under = |(label, value): &(&str, &str)| {
            self.by_pair.get(&StrPair(label, value)).map_or(0, Vec::len)
        };
        // The pair that fewest share tells most.
        let under = selector
            .required_pairs()
            .min_by_key(filed_under)
            .map(|(label, value)| (label.into(), value.into()));
        match &under {
            Some(pair) => {
                let keys = self.by_pair.entry_ref(pair).or_default();
                if let Err(place) = keys.binary_search(key) {
                    if keys.is_empty() {
                        keys.reserve_exact(1);
                    }
                    keys.insert(place, key.clone());
                }
            }
            None => _ = self.others.insert(key.clone()),
        }
        self.by_key.insert(key.clone(), Filed { selector, under });
    }

    pub(super) fn remove(&mut self, key: &HpaKey) {
        let Some(filed) = self.by_key.remove(key) else { return };
        let Some(pair) = filed.under else {
            self.others.remove(key);
            return;
        };
        if let Some(keys) = self.by_pair.get_mut(&pair) {
            if let Ok(place) = keys.binary_search(key) {
                keys.remove(place);
            }
            if keys.is_empty() {
                self.by_pair.remove(&pair);
            }
        }
    }

    /// The autoscalers, sorted, whose selector matches at least one of the pods.
    pub(super) fn matching(&self, pods: &[Arc<Pod>]) -> Vec<HpaKey> {
        let mut matching: BTreeSet<&HpaKey> = BTreeSet::new();
        let mut seen = HashSet::new();
        for pod in pods {
            // Pods of one workload share their label set; each set is looked at once.
            if !seen.insert(pod.labels.as_ptr()) {
                continue;
            }
            let filed = pod
                .labels
                .iter()
                .filter_map(|(label, value)| self.by_pair.get(&StrPair(label, value)))
                .flatten();
            for key in filed.chain(&self.others) {
                if !matching.contains(key) && self.matches(key, pod) {
                    matching.insert(key);
                }
            }
        }
        matching.into_iter().cloned().collect()
    }

    fn matches(&self, key: &HpaKey, pod: &Pod) -> bool {
        self.by_key.get(key).is_some_and(|filed| filed.selector.matches(&*pod.labels))
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
