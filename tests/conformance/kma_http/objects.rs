//! The recorded cluster and its pods.

use std::collections::BTreeMap;

use async_trait::async_trait;
use hpa_calc::api::CrossVersionObjectReference;
use hpa_collectors::{Cluster, Ingress, LookupError, Pod, RouteGroup};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinSet};

type Labels = BTreeMap<String, String>;

/// The recorded objects, as JSON.
pub(super) struct Objects(Vec<Value>);

impl Objects {
    pub(super) fn new(objects: &Value) -> Self {
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

    /// The labels that the reference uses to select a target's pods.
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

/// The HTTP server of all pods. Dropping the handle stops it.
pub(super) struct DocumentServer {
    pub(super) port: u16,
    _tasks: JoinSet<()>,
}

/// Serves documents by path. A document that is a number is the status of an empty response.
pub(super) async fn serve_documents(documents: &Value) -> std::io::Result<DocumentServer> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let documents = documents.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let documents = documents.clone();
            connections.spawn(async move {
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let response = response_with(&documents[request.uri().path()]);
                    async move { Ok::<_, std::convert::Infallible>(response) }
                });
                http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    });
    Ok(DocumentServer { port, _tasks: tasks })
}

fn response_with(document: &Value) -> Response<Full<Bytes>> {
    let status = match document {
        Value::Null => 404,
        Value::Number(status) => status.as_u64().unwrap_or_default(),
        _ => 200,
    };
    let body = document.as_str().unwrap_or_default().to_owned();
    let mut response = Response::new(Full::from(body));
    let status = u16::try_from(status).ok().and_then(|status| status.try_into().ok());
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
