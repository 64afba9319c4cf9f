use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::lint::{finding::RULES, workspace::ServedMetrics};
use crate::manifests::Manifest;

/// An autoscaler of a Deployment, and the Deployment, which give no finding.
fn manifests() -> Vec<Value> {
    let hpa = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 10,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 70 },
            } }],
            "behavior": { "scaleUp": {
                "stabilizationWindowSeconds": 30,
                "policies": [{ "type": "Percent", "value": 50, "periodSeconds": 15 }],
            } },
        },
    });
    let container = json!({ "name": "app", "resources": { "requests": { "cpu": "1" } } });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "spec": { "containers": [container] } },
        },
    });
    vec![hpa, deployment]
}

fn lint(objects: Vec<Value>) -> Vec<Finding> {
    check(&Workspace::from_manifests(numbered(objects)))
}

fn numbered(objects: Vec<Value>) -> Vec<Manifest> {
    let manifest =
        |(index, object)| Manifest { file: "f.yaml".to_owned(), line: index + 1, object };
    objects.into_iter().enumerate().map(manifest).collect()
}

fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.rule.id).collect()
}

#[test]
fn sound_autoscaler_has_no_finding() {
    assert!(lint(manifests()).is_empty(), "{:?}", lint(manifests()));
}

/// Sets members of the objects, by pointer.
fn set(changes: &[(usize, &str, Value)]) -> Vec<Value> {
    let mut objects = manifests();
    for (index, pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = objects[*index].pointer_mut(parent).unwrap();
        match (parent, name.parse::<usize>()) {
            (Value::Array(items), Ok(at)) if at == items.len() => items.push(value.clone()),
            (parent, _) => parent[name] = value.clone(),
        }
    }
    objects
}

const CONTAINERS: &str = "/spec/template/spec/containers";
const INIT_CONTAINERS: &str = "/spec/template/spec/initContainers";
const TARGET: &str = "/spec/metrics/0/resource/target";
const UP: &str = "/spec/behavior/scaleUp";
const DOWN: &str = "/spec/behavior/scaleDown";

#[rstest]
#[case::request_missing(
    &[(1, "/spec/template/spec/containers/1", json!({ "name": "proxy" }))],
    "missing-request"
)]
#[case::sidecar(
    &[(1, INIT_CONTAINERS, json!([{ "name": "s", "restartPolicy": "Always" }]))],
    "missing-request"
)]
#[case::fixed_size(&[(0, "/spec/maxReplicas", json!(2)), (0, DOWN, json!({}))], "fixed-size")]
#[case::stuck_at_zero(
    &[
        (0, "/spec/minReplicas", json!(0)),
        (0, "/spec/metrics", json!([{ "type": "External", "external": {
            "metric": { "name": "q" }, "target": { "type": "AverageValue", "averageValue": "1" },
        } }])),
    ],
    "stuck-scale-up"
)]
#[case::short_window(
    &[(0, "/spec/behavior/scaleUp/stabilizationWindowSeconds", json!(10))],
    "short-window"
)]
#[case::short_period(
    &[(0, DOWN, json!({ "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 5 }] }))],
    "short-window"
)]
#[case::replicas(&[(1, "/spec/replicas", json!(3))], "replicas-in-manifest")]
#[case::above_request(
    &[(0, "/spec/metrics/0/resource/target/averageUtilization", json!(150))],
    "target-above-request"
)]
#[case::unused_policies(
    &[(0, DOWN, json!({
        "selectPolicy": "Disabled",
        "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }],
    }))],
    "unused-behavior"
)]
#[case::both_disabled(
    &[
        (0, UP, json!({ "selectPolicy": "Disabled" })),
        (0, DOWN, json!({ "selectPolicy": "Disabled" })),
    ],
    "unused-behavior"
)]
#[case::misspelled(&[(0, "/spec/minReplica", json!(2))], "unknown-field")]
#[case::misplaced(&[(0, "/spec/behavior/stabilizationWindowSeconds", json!(60))], "unknown-field")]
#[case::wide_tolerance(&[(0, "/spec/behavior/scaleUp/tolerance", json!("4"))], "wide-tolerance")]
#[case::default_tolerance(
    &[(0, "/spec/minReplicas", json!(10)), (0, "/spec/maxReplicas", json!(11))],
    "wide-tolerance"
)]
fn advice_is_given(#[case] changes: &[(usize, &str, Value)], #[case] id: &str) {
    let findings = lint(set(changes));
    assert!(
        !findings.is_empty() && ids(&findings).iter().all(|found| *found == id),
        "{findings:?}"
    );
}

