//! A list of pod metrics that can be filtered by selector.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap};
use hpa_calc::selector::{Selector, exceed_label_limits};

use crate::wire::{ItemLabels, PodMetrics};

pub(super) struct PodList {
    pub(super) items: Vec<PodMetrics>,
    groups: Option<Groups>,
}

/// Items grouped by their labels. Pods of one template usually have equal labels, so a selector is
/// matched once for all of them. If it requires key-value pairs, it is matched only with groups
/// that have one of these pairs. This avoids a scan of the list for each autoscaler.
#[derive(Default)]
struct Groups {
    all: Vec<Group>,
    /// Indices of the groups that have a key-value pair, by the hash of the pair. A collision only
    /// costs an additional match.
    by_pair: HashMap<u64, Vec<u32>>,
    hasher: DefaultHashBuilder,
}

struct Group {
    labels: ItemLabels,
    /// Indices in the list, ascending.
    items: Vec<u32>,
}

impl PodList {
    /// The response to a request with a selector. It can't be filtered by other selectors.
    pub(super) fn for_selector(items: Vec<PodMetrics>) -> Self {
        Self { items, groups: None }
    }

    /// The response with all pods of a namespace. Selectors can be applied if an item has labels,
    /// or if there are no items.
    pub(super) fn for_namespace(mut items: Vec<PodMetrics>) -> Self {
        let has_labels = items.iter().any(|item| !item.metadata.labels.is_empty());
        let groups = (has_labels || items.is_empty()).then(|| Groups::new(&mut items));
        Self { items, groups }
    }

    /// Whether selectors can be applied.
    pub(super) fn is_selectable(&self) -> bool {
        self.groups.is_some()
    }

    /// Returns the items that a selector matches, in the order of the list, or none if selectors
    /// can't be applied.
    pub(super) fn select(&self, selector: &Selector) -> Vec<&PodMetrics> {
        let mut indices: Vec<u32> = Vec::new();
        let mut matching_groups = 0;
        for group in self.groups.iter().flat_map(|groups| groups.candidates(selector)) {
            if group.labels.are_selected_by(selector) {
                indices.extend_from_slice(&group.items);
                matching_groups += 1;
            }
        }
        if matching_groups > 1 {
            indices.sort_unstable();
        }
        indices
            .into_iter()
            .filter_map(|index| self.items.get(usize::try_from(index).ok()?))
            .collect()
    }
}

impl Groups {
    /// Groups items by their labels, and moves the labels from the items to the groups. Items whose
    /// labels exceed the limits are in no group, because no selector matches such pods.
    fn new(items: &mut [PodMetrics]) -> Self {
        let mut groups = Self::default();
        let mut by_labels: HashMap<ItemLabels, usize> = HashMap::new();
        let mut group_index = 0;
        for (index, item) in (0..).zip(items) {
            let labels = std::mem::take(&mut item.metadata.labels);
            // The previous item usually belongs to the same workload.
            let has_same_labels = groups
                .all
                .get(group_index)
                .is_some_and(|group| group.labels.shares_memory_with(&labels));
            if !has_same_labels {
                if exceed_label_limits(labels.pairs()) {
                    continue;
                }
                group_index = *by_labels.entry_ref(&labels).or_insert(groups.all.len());
            }
            match groups.all.get_mut(group_index) {
                Some(group) => group.items.push(index),
                None => groups.all.push(Group { labels, items: vec![index] }),
            }
        }
        for (index, group) in (0..).zip(&groups.all) {
            for pair in group.labels.pairs() {
                groups.by_pair.entry(groups.hasher.hash_one(pair)).or_default().push(index);
            }
        }
        groups
    }

