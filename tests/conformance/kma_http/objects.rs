//! The recorded cluster and its pods.

use std::collections::BTreeMap;

use async_trait::async_trait;
use axum::Router;
use hpa_calc::api::CrossVersionObjectReference;
use hpa_collectors::{Cluster, Ingress, LookupError, Pod, RouteGroup};
use http::{StatusCode, Uri};
use serde::Deserialize;
use serde_json::Value;

type Labels = BTreeMap<String, String>;

/// The recorded objects, as JSON.
pub(crate) struct Objects(Vec<Value>);

impl Objects {
    pub(crate) fn new(objects: &Value) -> Self {
        Self(objects.as_array().cloned().unwrap_or_default())
    }

    pub(super) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.0.iter().find(|object| {
            let metadata = &object["metadata"];
            let object_namespace = metadata["namespace"].as_str().unwrap_or_default();
            object["kind"] == kind && object_namespace == namespace && metadata["name"] == name
        })
    }

    fn find(&self, kind: &str, namespace: &str, name: &str) -> Result<&Value, LookupError> {
        self.get(kind, namespace, name).ok_or_else(|| LookupError::NotFound {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The labels that kube-metrics-adapter uses to select a target's pods.
    pub(super) fn pod_labels(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Labels, LookupError> {
        let target = self.find(&target.kind, namespace, &target.name)?;
        Ok(decode(&target["spec"]["selector"]["matchLabels"]))
    }
}

#[async_trait]
impl Cluster for Objects {
    async fn pods(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError> {
        let labels = self.pod_labels(namespace, target)?;
        let is_selected = |pod: &&Value| {
            let pod_labels: Labels = decode(&pod["metadata"]["labels"]);
            pod["kind"] == "Pod"
                && pod["metadata"]["namespace"] == namespace
                && labels.iter().all(|(key, value)| pod_labels.get(key) == Some(value))
        };
        Ok(self.0.iter().filter(is_selected).map(pod).collect())
    }

    async fn replicas(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<i32, LookupError> {
        if !matches!(target.kind.as_str(), "Deployment" | "StatefulSet") {
            return Ok(0);
        }
        let target = self.find(&target.kind, namespace, &target.name)?;
        Ok(decode(&target["status"]["replicas"]))
    }

    async fn ingress(&self, namespace: &str, name: &str) -> Result<Ingress, LookupError> {
        let ingress = self.find("Ingress", namespace, name)?;
        let rules = ingress["spec"]["rules"].as_array().into_iter().flatten();
        let host = |rule: &Value| rule["host"].as_str().unwrap_or_default().to_owned();
        let annotations = decode(&ingress["metadata"]["annotations"]);
        Ok(Ingress { hosts: rules.map(host).collect(), annotations })
    }

    async fn route_group(&self, namespace: &str, name: &str) -> Result<RouteGroup, LookupError> {
        let group = self.find("RouteGroup", namespace, name)?;
        let backends = group["spec"]["defaultBackends"].as_array().into_iter().flatten();
        let backend = |backend: &Value| {
            let name = backend["backendName"].as_str().unwrap_or_default().to_owned();
            (name, backend["weight"].as_i64().unwrap_or_default())
        };
        let hosts = decode(&group["spec"]["hosts"]);
        Ok(RouteGroup { hosts, default_backends: backends.map(backend).collect() })
    }
}

fn pod(pod: &Value) -> Pod {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|one| one["type"] == "Ready" && one["status"] == "True");
    let since = |condition: &Value| condition["lastTransitionTime"].as_str()?.parse().ok();
    Pod {
        name: pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        ip: pod["status"]["podIP"].as_str().unwrap_or_default().to_owned(),
        ready_since: ready.find_map(since),
        is_terminating: !pod["metadata"]["deletionTimestamp"].is_null(),
    }
}

/// Decodes a value. A missing or invalid value is the default.
fn decode<T: for<'d> Deserialize<'d> + Default>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_default()
}

/// Serves documents by path, for all pods, and returns the port. A document that is a number is the
/// status of an empty response.
pub(super) async fn serve_documents(documents: &Value) -> u16 {
    let documents = documents.clone();
    let respond = async move |uri: Uri| response_with(&documents[uri.path()]);
    hpa_tests::harness::serve(Router::new().fallback(respond)).await.port()
}

fn response_with(document: &Value) -> (StatusCode, String) {
    let status = match document {
        Value::Null => StatusCode::NOT_FOUND,
        Value::Number(status) => {
            let status = status.as_u64().and_then(|status| u16::try_from(status).ok());
            status.and_then(|status| StatusCode::from_u16(status).ok()).expect("a status")
        }
        _ => StatusCode::OK,
    };
    (status, document.as_str().unwrap_or_default().to_owned())
}
