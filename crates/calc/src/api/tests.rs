use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::quantity::MilliValue;

fn metric() -> Value {
    let selector = json!({
        "matchExpressions": [{ "key": "k", "operator": "Near", "new": 1 }],
        "matchLabels": { "a": "b" },
        "new": 1,
    });
    json!({ "name": "m", "selector": selector, "new": 1 })
}

fn object() -> Value {
    json!({ "kind": "K", "name": "n", "apiVersion": "v1", "new": 1 })
}

/// Metrics of every type. The source of each one has this member, `target` or `current`.
fn metrics(member: &str, value: &Value) -> Value {
    let (object, metric) = (object(), metric());
    json!([
        {
            "type": "Object",
            "object": { "describedObject": object, "metric": metric, member: value, "new": 1 },
            "new": 1,
        },
        { "type": "Pods", "pods": { "metric": metric, member: value, "new": 1 } },
        { "type": "Resource", "resource": { "name": "cpu", member: value, "new": 1 } },
        {
            "type": "ContainerResource",
            "containerResource": { "name": "cpu", "container": "c", member: value, "new": 1 },
        },
        { "type": "External", "external": { "metric": metric, member: value, "new": 1 } },
    ])
}

/// An autoscaler whose spec and status have an unknown field in every struct and an unknown value
/// in every enumeration.
fn newer_object() -> Value {
    let amounts = json!({ "value": "1", "averageValue": "2", "averageUtilization": 3, "new": 1 });
    let mut target = amounts.clone();
    target["type"] = "Newest".into();
    let mut targets = metrics("target", &target);
    let unknown = json!({ "type": "Newest", "newest": { "x": null } });
    targets.as_array_mut().unwrap().push(unknown);
    let mut current = metrics("current", &amounts);
    current.as_array_mut().unwrap().push(json!({ "type": "" }));
    let rules = json!({
        "stabilizationWindowSeconds": 1,
        "selectPolicy": "Newest",
        "policies": [{ "type": "Nodes", "value": 1, "periodSeconds": 2, "new": 1 }],
        "tolerance": "50m",
        "new": 1,
    });
    json!({
        "metadata": {
            "name": "n",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 2,
            "annotations": { "a": "b" },
            "labels": { "c": "d" },
        },
        "spec": {
            "scaleTargetRef": object(),
            "minReplicas": 1,
            "maxReplicas": 2,
            "metrics": targets,
            "behavior": { "scaleUp": rules, "scaleDown": rules, "new": 1 },
            "new": [1],
        },
        "status": {
            "observedGeneration": 1,
            "lastScaleTime": "2026-01-01T00:00:00Z",
            "currentReplicas": 1,
            "desiredReplicas": 2,
            "currentMetrics": current,
            "conditions": [{
                "type": "Newest",
                "status": "Maybe",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "Because",
                "message": "m",
                "observedGeneration": 1,
                "new": 1,
            }],
            "new": { "deep": [true, null] },
        },
    })
}

#[test]
fn unknown_fields_and_values_round_trip() {
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(newer_object()).unwrap();
    assert_eq!(serde_json::to_value(&hpa).unwrap(), newer_object());
    assert_eq!(hpa.spec.metrics[5].source_type, MetricSourceType::Other("Newest".into()));
}

#[test]
fn null_deserializes_as_absent() {
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": { "annotations": null, "labels": null },
        "spec": { "minReplicas": null, "metrics": null, "behavior": null },
        "status": null,
    }))
    .unwrap();
    assert_eq!(hpa, HorizontalPodAutoscaler::default());
    let status: HorizontalPodAutoscalerStatus = serde_json::from_value(
        json!({ "currentMetrics": null, "conditions": null, "lastScaleTime": null }),
    )
    .unwrap();
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({ "desiredReplicas": 0, "currentMetrics": [] })
    );
}

#[rstest]
#[case::whole("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")]
#[case::fraction_is_truncated("2026-01-01T00:00:00.999999999Z", "2026-01-01T00:00:00Z")]
fn times_serialize_in_whole_seconds(#[case] read: &str, #[case] written: &str) {
    let condition = json!({ "type": "AbleToScale", "status": "True", "lastTransitionTime": read });
    let status = json!({ "lastScaleTime": read, "conditions": [condition] });
    let status: HorizontalPodAutoscalerStatus = serde_json::from_value(status).unwrap();
    let value = serde_json::to_value(status).unwrap();
    assert_eq!(value["lastScaleTime"], written);
    assert_eq!(value["conditions"][0]["lastTransitionTime"], written);
}

#[rstest]
#[case::known("Percent", PolicyType::Percent)]
#[case::case_matters("percent", PolicyType::Other("percent".into()))]
#[case::empty("", PolicyType::default())]
fn open_enum_round_trips(#[case] text: &str, #[case] expected: PolicyType) {
    let read: PolicyType = serde_json::from_value(text.into()).unwrap();
    assert_eq!(read, expected);
    assert_eq!(serde_json::to_value(&read).unwrap(), text);
    assert_eq!(read.to_string(), text);
}

