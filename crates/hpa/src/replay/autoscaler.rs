//! Reads the autoscaler to replay from a cluster or from files.

use std::collections::BTreeMap;

use anyhow::bail;
use hpa_calc::{HorizontalPodAutoscaler, defaults::prepare_spec, settings::Setting};
use kube::Client;
use serde_json::{Value, json};

use super::metric::used_metrics;
use crate::{
    args::PastArguments,
    autoscaler_name::{AutoscalerName, NameParts, decode, find_in_files},
    convert::fields_to_annotations,
    kubectl, manifests,
};

/// The autoscaler to replay.
pub(super) struct Autoscaler {
    /// The autoscaler with the API server's defaults.
    pub(super) hpa: HorizontalPodAutoscaler,
    /// The manifest, with the settings as annotations.
    object: Value,
    /// A client of the autoscaler's cluster. `None` if it was read from files.
    pub(super) client: Option<Client>,
}

impl Autoscaler {
    /// Reads the autoscaler from the files of the arguments, else from the cluster. If it has no
    /// namespace, it gets the namespace of the arguments, else `default`.
    pub(super) async fn read(arguments: &PastArguments) -> anyhow::Result<Self> {
        let (object, client) = if arguments.filename.is_empty() {
            let (object, client) = from_cluster(arguments).await?;
            (object, Some(client))
        } else {
            (from_files(arguments)?, None)
        };
        let mut autoscaler = Self::new(object, client)?;
        let namespace = &mut autoscaler.hpa.metadata.namespace;
        if namespace.is_empty() {
            let flag = arguments.cluster.namespace.as_deref();
            let named = match &arguments.name {
                Some(name) => NameParts::new(name, flag)?.namespace,
                None => flag,
            };
            named.unwrap_or("default").clone_into(namespace);
        }
        Ok(autoscaler)
    }

    fn new(mut object: Value, client: Option<Client>) -> anyhow::Result<Self> {
        // A scenario has an autoscaler of autoscaling/v2, whose settings are annotations.
        fields_to_annotations(&mut object);
        let mut hpa = decode(&object)?;
        prepare_spec(&mut hpa.spec);
        Ok(Self { hpa, object, client })
    }

    /// Whether the autoscaler is of the custom API.
    pub(super) fn is_custom(&self) -> bool {
        let group = manifests::string_at(&self.object, "/apiVersion").split('/').next();
        group == Some(hpa_calc::crd::GROUP)
    }

    /// The manifest for a scenario: the spec without ignored metrics, and the settings as
    /// annotations.
    pub(super) fn manifest(&self, ignored: &[String]) -> Value {
        let mut spec = self.object.get("spec").cloned().unwrap_or_default();
        if !ignored.is_empty() {
            let used: Vec<_> = used_metrics(&self.hpa, ignored).map(|(_, metric)| metric).collect();
            if let Some(spec) = spec.as_object_mut() {
                spec.insert("metrics".to_owned(), json!(used));
            }
        }
        let metadata = &self.hpa.metadata;
        let settings = metadata.annotations.iter();
        let settings = settings.filter(|(name, _)| Setting::of_annotation(name).is_some());
        let annotations: BTreeMap<_, _> = settings.collect();
        json!({
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {
                "name": metadata.name, "namespace": metadata.namespace, "annotations": annotations,
            },
            "spec": spec,
        })
    }
}

async fn from_cluster(arguments: &PastArguments) -> anyhow::Result<(Value, Client)> {
    let Some(name) = &arguments.name else { bail!("the name of an autoscaler is required") };
    let client = kubectl::clients(&arguments.cluster).await?.api;
    let autoscaler = AutoscalerName::new(
        arguments.autoscaler_api,
        name,
        arguments.cluster.namespace.as_deref(),
        client.default_namespace(),
    )?;
    Ok((autoscaler.read(&client).await?, client))
}

/// Reads manifests and returns the autoscaler with the given name, or the only one.
fn from_files(arguments: &PastArguments) -> anyhow::Result<Value> {
    let all = manifests::read_files(&arguments.filename)?;
    let objects = all.iter().map(|one| &one.object);
    let flag = arguments.cluster.namespace.as_deref();
    find_in_files(objects, arguments.name.as_deref(), flag).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_has_the_settings_of_annotations_and_fields() {
        let cpu = json!({ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 60 },
            "aggregate": "p95",
        } });
        let object = json!({
            "apiVersion": "autoscaling.hpa-rs.dev/v1alpha1",
            "metadata": { "name": "web", "namespace": "shop", "annotations": {
                "autoscaling.hpa-rs.dev/tolerance": "0.05", "team": "shop",
                "autoscaling.hpa-rs.dev/pause": "true",
            } },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "maxReplicas": 9, "syncPeriodSeconds": 30, "metrics": [cpu],
            },
        });
        let autoscaler = Autoscaler::new(object, None).expect("an autoscaler");
        assert!(autoscaler.is_custom());
        let manifest = autoscaler.manifest(&[]);
        let annotations = &manifest["metadata"]["annotations"];
        assert_eq!(annotations["autoscaling.hpa-rs.dev/tolerance"], "0.05");
        assert_eq!(annotations["autoscaling.hpa-rs.dev/sync-period"], "30s");
        let aggregate = annotations["autoscaling.hpa-rs.dev/aggregate"].as_str();
        assert!(aggregate.is_some_and(|text| text.contains("p95")), "{annotations}");
        // The report of a replay says that the autoscaler is paused.
        assert_eq!(annotations["autoscaling.hpa-rs.dev/pause"], "true");
        assert_eq!(annotations.as_object().map(serde_json::Map::len), Some(4), "{annotations}");
        assert_eq!(manifest["spec"]["syncPeriodSeconds"], Value::Null);
        assert_eq!(manifest["spec"]["metrics"][0]["resource"]["aggregate"], Value::Null);
    }
}
