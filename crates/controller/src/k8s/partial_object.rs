//! Objects as a watch delivers them: read no further than needed, and guarded, so that one that cannot be decoded does
//! not spoil the list it is in. Spec and status are decoded from their text only when somebody asks for the object.

use std::{borrow::Cow, collections::BTreeMap, marker::PhantomData};

use hpa_calc::{
    api::{
        HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
        ObjectMeta, Pod, PodSpec, PodStatus,
    },
    defaults::apply_defaults,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::{Resource, core::NamespaceResourceScope};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::annotations::{DRY_RUN, PAUSE};

/// What is read of an object's metadata. Every member is a string, a number or only looked for, and may be null, so that
/// nothing an API server stores can fail to be read; `managedFields` and their times, for example, are not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PartialMeta {
    #[serde(deserialize_with = "null_as_empty")]
    name: String,
    #[serde(deserialize_with = "null_as_empty")]
    namespace: String,
    #[serde(deserialize_with = "null_as_empty")]
    uid: String,
    #[serde(deserialize_with = "null_as_empty")]
    resource_version: String,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<IgnoredAny>,
    annotations: Option<WatchedAnnotations>,
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl PartialMeta {
    /// Whether it says of whom the object is.
    pub(crate) fn is_named(&self) -> bool {
        !self.name.is_empty() && !self.namespace.is_empty()
    }

    /// Name, namespace, identity and version, as kube has them.
    pub(crate) fn named(&self) -> meta::ObjectMeta {
        meta::ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            uid: Some(self.uid.clone()),
            resource_version: Some(self.resource_version.clone()),
            ..meta::ObjectMeta::default()
        }
    }
}

/// The annotations that are for us; no other is kept, or even copied.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WatchedAnnotations {
    #[serde(rename = "autoscaling.hpa-rs.dev/pause")]
    pause: Option<String>,
    #[serde(rename = "autoscaling.hpa-rs.dev/dry-run")]
    dry_run: Option<String>,
}

impl WatchedAnnotations {
    fn kept(self) -> BTreeMap<String, String> {
        let kept = [(PAUSE, self.pause), (DRY_RUN, self.dry_run)];
        kept.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// A kind that is watched, in the form it is kept in.
pub(crate) trait CachedKind: Sized {
    /// The kind in the API.
    const KIND: &'static str;
    /// The API group; empty for the core group.
    const GROUP: &'static str;
    /// The version that is asked for.
    const VERSION: &'static str;
    /// The kind's name in URLs.
    const PLURAL: &'static str;

    /// Makes the kept form of the parts of an object: its metadata, and the JSON of spec and status.
    fn decode(meta: PartialMeta, spec: &str, status: &str) -> Result<Self, serde_json::Error>;
}

impl CachedKind for HorizontalPodAutoscaler {
    const KIND: &'static str = "HorizontalPodAutoscaler";
    const GROUP: &'static str = "autoscaling";
    const VERSION: &'static str = "v2";
    const PLURAL: &'static str = "horizontalpodautoscalers";

    fn decode(meta: PartialMeta, spec: &str, status: &str) -> Result<Self, serde_json::Error> {
        let status = serde_json::from_str::<Option<_>>(status)?.unwrap_or_default();
        Ok(autoscaler(meta, autoscaler_spec(spec)?, status))
    }
}

/// An autoscaler of its parts.
pub(crate) fn autoscaler(
    meta: PartialMeta,
    spec: HorizontalPodAutoscalerSpec,
    mut status: HorizontalPodAutoscalerStatus,
) -> HorizontalPodAutoscaler {
    let metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        generation: meta.generation,
        annotations: meta.annotations.unwrap_or_default().kept(),
        ..ObjectMeta::default()
    };
    // Lists grow by more than they need, and this is kept for long.
    status.current_metrics.shrink_to_fit();
    status.conditions.shrink_to_fit();
    HorizontalPodAutoscaler { metadata, spec, status }
}

/// An autoscaler's spec.
pub(crate) fn autoscaler_spec(
    text: &str,
) -> Result<HorizontalPodAutoscalerSpec, serde_json::Error> {
    let mut spec = serde_json::from_str(text)?;
    // The API server has done so; a spec that reached us another way is not to be read differently.
    apply_defaults(&mut spec);
    spec.metrics.shrink_to_fit();
    Ok(spec)
}

impl CachedKind for Pod {
    const KIND: &'static str = "Pod";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "pods";

