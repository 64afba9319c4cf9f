use rstest::rstest;
use serde_json::{Value, json};

mod advice;
mod bounds;

use super::*;
use crate::lint::{rules::RULES, workspace::ServedMetrics};

/// A Deployment and its autoscaler, about which lint reports nothing.
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
    let manifest = |(index, object)| Manifest::new("f.yaml", index + 1, object);
    objects.into_iter().enumerate().map(manifest).collect()
}

/// Objects of a cluster in which Deployments can be listed.
fn in_cluster(objects: Vec<Value>, served: ServedMetrics) -> Workspace {
    let listed = ("apps".to_owned(), "Deployment".to_owned());
    Workspace::from_cluster(numbered(objects), [listed].into(), served)
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

const KIND: &str = "/spec/scaleTargetRef/kind";

/// An annotation of this project.
fn own(name: &str, value: &str) -> Value {
    json!({ format!("autoscaling.hpa-rs.dev/{name}"): value })
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
        (0, "/apiVersion", json!(hpa_crd::API_VERSION)),
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
#[case::in_metadata(&[(0, "/metadata/clusterName", json!("c"))], "unknown-field")]
#[case::at_the_top(&[(0, "/behaviour", json!({}))], "unknown-field")]
#[case::misplaced(&[(0, "/spec/behavior/stabilizationWindowSeconds", json!(60))], "unknown-field")]
#[case::wide_tolerance(&[(0, "/spec/behavior/scaleUp/tolerance", json!("4"))], "wide-tolerance")]
#[case::default_tolerance(
    &[(0, "/spec/minReplicas", json!(10)), (0, "/spec/maxReplicas", json!(11))],
    "wide-tolerance"
)]
#[case::pause_of_yaml(&[(0, "/metadata/annotations", own("pause", "yes"))], "invalid-annotation")]
#[case::dry_run(&[(0, "/metadata/annotations", own("dry-run", "on"))], "invalid-annotation")]
#[case::annotation(&[(0, "/metadata/annotations", own("paused", "true"))], "invalid-annotation")]
#[case::value(&[(0, "/metadata/annotations", own("sync-period", "1s"))], "invalid-annotation")]
#[case::of_the_built_in_controller(
    &[
        (0, "/metadata/annotations", own("sync-period", "30s")),
        (0, "/metadata/managedFields", json!([
            { "manager": "kube-controller-manager", "subresource": "status" },
        ])),
    ],
    "invalid-annotation"
)]
#[case::metric(
    &[(0, "/metadata/annotations", own("fallback", r#"{"queue": {"replicas": 1}}"#))],
    "invalid-annotation"
)]
#[case::field_of_the_custom_api(&[(0, "/spec/syncPeriodSeconds", json!(30))], "unknown-field")]
#[case::field_value(
    &[
        (0, "/apiVersion", json!(hpa_crd::API_VERSION)),
        (0, "/spec/syncPeriodSeconds", json!(1)),
    ],
    "invalid"
)]
#[case::name(&[(1, "/metadata/name", json!("web-app"))], "missing-target")]
#[case::other_namespace(&[(1, "/metadata/namespace", json!("bank"))], "missing-target")]
#[case::no_namespace(&[(1, "/metadata/namespace", Value::Null)], "missing-target")]
#[case::other_kind(&[(1, "/kind", json!("StatefulSet"))], "missing-target")]
#[case::daemon_set(&[(0, KIND, json!("DaemonSet")), (1, "/kind", json!("DaemonSet"))], "unscalable-target")]
#[case::lower_case(&[(0, KIND, json!("deployment"))], "unscalable-target")]
#[case::old_group(
    &[(0, "/spec/scaleTargetRef/apiVersion", json!("extensions/v1beta1"))],
    "unscalable-target"
)]
#[case::container(
    &[(0, "/spec/metrics", json!([{ "type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "web",
        "target": { "type": "Utilization", "averageUtilization": 70 },
    } }]))],
    "missing-container"
)]
#[case::bytes_in_thousandths(
    &[(0, "/spec/metrics/0/resource", json!({
        "name": "memory", "target": { "type": "AverageValue", "averageValue": "400m" },
    }))],
    "implausible-quantity"
)]
#[case::thousandths_as_cores(
    &[(0, TARGET, json!({ "type": "AverageValue", "averageValue": "500" }))],
    "implausible-quantity"
)]
#[case::same_metric_twice(
    &[(0, "/spec/metrics/1", json!({ "type": "Resource", "resource": {
        "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 },
    } }))],
    "duplicate-metric"
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
        (0, "/apiVersion", json!(hpa_crd::API_VERSION)),
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
#[case::valid_annotations(&[(0, "/metadata/annotations", own("pause", "down"))])]
#[case::foreign_annotation(&[(0, "/metadata/annotations", json!({ "example.com/pause": "yes" }))])]
#[case::target_elsewhere(&[(1, "/metadata/name", json!("api"))])]
#[case::custom_resource(
    &[(0, "/spec/scaleTargetRef/apiVersion", json!("example.com/v1")), (0, KIND, json!("rollout"))]
)]
#[case::sidecar_container(
    &[
        (0, "/spec/metrics", json!([{ "type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "s",
            "target": { "type": "AverageValue", "averageValue": "1" },
        } }])),
        (1, INIT_CONTAINERS, json!([{ "name": "s", "restartPolicy": "Always" }])),
    ]
)]
#[case::memory_in_bytes(
    &[(0, "/spec/metrics/0/resource", json!({
        "name": "memory", "target": { "type": "AverageValue", "averageValue": "400Mi" },
    }))]
)]
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
fn both_autoscalers_of_a_target_are_reported() {
    assert_eq!(ids(&lint(with(other_autoscaler("web")))), ["shared-target"; 2]);
    assert!(lint(with(other_autoscaler("api"))).is_empty());
    let mut elsewhere = other_autoscaler("web");
    elsewhere["metadata"]["namespace"] = json!("bank");
    assert!(lint(with(elsewhere)).is_empty());
}

