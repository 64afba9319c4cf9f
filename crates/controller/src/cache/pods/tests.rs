use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use hpa_calc::{
    MilliValue,
    api::{
        ContainerResources, Pod, PodPhase, PodResources, PodSpec, PodStatus, ResourceAmount,
        ResourceAmounts, ResourceName,
    },
    selector::{MAX_LABELS, MAX_REQUIREMENTS, Selector},
};
use proptest::prelude::*;
use rstest::rstest;

use super::PodIndex;

fn pod(name: &str, labels: &[(&str, &str)], milli: i64) -> Pod {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let requests = Box::new([ResourceAmount {
        resource: ResourceName::Cpu,
        amount: Some(MilliValue::from_milli(milli)),
    }]);
    let container = ContainerResources { name: "main".into(), requests, limits: Box::default() };
    let spec = ResourceAmounts { containers: Box::new([container]), ..ResourceAmounts::default() };
    Pod {
        phase: PodPhase::Running,
        resources: Arc::new(PodResources { spec, actual: None }),
        ..Pod::new(name.into(), labels, false, &PodSpec::default(), &PodStatus::default())
    }
}

fn selected_names(index: &PodIndex, namespace: &str, selector: &str) -> Vec<String> {
    let selected = index.select(namespace, &Selector::parse(selector).unwrap());
    selected.iter().map(|pod| pod.name.to_string()).collect()
}

fn index_with_two_namespaces() -> PodIndex {
    let index = PodIndex::default();
    index.apply("shop", pod("web-2", &[("app", "web"), ("tier", "front")], 100));
    index.apply("shop", pod("web-1", &[("app", "web"), ("tier", "front")], 100));
    index.apply("shop", pod("web-canary", &[("app", "web"), ("tier", "canary")], 100));
    index.apply("shop", pod("db-0", &[("app", "db"), ("tier", "front")], 200));
    index.apply("bank", pod("web-1", &[("app", "web")], 100));
    index
}

#[rstest]
#[case("app=web", &["web-1", "web-2", "web-canary"])]
#[case("app=web,tier=front", &["web-1", "web-2"])]
#[case("app in (web),tier!=front", &["web-canary"])]
#[case("app in (web,db),tier=front", &["db-0", "web-1", "web-2"])]
#[case("", &["db-0", "web-1", "web-2", "web-canary"])]
#[case("app=other", &[])]
#[case("app=web,no=pod", &[])]
#[case("!app", &[])]
fn select_matches_labels_and_sorts_by_name(#[case] selector: &str, #[case] expected: &[&str]) {
    let index = index_with_two_namespaces();
    assert_eq!(selected_names(&index, "shop", selector), expected);
    assert!(selected_names(&index, "empty", selector).is_empty());
}

/// Whether `shop` and `bank` are incomplete.
fn are_incomplete(index: &PodIndex) -> (bool, bool) {
    (index.is_incomplete("shop"), index.is_incomplete("bank"))
}

#[test]
fn undecodable_pod_makes_its_namespace_incomplete_until_decoded_or_deleted() {
    let index = index_with_two_namespaces();
    assert_eq!(are_incomplete(&index), (false, false));
    index.add_undecodable("shop", "web-1");
    index.add_undecodable("shop", "web-2");
    assert_eq!(are_incomplete(&index), (true, false));
    index.apply("shop", pod("web-1", &[], 100));
    assert_eq!(are_incomplete(&index), (true, false));
    index.delete("shop", "web-2");
    assert_eq!(are_incomplete(&index), (false, false));
}

#[test]
fn list_determines_which_namespaces_are_incomplete() {
    let index = index_with_two_namespaces();
    index.add_undecodable("shop", "web-1");
    index.begin_list();
    index.list_add_undecodable("bank", "web-1");
    assert_eq!(are_incomplete(&index), (true, false));
    index.finish_list();
    assert_eq!(are_incomplete(&index), (false, true));
}

#[test]
fn pod_without_a_name_makes_all_namespaces_incomplete_until_the_next_list() {
    for (namespace, name) in [("shop", ""), ("", "web-1")] {
        let index = index_with_two_namespaces();
        index.add_undecodable(namespace, name);
        assert_eq!(are_incomplete(&index), (true, true));
        index.begin_list();
        index.finish_list();
        assert_eq!(are_incomplete(&index), (false, false));
    }
}

/// A pod with this many labels, as it is decoded.
fn pod_with_labels(name: &str, count: usize) -> Pod {
    let labels = (0..count).map(|at| (format!("l{at}"), String::new()));
    Pod::new(name.into(), labels, false, &PodSpec::default(), &PodStatus::default())
}