    /// Returns the groups that a selector may match. If it requires key-value pairs, these are the
    /// groups with the rarest of the pairs.
    fn candidates(&self, selector: &Selector) -> Box<dyn Iterator<Item = &Group> + '_> {
        let groups_with =
            |pair| self.by_pair.get(&self.hasher.hash_one(pair)).map_or(&[][..], Vec::as_slice);
        match selector.required_pairs().map(groups_with).min_by_key(|groups| groups.len()) {
            Some(groups) => Box::new(
                groups.iter().filter_map(|index| self.all.get(usize::try_from(*index).ok()?)),
            ),
            None => Box::new(self.all.iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hpa_calc::selector::MAX_LABELS;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::wire::decode_list;

    /// Decoded items with the given labels.
    fn items<'a>(labels: impl IntoIterator<Item = &'a [(String, String)]>) -> Vec<PodMetrics> {
        let item = |(name, labels): (usize, &[(String, String)])| {
            let labels: BTreeMap<_, _> = labels.iter().cloned().collect();
            let metadata = json!({ "name": name.to_string(), "labels": labels });
            json!({ "metadata": metadata, "window": "15s", "containers": [] })
        };
        let items: Vec<_> = labels.into_iter().enumerate().map(item).collect();
        decode_list(json!({ "items": items }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn list_without_labels_is_not_selectable() {
        assert!(!PodList::for_namespace(items([&[][..]])).is_selectable());
        assert!(PodList::for_namespace(Vec::new()).is_selectable());
    }

    #[test]
    fn selector_of_nothing_selects_no_items_and_of_everything_all() {
        let list = PodList::for_namespace(items([&[("app".into(), "a".into())][..], &[]]));
        assert_eq!(list.select(&Selector::nothing()).len(), 0);
        assert_eq!(list.select(&Selector::everything()).len(), 2);
    }

    #[test]
    fn equal_labels_are_shared_and_form_one_group() {
        let labels = |app: &str| vec![("app".to_owned(), app.to_owned())];
        let pods = ["a", "a", "b", "a"].map(labels);
        let items = items(pods.iter().map(Vec::as_slice));
        let is_shared = |at: usize| {
            let [before, item] = [at - 1, at].map(|at| &items[at].metadata.labels);
            item.shares_memory_with(before)
        };
        assert_eq!([1, 2, 3].map(is_shared), [true, false, false]);
        let groups = PodList::for_namespace(items).groups.unwrap();
        let group_items: Vec<_> = groups.all.iter().map(|group| group.items.as_slice()).collect();
        assert_eq!(group_items, [&[0, 1, 3][..], &[2]]);
    }

    #[test]
    fn item_with_more_labels_than_selectors_match_is_not_selected() {
        let labels = |count: usize| -> Vec<_> {
            (0..count).map(|at| (format!("l{at}"), "a".to_owned())).collect()
        };
        let pods = [labels(MAX_LABELS + 1), labels(MAX_LABELS), labels(MAX_LABELS + 1)];
        let list = PodList::for_namespace(items(pods.iter().map(Vec::as_slice)));
        for selector in ["", "l0=a", "!other"] {
            let selected = list.select(&Selector::parse(selector).unwrap());
            let names: Vec<_> = selected.iter().map(|item| &*item.metadata.name).collect();
            assert_eq!(names, ["1"], "{selector}");
        }
        assert_eq!(list.groups.unwrap().by_pair.len(), MAX_LABELS);
    }

    fn requirement() -> impl Strategy<Value = String> {
        let (key, value) = (0u8..3, 0u8..3);
        prop_oneof![
            (key.clone(), value.clone()).prop_map(|(k, v)| format!("k{k}=v{v}")),
            (key.clone(), value.clone()).prop_map(|(k, v)| format!("k{k}!=v{v}")),
            (key.clone(), value.clone(), value)
                .prop_map(|(k, v, w)| format!("k{k} in (v{v},v{w})")),
            key.prop_map(|k| format!("!k{k}")),
        ]
    }

    proptest! {
        #[test]
        fn selected_items_equal_those_of_a_full_scan(
            pods in prop::collection::vec(prop::collection::btree_map(0u8..3, 0u8..3, 0..3), 0..20),
            requirements in prop::collection::vec(requirement(), 0..4),
        ) {
            let labelled = |labels: &BTreeMap<u8, u8>| {
                labels.iter().map(|(k, v)| (format!("k{k}"), format!("v{v}"))).collect::<Vec<_>>()
            };
            let labels: Vec<_> = pods.iter().map(labelled).collect();
            let items = items(labels.iter().map(Vec::as_slice));
            let selector = Selector::parse(&requirements.join(",")).unwrap();
            let name = |item: &PodMetrics| item.metadata.name.clone();
            let matching = items.iter().filter(|item| selector.matches(&item.metadata.labels));
            let expected: Vec<_> = matching.map(name).collect();
            let list = PodList::for_namespace(items);
            prop_assume!(list.is_selectable());
            let selected: Vec<_> = list.select(&selector).into_iter().map(name).collect();
            prop_assert_eq!(selected, expected);
        }
    }
}