#[test]
fn autoscaler_without_a_namespace_can_share_the_target_of_another_one() {
    let mut anywhere = other_autoscaler("web");
    anywhere["metadata"].as_object_mut().unwrap().remove("namespace");
    let findings = lint(with(anywhere.clone()));
    assert_eq!(ids(&findings), ["shared-target"; 2]);
    for finding in findings {
        assert!(finding.message.contains("if it is for another one, add it"), "{finding:?}");
    }
    // Without the target, nothing says that both are in one namespace.
    let mut objects = with(anywhere);
    objects.retain(|object| object["kind"] == "HorizontalPodAutoscaler");
    assert!(!ids(&lint(objects)).contains(&"shared-target"));
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
        ..ServedMetrics::default()
    };
    let findings = check(&in_cluster(objects, served));
    assert_eq!(ids(&findings) == ["unserved-metric"], reported, "{findings:?}");
}

#[test]
fn metrics_of_rules_are_added_to_those_of_the_apis() {
    let rules = || ServedMetrics {
        by: "the rules file",
        groups: names(CUSTOM),
        custom: Some(names(&["pods/own"])),
        ..ServedMetrics::default()
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
fn metric_is_not_unserved_while_the_series_of_rules_are_unknown() {
    let metric = json!([{ "type": "External", "external": {
        "metric": { "name": "lag" }, "target": { "type": "AverageValue", "averageValue": "1" },
    } }]);
    let unserved = |undiscovered| {
        let mut served = ServedMetrics { by: "the cluster", ..ServedMetrics::default() };
        served.add(ServedMetrics { undiscovered, ..ServedMetrics::default() });
        let objects = set(&[(0, "/spec/metrics", metric.clone())]);
        ids(&check(&in_cluster(objects, served))).contains(&"unserved-metric")
    };
    assert!(unserved(None));
    assert!(!unserved(Some("no response".to_owned())));
}

#[test]
fn replicas_of_a_stored_object_are_not_advised_against() {
    let objects = set(&[(1, "/spec/replicas", json!(3))]);
    let served = ServedMetrics { groups: ["metrics.k8s.io".to_owned()].into(), ..<_>::default() };
    assert!(check(&in_cluster(objects, served)).is_empty());
}

#[rstest]
#[case::letter("paused", "Did you mean autoscaling.hpa-rs.dev/pause?")]
#[case::field("maxSampleAge", "Did you mean autoscaling.hpa-rs.dev/max-sample-age?")]
#[case::part("stabilization", "Did you mean autoscaling.hpa-rs.dev/downscale-stabilization?")]
#[case::nearest("forecasts", "Did you mean autoscaling.hpa-rs.dev/forecast?")]
#[case::unknown("owner", "Those of autoscaling.hpa-rs.dev are pause, dry-run, ")]
fn unknown_annotation_names_the_similar_one_or_all(#[case] name: &str, #[case] hint: &str) {
    let findings = lint(set(&[(0, "/metadata/annotations", own(name, "true"))]));
    let expected = format!("there is no such annotation; ignored, is \"true\". {hint}");
    assert!(findings[0].message.starts_with(&expected), "{}", findings[0].message);
}

#[rstest]
#[case::refused(&[(0, "/spec/maxReplicas", json!(1))], "spec.maxReplicas")]
#[case::of_another_type(&[(0, "/spec/maxReplicas", json!("many"))], "spec.maxReplicas")]
#[case::bad_quantity(
    &[(0, TARGET, json!({ "type": "AverageValue", "averageValue": "5 00" }))],
    "spec.metrics[0].resource.target.averageValue"
)]
#[case::annotation_without_quotes(
    &[(0, "/metadata/annotations", json!({ "autoscaling.hpa-rs.dev/pause": true }))],
    "metadata.annotations[autoscaling.hpa-rs.dev/pause]"
)]
fn invalid_autoscaler_has_errors_and_no_advice(
    #[case] changes: &[(usize, &str, Value)],
    #[case] field: &str,
) {
    let findings = lint(set(changes));
    assert_eq!(ids(&findings), ["invalid"]);
    assert_eq!((findings[0].severity(), &*findings[0].field), (Severity::Error, field));
}