#[rstest]
#[case("")]
#[case("!other")]
#[case("l0=")]
fn pod_with_too_many_labels_is_neither_selected_nor_stored(#[case] selector: &str) {
    let index = PodIndex::default();
    index.begin_list();
    index.list_apply("shop", pod_with_labels("web-0", MAX_LABELS + 1));
    index.list_apply("shop", pod_with_labels("web-1", MAX_LABELS));
    index.finish_list();
    assert_eq!(selected_names(&index, "shop", selector), ["web-1"]);
    assert_eq!(index.len(), 1);
    index.apply("shop", pod_with_labels("web-0", 1));
    assert_eq!(selected_names(&index, "shop", selector), ["web-0", "web-1"]);
    for name in ["web-0", "web-1"] {
        index.apply("shop", pod_with_labels(name, MAX_LABELS + 1));
    }
    assert!(selected_names(&index, "shop", selector).is_empty());
    assert!(index.is_empty(), "the label pairs are not stored");
}

#[test]
fn selecting_by_the_largest_selector_is_fast() {
    let index = PodIndex::default();
    for at in 0..1000 {
        let labels = (0..MAX_LABELS - 1).map(|label| (format!("l{label}"), String::new()));
        let labels = labels.chain([("pod".to_owned(), at.to_string())]);
        let name = format!("web-{at}");
        let (spec, status) = (PodSpec::default(), PodStatus::default());
        index.apply("shop", Pod::new(name.into(), labels, false, &spec, &status));
    }
    let requirements: Vec<_> = (0..MAX_REQUIREMENTS).map(|at| format!("!x{at}")).collect();
    let selector = Selector::parse(&requirements.join(",")).unwrap();
    let durations = [(); 3].map(|()| {
        let start = Instant::now();
        assert_eq!(index.select("shop", &selector).len(), 1000);
        start.elapsed()
    });
    let shortest = durations.iter().min().unwrap();
    assert!(*shortest < Duration::from_millis(500), "{durations:?}");
}

#[test]
fn selector_that_matches_nothing_selects_nothing() {
    assert!(index_with_two_namespaces().select("shop", &Selector::nothing()).is_empty());
}

#[test]
fn equal_labels_and_resources_are_shared_and_freed_with_the_last_pod() {
    let index = index_with_two_namespaces();
    // Three label sets, the pairs app=web, app=db, tier=front and tier=canary, two CPU requests.
    assert_eq!(index.distinct_counts("shop"), (3, 4, 2));
    let pods = index.select("shop", &Selector::parse("app=web,tier=front").unwrap());
    assert!(Arc::ptr_eq(&pods[0].labels, &pods[1].labels));
    assert!(Arc::ptr_eq(&pods[0].resources, &pods[1].resources));

    assert!(index.delete("shop", "web-canary"));
    assert_eq!(index.distinct_counts("shop"), (2, 3, 2));
    assert!(index.delete("shop", "db-0"));
    assert_eq!(index.distinct_counts("shop"), (1, 2, 1));
    assert!(index.delete("shop", "web-1"));
    assert!(index.delete("shop", "web-2"));
    assert!(!index.delete("shop", "web-2"));
    assert_eq!(index.distinct_counts("shop"), (0, 0, 0));
    assert_eq!(index.len(), 1);
}

#[test]
fn changed_labels_move_the_pod() {
    let index = index_with_two_namespaces();
    index.apply("shop", pod("web-1", &[("app", "db")], 100));
    assert_eq!(selected_names(&index, "shop", "app=web"), ["web-2", "web-canary"]);
    assert_eq!(selected_names(&index, "shop", "app=db"), ["db-0", "web-1"]);
    assert_eq!(index.len(), 5);
}

#[test]
fn changed_status_replaces_the_pod() {
    let index = index_with_two_namespaces();
    let mut changed = pod("web-1", &[("app", "web"), ("tier", "front")], 300);
    changed.phase = PodPhase::Failed;
    index.apply("shop", changed.clone());
    assert_eq!(selected_names(&index, "shop", "app=web,tier=front"), ["web-1", "web-2"]);
    assert_eq!(*index.select("shop", &Selector::parse("app=web").unwrap())[0], changed);
    assert_eq!(*index.get("shop", "web-1").unwrap(), changed);
    assert_eq!(index.distinct_counts("shop").2, 3);
}

