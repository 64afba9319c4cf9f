//! Applies the rendered objects to a real API server in a dry run.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::Resource as _;
use kube::api::{Api, DynamicObject, GroupVersionKind, PostParams};
use kube::discovery::{Discovery, Scope};
use serde_json::{Value, json};

use crate::control_plane::{PlaneKind, from_json};
use crate::helm::NAMESPACE;
use crate::metrics::Metrics;
use crate::rendered::deployment;

/// Kinds that the API server doesn't have without an operator.
const OPERATOR_KINDS: [&str; 4] = ["Certificate", "Issuer", "PodMonitor", "PrometheusRule"];

/// The API server accepts every object without unknown fields. The pod satisfies the Pod Security
/// Standard "restricted". `rendered` has the objects of each set of values.
pub(crate) async fn check_acceptance(
    assets: &Path,
    rendered: &[(String, Vec<Value>)],
) -> Result<()> {
    // This suite reads no metrics.
    let metrics = Metrics::new(kube::runtime::reflector::store().0);
    let plane = PlaneKind::KubeApiserver(assets.to_owned()).start(metrics).await?;
    let client = plane.client();
    for name in [NAMESPACE, "shop", "pay"] {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace: Namespace =
            from_json(json!({"metadata": {"name": name, "labels": labels}}))?;
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    }
    let server = Server { discovery: Discovery::new(client.clone()).run().await?, client };
    let (mut accepted, mut skipped) = (0, BTreeSet::new());
    for (value_set, objects) in rendered {
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            if OPERATOR_KINDS.contains(&kind) {
                skipped.insert(kind);
                continue;
            }
            server.dry_run(object).await.with_context(|| format!("{value_set}: {kind}"))?;
            accepted += 1;
        }
        let pod = pod(objects)?;
        server.dry_run(&pod).await.with_context(|| format!("{value_set}: the pod"))?;
    }
    println!("  {accepted} objects accepted; kinds not served: {skipped:?}");
    ensure!(accepted >= 6 * rendered.len(), "only {accepted} objects");
    check_rejections(&server, &rendered[0].1).await
}

/// The server rejects unknown fields and pods that may run as root.
async fn check_rejections(server: &Server, objects: &[Value]) -> Result<()> {
    let mut unknown = deployment(objects)?.clone();
    unknown["spec"]["replica"] = json!(2);
    ensure!(server.dry_run(&unknown).await.is_err(), "an unknown field is accepted");
    let mut root = pod(objects)?;
    root["spec"]["securityContext"]["runAsNonRoot"] = json!(false);
    ensure!(server.dry_run(&root).await.is_err(), "a pod that may be root is accepted");
    Ok(())
}

/// A pod of the Deployment.
fn pod(objects: &[Value]) -> Result<Value> {
    let template = &deployment(objects)?["spec"]["template"];
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
    /// Applies an object, which may exist, in a dry run with strict field validation.
    async fn dry_run(&self, object: &Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (group, version) =
            text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let kind = GroupVersionKind::gvk(group, version, text("kind"));
        let (resource, capabilities) =
            self.discovery.resolve_gvk(&kind).context("not a kind of this server")?;
        let namespace = object["metadata"]["namespace"].as_str();
        let is_namespaced = capabilities.scope == Scope::Namespaced;
        ensure!(namespace.is_some() == is_namespaced, "the namespace is {namespace:?}");
        let path = DynamicObject::url_path(&resource, namespace);
        let name = object["metadata"]["name"].as_str().context("no name")?;
        let parameters = "dryRun=All&fieldValidation=Strict&fieldManager=test&force=true";
        let request = http::Request::patch(format!("{path}/{name}?{parameters}"))
            .header("Content-Type", "application/apply-patch+yaml")
            .body(serde_json::to_vec(object)?)?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }
}