#[test]
fn null_in_a_required_field_is_an_error() {
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

/// Compares the errors of all recorded admissions.
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
        // Lint reports each mistake once.
        expected.dedup();
        assert_eq!(found, expected, "{line}");
        checked += 1;
    }
    assert_eq!(checked, 400);
}

/// Findings of a manifest in YAML, as `line rule field`.
fn found(text: &str) -> Vec<String> {
    let workspace = Workspace::from_manifests(manifests::parse("f.yaml", text).expect("YAML"));
    let findings = check(&workspace);
    let line = |one: &Finding| format!("{} {} {}", one.position.line, one.rule.id, one.field);
    findings.iter().map(line).collect()
}

const YAML: &str = "\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: web
  minReplicas: 2
  maxReplicas: 5
";

#[test]
fn findings_have_the_line_of_the_field() {
    assert!(found(YAML).is_empty(), "{:?}", found(YAML));
    let text = YAML.replace("name: web\n  min", "name: web\n    nam: x\n  min");
    assert_eq!(found(&text), ["10 unknown-field spec.scaleTargetRef.nam"]);
    assert_eq!(found(&YAML.replace("s: 5", "s: 2")), ["10 fixed-size spec.minReplicas"]);
    let list =
        format!("kind: List\nitems:\n- {}", YAML.replace('\n', "\n  ")).replace("s: 5", "s: 2");
    assert_eq!(found(&list), ["12 fixed-size spec.minReplicas"]);
    let target =
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 3\n";
    let both = found(&format!("{YAML}{target}"));
    assert_eq!(both, ["17 replicas-in-manifest spec.replicas"]);
}