#[test]
fn finished_list_replaces_everything() {
    let index = index_with_two_namespaces();
    let unchanged = index.get("shop", "web-1").unwrap();
    index.begin_list();
    index.list_apply("shop", pod("web-0", &[("app", "web"), ("tier", "front")], 100));
    index.list_apply("shop", pod("web-1", &[("app", "web"), ("tier", "front")], 100));
    assert_eq!(selected_names(&index, "shop", "app=web"), ["web-1", "web-2", "web-canary"]);
    index.finish_list();
    assert_eq!(selected_names(&index, "shop", ""), ["web-0", "web-1"]);
    assert!(selected_names(&index, "bank", "").is_empty());
    assert_eq!(index.distinct_counts("shop"), (1, 2, 1));
    assert!(Arc::ptr_eq(&unchanged, &index.get("shop", "web-1").unwrap()));

    // The pod from before the list has its own allocation of the label set. A change must
    // nevertheless find the pod's group.
    index.apply("shop", pod("web-1", &[("app", "web"), ("tier", "front")], 100));
    assert_eq!(selected_names(&index, "shop", "tier=front"), ["web-0", "web-1"]);
    assert!(index.delete("shop", "web-1"));
    assert_eq!(selected_names(&index, "shop", "tier=front"), ["web-0"]);
}

#[test]
fn second_list_discards_the_first() {
    let index = index_with_two_namespaces();
    index.begin_list();
    index.list_apply("shop", pod("first", &[], 100));
    index.begin_list();
    index.list_apply("shop", pod("second", &[], 100));
    index.finish_list();
    index.finish_list();
    assert_eq!(selected_names(&index, "shop", ""), ["second"]);
}

#[derive(Clone, Debug)]
enum Change {
    Apply(u8, BTreeMap<u8, u8>),
    Delete(u8),
    List(Vec<(u8, BTreeMap<u8, u8>)>),
}

fn labels() -> impl Strategy<Value = BTreeMap<u8, u8>> {
    prop::collection::btree_map(0u8..3, 0u8..3, 0..3)
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0u8..12, labels()).prop_map(|(name, labels)| Change::Apply(name, labels)),
        2 => (0u8..12).prop_map(Change::Delete),
        1 => prop::collection::vec((0u8..12, labels()), 0..12).prop_map(Change::List),
    ]
}

fn requirement() -> impl Strategy<Value = String> {
    let (key, value) = (0u8..3, 0u8..3);
    prop_oneof![
        (key.clone(), value.clone()).prop_map(|(k, v)| format!("k{k}=v{v}")),
        (key.clone(), value.clone()).prop_map(|(k, v)| format!("k{k}!=v{v}")),
        (key.clone(), value.clone(), value).prop_map(|(k, v, w)| format!("k{k} in (v{v},v{w})")),
        key.clone().prop_map(|k| format!("k{k}")),
        key.prop_map(|k| format!("!k{k}")),
    ]
}

fn random_pod(name: u8, labels: &BTreeMap<u8, u8>) -> Pod {
    let labels: Vec<_> = labels.iter().map(|(k, v)| (format!("k{k}"), format!("v{v}"))).collect();
    let labels: Vec<_> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    pod(&format!("pod-{name}"), &labels, i64::from(name % 3))
}

proptest! {
    #[test]
    fn select_returns_the_same_as_a_full_scan(
        changes in prop::collection::vec(change(), 0..40),
        requirements in prop::collection::vec(requirement(), 0..4),
    ) {
        let index = PodIndex::default();
        let mut model: BTreeMap<String, Pod> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Apply(name, labels) => {
                    let pod = random_pod(name, &labels);
                    model.insert(pod.name.to_string(), pod.clone());
                    index.apply("ns", pod);
                }
                Change::Delete(name) => {
                    let name = format!("pod-{name}");
                    prop_assert_eq!(index.delete("ns", &name), model.remove(&name).is_some());
                }
                Change::List(pods) => {
                    model.clear();
                    index.begin_list();
                    for (name, labels) in pods {
                        let pod = random_pod(name, &labels);
                        model.insert(pod.name.to_string(), pod.clone());
                        index.list_apply("ns", pod);
                    }
                    index.finish_list();
                }
            }
        }
        let selector = Selector::parse(&requirements.join(",")).unwrap();
        let selected = index.select("ns", &selector);
        let expected: Vec<&Pod> =
            model.values().filter(|pod| selector.matches(&*pod.labels)).collect();
        prop_assert_eq!(selected.iter().map(AsRef::as_ref).collect::<Vec<_>>(), expected);
        let sets: BTreeSet<_> = model.values().map(|pod| &pod.labels).collect();
        let pairs: BTreeSet<_> = sets.iter().flat_map(|set| set.iter()).collect();
        let resources: HashSet<_> = model.values().map(|pod| &pod.resources).collect();
        prop_assert_eq!(index.distinct_counts("ns"), (sets.len(), pairs.len(), resources.len()));
    }
}