#[rstest]
#[case::limit_is_a_request(
    &[(1, CONTAINERS, json!([{ "name": "app", "resources": { "limits": { "cpu": "1" } } }]))]
)]
#[case::pod_level_request(
    &[
        (1, CONTAINERS, json!([{ "name": "app" }])),
        (1, "/spec/template/spec/resources", json!({ "requests": { "cpu": "1" } })),
    ]
)]
#[case::replicas_of_a_stored_object(
    &[(1, "/spec/replicas", json!(3)), (1, "/metadata/uid", json!("1234"))]
)]
#[case::init_container(&[(1, INIT_CONTAINERS, json!([{ "name": "init" }]))])]
#[case::average_value_needs_no_request(
    &[
        (1, CONTAINERS, json!([{ "name": "app" }])),
        (0, TARGET, json!({ "type": "AverageValue", "averageValue": "1" })),
    ]
)]
#[case::one_can_scale_by_percent(&[(0, "/spec/minReplicas", json!(1))])]
#[case::zero_with_a_policy_of_pods(
    &[
        (0, "/spec/minReplicas", json!(0)),
        (0, "/spec/metrics", json!([{ "type": "External", "external": {
            "metric": { "name": "q" }, "target": { "type": "AverageValue", "averageValue": "1" },
        } }])),
        (0, UP, json!({ "policies": [{ "type": "Pods", "value": 4, "periodSeconds": 15 }] })),
    ]
)]
#[case::null_is_absent(
    &[(0, "/spec/metrics/0/resource/target/averageValue", Value::Null), (0, DOWN, Value::Null)]
)]
#[case::no_window(&[(0, "/spec/behavior/scaleUp/stabilizationWindowSeconds", json!(0))])]
#[case::exactly_the_request(
    &[(0, "/spec/metrics/0/resource/target/averageUtilization", json!(100))]
)]
#[case::one_direction_disabled(&[(0, DOWN, json!({ "selectPolicy": "Disabled" }))])]
#[case::narrow_tolerance(&[(0, "/spec/behavior/scaleUp/tolerance", json!("3"))])]
fn advice_is_not_given(#[case] changes: &[(usize, &str, Value)]) {
    let findings = lint(set(changes));
    assert!(findings.is_empty(), "{findings:?}");
}

fn with(object: Value) -> Vec<Value> {
    let mut objects = manifests();
    objects.push(object);
    objects
}

#[rstest]
#[case::of_containers("Container", "cpu", "shop", false)]
#[case::of_pods("Pod", "cpu", "shop", true)]
#[case::of_another_resource("Container", "memory", "shop", true)]
#[case::of_another_namespace("Container", "cpu", "bank", true)]
fn request_by_a_limit_range_is_not_missing(
    #[case] kind: &str,
    #[case] resource: &str,
    #[case] namespace: &str,
    #[case] reported: bool,
) {
    let mut objects = set(&[(1, CONTAINERS, json!([{ "name": "app" }]))]);
    objects.push(json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": { "name": "defaults", "namespace": namespace },
        "spec": { "limits": [{ "type": kind, "defaultRequest": { resource: "100m" } }] },
    }));
    let findings = lint(objects);
    assert_eq!(ids(&findings) == ["missing-request"], reported, "{findings:?}");
}

fn other_autoscaler(target: &str) -> Value {
    let mut other = manifests().remove(0);
    other["metadata"]["name"] = json!("other");
    other["spec"]["scaleTargetRef"]["name"] = json!(target);
    other
}

