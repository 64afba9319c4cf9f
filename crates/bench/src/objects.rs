//! Builds the objects of the measured cluster, and creates them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use hpa_testbed::Testbed;
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::args::{Metric, Population};

/// CPU request of a pod, in millicores.
const CPU_REQUEST: u32 = 1000;
/// CPU usage of a pod under average load, in millicores. Equals the target utilization.
pub(crate) const CPU_USAGE: u32 = 500;
/// Target utilization, in percent of the request.
const CPU_TARGET: u32 = 50;
/// Target average value of the external metric.
pub(crate) const EXTERNAL_TARGET: u32 = 1000;
/// The external metric. It has a series for each target, with the label `app`.
const EXTERNAL_METRIC: &str = "load";

/// Target average value of the metric of pods.
pub(crate) const PODS_TARGET: u32 = 100;
/// The metric of pods, by the rules of [`crate::prometheus::RULES`].
pub(crate) const PODS_METRIC: &str = "http_requests_per_second";

/// Age of the pods, so that no grace period for new pods applies.
const POD_AGE: SignedDuration = SignedDuration::from_hours(1);

/// The label of all objects that `hpa-bench` creates in a shared cluster, and its value.
pub(crate) const MANAGED_BY: [&str; 2] = ["app.kubernetes.io/managed-by", "hpa-bench"];
/// The service account of pods in a shared cluster. Created explicitly, because the default one
/// may not exist yet.
pub(crate) const SERVICE_ACCOUNT: &str = "hpa-bench";
/// A scheduler that doesn't exist, so that no pod in a shared cluster runs.
const SCHEDULER: &str = "hpa-bench.invalid";

/// The name prefix of autoscalers that are created during the measurement.
pub(crate) const EXTRA_PREFIX: &str = "extra-";
/// The namespace of autoscalers with this prefix.
pub(crate) const EXTRA_NAMESPACE: &str = "bench-0";

pub(crate) fn namespace_names(population: &Population) -> Vec<String> {
    (0..population.namespaces).map(|index| format!("bench-{index}")).collect()
}

/// Namespace and name of a target.
pub(crate) type TargetId = (String, String);

/// The targets, in the order of their creation.
pub(crate) fn targets(population: &Population) -> impl Iterator<Item = TargetId> + use<> {
    let namespaces = population.namespaces;
    (0..population.autoscalers)
        .map(move |index| (format!("bench-{}", index % namespaces), format!("app-{index}")))
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// The service account of pods in a shared cluster.
pub(crate) fn service_account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "namespace": namespace, "name": SERVICE_ACCOUNT },
        "automountServiceAccountToken": false,
    })
}

/// Changes an object so that a shared cluster does not act on it: no controller creates pods for a
/// Deployment, and no kubelet runs a pod. Also adds the [`MANAGED_BY`] label.
#[expect(clippy::indexing_slicing, reason = "the names are those of members")]
pub(crate) fn make_inert(mut object: Value) -> Value {
    let [label, value] = MANAGED_BY;
    object["metadata"]["labels"][label] = value.into();
    match object["kind"].as_str() {
        Some("Deployment") => object["spec"]["paused"] = true.into(),
        Some("Pod") => {
            object["spec"]["schedulerName"] = SCHEDULER.into();
            object["spec"]["serviceAccountName"] = SERVICE_ACCOUNT.into();
            if let Some(spec) = object["spec"].as_object_mut() {
                // A node with that name may exist.
                spec.remove("nodeName");
            }
        }
        _ => {}
    }
    object
}

/// A Deployment whose replicas are all available.
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
        "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
    })
}

fn pod_spec() -> Value {
    json!({
        "containers": [container()], "restartPolicy": "Always",
        "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "tolerations": [{
            "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300,
        }],
        "volumes": [{
            "name": "token",
            "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] },
        }],
    })
}

fn container() -> Value {
    json!({
        "name": "app", "image": "registry.example/team/application:1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
        "env": [
            { "name": "LOG_LEVEL", "value": "info" },
            { "name": "UPSTREAM", "value": "http://upstream:8080" },
        ],
        "resources": {
            "requests": { "cpu": format!("{CPU_REQUEST}m"), "memory": "128Mi" },
            "limits": { "memory": "256Mi" },
        },
        "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" }, "periodSeconds": 10 },
        "volumeMounts": [{
            "name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            "readOnly": true,
        }],
    })
}

pub(crate) fn pod_name(app: &str, index: u32) -> String {
    format!("{app}-{index}")
}