#[rstest]
#[case::setting("json-path/intervall: 30s", "json-path/intervall")]
#[case::interval("json-path/interval: soon", "json-path/interval")]
#[case::two("json-path/json-eval: ceil($.x)", "json-path/json-eval")]
fn mistake_in_an_annotation_of_a_collector_has_its_line(#[case] line: &str, #[case] name: &str) {
    let start = "metric-config.pods.rps.";
    let annotations = format!(
        "  annotations:\n    {start}{line}\n    {start}json-path/json-key: $.x\n    {start}\
         json-path/port: \"9090\"\n"
    );
    let metric = "  metrics:\n  - type: Pods\n    pods:\n      metric: {name: rps}\n      \
                  target: {type: AverageValue, averageValue: 5}\n";
    let text = YAML.replace("spec:\n", &format!("{annotations}spec:\n")) + metric;
    let sound = text.replace(&format!("    {start}{line}\n"), "");
    assert!(found(&sound).is_empty(), "{:?}", found(&sound));
    let [finding] = found(&text).try_into().unwrap_or_else(|all| panic!("{all:?}"));
    let field = format!("metric-config metadata.annotations[{start}{name}]");
    assert!(finding.ends_with(&field), "{finding}");
    let at = finding.split(' ').next().unwrap().parse::<usize>().unwrap();
    assert!(text.lines().nth(at - 1).unwrap().contains(name), "{finding}");
}

#[test]
fn mistake_in_the_query_of_a_collector_has_the_line_of_the_query() {
    let start = "metric-config.external.rps.prometheus";
    let annotations = format!(
        "  annotations:\n    {start}/interval: 30s\n    {start}/query: rate(web-requests[1m])\n"
    );
    let metric = "  metrics:\n  - type: External\n    external:\n      metric: {name: rps, \
                  selector: {matchLabels: {type: prometheus}}}\n      target: {type: \
                  AverageValue, averageValue: 5}\n";
    let text = YAML.replace("spec:\n", &format!("{annotations}spec:\n")) + metric;
    assert_eq!(found(&text), [format!("7 metric-config metadata.annotations[{start}/query]")]);
}

#[test]
fn kustomization_needs_no_kind_to_be_recognized() {
    let manifests = manifests::parse("app/kustomization.yaml", "resources: [hpa.yaml]\n").unwrap();
    let input = Input { manifests, problems: Vec::new() };
    let problem = lacks_autoscalers(&["app/kustomization.yaml".into()], &input).expect("a problem");
    let expected = "found 1 object without a kind. Check the result: kustomize build DIRECTORY";
    assert!(problem.message.contains(expected), "{problem}");
}

#[test]
fn lost_value_of_a_duplicate_key_is_named() {
    let text = format!("{YAML}  minReplicas: 3\n");
    assert_eq!(found(&text), ["10 duplicate-key spec.minReplicas"]);
    let workspace = Workspace::from_manifests(manifests::parse("f.yaml", &text).unwrap());
    let message = &check(&workspace)[0].message;
    let expected = "occurs twice: kubectl takes the value in line 12 and drops this one: 2";
    assert_eq!(message, expected);
}

#[test]
fn older_versions_are_checked_as_v2_and_reported_if_they_are_removed() {
    let metrics = "  metrics:\n  - type: Resource\n    resource:\n      name: cpu\n";
    let old = format!("{YAML}{metrics}      targetAverageUtilization: 150\n");
    let old = old.replace("autoscaling/v2", "autoscaling/v2beta1");
    let above = "spec.metrics[0].resource.target.averageUtilization";
    assert_eq!(
        found(&old),
        ["1 removed-version apiVersion".to_owned(), format!("14 target-above-request {above}")]
    );
    let new =
        format!("{YAML}{metrics}      target: {{type: Utilization, averageUtilization: 150}}\n");
    let new = new.replace("autoscaling/v2", "autoscaling/v2beta2");
    assert_eq!(
        found(&new),
        ["1 removed-version apiVersion".to_owned(), format!("16 target-above-request {above}")]
    );
    let v1 = new.replace("v2beta2", "v1");
    assert_eq!(found(&v1), ["12 unknown-field spec.metrics"]);
    let v1 =
        YAML.replace("autoscaling/v2", "autoscaling/v1") + "  targetCPUUtilizationPercentage: 70\n";
    assert!(found(&v1).is_empty(), "{:?}", found(&v1));
}

