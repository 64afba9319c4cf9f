//! The items of a list, and those of them that a selector matches.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap};
use hpa_calc::selector::Selector;

use crate::wire::{ItemLabels, PodMetrics};

/// The answer to a list of pod metrics.
pub(super) struct PodList {
    pub(super) items: Vec<PodMetrics>,
    groups: Option<Groups>,
}

/// Items by their labels: pods of one template have equal ones, so that a selector is matched once for all of them, and
/// only where a pair is found that it requires. Thus a namespace's list is not gone through for each of its autoscalers.
#[derive(Default)]
struct Groups {
    all: Vec<Group>,
    /// The places in `all` of the groups that have a pair of key and value, by the pair's hash. Two pairs of one hash
    /// cost a match.
    by_pair: HashMap<u64, Vec<u32>>,
    hasher: DefaultHashBuilder,
}

struct Group {
    labels: ItemLabels,
    /// Places in the list, ascending.
    items: Vec<u32>,
}

impl PodList {
    /// The answer for one selector: all of it.
    pub(super) fn of_selector(items: Vec<PodMetrics>) -> Self {
        Self { items, groups: None }
    }

    /// The answer for a whole namespace, of which any selector's items can be cut if items tell their labels.
    pub(super) fn of_namespace(mut items: Vec<PodMetrics>) -> Self {
        let has_labels = items.iter().any(|item| !item.metadata.labels.is_empty());
        let groups = (has_labels || items.is_empty()).then(|| Groups::of(&mut items));
        Self { items, groups }
    }

    /// Whether selectors can be cut from it.
    pub(super) fn can_be_cut(&self) -> bool {
        self.groups.is_some()
    }

    /// The items that a selector matches, in the order of the list; none of a list that cannot be cut.
    pub(super) fn select(&self, selector: &Selector) -> Vec<&PodMetrics> {
        let mut places: Vec<u32> = Vec::new();
        let mut matching = 0;
        for group in self.groups.iter().flat_map(|groups| groups.candidates(selector)) {
            if selector.matches(&group.labels) {
                places.extend_from_slice(&group.items);
                matching += 1;
            }
        }
        if matching > 1 {
            places.sort_unstable();
        }
        places
            .into_iter()
            .filter_map(|place| self.items.get(usize::try_from(place).ok()?))
            .collect()
    }
}

impl Groups {
    /// Groups items by their labels, which go from the items to the groups.
    fn of(items: &mut [PodMetrics]) -> Self {
        let mut groups = Self::default();
        let mut by_labels: HashMap<ItemLabels, usize> = HashMap::new();
        let mut last = 0;
        for (place, item) in (0..).zip(items) {
            let labels = std::mem::take(&mut item.metadata.labels);
            let is_of_last =
                groups.all.get(last).is_some_and(|group| group.labels.is_shared_with(&labels));
            if !is_of_last {
                last = *by_labels.entry_ref(&labels).or_insert(groups.all.len());
            }
            match groups.all.get_mut(last) {
                Some(group) => group.items.push(place),
                None => groups.all.push(Group { labels, items: vec![place] }),
            }
        }
        for (index, group) in (0..).zip(&groups.all) {
            for pair in group.labels.pairs() {
                groups.by_pair.entry(groups.hasher.hash_one(pair)).or_default().push(index);
            }
        }
        groups
    }

    /// The groups that a selector may match: those with the rarest of the pairs that it requires.
    fn candidates(&self, selector: &Selector) -> Box<dyn Iterator<Item = &Group> + '_> {
        let having =
            |pair| self.by_pair.get(&self.hasher.hash_one(pair)).map_or(&[][..], Vec::as_slice);
        match selector.required_pairs().map(having).min_by_key(|groups| groups.len()) {
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

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::wire::decode_list;

    /// Items as an answer brings them, by their labels.
    fn items<'a>(labels: impl IntoIterator<Item = &'a [(String, String)]>) -> Vec<PodMetrics> {
        let item = |(name, labels): (usize, &[(String, String)])| {
            let labels: BTreeMap<_, _> = labels.iter().cloned().collect();
            json!({ "metadata": { "name": name.to_string(), "labels": labels }, "window": "15s", "containers": [] })
        };
        let items: Vec<_> = labels.into_iter().enumerate().map(item).collect();
        decode_list(json!({ "items": items }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn list_without_labels_cannot_be_cut() {
        assert!(!PodList::of_namespace(items([&[][..]])).can_be_cut());
        assert!(PodList::of_namespace(Vec::new()).can_be_cut());
    }

    #[test]
    fn selector_of_nothing_matches_nothing_and_that_of_everything_all() {
        let list = PodList::of_namespace(items([&[("app".into(), "a".into())][..], &[]]));
        assert_eq!(list.select(&Selector::nothing()).len(), 0);
        assert_eq!(list.select(&Selector::everything()).len(), 2);
    }

    #[test]
    fn equal_labels_are_kept_once_and_are_one_group() {
        let labels = |app: &str| vec![("app".to_owned(), app.to_owned())];
        let pods = ["a", "a", "b", "a"].map(labels);
        let items = items(pods.iter().map(Vec::as_slice));
        let is_shared = |at: usize| {
            let [before, item] = [at - 1, at].map(|at| &items[at].metadata.labels);
            item.is_shared_with(before)
        };
        assert_eq!([1, 2, 3].map(is_shared), [true, false, false]);
        let groups = PodList::of_namespace(items).groups.unwrap();
        let places: Vec<_> = groups.all.iter().map(|group| group.items.as_slice()).collect();
        assert_eq!(places, [&[0, 1, 3][..], &[2]]);
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
        fn selection_is_that_of_a_full_scan(
            pods in prop::collection::vec(prop::collection::btree_map(0u8..3, 0u8..3, 0..3), 0..20),
            requirements in prop::collection::vec(requirement(), 0..4),
        ) {
            let labelled = |labels: &BTreeMap<u8, u8>| {
                labels.iter().map(|(k, v)| (format!("k{k}"), format!("v{v}"))).collect::<Vec<_>>()
            };
            let labels: Vec<_> = pods.iter().map(labelled).collect();
            let items = items(labels.iter().map(Vec::as_slice));
            let selector = Selector::parse(&requirements.join(",")).unwrap();
            let expected: Vec<_> =
                items.iter().filter(|item| selector.matches(&item.metadata.labels)).map(|item| item.metadata.name.clone()).collect();
            let list = PodList::of_namespace(items);
            prop_assume!(list.can_be_cut());
            let selected: Vec<_> = list.select(&selector).into_iter().map(|item| item.metadata.name.clone()).collect();
            prop_assert_eq!(selected, expected);
        }
    }
}