#[test]
fn autoscalers_of_one_target_are_reported_both() {
    assert_eq!(ids(&lint(with(other_autoscaler("web")))), ["shared-target"; 2]);
    assert!(lint(with(other_autoscaler("api"))).is_empty());
    let mut elsewhere = other_autoscaler("web");
    elsewhere["metadata"]["namespace"] = json!("bank");
    assert!(lint(with(elsewhere)).is_empty());
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
#[case::limits_only(
    json!({ "resourcePolicy": { "containerPolicies": [
        { "containerName": "*", "mode": "Off" },
    ] } }),
    false
)]
fn vpa_of_the_same_resource_is_reported(#[case] spec: Value, #[case] reported: bool) {
    let mut spec = spec;
    spec["targetRef"] = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let vpa = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": { "name": "vpa", "namespace": "shop" }, "spec": spec,
    });
    assert_eq!(!lint(with(vpa)).is_empty(), reported);
}

#[rstest]
#[case::without(json!({ "specReplicasPath": ".spec.replicas" }), true)]
#[case::with(json!({ "labelSelectorPath": ".status.selector" }), false)]
fn custom_resource_without_selector_is_reported(#[case] scale: Value, #[case] reported: bool) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "rollouts.example.com" },
        "spec": {
            "group": "example.com", "names": { "kind": "Rollout" },
            "versions": [{ "name": "v1", "subresources": { "scale": scale } }],
        },
    });
    let mut objects = with(definition);
    objects[0]["spec"]["scaleTargetRef"] =
        json!({ "apiVersion": "example.com/v1", "kind": "Rollout", "name": "web" });
    let findings = lint(objects);
    assert_eq!(ids(&findings) == ["missing-selector"], reported, "{findings:?}");
}

fn names(names: &[&str]) -> std::collections::BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const CUSTOM: &[&str] = &["custom.metrics.k8s.io"];
const EXTERNAL: &[&str] = &["external.metrics.k8s.io"];

#[rstest]
#[case::no_api("Pods", &[], None, true)]
#[case::no_metric("Pods", CUSTOM, Some(names(&["services/requests"])), true)]
#[case::of_pods("Pods", CUSTOM, Some(names(&["pods/requests"])), false)]
#[case::no_list("Pods", CUSTOM, None, false)]
#[case::no_metric_of_objects("Object", CUSTOM, Some(names(&["services/other"])), true)]
#[case::of_an_object("Object", CUSTOM, Some(names(&["services/requests"])), false)]
#[case::no_external_api("External", CUSTOM, None, true)]
#[case::no_external_metric("External", EXTERNAL, Some(names(&["other"])), true)]
#[case::external("External", EXTERNAL, Some(names(&["requests"])), false)]
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
    let objects = set(&[(0, "/spec/metrics", json!([metric]))]);
    let is_external = kind == "External";
    let served = ServedMetrics {
        by: "the cluster",
        groups: names(groups),
        custom: listed.clone().filter(|_| !is_external),
        external: listed.filter(|_| is_external),
    };
    let findings = check(&Workspace::from_cluster(numbered(objects), served));
    assert_eq!(ids(&findings) == ["unserved-metric"], reported, "{findings:?}");
}

#[test]
fn rules_serve_metrics_beside_the_apis() {
    let rules = || ServedMetrics {
        by: "the rules file",
        groups: names(CUSTOM),
        custom: Some(names(&["pods/own"])),
        external: None,
    };
    let added = |groups, custom| {
        let mut served = ServedMetrics { groups: names(groups), custom, ..<_>::default() };
        served.add(rules());
        assert_eq!(served.groups, names(CUSTOM));
        served.custom
    };
    let both = Some(names(&["pods/own", "pods/other"]));
    assert_eq!(added(CUSTOM, Some(names(&["pods/other"]))), both);
    assert_eq!(added(&[], None), Some(names(&["pods/own"])));
    // The API may serve metrics that it doesn't list.
    assert_eq!(added(CUSTOM, None), None);
    let alone = rules().beside_any_cluster();
    assert_eq!(alone.groups.len(), 3);
}

#[test]
fn replicas_of_a_stored_object_are_not_advised_against() {
    let objects = set(&[(1, "/spec/replicas", json!(3))]);
    let served = ServedMetrics { groups: ["metrics.k8s.io".to_owned()].into(), ..<_>::default() };
    assert!(check(&Workspace::from_cluster(numbered(objects), served)).is_empty());
}

