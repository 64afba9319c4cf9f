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

/// The label of all that is created in a cluster that others use too, and its value.
pub(crate) const MANAGED_BY: [&str; 2] = ["app.kubernetes.io/managed-by", "hpa-bench"];
/// The service account of pods there: nobody has to be waited for who creates it.
pub(crate) const SERVICE_ACCOUNT: &str = "hpa-bench";
/// A scheduler that is nowhere.
const SCHEDULER: &str = "hpa-bench.invalid";

/// The namespaces.
pub(crate) fn namespaces(population: &Population) -> Vec<String> {
    (0..population.namespaces).map(|index| format!("bench-{index}")).collect()
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// What the pods of a namespace run as in a cluster that others use too.
pub(crate) fn service_account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "namespace": namespace, "name": SERVICE_ACCOUNT },
        "automountServiceAccountToken": false,
    })
}

/// An object as it can be in a cluster that others use and work on: nobody creates pods for a Deployment, no kubelet runs a
/// pod, no node is missed. It is labelled, so that all of them are found.
pub(crate) fn harmless(mut object: Value) -> Value {
    let [label, value] = MANAGED_BY;
    set(&mut object, "/metadata", "labels", |labels| labels.unwrap_or_else(|| json!({})));
    set(&mut object, "/metadata/labels", label, |_| value.into());
    match object.get("kind").and_then(Value::as_str) {
        Some("Deployment") => set(&mut object, "/spec", "paused", |_| true.into()),
        Some("Pod") => {
            set(&mut object, "/spec", "schedulerName", |_| SCHEDULER.into());
            set(&mut object, "/spec", "serviceAccountName", |_| SERVICE_ACCOUNT.into());
            if let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut) {
                // One of that name could be there.
                spec.remove("nodeName");
            }
        }
        _ => {}
    }
    object
}

/// Makes a member of what is at a place something else.
fn set(object: &mut Value, place: &str, member: &str, value: impl FnOnce(Option<Value>) -> Value) {
    if let Some(parent) = object.pointer_mut(place).and_then(Value::as_object_mut) {
        let old = parent.remove(member);
        parent.insert(member.to_owned(), value(old));
    }
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
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": since });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_works_on_what_is_harmless() {
        let pod = harmless(pod("n", "a", 0, Timestamp::UNIX_EPOCH));
        assert_eq!(pod["metadata"]["labels"]["app"], "a");
        assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/managed-by"], "hpa-bench");
        assert_eq!(pod["spec"]["nodeName"], Value::Null);
        assert_eq!(pod["spec"]["schedulerName"], SCHEDULER);
        let deployment = harmless(deployment("n", "a", 3));
        assert_eq!(deployment["spec"]["paused"], true);
        assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], json!({ "app": "a" }));
        assert_eq!(
            harmless(namespace("n"))["metadata"]["labels"],
            json!({ "app.kubernetes.io/managed-by": "hpa-bench" })
        );
    }
}
