//! Tests of the rules. Most change a sound autoscaler and its target, and check what lint reports.

mod advice;
mod annotations;
mod bounds;
mod files;
mod formats;
mod metrics;
mod pods;
mod target;
mod validity;

use rstest::rstest;
use serde_json::{Value, json};

use super::{queries::QueryMistake, *};

/// An autoscaler (object 0) and its Deployment (object 1) without findings.
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
    find_violations(&Workspace::from_manifests(numbered(objects)))
}

fn numbered(objects: Vec<Value>) -> Vec<Manifest> {
    let manifest = |(index, object)| Manifest::new("f.yaml", index + 1, object);
    objects.into_iter().enumerate().map(manifest).collect()
}

/// Objects of a cluster in which lint could list only Deployments.
fn in_cluster(objects: Vec<Value>, served: ServedMetrics) -> Workspace {
    let listed = ("apps".to_owned(), "Deployment".to_owned());
    Workspace::from_cluster(numbered(objects), [listed].into(), served)
}

fn rule_ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.rule.id).collect()
}

#[test]
fn sound_autoscaler_has_no_finding() {
    assert!(lint(manifests()).is_empty(), "{:?}", lint(manifests()));
}

/// [`manifests`] with changes: the index of the object, the pointer of a member, and its value.
fn manifests_with(changes: &[(usize, &str, Value)]) -> Vec<Value> {
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
fn annotation(name: &str, value: &str) -> Value {
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
#[case::requests_of_zero(
    &[(1, CONTAINERS, json!([{ "name": "app", "resources": { "requests": { "cpu": 0 } } }]))],
    "missing-request"
)]
#[case::fixed_size(&[(0, "/spec/maxReplicas", json!(2)), (0, DOWN, json!({}))], "fixed-size")]
#[case::stuck_at_zero(
    &[
        (0, "/apiVersion", json!(hpa_calc::crd::API_VERSION)),
        (0, "/spec/minReplicas", json!(0)),
        (0, "/spec/metrics", external_metric(json!({ "name": "q" }))),
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
#[case::pause_of_yaml(
    &[(0, "/metadata/annotations", annotation("pause", "yes"))],
    "invalid-annotation"
)]
#[case::dry_run(&[(0, "/metadata/annotations", annotation("dry-run", "on"))], "invalid-annotation")]
#[case::unknown_annotation(
    &[(0, "/metadata/annotations", annotation("paused", "true"))],
    "invalid-annotation"
)]
#[case::annotation_value(
    &[(0, "/metadata/annotations", annotation("sync-period", "1s"))],
    "invalid-annotation"
)]
#[case::setting_that_the_reference_ignores(
    &[
        (0, "/metadata/annotations", annotation("sync-period", "30s")),
        (0, "/metadata/managedFields", json!([
            { "manager": "kube-controller-manager", "subresource": "status" },
        ])),
    ],
    "invalid-annotation"
)]
#[case::fallback_of_an_unused_metric(
    &[(0, "/metadata/annotations", annotation("fallback", r#"{"queue": {"replicas": 1}}"#))],
    "invalid-annotation"
)]
#[case::field_of_the_custom_api(&[(0, "/spec/syncPeriodSeconds", json!(30))], "unknown-field")]
#[case::field_value(
    &[
        (0, "/apiVersion", json!(hpa_calc::crd::API_VERSION)),
        (0, "/spec/syncPeriodSeconds", json!(1)),
    ],
    "invalid"
)]
#[case::target_name(&[(1, "/metadata/name", json!("web-app"))], "missing-target")]
#[case::other_namespace(&[(1, "/metadata/namespace", json!("bank"))], "missing-target")]
#[case::no_namespace(&[(1, "/metadata/namespace", Value::Null)], "missing-target")]
#[case::other_kind(&[(1, "/kind", json!("StatefulSet"))], "missing-target")]
#[case::daemon_set(
    &[(0, KIND, json!("DaemonSet")), (1, "/kind", json!("DaemonSet"))],
    "unscalable-target"
)]
#[case::lower_case(&[(0, KIND, json!("deployment"))], "unscalable-target")]
#[case::old_group(
    &[(0, "/spec/scaleTargetRef/apiVersion", json!("extensions/v1beta1"))],
    "unscalable-target"
)]
#[case::unknown_container(
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
fn mistake_has_findings_of_one_rule(#[case] changes: &[(usize, &str, Value)], #[case] id: &str) {
    let findings = lint(manifests_with(changes));
    assert!(
        !findings.is_empty() && rule_ids(&findings).iter().all(|found| *found == id),
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
        (0, "/apiVersion", json!(hpa_calc::crd::API_VERSION)),
        (0, "/spec/minReplicas", json!(0)),
        (0, "/spec/metrics", external_metric(json!({ "name": "q" }))),
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
#[case::disabled_with_the_default_policies(
    &[(0, DOWN, json!({
        "selectPolicy": "Disabled",
        "policies": [{ "type": "Percent", "value": 100, "periodSeconds": 15 }],
    }))]
)]
#[case::valid_annotations(&[(0, "/metadata/annotations", annotation("pause", "down"))])]
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
fn change_without_a_mistake_has_no_finding(#[case] changes: &[(usize, &str, Value)]) {
    let findings = lint(manifests_with(changes));
    assert!(findings.is_empty(), "{findings:?}");
}

/// The `metrics` of a spec with an External metric, whose target is an `averageValue`.
fn external_metric(metric: Value) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    json!([{ "type": "External", "external": { "metric": metric, "target": target } }])
}

/// [`manifests`] and another object.
fn manifests_and(object: Value) -> Vec<Value> {
    let mut objects = manifests();
    objects.push(object);
    objects
}

fn other_autoscaler(target: &str) -> Value {
    let mut other = manifests().remove(0);
    other["metadata"]["name"] = json!("other");
    other["spec"]["scaleTargetRef"]["name"] = json!(target);
    other
}

fn string_set(names: &[&str]) -> std::collections::BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The metrics of rules. The query of `lag` has a mistake.
fn served_with_mistake(mistake: QueryMistake) -> ServedMetrics {
    let query_mistakes = [(mistake, string_set(&["lag"]))].into();
    ServedMetrics { query_mistakes, ..ServedMetrics::default() }.with_unknown_cluster()
}

fn lint_file(file: &str, text: &str) -> Vec<Finding> {
    find_violations(&Workspace::from_manifests(manifests::parse(file, text).expect("YAML")))
}

/// Lints a YAML file. Returns each finding as `line rule field`.
fn lint_yaml(text: &str) -> Vec<String> {
    let line = |one: &Finding| format!("{} {} {}", one.position.line, one.rule.id, one.field);
    lint_file("f.yaml", text).iter().map(line).collect()
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