#[rstest]
#[case::refused(&[(0, "/spec/maxReplicas", json!(1))], "spec.maxReplicas")]
#[case::of_another_type(&[(0, "/spec/maxReplicas", json!("many"))], "spec.maxReplicas")]
#[case::removed_version(&[(0, "/apiVersion", json!("autoscaling/v2beta1"))], "apiVersion")]
fn invalid_autoscaler_has_errors_and_no_advice(
    #[case] changes: &[(usize, &str, Value)],
    #[case] field: &str,
) {
    let findings = lint(set(changes));
    assert_eq!(ids(&findings), ["invalid"]);
    assert_eq!((findings[0].severity(), &*findings[0].field), (Severity::Error, field));
}

#[test]
fn required_field_that_is_null_is_an_error_of_that_field() {
    let findings = lint(set(&[(0, "/spec/maxReplicas", Value::Null)]));
    let errors: Vec<_> =
        findings.iter().map(|one| (one.field.as_str(), one.message.as_str())).collect();
    let required = ("spec.maxReplicas", "Required value: must be set and greater than 0");
    assert!(errors.contains(&required), "{errors:?}");
    assert!(errors.iter().all(|(field, _)| *field == required.0), "{errors:?}");
}

/// The words of a message. The API server lists the values of an enumeration in any order.
fn sorted_words(message: &str) -> String {
    let mut words: Vec<&str> = message.split([' ', ',']).collect();
    words.sort_unstable();
    words.join(" ")
}

/// The errors are those of the API server on every recorded admission.
#[test]
fn errors_are_those_of_the_api_server() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/hpa_admission.jsonl.gz");
    let file = std::fs::File::open(path).expect("the recorded admissions");
    let lines = std::io::read_to_string(flate2::read::GzDecoder::new(file)).expect("text");
    let mut checked = 0;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let object = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "web" }, "spec": line["input"],
        });
        let mut found: Vec<_> = lint(vec![object])
            .into_iter()
            .filter(|finding| finding.severity() == Severity::Error)
            .map(|finding| (finding.field, sorted_words(&finding.message)))
            .collect();
        let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
        let words = |cause: &Value, name: &str| sorted_words(&text(cause, name));
        let causes = line["causes"].as_array().into_iter().flatten();
        let mut expected: Vec<_> =
            causes.map(|cause| (text(cause, "field"), words(cause, "message"))).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{line}");
        checked += 1;
    }
    assert_eq!(checked, 400);
}

#[test]
fn every_rule_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lint.md");
    let document = std::fs::read_to_string(path).expect("docs/lint.md");
    for rule in RULES {
        let heading = format!("\n## {}\n", rule.id);
        assert!(document.contains(&heading), "{}", rule.id);
        let severity = format!("{heading}\n{}: ", capitalized(rule.severity.as_str()));
        assert!(document.contains(&severity), "the severity of {}", rule.id);
    }
    let headings = document.lines().filter(|line| line.starts_with("## ")).count();
    assert_eq!(headings, RULES.len() + 2, "a section for each rule, usage and charts");
}

fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

#[test]
fn formats_name_rule_place_and_field() {
    let findings = lint(set(&[(1, "/spec/replicas", json!(3))]));
    let text = output::text(&findings, 1);
    assert!(text.starts_with("f.yaml:1: warning: shop/web: spec.scaleTargetRef: Deployment web"));
    assert!(text.contains(
        "(docs/lint.md#replicas-in-manifest)\n1 autoscaler, 0 errors, 1 warning, 0 notes"
    ));
    let json: Value = serde_json::from_str(&output::json(&findings).unwrap()).unwrap();
    assert_eq!((&json[0]["severity"], &json[0]["line"]), (&json!("warning"), &json!(1)));
    let sarif: Value = serde_json::from_str(&output::sarif(&findings).unwrap()).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!(run["results"][0]["ruleId"], "replicas-in-manifest");
    assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), RULES.len());
    let place = &run["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 1);
}