    fn decode(meta: PartialMeta, spec: &str, status: &str) -> Result<Self, serde_json::Error> {
        let spec = serde_json::from_str::<Option<PodSpec>>(spec)?.unwrap_or_default();
        let status = serde_json::from_str::<Option<PodStatus>>(status)?.unwrap_or_default();
        let terminating = meta.deletion_timestamp.is_some();
        Ok(Self::new(
            meta.name.into(),
            meta.labels.unwrap_or_default(),
            terminating,
            &spec,
            &status,
        ))
    }
}

/// Why an object cannot be used, whatever else it says.
pub(crate) const NAMELESS: &str = "it has no name or no namespace";

/// An object of a watched kind, to be decoded. It is what kube's `watcher` is asked for (`Api<PartialObject<Pod>>`).
#[derive(Clone, Debug)]
pub(crate) struct PartialObject<K> {
    /// The version alone, which kube's watcher goes on from.
    metadata: meta::ObjectMeta,
    meta: PartialMeta,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
    kind: PhantomData<fn() -> K>,
}

impl<K: CachedKind> PartialObject<K> {
    /// The object, or why it cannot be decoded.
    pub(crate) fn decode(self) -> Result<K, String> {
        if !self.meta.is_named() {
            return Err(NAMELESS.to_owned());
        }
        let spec = self.spec.as_deref().map_or("null", RawValue::get);
        let status = self.status.as_deref().map_or("null", RawValue::get);
        K::decode(self.meta, spec, status).map_err(|error| error.to_string())
    }
}

impl<K> PartialObject<K> {
    /// The object's namespace.
    pub(crate) fn namespace(&self) -> &str {
        &self.meta.namespace
    }

    /// The object's name.
    pub(crate) fn name(&self) -> &str {
        &self.meta.name
    }

    /// The object's identity.
    pub(crate) fn uid(&self) -> &str {
        &self.meta.uid
    }

    /// The object's version.
    pub(crate) fn resource_version(&self) -> &str {
        &self.meta.resource_version
    }
}

impl<'de, K: CachedKind> Deserialize<'de> for PartialObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Parts {
            #[serde(default)]
            metadata: PartialMeta,
            #[serde(default)]
            spec: Option<Box<RawValue>>,
            #[serde(default)]
            status: Option<Box<RawValue>>,
        }

        let Parts { metadata: meta, spec, status } = Parts::deserialize(deserializer)?;
        let resource_version = Some(meta.resource_version.clone());
        let metadata = meta::ObjectMeta { resource_version, ..meta::ObjectMeta::default() };
        Ok(Self { metadata, meta, spec, status, kind: PhantomData })
    }
}

impl<K: CachedKind> Resource for PartialObject<K> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        K::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }

    fn meta(&self) -> &meta::ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut meta::ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_that_is_not_needed_cannot_spoil_an_object() {
        let watched: PartialObject<HorizontalPodAutoscaler> = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop", "creationTimestamp": "9999-12-31T23:59:59Z",
                "managedFields": [{ "time": "9999-12-31T23:59:59Z" }] },
            "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 3 },
        }))
        .expect("an object");
        assert_eq!(watched.decode().expect("it decodes").spec.max_replicas, 3);
    }

    #[test]
    fn annotations_for_us_are_kept_and_no_others() {
        let watched: PartialObject<HorizontalPodAutoscaler> = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop", "annotations": { PAUSE: "up", DRY_RUN: "true",
                "kubectl.kubernetes.io/last-applied-configuration": "{}" } },
            "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 3 },
        }))
        .expect("an object");
        let annotations = watched.decode().expect("it decodes").metadata.annotations;
        let expected =
            [(DRY_RUN, "true"), (PAUSE, "up")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(annotations, BTreeMap::from(expected));
    }

    #[test]
    fn object_that_cannot_be_decoded_keeps_its_name() {
        let watched: PartialObject<Pod> = serde_json::from_value(json!({
            "metadata": { "name": "web-0", "namespace": "shop" },
            "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "much" } } }] },
        }))
        .expect("an object");
        assert_eq!((watched.namespace(), watched.name()), ("shop", "web-0"));
        watched.decode().expect_err("its request is no quantity");
    }

    #[test]
    fn object_without_a_name_does_not_spoil_the_list_it_is_in() {
        for name in [json!(null), json!("")] {
            let watched: PartialObject<Pod> = serde_json::from_value(
                json!({ "metadata": { "name": name, "namespace": "shop" } }),
            )
            .expect("an object");
            watched.decode().expect_err("it has no name");
        }
    }

    #[test]
    fn pod_is_made_of_what_a_decision_reads() {
        let watched: PartialObject<Pod> = serde_json::from_value(json!({
            "metadata": { "name": "web-0", "namespace": "shop", "labels": { "app": "web" },
                "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": null,
            "status": { "phase": "Running" },
        }))
        .expect("an object");
        let pod = watched.decode().expect("it decodes");
        assert_eq!(
            (pod.name.as_ref(), pod.label("app"), pod.terminating),
            ("web-0", Some("web"), true)
        );
    }

    #[test]
    fn autoscaler_without_a_spec_is_not_taken_for_one() {
        let watched: PartialObject<HorizontalPodAutoscaler> =
            serde_json::from_value(json!({ "metadata": { "name": "web", "namespace": "shop" } }))
                .expect("an object");
        watched.decode().expect_err("there is no spec");
    }
}