#[rstest]
#[case::removed_version(
    &[(0, "/apiVersion", json!("autoscaling/v2beta2"))],
    "autoscaling/v2beta2 was removed in Kubernetes 1.26: run hpa convert --to core "
)]
#[case::other_namespace(
    &[(1, "/metadata/namespace", json!("bank"))],
    ") is in namespace bank, and the autoscaler is in namespace shop"
)]
#[case::old_group(
    &[(0, "/spec/scaleTargetRef/apiVersion", json!("extensions/v1beta1"))],
    "the group extensions has no Deployment that can be scaled: use apps/v1"
)]
#[case::lower_case(
    &[(0, KIND, json!("deployment"))],
    "there is no kind deployment: use Deployment"
)]
fn finding_says_what_to_write_instead(
    #[case] changes: &[(usize, &str, Value)],
    #[case] text: &str,
) {
    let findings = lint(set(changes));
    assert!(findings.iter().any(|one| one.message.contains(text)), "{findings:#?}");
}

#[rstest]
#[case("kind: HorizontalPodAutoscalar", "2 unknown-kind kind")]
#[case("kind: horizontalpodautoscaler", "2 unknown-kind kind")]
#[case("kind: HPA", "2 unknown-kind kind")]
fn misspelled_kind_is_reported(#[case] kind: &str, #[case] expected: &str) {
    assert_eq!(found(&YAML.replace("kind: HorizontalPodAutoscaler", kind)), [expected]);
}

#[rstest]
#[case("apps/v1", true)]
#[case("autoscaling/v3", true)]
#[case("v2", true)]
#[case("autoscaling.karmada.io/v1", false)]
fn unknown_version_is_reported(#[case] version: &str, #[case] is_reported: bool) {
    let findings = found(&YAML.replace("autoscaling/v2", version));
    assert_eq!(findings == ["1 unknown-kind apiVersion"], is_reported, "{findings:?}");
}

#[test]
fn patch_has_a_single_finding() {
    let patch = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  \
                 name: web\nspec:\n  maxReplicas: 9\n";
    assert_eq!(found(patch), ["5 invalid spec.scaleTargetRef"]);
    let directive = YAML.replace("spec:\n", "spec:\n  $patch: replace\n");
    assert_eq!(found(&directive), ["6 invalid spec.$patch"]);
    assert_eq!(kustomize_command("hpa.yaml"), "kustomize build DIRECTORY | hpa lint -");
}

#[rstest]
#[case("kind: Service\n---\nkind: Service\n---\nkind: Foo\n", "found 1 Foo, 2 Service")]
#[case("a: 1\n", "found 1 object without a kind")]
#[case("# nothing\n", "found no object")]
#[case("kind: Kustomization\n", "found 1 Kustomization. Check the result: kustomize build")]
fn files_without_an_autoscaler_are_a_problem(#[case] text: &str, #[case] expected: &str) {
    let manifests = manifests::parse("f.yaml", text).unwrap();
    let input = Input { manifests, problems: Vec::new() };
    let problem = lacks_autoscalers(&["f.yaml".into()], &input).expect("a problem").to_string();
    let start = format!("f.yaml: no HorizontalPodAutoscaler to check, {expected}");
    assert!(problem.starts_with(&start), "{problem}");
    assert_eq!(
        exit_code(&[], &[Problem { place: problem, message: String::new() }], false),
        ExitCode::from(2)
    );
}