#[cfg(feature = "schema")]
#[test]
fn schema_has_the_fields_of_the_api() {
    let schema = serde_json::to_value(schemars::schema_for!(HorizontalPodAutoscaler)).unwrap();
    assert_eq!(schema["title"], "HorizontalPodAutoscaler");
    assert_eq!(schema["$defs"]["PolicySelect"]["enum"], json!(["Disabled", "Max", "Min"]));
    let spec = &schema["$defs"]["HorizontalPodAutoscalerSpec"]["properties"];
    for name in ["scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"] {
        assert!(spec.get(name).is_some(), "{name}");
    }
    assert!(spec.get("unknown").is_none());
}

#[rstest]
#[case::unset(json!({}), 1)]
#[case::zero(json!({ "minReplicas": 0 }), 0)]
fn effective_min_replicas_defaults_to_one(#[case] spec: Value, #[case] expected: i32) {
    let spec: HorizontalPodAutoscalerSpec = serde_json::from_value(spec).unwrap();
    assert_eq!(spec.effective_min_replicas(), expected);
}

fn pod(value: Value) -> Pod {
    serde_json::from_value(value).unwrap()
}

#[test]
fn empty_pod_deserializes() {
    let empty = pod(json!({}));
    assert!(!empty.terminating && empty.ready.is_none() && !empty.is_running_and_ready());
    assert_eq!(
        empty,
        pod(json!({ "metadata": { "labels": null }, "spec": { "containers": null } }))
    );
}

#[rstest]
#[case("Running", "True", true)]
#[case("Running", "False", false)]
#[case("Running", "Unknown", false)]
#[case("Pending", "True", false)]
fn pod_is_running_and_ready_by_phase_and_condition(
    #[case] phase: &str,
    #[case] ready: &str,
    #[case] expected: bool,
) {
    let conditions =
        json!([{ "type": "Initialized", "status": "False" }, { "type": "Ready", "status": ready }]);
    let pod = pod(json!({
        "metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "b": "2", "a": "1" },
        },
        "status": { "phase": phase, "conditions": conditions },
    }));
    assert_eq!(pod.is_running_and_ready(), expected);
    assert!(pod.terminating);
    assert_eq!((pod.label("a"), pod.label("b"), pod.label("c")), (Some("1"), Some("2"), None));
    assert_eq!(pod.ready.unwrap().last_transition_time, GO_ZERO_TIME);
}

#[rstest]
#[case::unschedulable("PodScheduled", "False", json!("Unschedulable"), true)]
#[case::gated("PodScheduled", "False", json!("SchedulingGated"), false)]
#[case::without_reason("PodScheduled", "False", json!(null), false)]
#[case::scheduled("PodScheduled", "True", json!("Unschedulable"), false)]
#[case::other_condition("Initialized", "False", json!("Unschedulable"), false)]
fn pod_is_unschedulable_by_the_reason_of_its_condition(
    #[case] condition_type: &str,
    #[case] status: &str,
    #[case] reason: Value,
    #[case] expected: bool,
) {
    let condition = json!({ "type": condition_type, "status": status, "reason": reason });
    let pod = pod(json!({ "status": { "phase": "Pending", "conditions": [condition] } }));
    assert_eq!(pod.unschedulable, expected);
}

#[rstest]
#[case::pod_level(json!({ "cpu": "3" }), json!([]), 3000)]
#[case::sum_of_containers(json!({ "memory": "1" }), json!([]), 2000)]
#[case::larger_init_container(
    json!({ "memory": "1" }),
    json!([{ "resources": { "requests": { "cpu": "5" } } }]),
    5000
)]
#[case::sidecar(
    json!({ "memory": "1" }),
    json!([{ "restartPolicy": "Always", "resources": { "requests": { "cpu": "5" } } }]),
    7000
)]
#[case::sidecar_before_an_init_container(
    json!({ "memory": "1" }),
    json!([
        { "restartPolicy": "Always", "resources": { "requests": { "cpu": "1" } } },
        { "resources": { "requests": { "cpu": "5" } } },
    ]),
    6000
)]
#[case::sidecar_after_an_init_container(
    json!({ "memory": "1" }),
    json!([
        { "resources": { "requests": { "cpu": "5" } } },
        { "restartPolicy": "Always", "resources": { "requests": { "cpu": "1" } } },
    ]),
    5000
)]
fn pod_level_requests_replace_the_sum_of_containers(
    #[case] pod_level: Value,
    #[case] init: Value,
    #[case] milli: i64,
) {
    let containers = json!([
        { "resources": { "requests": { "cpu": "1" } } },
        { "resources": { "requests": { "cpu": "1" } } },
    ]);
    let spec = json!({
        "resources": { "requests": pod_level },
        "containers": containers,
        "initContainers": init,
    });
    let pod = pod(json!({ "spec": spec }));
    let requests = pod.resources.spec.pod_level_requests.as_ref().unwrap();
    let cpu = requests.iter().find(|request| request.resource == ResourceName::Cpu).unwrap();
    assert_eq!(cpu.amount, Some(MilliValue::from_milli(milli)));
}