/// A pod that has been ready for an hour.
pub(crate) fn pod(namespace: &str, app: &str, index: u32, now: Timestamp) -> Value {
    let since =
        now.saturating_sub(POD_AGE).unwrap_or(now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": since });
    let conditions = ["Initialized", "PodScheduled", "ContainersReady", "Ready"].map(condition);
    let mut spec = pod_spec();
    if let Some(spec) = spec.as_object_mut() {
        // Bound to a node, as by a scheduler.
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
            "phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.168.0.1", "startTime": since,
            "conditions": conditions,
            "containerStatuses": [{
                "name": "app", "ready": true, "started": true, "restartCount": 0,
                "image": "registry.example/team/application:1.2.3",
                "imageID": "registry.example/team/application@sha256:0123456789abcdef",
                "state": { "running": { "startedAt": since } },
            }],
        },
    })
}

/// An autoscaler of the Deployment with the same name.
pub(crate) fn autoscaler(namespace: &str, name: &str, population: &Population) -> Value {
    let metric = match population.metric {
        Metric::Cpu => json!({
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": CPU_TARGET },
            },
        }),
        Metric::Pods | Metric::Prometheus => json!({
            "type": "Pods",
            "pods": {
                "metric": { "name": PODS_METRIC },
                "target": { "type": "AverageValue", "averageValue": PODS_TARGET.to_string() },
            },
        }),
        Metric::External => json!({
            "type": "External",
            "external": {
                "metric": {
                    "name": EXTERNAL_METRIC,
                    "selector": { "matchLabels": { "app": name } },
                },
                "target": { "type": "AverageValue", "averageValue": EXTERNAL_TARGET.to_string() },
            },
        }),
    };
    let annotations: BTreeMap<_, _> = population.annotations.iter().cloned().collect();
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "namespace": namespace, "name": name, "annotations": annotations },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            // Neither limits a decision: the load is at most about 1.5 times the average.
            "minReplicas": 1, "maxReplicas": population.pods * 2,
            "metrics": [metric],
        },
    })
}

/// The API of the cluster in which objects are created.
#[derive(Clone)]
pub(crate) enum ObjectApi {
    /// The testbed in this process. Accepts an object together with its status.
    Testbed(Testbed),
    /// A cluster for the measurement only, whose API server and etcd this process has started.
    /// Needs separate requests for an object and its status.
    Dedicated { client: Client, process_ids: [u32; 2] },
    /// A cluster that also runs other workloads and controllers. Also needs separate requests.
    Shared(Client),
}

impl ObjectApi {
    /// Creates an object with its status.
    pub(crate) async fn create(&self, object: Value) -> Result<()> {
        let (client, object) = match self {
            Self::Testbed(testbed) => {
                testbed.apply(object)?;
                return Ok(());
            }
            Self::Dedicated { client, .. } => (client, object),
            Self::Shared(client) => (client, make_inert(object)),
        };
        let has_status = object.get("status").is_some();
        let object: DynamicObject = serde_json::from_value(object)?;
        let (name, namespace) = (object.metadata.name.clone(), object.metadata.namespace.clone());
        let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
        let types = object.types.clone().context("the object has no kind")?;
        let api = api(client, &GroupVersionKind::try_from(&types)?, &namespace);
        let problem = || format!("cannot create {} {namespace}/{name}", types.kind);
        api.create(&PostParams::default(), &object).await.with_context(problem)?;
        if has_status {
            // Has no resource version, so it replaces a status that another client has written.
            api.replace_status(&name, &PostParams::default(), &object)
                .await
                .with_context(problem)?;
        }
        Ok(())
    }

    pub(crate) fn deployments(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(&GroupVersionKind::gvk("apps", "v1", "Deployment"), namespace)
    }

    /// Deletes a pod immediately, because no kubelet would end it after its grace period.
    pub(crate) async fn delete_pod(&self, namespace: &str, name: &str) -> Result<()> {
        let pods = self.api(&GroupVersionKind::gvk("", "v1", "Pod"), namespace);
        pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    fn api(&self, kind: &GroupVersionKind, namespace: &str) -> Api<DynamicObject> {
        match self {
            Self::Testbed(testbed) => api(&testbed.client(), kind, namespace),
            Self::Dedicated { client, .. } | Self::Shared(client) => api(client, kind, namespace),
        }
    }
}

/// Returns the API of a kind, in all namespaces if `namespace` is empty.
pub(crate) fn api(client: &Client, kind: &GroupVersionKind, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(kind);
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inert_objects_are_labelled_and_not_run() {
        let pod = make_inert(pod("n", "a", 0, Timestamp::UNIX_EPOCH));
        assert_eq!(pod["metadata"]["labels"]["app"], "a");
        assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/managed-by"], "hpa-bench");
        assert_eq!(pod["spec"]["nodeName"], Value::Null);
        assert_eq!(pod["spec"]["schedulerName"], SCHEDULER);
        let deployment = make_inert(deployment("n", "a", 3));
        assert_eq!(deployment["spec"]["paused"], true);
        assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], json!({ "app": "a" }));
        assert_eq!(
            make_inert(namespace("n"))["metadata"]["labels"],
            json!({ "app.kubernetes.io/managed-by": "hpa-bench" })
        );
    }
}