#[test]
fn namespace_flag_applies_to_objects_without_a_namespace() {
    let mut workspace = Workspace::from_manifests(numbered(set(&[
        (0, "/metadata/namespace", Value::Null),
        (1, "/metadata/name", json!("web")),
    ])));
    assert_eq!(ids(&check(&workspace)), ["missing-target"]);
    workspace.set_namespace(Some("shop"));
    assert!(check(&workspace).is_empty());
}

fn workload(kind: &str, name: &str, labels: Value) -> Value {
    let api = if kind == "CronJob" { "batch/v1" } else { "apps/v1" };
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [] } });
    let spec = match kind {
        "CronJob" => json!({ "jobTemplate": { "spec": { "template": template } } }),
        _ => json!({ "selector": { "matchLabels": labels }, "template": template }),
    };
    let metadata = json!({ "name": name, "namespace": "shop" });
    json!({ "apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec })
}

#[rstest]
#[case::cron_job("CronJob", json!({ "app": "web" }), true)]
#[case::canary("Deployment", json!({ "app": "web", "track": "canary" }), true)]
#[case::other_labels("Deployment", json!({ "app": "api" }), false)]
fn pods_of_another_workload_are_reported(
    #[case] kind: &str,
    #[case] labels: Value,
    #[case] reported: bool,
) {
    let findings = lint(with(workload(kind, "other", labels)));
    assert_eq!(ids(&findings) == ["overlapping-selectors"], reported, "{findings:?}");
}

#[test]
fn autoscaler_of_the_other_workload_is_named() {
    let mut objects = with(workload("Deployment", "canary", json!({ "app": "web", "t": "c" })));
    objects.push(other_autoscaler("canary"));
    objects[3]["spec"]["metrics"] = Value::Null;
    let findings = lint(objects);
    assert_eq!(ids(&findings), ["overlapping-selectors"]);
    assert!(findings[0].message.contains("the autoscaler shop/other scales it, so neither acts"));
}

#[rstest]
#[case::same_target(json!({ "name": "web" }), true)]
#[case::other_target(json!({ "name": "api" }), false)]
fn scaled_object_of_the_target_is_reported(#[case] target: Value, #[case] reported: bool) {
    let scaled = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": { "name": "web", "namespace": "shop" }, "spec": { "scaleTargetRef": target },
    });
    let mut objects = with(scaled);
    assert_eq!(ids(&lint(objects.clone())) == ["shared-target"], reported);
    // The autoscaler that KEDA creates.
    let owner = json!({ "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web", "uid": "u" });
    objects[0]["metadata"]["ownerReferences"] = json!([owner]);
    assert!(lint(objects).is_empty());
}

#[test]
fn target_that_a_cluster_lacks_is_reported() {
    let served = ServedMetrics { groups: names(&["metrics.k8s.io"]), ..ServedMetrics::default() };
    let objects = |kind: &str| vec![set(&[(0, KIND, json!(kind))]).remove(0)];
    let findings = check(&in_cluster(objects("Deployment"), served.clone()));
    assert_eq!(ids(&findings), ["missing-target"]);
    // StatefulSets could not be listed.
    assert!(check(&in_cluster(objects("StatefulSet"), served)).is_empty());
}

