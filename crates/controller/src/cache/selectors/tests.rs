use std::{collections::BTreeMap, sync::Arc};

use hpa_calc::{
    api::{Pod, PodSpec, PodStatus},
    selector::{MAX_LABELS, MAX_REQUIREMENTS, Selector},
};
use proptest::prelude::*;

use super::{SelectorIndex, namespace::MAX_COMPARISONS};
use crate::key::{AutoscalerApi, HpaKey};

fn pod(name: &str, labels: impl IntoIterator<Item = (String, String)>) -> Arc<Pod> {
    Arc::new(Pod::new(name.into(), labels, false, &PodSpec::default(), &PodStatus::default()))
}

fn web_pod(name: &str) -> Arc<Pod> {
    pod(name, [("app".to_owned(), "web".to_owned()), ("tier".to_owned(), "front".to_owned())])
}

fn set_selector(index: &SelectorIndex, name: &str, selector: &str) {
    index.set(&HpaKey::new("shop", name), Some(Selector::parse(selector).unwrap()));
}

fn controlling(index: &SelectorIndex, pods: &[Arc<Pod>]) -> Vec<String> {
    index.controlling("shop", pods).iter().map(ToString::to_string).collect()
}

#[test]
fn controlling_returns_all_matching_autoscalers_sorted() {
    let index = SelectorIndex::default();
    set_selector(&index, "z", "app=web");
    set_selector(&index, "everything", "");
    set_selector(&index, "b", "tier in (front,back)");
    set_selector(&index, "other", "app=db");
    set_selector(&index, "narrow", "app=web,tier=back");
    index.set(&HpaKey::new("bank", "a"), Some(Selector::parse("app=web").unwrap()));
    let pods = [web_pod("web-1"), web_pod("web-2")];
    assert_eq!(controlling(&index, &pods), ["shop/b", "shop/everything", "shop/z"]);
    assert!(controlling(&index, &[]).is_empty());
    assert!(index.controlling("none", &pods).is_empty());
}

#[test]
fn changed_or_cleared_selector_no_longer_matches() {
    let index = SelectorIndex::default();
    let pods = [web_pod("web-1")];
    set_selector(&index, "a", "app=web");
    set_selector(&index, "a", "app=web");
    set_selector(&index, "b", "tier=front");
    assert_eq!(controlling(&index, &pods), ["shop/a", "shop/b"]);
    set_selector(&index, "a", "app=db");
    assert_eq!(controlling(&index, &pods), ["shop/b"]);
    set_selector(&index, "a", "!nothing");
    index.set(&HpaKey::new("shop", "b"), None);
    assert_eq!(controlling(&index, &pods), ["shop/a"]);
    index.remove(&HpaKey::new("shop", "a"));
    index.remove(&HpaKey::new("shop", "a"));
    assert!(controlling(&index, &pods).is_empty());
    assert!(index.namespaces.read().is_empty());
}

#[test]
fn pod_with_too_many_labels_is_controlled_by_no_autoscaler() {
    let index = SelectorIndex::default();
    for (name, selector) in [("everything", ""), ("negative", "!other"), ("web", "l0=")] {
        set_selector(&index, name, selector);
    }
    let labels = |count: usize| (0..count).map(|at| (format!("l{at}"), String::new()));
    assert!(controlling(&index, &[pod("web-0", labels(MAX_LABELS + 1))]).is_empty());
    assert_eq!(controlling(&index, &[pod("web-0", labels(MAX_LABELS))]).len(), 3);
}

/// A search compares pod after pod, each with all selectors. The only pod that matches is the last
/// one within the limit, or the first one beyond it.
#[test]
fn search_ends_after_the_maximum_number_of_comparisons() {
    const SELECTORS: usize = 20;
    let compared_pods = MAX_COMPARISONS / (SELECTORS * MAX_REQUIREMENTS);
    for (matching_pod, is_found) in [(compared_pods - 1, true), (compared_pods, false)] {
        let index = SelectorIndex::default();
        let pods = (0..=compared_pods).map(|at| {
            let excluded = if at == matching_pod { "y" } else { "x" };
            let labels = [("pod", at.to_string()), (excluded, String::new())];
            pod(&format!("web-{at}"), labels.map(|(label, value)| (label.to_owned(), value)))
        });
        let pods: Vec<_> = pods.collect();
        let absent = (1..MAX_REQUIREMENTS).map(|at| format!("!a{at}"));
        let absent: Vec<_> = absent.chain(["!x".to_owned()]).collect();
        for name in 0..SELECTORS {
            set_selector(&index, &format!("hpa-{name:02}"), &absent.join(","));
        }
        let expected = if is_found { SELECTORS } else { 0 };
        assert_eq!(controlling(&index, &pods).len(), expected, "pod {matching_pod}");
    }
}

fn requirement() -> impl Strategy<Value = String> {
    (0u8..3, 0u8..3, 0u8..5).prop_map(|(key, value, operator)| match operator {
        0 | 1 => format!("k{key}=v{value}"),
        2 => format!("k{key}!=v{value}"),
        3 => format!("k{key} in (v{value},v0)"),
        _ => format!("!k{key}"),
    })
}

fn selector() -> impl Strategy<Value = Option<Selector>> {
    let parsed = |requirements: Vec<String>| Selector::parse(&requirements.join(",")).unwrap();
    prop::option::weighted(0.8, prop::collection::vec(requirement(), 0..3).prop_map(parsed))
}

proptest! {
    #[test]
    fn controlling_returns_the_same_as_a_full_scan(
        changes in prop::collection::vec((0u8..8, selector()), 0..30),
        pods in prop::collection::vec(prop::collection::btree_map(0u8..3, 0u8..3, 0..3), 0..6),
    ) {
        let index = SelectorIndex::default();
        let mut model = BTreeMap::new();
        for (name, selector) in changes {
            let key = HpaKey::new("ns", format!("hpa-{name}"));
            index.set(&key, selector.clone());
            match selector {
                Some(selector) => { model.insert(key, selector); }
                None => { model.remove(&key); }
            }
        }
        let pods: Vec<_> = pods.iter().enumerate().map(|(at, labels)| {
            let labels = labels.iter().map(|(k, v)| (format!("k{k}"), format!("v{v}")));
            pod(&format!("pod-{at}"), labels)
        }).collect();
        let expected: Vec<HpaKey> = model.iter()
            .filter(|(_, selector)| pods.iter().any(|pod| selector.matches(&*pod.labels)))
            .map(|(key, _)| key.clone())
            .collect();
        prop_assert_eq!(index.controlling("ns", &pods), expected);
        prop_assert_eq!(index.namespaces.read().is_empty(), model.is_empty());
    }
}

#[test]
fn autoscalers_of_both_apis_are_separate() {
    let index = SelectorIndex::default();
    let selector = Selector::parse("app=web").unwrap();
    let [core, custom] = AutoscalerApi::ALL.map(|api| HpaKey::for_api(api, "shop", "web"));
    for key in [&core, &custom] {
        index.set(key, Some(selector.clone()));
    }
    let pods = [web_pod("web-0")];
    assert_eq!(index.controlling("shop", &pods), [core.clone(), custom.clone()]);
    assert_eq!([core.to_string(), custom.to_string()], ["shop/web", "rhpa/shop/web"]);
    index.remove(&core);
    assert_eq!(index.controlling("shop", &pods), [custom]);
}
