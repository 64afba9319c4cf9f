//! Objects from watches and lists. Only the needed fields are decoded.
//!
//! Metadata is read leniently, spec and status stay JSON text until [`PartialObject::decode`].
//! So an undecodable object doesn't fail the list that contains it.

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    panic::{self, AssertUnwindSafe},
};

use hpa_calc::{
    api::{
        HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
        ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus,
    },
    defaults::prepare_spec,
    settings::AnnotationFilter,
    validation::{MAX_METRICS, drop_refused_parts},
};
use hpa_metrics::{DecodeError, decode_json, null_as_default};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use kube::{
    Resource,
    core::{ApiResource, DynamicResourceScope},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    limited_labels::{CowText, LimitedLabels},
    status_write::{FieldManager, ManagedFieldsEntry, StatusWrite, newest_status_write},
};

/// The metadata that the controller reads. No object that the API server stores can fail here:
/// fields may be null, and timestamps are not parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PartialMeta {
    #[serde(deserialize_with = "null_as_default")]
    name: String,
    #[serde(deserialize_with = "null_as_default")]
    namespace: String,
    #[serde(deserialize_with = "null_as_default")]
    uid: String,
    #[serde(deserialize_with = "null_as_default")]
    resource_version: String,
    generation: Option<i64>,
    labels: LimitedLabels,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(deserialize_with = "known_annotations")]
    annotations: BTreeMap<String, String>,
    managed_fields: Option<Vec<ManagedFieldsEntry>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl PartialMeta {
    /// Fails if name or namespace is missing.
    pub(super) fn check_names(&self) -> Result<(), DecodeError> {
        if self.name.is_empty() || self.namespace.is_empty() {
            return Err(DecodeError::of_value("the name or the namespace is missing"));
        }
        Ok(())
    }
}

/// The annotations of this controller. Others are skipped without a copy.
fn known_annotations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct AnnotationsVisitor;

    impl<'de> Visitor<'de> for AnnotationsVisitor {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("annotations")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut known, mut filter) = (BTreeMap::new(), AnnotationFilter::default());
            while let Some(CowText(name)) = map.next_key::<CowText<'de>>()? {
                if !filter.accept(&name) {
                    map.next_value::<IgnoredAny>()?;
                } else if let Some(CowText(value)) = map.next_value::<Option<CowText<'de>>>()? {
                    let value = AnnotationFilter::truncate_value(&name, &value).to_owned();
                    known.insert(name.into_owned(), value);
                }
            }
            Ok(known)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }
    }

    deserializer.deserialize_any(AnnotationsVisitor)
}

/// A kind that is cached, in the form in which it is cached.
pub(crate) trait CachedKind: Sized {
    const KIND: &'static str;

    /// `spec` and `status` are JSON, `null` if missing.
    fn decode(meta: PartialMeta, spec: &str, status: &str) -> Result<Self, DecodeError>;
}

/// Decodes a member of an object. The error names the field.
fn decode_member<T: DeserializeOwned>(name: &str, json: &str) -> Result<T, DecodeError> {
    decode_json(json).map_err(|error| error.in_member(name))
}

impl CachedKind for HorizontalPodAutoscaler {
    const KIND: &'static str = "HorizontalPodAutoscaler";

    fn decode(meta: PartialMeta, spec: &str, status: &str) -> Result<Self, DecodeError> {
        let status = decode_member::<Option<_>>("status", status)?.unwrap_or_default();
        Ok(autoscaler(meta, autoscaler_spec(spec)?, status))
    }
}

/// An autoscaler with the metadata that the controller reads.
pub(super) fn autoscaler(
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
        annotations: meta.annotations,
        ..ObjectMeta::default()
    };
    if spec.excessive_bytes.is_some() {
        // Values of an earlier spec, which may repeat much of it. No status write changes them.
        status.current_metrics = Vec::new();
    }
    HorizontalPodAutoscaler { metadata, spec, status }
}