#[rstest]
#[case::average(json!({ "averageValue": "5" }), true)]
#[case::value(json!({ "value": "5" }), false)]
fn average_of_an_average_is_reported(#[case] target: Value, #[case] reported: bool) {
    let mut target = target;
    target["type"] = json!("Value");
    let external = json!({ "metric": { "name": "lag" }, "target": target });
    let metrics = json!([{ "type": "External", "external": external }]);
    let mut workspace = Workspace::from_manifests(numbered(set(&[(0, "/spec/metrics", metrics)])));
    let averages = names(&["lag"]);
    workspace.served =
        Some(ServedMetrics { averages, ..ServedMetrics::default() }.beside_any_cluster());
    assert_eq!(ids(&check(&workspace)) == ["averaged-twice"], reported);
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lint.md");

#[test]
fn document_has_the_table_and_a_section_of_each_rule() {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/lint.md");
    let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| [")).collect();
    let row = |rule: &rules::Rule| {
        let (id, severity) = (rule.id, rule.severity.as_str());
        format!("| [{id}](#{id}) | {severity} | {} |", rule.summary)
    };
    let expected: Vec<String> = RULES.iter().map(row).collect();
    assert_eq!(rows, expected, "the table must be:\n{}", expected.join("\n"));
    for rule in RULES {
        assert!(document.contains(&format!("\n### {}\n", rule.id)), "no section {}", rule.id);
    }
    let sections = document.lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(sections, RULES.len(), "a section is of no rule");
}

/// Each block of code after a line that names a file is in that file.
#[test]
fn guide_shows_code_that_exists() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let guide = root.join("docs/contributing/add-a-lint-rule.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let mut lines = guide.lines();
    let mut checked = 0;
    while let Some(line) = lines.next() {
        let file = line.strip_prefix('`').and_then(|line| line.strip_suffix("`:"));
        let Some(file) = file else { continue };
        let content = std::fs::read_to_string(root.join(file)).expect(file);
        let block: Vec<&str> =
            lines.by_ref().skip(2).take_while(|line| !line.starts_with("```")).collect();
        for part in block.join("\n").split("\n...\n") {
            assert!(content.contains(part), "{file} lacks\n{part}");
            checked += 1;
        }
    }
    assert!(checked >= 4, "only {checked} blocks");
}

#[test]
fn formats_name_rule_place_and_field() {
    let findings = lint(set(&[(0, "/spec/maxReplicas", json!(2))]));
    let text = output::text(&findings, 1, 0);
    assert!(
        text.starts_with("f.yaml:1: warning: shop/web: spec.minReplicas: minReplicas and"),
        "{text}"
    );
    let end = "(docs/lint.md#fixed-size)\n1 autoscaler, 0 errors, 1 warning, 0 notes\n";
    assert!(text.ends_with(end), "{text}");
    let json: Value = serde_json::from_str(&output::json(&findings).unwrap()).unwrap();
    assert_eq!((&json[0]["severity"], &json[0]["line"]), (&json!("warning"), &json!(1)));
    let problem = Problem { place: "g.yaml:3".to_owned(), message: "not YAML".to_owned() };
    let mut findings = findings;
    findings[0].file = "./my charts/100%#1.yaml".to_owned();
    let sarif: Value =
        serde_json::from_str(&output::sarif(&findings, &[problem]).unwrap()).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!(run["results"][0]["ruleId"], "fixed-size");
    assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), RULES.len());
    let place = &run["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "./my%20charts/100%25%231.yaml");
    assert_eq!(place["region"], json!({ "startLine": 1, "startColumn": 1 }));
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let text = &invocation["toolExecutionNotifications"][0]["message"]["text"];
    assert_eq!(text, "g.yaml:3: not YAML");
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
        let objects = set(&[(0, "/spec/metrics", json!([metric])), (0, "/status", status)]);
        let served = ServedMetrics { by: "the cluster", ..ServedMetrics::default() };
        let findings = check(&Workspace::from_cluster(numbered(objects), <_>::default(), served));
        ids(&findings).contains(&"unserved-metric")
    };
    assert_eq!((lint("True"), lint("False")), (false, true));
}

#[test]
fn owner_without_uid_is_an_error() {
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": "n" });
    let mut complete = owner.clone();
    complete["uid"] = "u".into();
    let owners = json!([complete, owner]);
    let objects = set(&[(0, "/metadata/ownerReferences", owners)]);
    let findings = check(&Workspace::from_manifests(numbered(objects)));
    let errors = findings.iter().filter(|finding| finding.severity() == Severity::Error);
    let fields: Vec<_> = errors.map(|finding| finding.field.as_str()).collect();
    assert_eq!(fields, ["metadata.ownerReferences[1].uid"]);
}
