//! The objects of the cluster.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::args::{Metric, Population};

/// What a pod asks for, in thousandths of a CPU.
const CPU_REQUEST: u32 = 1000;
/// What it uses if it has its share of the load: half of that, which is the target.
pub(crate) const CPU_USE: u32 = 500;
/// In percent of the request.
const CPU_TARGET: u32 = 50;
/// What a pod can serve of the external metric.
pub(crate) const EXTERNAL_TARGET: u32 = 1000;
/// The external metric; its series has the label `app`.
const EXTERNAL_METRIC: &str = "load";

/// Pods are this old, so that nothing about them is still being settled.
const AGE: SignedDuration = SignedDuration::from_hours(1);

/// The namespaces.
pub(crate) fn namespaces(population: &Population) -> Vec<String> {
    (0..population.namespaces).map(|index| format!("bench-{index}")).collect()
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// A Deployment that is as it should be.
pub(crate) fn deployment(namespace: &str, name: &str, replicas: u32) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "namespace": namespace, "name": name, "labels": labels },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod_spec() },
        },
        "status": deployment_status(replicas),
    })
}

pub(crate) fn deployment_status(replicas: u32) -> Value {
    json!({
        "observedGeneration": 1,
        "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
    })
}

fn pod_spec() -> Value {
    json!({
        "containers": [container()], "restartPolicy": "Always",
        "serviceAccountName": "default", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }],
        "volumes": [{ "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } }],
    })
}

fn container() -> Value {
    json!({
        "name": "app", "image": "registry.example/team/application:1.2.3", "imagePullPolicy": "IfNotPresent",
        "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
        "env": [{ "name": "LOG_LEVEL", "value": "info" }, { "name": "UPSTREAM", "value": "http://upstream:8080" }],
        "resources": {
            "requests": { "cpu": format!("{CPU_REQUEST}m"), "memory": "128Mi" },
            "limits": { "memory": "256Mi" },
        },
        "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" }, "periodSeconds": 10 },
        "volumeMounts": [{
            "name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true,
        }],
    })
}

/// A pod's name.
pub(crate) fn pod_name(app: &str, index: u32) -> String {
    format!("{app}-{index}")
}

/// A pod that has been ready for long.
pub(crate) fn pod(namespace: &str, app: &str, index: u32, now: Timestamp) -> Value {
    let since = now.saturating_sub(AGE).unwrap_or(now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": since });
    let conditions = ["Initialized", "PodScheduled", "ContainersReady", "Ready"].map(condition);
    let mut spec = pod_spec();
    if let Some(spec) = spec.as_object_mut() {
        // A pod that is bound, as it would be with a scheduler.
        spec.insert("nodeName".to_owned(), format!("node-{index}").into());
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": pod_name(app, index),
            "labels": { "app": app, "pod-template-hash": "5d5f9c7b6d" },
            "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
        },
        "spec": spec,
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.168.0.1", "startTime": since, "conditions": conditions,
            "containerStatuses": [{
                "name": "app", "ready": true, "started": true, "restartCount": 0,
                "image": "registry.example/team/application:1.2.3",
                "imageID": "registry.example/team/application@sha256:0123456789abcdef", "state": { "running": { "startedAt": since } },
            }],
        },
    })
}

/// An autoscaler of the Deployment of its name.
pub(crate) fn autoscaler(namespace: &str, name: &str, population: &Population) -> Value {
    let metric = match population.metric {
        Metric::Cpu => json!({
            "type": "Resource",
            "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": CPU_TARGET } },
        }),
        Metric::External => json!({
            "type": "External",
            "external": {
                "metric": { "name": EXTERNAL_METRIC, "selector": { "matchLabels": { "app": name } } },
                "target": { "type": "AverageValue", "averageValue": EXTERNAL_TARGET.to_string() },
            },
        }),
    };
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "namespace": namespace, "name": name },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            // The load never goes beyond one and a half times.
            "minReplicas": 1, "maxReplicas": population.pods * 2,
            "metrics": [metric],
        },
    })
}
