//! Findings about metrics.

use super::*;

const CUSTOM: &[&str] = &["custom.metrics.k8s.io"];
const EXTERNAL: &[&str] = &["external.metrics.k8s.io"];

#[rstest]
#[case::no_api("Pods", &[], None, true)]
#[case::no_metric("Pods", CUSTOM, Some(string_set(&["services/requests"])), true)]
#[case::of_pods("Pods", CUSTOM, Some(string_set(&["pods/requests"])), false)]
#[case::no_list("Pods", CUSTOM, None, false)]
#[case::no_metric_of_objects("Object", CUSTOM, Some(string_set(&["services/other"])), true)]
#[case::of_an_object("Object", CUSTOM, Some(string_set(&["services/requests"])), false)]
#[case::no_external_api("External", CUSTOM, None, true)]
#[case::no_external_metric("External", EXTERNAL, Some(string_set(&["other"])), true)]
#[case::external("External", EXTERNAL, Some(string_set(&["requests"])), false)]
#[case::no_external_list("External", EXTERNAL, None, false)]
fn unserved_metric_is_reported(
    #[case] kind: &str,
    #[case] groups: &[&str],
    #[case] listed: Option<std::collections::BTreeSet<String>>,
    #[case] reported: bool,
) {
    let mut source = json!({
        "metric": { "name": "requests" }, "target": { "type": "AverageValue", "averageValue": "1" },
    });
    if kind == "Object" {
        source["describedObject"] = json!({ "apiVersion": "v1", "kind": "Service", "name": "s" });
    }
    let metric = json!({ "type": kind, kind.to_lowercase(): source });
    let objects = manifests_with(&[(0, "/spec/metrics", json!([metric]))]);
    let is_external = kind == "External";
    let served = ServedMetrics {
        source: "the cluster",
        groups: string_set(groups),
        custom: listed.clone().filter(|_| !is_external),
        external: listed.filter(|_| is_external),
        ..ServedMetrics::default()
    };
    let findings = find_violations(&in_cluster(objects, served));
    assert_eq!(rule_ids(&findings) == ["unserved-metric"], reported, "{findings:?}");
}

#[test]
fn metric_with_a_value_in_the_status_is_not_reported() {
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let source = json!({ "metric": { "name": "requests" }, "target": target });
    let current = json!({ "metric": { "name": "requests" }, "current": { "averageValue": "1" } });
    let lint = |scaling_active: &str| {
        let status = json!({
            "currentMetrics": [{ "type": "External", "external": current }],
            "conditions": [{ "type": "ScalingActive", "status": scaling_active, "reason": "R" }],
        });
        let metric = json!({ "type": "External", "external": source });
        let objects =
            manifests_with(&[(0, "/spec/metrics", json!([metric])), (0, "/status", status)]);
        let served = ServedMetrics { source: "the cluster", ..ServedMetrics::default() };
        let findings =
            find_violations(&Workspace::from_cluster(numbered(objects), <_>::default(), served));
        rule_ids(&findings).contains(&"unserved-metric")
    };
    assert_eq!((lint("True"), lint("False")), (false, true));
}

#[test]
fn metrics_of_rules_are_added_to_those_of_the_apis() {
    let rules = || ServedMetrics {
        source: "the rules file",
        groups: string_set(CUSTOM),
        custom: Some(string_set(&["pods/own"])),
        ..ServedMetrics::default()
    };
    let added = |groups, custom| {
        let mut served = ServedMetrics { groups: string_set(groups), custom, ..<_>::default() };
        served.add(rules());
        assert_eq!(served.groups, string_set(CUSTOM));
        served.custom
    };
    let both = Some(string_set(&["pods/own", "pods/other"]));
    assert_eq!(added(CUSTOM, Some(string_set(&["pods/other"]))), both);
    assert_eq!(added(&[], None), Some(string_set(&["pods/own"])));
    // The API may serve metrics that it doesn't list.
    assert_eq!(added(CUSTOM, None), None);
    let alone = rules().with_unknown_cluster();
    assert_eq!(alone.groups.len(), 3);
}

#[test]
fn unserved_metric_is_not_reported_while_series_are_unknown() {
    let metric = json!([{ "type": "External", "external": {
        "metric": { "name": "lag" }, "target": { "type": "AverageValue", "averageValue": "1" },
    } }]);
    let unserved = |discovery_error| {
        let mut served = ServedMetrics { source: "the cluster", ..ServedMetrics::default() };
        served.add(ServedMetrics { discovery_error, ..ServedMetrics::default() });
        let objects = manifests_with(&[(0, "/spec/metrics", metric.clone())]);
        rule_ids(&find_violations(&in_cluster(objects, served))).contains(&"unserved-metric")
    };
    assert!(unserved(None));
    assert!(!unserved(Some("no response".to_owned())));
}

#[rstest]
#[case::average(json!({ "averageValue": "5" }), true)]
#[case::value(json!({ "value": "5" }), false)]
fn average_of_an_average_is_reported(#[case] target: Value, #[case] reported: bool) {
    let mut target = target;
    target["type"] = json!("Value");
    let external = json!({ "metric": { "name": "lag" }, "target": target });
    let metrics = json!([{ "type": "External", "external": external }]);
    let mut workspace =
        Workspace::from_manifests(numbered(manifests_with(&[(0, "/spec/metrics", metrics)])));
    let averages = string_set(&["lag"]);
    workspace.served =
        Some(ServedMetrics { averages, ..ServedMetrics::default() }.with_unknown_cluster());
    assert_eq!(rule_ids(&find_violations(&workspace)) == ["averaged-twice"], reported);
}
