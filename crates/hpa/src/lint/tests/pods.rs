//! Findings about the target's pods.

use super::*;

#[rstest]
#[case::of_containers("Container", "cpu", "shop", false)]
#[case::of_pods("Pod", "cpu", "shop", true)]
#[case::of_another_resource("Container", "memory", "shop", true)]
#[case::of_another_namespace("Container", "cpu", "bank", true)]
fn default_request_of_a_limit_range_counts(
    #[case] kind: &str,
    #[case] resource: &str,
    #[case] namespace: &str,
    #[case] is_reported: bool,
) {
    let mut objects = manifests_with(&[(1, CONTAINERS, json!([{ "name": "app" }]))]);
    objects.push(json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": { "name": "defaults", "namespace": namespace },
        "spec": { "limits": [{ "type": kind, "defaultRequest": { resource: "100m" } }] },
    }));
    let findings = lint(objects);
    assert_eq!(rule_ids(&findings) == ["missing-request"], is_reported, "{findings:?}");
}

#[rstest]
#[case::number(json!({ "requests": { "cpu": 0 } }), json!({ "requests": { "cpu": "0m" } }), true)]
#[case::limit(json!({ "limits": { "cpu": "0" } }), json!({ "requests": { "cpu": 0 } }), true)]
#[case::one_request(json!({ "requests": { "cpu": 0 } }), json!({ "limits": { "cpu": 1 } }), false)]
#[case::small(json!({ "requests": { "cpu": 0 } }), json!({ "requests": { "cpu": "1n" } }), false)]
fn requests_that_add_up_to_zero_are_reported(
    #[case] first: Value,
    #[case] second: Value,
    #[case] is_reported: bool,
) {
    let containers =
        json!([{ "name": "app", "resources": first }, { "name": "proxy", "resources": second }]);
    let findings = lint(manifests_with(&[(1, CONTAINERS, containers)]));
    assert_eq!(rule_ids(&findings) == ["missing-request"], is_reported, "{findings:?}");
    let expected = "all requests for cpu in Deployment ";
    assert_eq!(findings.iter().any(|one| one.message.starts_with(expected)), is_reported);
}

#[rstest]
#[case::default(json!({}), true)]
#[case::recommends_only(json!({ "updatePolicy": { "updateMode": "Off" } }), false)]
#[case::other_resource(
    json!({ "resourcePolicy": { "containerPolicies": [
        { "containerName": "*", "controlledResources": ["memory"] },
    ] } }),
    false
)]
#[case::same_resource(
    json!({ "resourcePolicy": { "containerPolicies": [
        { "containerName": "*", "controlledResources": ["cpu"] },
    ] } }),
    true
)]
#[case::mode_off(
    json!({ "resourcePolicy": { "containerPolicies": [
        { "containerName": "*", "mode": "Off" },
    ] } }),
    false
)]
#[case::only_a_sidecar_is_off(
    json!({ "resourcePolicy": { "containerPolicies": [
        { "containerName": "proxy", "mode": "Off" },
    ] } }),
    true
)]
#[case::own_policy_precedes_that_of_others(
    json!({ "resourcePolicy": { "containerPolicies": [
        { "containerName": "*" }, { "containerName": "app", "mode": "Off" },
    ] } }),
    false
)]
fn vpa_of_the_same_resource_is_reported(#[case] spec: Value, #[case] is_reported: bool) {
    let mut spec = spec;
    spec["targetRef"] = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let vpa = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": { "name": "vpa", "namespace": "shop" }, "spec": spec,
    });
    assert_eq!(!lint(manifests_and(vpa)).is_empty(), is_reported);
}

#[rstest]
#[case::cron_job("CronJob", json!({ "app": "web" }), true)]
#[case::canary("Deployment", json!({ "app": "web", "track": "canary" }), true)]
#[case::other_labels("Deployment", json!({ "app": "api" }), false)]
fn pods_of_another_workload_are_reported(
    #[case] kind: &str,
    #[case] labels: Value,
    #[case] is_reported: bool,
) {
    let findings = lint(manifests_and(workload(kind, "other", labels)));
    assert_eq!(rule_ids(&findings) == ["overlapping-selectors"], is_reported, "{findings:?}");
}

#[test]
fn autoscaler_of_the_other_workload_is_named() {
    let mut objects =
        manifests_and(workload("Deployment", "canary", json!({ "app": "web", "t": "c" })));
    objects.push(other_autoscaler("canary"));
    objects[3]["spec"]["metrics"] = Value::Null;
    let findings = lint(objects);
    assert_eq!(rule_ids(&findings), ["overlapping-selectors"]);
    let expected = "is the target of the autoscaler shop/other, so neither autoscaler scales";
    assert!(findings[0].message.ends_with(expected), "{}", findings[0].message);
}
