//! The rendered objects, offered to a real API server without keeping them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, GroupVersionKind, PostParams};
use kube::discovery::{Discovery, Scope};
use serde_json::{Value, json};

use crate::control_plane::{Kind, from};
use crate::helm::NAMESPACE;
use crate::metrics::Metrics;
use crate::rendered::of_kind;

/// Kinds of operators, which a bare API server has not.
const FOREIGN: [&str; 2] = ["PodMonitor", "PrometheusRule"];

/// Each object is taken, with its fields known, and the pod is within the Pod Security Standard "restricted".
pub(crate) async fn takes(assets: &Path, sets: &[(&str, Vec<Value>)]) -> Result<()> {
    // Nobody asks for metrics.
    let metrics = Metrics::new(kube::runtime::reflector::store().0);
    let plane = Kind::KubeApiserver(assets.to_owned()).start(metrics).await?;
    let client = plane.client();
    for name in [NAMESPACE, "shop", "pay"] {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace: Namespace = from(json!({"metadata": {"name": name, "labels": labels}}))?;
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    }
    let server = Server { discovery: Discovery::new(client.clone()).run().await?, client };
    let (mut taken, mut skipped) = (0, BTreeSet::new());
    for (set, objects) in sets {
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            if FOREIGN.contains(&kind) {
                skipped.insert(kind);
                continue;
            }
            server.offer(object).await.with_context(|| format!("{set}: {kind}"))?;
            taken += 1;
        }
        let pod = pod(objects)?;
        server.offer(&pod).await.with_context(|| format!("{set}: the pod"))?;
    }
    println!("  {taken} objects taken; of no kind of this server, so not asked: {skipped:?}");
    ensure!(taken >= 6 * sets.len(), "only {taken} objects");
    refuses_what_it_should(&server, &sets[0].1).await
}

/// The server does look: a field it does not know, and a pod that may be root.
async fn refuses_what_it_should(server: &Server, objects: &[Value]) -> Result<()> {
    let mut unknown =
        of_kind(objects, "Deployment").first().copied().context("no Deployment")?.clone();
    unknown["spec"]["replica"] = json!(2);
    ensure!(server.offer(&unknown).await.is_err(), "an unknown field is taken");
    let mut root = pod(objects)?;
    root["spec"]["securityContext"]["runAsNonRoot"] = json!(false);
    ensure!(server.offer(&root).await.is_err(), "a pod that may be root is taken");
    Ok(())
}

/// A pod as the Deployment makes it.
fn pod(objects: &[Value]) -> Result<Value> {
    let deployment = of_kind(objects, "Deployment").first().copied().context("no Deployment")?;
    let template = &deployment["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!("pod");
    metadata["namespace"] = json!(NAMESPACE);
    Ok(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}))
}

struct Server {
    client: kube::Client,
    discovery: Discovery,
}

impl Server {
    /// Creates an object in a dry run that is strict about fields.
    async fn offer(&self, object: &Value) -> Result<()> {
        let text = |member: &str| object[member].as_str().unwrap_or_default();
        let (group, version) =
            text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let kind = GroupVersionKind::gvk(group, version, text("kind"));
        let (resource, capabilities) =
            self.discovery.resolve_gvk(&kind).context("not a kind of this server")?;
        let path = match (capabilities.scope, object["metadata"]["namespace"].as_str()) {
            (Scope::Namespaced, namespace) => {
                let namespace = namespace.context("no namespace")?;
                Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource)
                    .resource_url()
                    .to_owned()
            }
            (Scope::Cluster, None) => {
                Api::<DynamicObject>::all_with(self.client.clone(), &resource)
                    .resource_url()
                    .to_owned()
            }
            (Scope::Cluster, Some(namespace)) => anyhow::bail!("cluster-wide, in {namespace}"),
        };
        let request = http::Request::post(format!("{path}?dryRun=All&fieldValidation=Strict"))
            .header("Content-Type", "application/json")
            .body(serde_json::to_vec(object)?)?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }
}
