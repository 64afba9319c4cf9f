//! Objects as JSON, most of them in [`NAMESPACE`]. Tests change their fields
//! (`object["spec"]["replicas"]`).

use std::ops::RangeInclusive;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::NAMESPACE;

/// The CPU request of a [`pod`], which has one container.
pub const CPU_REQUEST_MILLI: i64 = 1000;

pub fn namespace() -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } })
}

/// A Deployment without a status. It selects pods by the label `app`, whose value is `name`.
pub fn deployment(name: &str, replicas: i64) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "app", "image": "none" }] },
            },
        },
    })
}

/// A Deployment whose status reports all replicas.
pub fn running_deployment(name: &str, replicas: i64) -> Value {
    let mut object = deployment(name, replicas);
    object["status"] = json!({ "replicas": replicas });
    object
}

/// The pod `APP-INDEX`, which has been ready since 2020.
pub fn pod(app: &str, index: i64) -> Value {
    let requests = json!({ "cpu": format!("{CPU_REQUEST_MILLI}m") });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-{index}"), "namespace": NAMESPACE, "labels": { "app": app },
        },
        "spec": { "containers": [{ "name": "app", "resources": { "requests": requests } }] },
        "status": {
            "phase": "Running", "startTime": "2020-01-01T00:00:00Z",
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:10Z",
            }],
        },
    })
}

/// An autoscaler of the Deployment of the same name.
pub fn hpa(
    name: &str,
    replicas: RangeInclusive<i32>,
    metrics: impl IntoIterator<Item = Value>,
) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "minReplicas": replicas.start(), "maxReplicas": replicas.end(),
            "metrics": metrics.into_iter().collect::<Vec<_>>(),
        },
    })
}

/// Adds annotations of collectors, whose names get the prefix `metric-config.`.
pub fn with_collector_annotations(mut hpa: Value, annotations: &[(&str, &str)]) -> Value {
    for (name, value) in annotations {
        hpa["metadata"]["annotations"][format!("metric-config.{name}")] = json!(value);
    }
    hpa
}

/// The lease of a leader election, which lasts an hour. An empty `holder` has released it.
pub fn lease(namespace: &str, name: &str, holder: &str, renewed: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 3600,
            "renewTime": format!("{renewed:.6}"),
        },
    })
}

pub fn cpu_metric(utilization: i32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": utilization });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

pub fn pods_metric(name: &str, average: &str) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": average });
    json!({ "type": "Pods", "pods": { "metric": { "name": name }, "target": target } })
}

pub fn external_metric(name: &str, average: &str) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": average });
    json!({ "type": "External", "external": { "metric": { "name": name }, "target": target } })
}
