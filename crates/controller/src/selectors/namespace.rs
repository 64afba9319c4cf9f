use std::{collections::BTreeSet, sync::Arc};

use hashbrown::{HashMap, HashSet};
use hpa_calc::{api::Pod, selector::Selector};

use crate::pods::Pair;

type OwnedPair = (Box<str>, Box<str>);

/// The selectors of one namespace's autoscalers.
///
/// Each is filed under one label pair that it requires, so that only the selectors filed under a pair of a pod are
/// matched against it.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    by_name: HashMap<Arc<str>, Filed>,
    by_pair: HashMap<OwnedPair, BTreeSet<Arc<str>>>,
    /// Those that require no pair.
    others: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Filed {
    selector: Selector,
    under: Option<OwnedPair>,
}

impl Namespace {
    pub(super) fn has(&self, name: &str, selector: &Selector) -> bool {
        self.by_name.get(name).is_some_and(|filed| filed.selector == *selector)
    }

    pub(super) fn set(&mut self, name: &Arc<str>, selector: Selector) {
        self.remove(name);
        let filed_under =
            |(key, value): &(&str, &str)| self.by_pair.get(&Pair(key, value)).map_or(0, BTreeSet::len);
        // The pair that fewest share tells most.
        let under =
            selector.required_pairs().min_by_key(filed_under).map(|(key, value)| (key.into(), value.into()));
        let names = match &under {
            Some(pair) => self.by_pair.entry_ref(pair).or_default(),
            None => &mut self.others,
        };
        names.insert(Arc::clone(name));
        self.by_name.insert(Arc::clone(name), Filed { selector, under });
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(filed) = self.by_name.remove(name) else { return };
        let Some(pair) = filed.under else {
            self.others.remove(name);
            return;
        };
        if let Some(names) = self.by_pair.get_mut(&pair) {
            names.remove(name);
            if names.is_empty() {
                self.by_pair.remove(&pair);
            }
        }
    }

    /// The names, sorted, of the autoscalers whose selector matches at least one of the pods.
    pub(super) fn matching(&self, pods: &[Arc<Pod>]) -> Vec<Arc<str>> {
        let mut matching: BTreeSet<&Arc<str>> = BTreeSet::new();
        let mut seen = HashSet::new();
        for pod in pods {
            // Pods of one workload share their label set; each set is looked at once.
            if !seen.insert(pod.labels.as_ptr()) {
                continue;
            }
            let filed =
                pod.labels.iter().filter_map(|(key, value)| self.by_pair.get(&Pair(key, value))).flatten();
            for name in filed.chain(&self.others) {
                if !matching.contains(name) && self.matches(name, pod) {
                    matching.insert(name);
                }
            }
        }
        matching.into_iter().map(Arc::clone).collect()
    }

    fn matches(&self, name: &str, pod: &Pod) -> bool {
        self.by_name.get(name).is_some_and(|filed| filed.selector.matches(&*pod.labels))
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}