#[test]
fn extended_resources_have_no_pod_level_requests() {
    let pod = pod(json!({ "spec": { "resources": { "requests": { "example.com/gpu": "1" } } } }));
    assert_eq!(pod.resources.spec.pod_level_requests, None);
}

/// The CPU request and the CPU limit of a container, in milli-units.
fn cpu_of(amounts: &ResourceAmounts, container: &str) -> (Option<i64>, Option<i64>) {
    let container = amounts.containers.iter().find(|one| &*one.name == container).unwrap();
    let cpu = |all: &[ResourceAmount]| {
        let found = all.iter().find(|one| one.resource == ResourceName::Cpu);
        found.map(|one| one.amount.unwrap().as_milli())
    };
    (cpu(&container.requests), cpu(&container.limits))
}

fn pod_with_status(spec: Value, status: Value) -> Pod {
    pod(json!({ "spec": spec, "status": status }))
}

#[rstest]
#[case::not_reported(json!({}))]
#[case::no_resources(json!({ "containerStatuses": [{ "name": "app" }] }))]
#[case::null(
    json!({ "containerStatuses": null, "initContainerStatuses": null, "resources": null })
)]
#[case::equal(json!({ "containerStatuses": [{ "name": "app", "resources":
    { "requests": { "cpu": "1000m" }, "limits": { "cpu": "2" } } }] }))]
#[case::fewer(json!({ "containerStatuses": [{ "name": "app", "resources":
    { "requests": { "cpu": "1" } } }] }))]
#[case::other_container(json!({ "containerStatuses": [{ "name": "debug", "resources":
    { "requests": { "cpu": "7" } } }] }))]
#[case::pod_level_without_any_in_the_spec(json!({ "resources": { "requests": { "cpu": "7" } } }))]
fn applied_resources_equal_to_the_spec_are_not_stored(#[case] status: Value) {
    let resources = json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "2" } });
    let spec = json!({ "containers": [{ "name": "app", "resources": resources }] });
    let pod = pod_with_status(spec, status);
    assert_eq!(pod.resources.actual, None);
    assert_eq!(cpu_of(pod.resources.actual(), "app"), (Some(1000), Some(2000)));
}

#[test]
fn applied_resources_are_those_that_the_kubelet_reports() {
    let resources = json!({ "requests": { "cpu": "1", "memory": "1" }, "limits": { "cpu": "2" } });
    let sidecar = json!({ "name": "proxy", "restartPolicy": "Always", "resources": resources });
    let spec = json!({
        "containers": [{ "name": "app", "resources": resources }, { "name": "bare" }],
        "initContainers": [sidecar],
    });
    let reported = |cpu: &str| json!({ "requests": { "cpu": cpu } });
    let pod = pod_with_status(
        spec,
        json!({
            "containerStatuses": [{ "name": "app", "resources": reported("500m") }],
            "initContainerStatuses": [{ "name": "proxy", "resources": reported("3") }],
        }),
    );
    let (of_spec, actual) = (&pod.resources.spec, pod.resources.actual());
    assert_eq!(cpu_of(of_spec, "app"), (Some(1000), Some(2000)));
    assert_eq!(cpu_of(actual, "app"), (Some(500), Some(2000)));
    assert_eq!(cpu_of(actual, "proxy"), (Some(3000), Some(2000)));
    assert_eq!(cpu_of(actual, "bare"), (None, None));
    let mut requests = actual.containers[0].requests.iter();
    assert!(requests.any(|one| one.resource == ResourceName::Memory));
}

#[test]
fn applied_pod_level_resources_are_reported_for_the_pod() {
    let pod_level = json!({ "requests": { "cpu": "4" }, "limits": { "cpu": "8" } });
    let spec = json!({ "resources": pod_level, "containers": [{ "name": "app" }] });
    let status = json!({ "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "6" } } });
    let pod = pod_with_status(spec, status);
    let amounts = |all: &ResourceAmounts| {
        let request = all.pod_level_requests.as_ref().unwrap()[0].amount.unwrap();
        (request.as_milli(), all.pod_level_limits[0].amount.unwrap().as_milli())
    };
    assert_eq!(amounts(&pod.resources.spec), (4000, 8000));
    assert_eq!(amounts(pod.resources.actual()), (2000, 6000));
}

#[rstest]
#[case("Ingress", "ingresses")]
#[case("RouteGroup", "routegroups")]
#[case("NetworkPolicy", "networkpolicies")]
#[case("Gateway", "gateways")]
#[case("Endpoints", "endpoints")]
#[case("EtcdEndpoints", "etcdendpoints")]
fn plurals_are_guessed_from_kinds(#[case] kind: &str, #[case] expected: &str) {
    assert_eq!(plural(kind), expected);
}
