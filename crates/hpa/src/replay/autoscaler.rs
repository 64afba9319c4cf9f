//! The autoscaler, from a cluster or a file.

use anyhow::{Context, bail};
use hpa_calc::{HorizontalPodAutoscaler, defaults::apply_defaults};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    args::PastArguments,
    kubectl::{self, escape, get},
    manifests,
};

pub(super) struct Autoscaler {
    /// The autoscaler with the API server's defaults.
    pub(super) hpa: HorizontalPodAutoscaler,
    object: Value,
    /// A client of the autoscaler's cluster. `None` if it was read from files.
    pub(super) client: Option<Client>,
}

impl Autoscaler {
    pub(super) async fn read(arguments: &PastArguments) -> anyhow::Result<Self> {
        let (object, client) = if arguments.filename.is_empty() {
            let (object, client) = from_cluster(arguments).await?;
            (object, Some(client))
        } else {
            (from_files(arguments)?, None)
        };
        let mut hpa: HorizontalPodAutoscaler =
            serde_json::from_value(object.clone()).context("unable to decode the autoscaler")?;
        apply_defaults(&mut hpa.spec);
        if hpa.metadata.namespace.is_empty() {
            let named = arguments.name.as_deref().and_then(|name| name.split_once('/'));
            let flag = arguments.cluster.namespace.as_deref();
            let namespace = named.map(|(namespace, _)| namespace).or(flag);
            namespace.unwrap_or("default").clone_into(&mut hpa.metadata.namespace);
        }
        Ok(Self { hpa, object, client })
    }

    /// The manifest for a scenario, without the metrics of these names.
    pub(super) fn manifest(&self, ignored: &[String]) -> Value {
        let mut spec = self.object.get("spec").cloned().unwrap_or_default();
        if !ignored.is_empty() {
            let kept = self.hpa.spec.metrics.iter();
            let kept =
                kept.filter(|metric| !ignored.iter().any(|name| name == metric.metric_name()));
            if let Some(spec) = spec.as_object_mut() {
                spec.insert("metrics".to_owned(), json!(kept.collect::<Vec<_>>()));
            }
        }
        let metadata = &self.hpa.metadata;
        json!({
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": metadata.name, "namespace": metadata.namespace },
            "spec": spec,
        })
    }
}

async fn from_cluster(arguments: &PastArguments) -> anyhow::Result<(Value, Client)> {
    let Some(name) = &arguments.name else { bail!("the name of an autoscaler is required") };
    let client = kubectl::clients(&arguments.cluster).await?.api;
    let flag = arguments.cluster.namespace.as_deref();
    let (namespace, name) = match (name.split_once('/'), flag) {
        (Some((namespace, _)), Some(flag)) if namespace != flag => {
            bail!("{name} is not in the namespace {flag} that --namespace names")
        }
        (Some(both), _) => both,
        (None, flag) => (flag.unwrap_or(client.default_namespace()), name.as_str()),
    };
    let group = arguments.autoscaler_api.api_version();
    let resource = hpa_crd::PLURAL;
    let path =
        format!("/apis/{group}/namespaces/{}/{resource}/{}", escape(namespace), escape(name));
    let object = get(&client, &path).await;
    let object =
        object.with_context(|| format!("unable to read the autoscaler {namespace}/{name}"));
    Ok((object?, client))
}

/// Reads manifests and returns the autoscaler with the given name, or the only one.
fn from_files(arguments: &PastArguments) -> anyhow::Result<Value> {
    let all = manifests::read(&arguments.filename)?;
    let wanted = arguments.name.as_deref().map(|name| name.rsplit('/').next().unwrap_or(name));
    let found: Vec<_> = all
        .into_iter()
        .filter(|one| one.kind() == hpa_crd::KIND)
        .filter(|one| {
            wanted.is_none_or(|name| manifests::text(&one.object, "/metadata/name") == name)
        })
        .collect();
    match found.as_slice() {
        [one] => Ok(one.object.clone()),
        [] => bail!("the files have no such HorizontalPodAutoscaler"),
        _ => bail!("the files have several autoscalers: name one"),
    }
}
