use serde_json::{Value, json};

use super::*;

fn object(json: Value) -> PartialObject {
    serde_json::from_value(json).expect("an object")
}

/// A valid autoscaler with this metadata.
fn hpa(metadata: Value) -> HorizontalPodAutoscaler {
    let object = object(json!({
        "metadata": metadata,
        "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 3 },
    }));
    object.decode().expect("a valid object")
}

#[test]
fn unneeded_metadata_cannot_make_an_object_undecodable() {
    let hpa = hpa(json!({
        "name": "web",
        "namespace": "shop",
        "creationTimestamp": "9999-12-31T23:59:59Z",
        "managedFields": [{ "time": "9999-12-31T23:59:59Z" }],
    }));
    assert_eq!(hpa.spec.max_replicas, 3);
}

#[test]
fn only_annotations_of_this_controller_are_kept() {
    let hpa = hpa(json!({
        "name": "web",
        "namespace": "shop",
        "annotations": {
            "autoscaling.hpa-rs.dev/pause": "up",
            "autoscaling.hpa-rs.dev/dry-run": "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    }));
    let expected =
        [("autoscaling.hpa-rs.dev/dry-run", "true"), ("autoscaling.hpa-rs.dev/pause", "up")]
            .map(|(name, value)| (name.into(), value.into()));
    assert_eq!(hpa.metadata.annotations, BTreeMap::from(expected));
}

#[test]
fn unknown_annotations_of_the_domain_are_kept_without_values_up_to_a_limit() {
    let names = (0..1000).map(|index| format!("autoscaling.hpa-rs.dev/x{index}"));
    let annotations: BTreeMap<_, _> = names.map(|name| (name, "x".repeat(99))).collect();
    let hpa = hpa(json!({ "name": "web", "namespace": "shop", "annotations": annotations }));
    let annotations = hpa.metadata.annotations;
    // The message about them names the first, and counts up to 16 others or "more than 16".
    assert_eq!(annotations.len(), 18);
    assert!(annotations.values().all(String::is_empty));
}

#[test]
fn panic_on_an_object_is_an_error() {
    enum Panicking {}

    impl CachedKind for Panicking {
        const KIND: &'static str = "Panicking";

        fn decode(_: PartialMeta, _: &str, _: &str) -> Result<Self, DecodeError> {
            panic!("a defect")
        }
    }

    let object = object(json!({ "metadata": { "namespace": "a", "name": "b" } }));
    let error = object.decode::<Panicking>().err();
    assert_eq!(error, Some(DecodeError::of_value("its decoding panicked")));
}

#[test]
fn undecodable_object_has_a_name() {
    let resources = json!({ "requests": { "cpu": "much" } });
    let pod = object(json!({
        "metadata": { "name": "web-0", "namespace": "shop" },
        "spec": { "containers": [{ "name": "app", "resources": resources }] },
    }));
    assert_eq!((pod.namespace(), pod.name()), ("shop", "web-0"));
    pod.decode::<Pod>().expect_err("the request is not a quantity");
}

#[test]
fn error_names_the_field() {
    let end = "9999-12-31T23:59:59Z";
    let pod = object(json!({
        "metadata": { "name": "web-0", "namespace": "shop" }, "status": { "startTime": end },
    }));
    let error = pod.decode::<Pod>().expect_err("a time out of range").to_string();
    assert!(error.starts_with("status.startTime: failed to convert "), "{error}");
    let hpa = object(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "maxReplicas": "3" },
    }));
    let error = hpa.decode::<HorizontalPodAutoscaler>().expect_err("not an integer").to_string();
    assert!(error.starts_with("spec.maxReplicas: invalid type: "), "{error}");
}

#[test]
fn pod_with_an_excessive_request_is_decoded() {
    let resources = json!({ "requests": { "cpu": "7".repeat(72_000) } });
    let pod = object(json!({
        "metadata": { "name": "web-0", "namespace": "shop" },
        "spec": { "containers": [{ "name": "app", "resources": resources }] },
    }));
    let pod = pod.decode::<Pod>().expect("a valid object");
    let containers = pod.resources.spec.containers.iter();
    let requests = containers.flat_map(|container| &container.requests);
    let amounts: Vec<_> = requests.map(|request| request.amount).collect();
    assert_eq!(amounts, [None]);
}

#[test]
fn object_without_name_is_parsed_but_not_decoded() {
    for name in [json!(null), json!("")] {
        let pod = object(json!({ "metadata": { "name": name, "namespace": "shop" } }));
        pod.decode::<Pod>().expect_err("it has no name");
    }
}

#[test]
fn pod_has_the_fields_that_decisions_read() {
    let pod = object(json!({
        "metadata": {
            "name": "web-0",
            "namespace": "shop",
            "labels": { "app": "web" },
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": null,
        "status": { "phase": "Running" },
    }));
    let pod = pod.decode::<Pod>().expect("a valid object");
    assert_eq!(
        (pod.name.as_ref(), pod.label("app"), pod.terminating),
        ("web-0", Some("web"), true)
    );
}

#[test]
fn autoscaler_without_spec_is_rejected() {
    let hpa = object(json!({ "metadata": { "name": "web", "namespace": "shop" } }));
    hpa.decode::<HorizontalPodAutoscaler>().expect_err("there is no spec");
}

#[test]
fn empty_metrics_of_an_autoscaler_are_defaulted() {
    let object = object(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "scaleTargetRef": { "kind": "Deployment", "name": "web" },
            "maxReplicas": 3,
            "metrics": [],
        },
    }));
    let hpa = object.decode::<HorizontalPodAutoscaler>().expect("a valid object");
    assert_eq!((hpa.spec.metrics.len(), hpa.spec.min_replicas), (1, Some(1)));
}