pub(super) fn autoscaler_spec(json: &str) -> Result<HorizontalPodAutoscalerSpec, DecodeError> {
    let mut spec = decode_member("spec", json)?;
    // The API server defaults specs of the core API. The custom API's schema can't express all
    // defaults.
    prepare_spec(&mut spec);
    // The engine rejects a spec that is larger or has more metrics, so the rest would only take
    // memory.
    drop_refused_parts(&mut spec);
    spec.metrics.truncate(MAX_METRICS + 1);
    Ok(spec)
}

impl CachedKind for Pod {
    const KIND: &'static str = "Pod";

    fn decode(meta: PartialMeta, spec: &str, status: &str) -> Result<Self, DecodeError> {
        let spec = decode_member::<Option<PodSpec>>("spec", spec)?.unwrap_or_default();
        let status = decode_member::<Option<PodStatus>>("status", status)?.unwrap_or_default();
        let terminating = meta.deletion_timestamp.is_some();
        let exceeds_label_limits = meta.labels.exceed_limits;
        let labels = meta.labels.labels;
        let pod = Self::new(meta.name.into(), labels, terminating, &spec, &status);
        let pod = pod.owned_by(&meta.owner_references.unwrap_or_default());
        Ok(Self { exceeds_label_limits, ..pod })
    }
}

/// The resource of pods.
pub(crate) fn pod_resource() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}

/// A spec or status that is not decoded yet. `None` if it is missing or `null`.
type RawMember = Option<Box<RawValue>>;

/// An object with its metadata, spec and status. The latter two are not decoded yet. It implements
/// kube's [`Resource`], so that kube can list and watch it (`Api<PartialObject>`).
#[derive(Clone, Debug)]
pub(crate) struct PartialObject {
    /// Only the resource version, from which kube's watcher resumes.
    kube_metadata: meta_v1::ObjectMeta,
    metadata: PartialMeta,
    pub(crate) spec: RawMember,
    pub(crate) status: RawMember,
}

impl PartialObject {
    /// Decodes the object. A panic is an error: one object must not end the informer, and with it
    /// the process.
    pub(crate) fn decode<K: CachedKind>(self) -> Result<K, DecodeError> {
        let decode = AssertUnwindSafe(move || self.decode_members());
        let panicked = |_| Err(DecodeError::of_value("its decoding panicked"));
        panic::catch_unwind(decode).unwrap_or_else(panicked)
    }

    fn decode_members<K: CachedKind>(self) -> Result<K, DecodeError> {
        self.metadata.check_names()?;
        let spec = self.spec.as_deref().map_or("null", RawValue::get);
        let status = self.status.as_deref().map_or("null", RawValue::get);
        K::decode(self.metadata, spec, status)
    }

    /// Whether the object has a name and a namespace.
    pub(crate) fn is_named(&self) -> bool {
        self.metadata.check_names().is_ok()
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub(crate) fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// The newest status write with a time, by a field manager other than `own`. Ignores entries
    /// whose time is more than a minute after `now`.
    pub(crate) fn newest_status_write(
        &self,
        own: Option<&FieldManager>,
        now: Timestamp,
    ) -> Option<StatusWrite> {
        newest_status_write(self.metadata.managed_fields.as_deref().unwrap_or_default(), own, now)
    }
}

impl<'de> Deserialize<'de> for PartialObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default)]
            metadata: PartialMeta,
            #[serde(default)]
            spec: RawMember,
            #[serde(default)]
            status: RawMember,
        }

        let Raw { metadata, spec, status } = Raw::deserialize(deserializer)?;
        let resource_version = Some(metadata.resource_version.clone());
        let kube_metadata =
            meta_v1::ObjectMeta { resource_version, ..meta_v1::ObjectMeta::default() };
        Ok(Self { kube_metadata, metadata, spec, status })
    }
}

impl Resource for PartialObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &meta_v1::ObjectMeta {
        &self.kube_metadata
    }

    fn meta_mut(&mut self) -> &mut meta_v1::ObjectMeta {
        &mut self.kube_metadata
    }
}
