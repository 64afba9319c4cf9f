//! Derives scales from workloads.

use std::fmt;

use hpa_calc::{
    api::Scale,
    selector::{LabelSelector, Selector},
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use crate::{k8s::PartialObject, scale_target::ScaleObject};

/// The paths in a `CustomResourceDefinition`'s `subresources.scale`, split at the dots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScalePaths {
    pub(super) spec_replicas: Vec<String>,
    pub(super) status_replicas: Vec<String>,
    /// The path of a selector in text form.
    pub(super) selector: Option<Vec<String>>,
}

/// An object from which a scale can be derived.
pub(super) trait ScaleSource {
    /// The scale that the API server would return; `None` if it would return none, or if that is
    /// uncertain.
    fn scale(&self, paths: &ScalePaths) -> Option<ScaleObject>;
}

/// Adds an object's UID and resource version to its scale.
pub(super) fn scale_object<S, T>(object: &PartialObject<S, T>, scale: Scale) -> ScaleObject {
    let (uid, resource_version) = (object.uid().to_owned(), object.resource_version().to_owned());
    ScaleObject { scale, uid, resource_version }
}

/// A Deployment, a StatefulSet or a ReplicaSet.
pub(super) type Workload = PartialObject<MapOrNone<WorkloadSpec>, MapOrNone<WorkloadStatus>>;

/// The fields are `Value`s, although the API server accepts only one type for each: an undecodable
/// object must not fail the list that contains it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorkloadSpec {
    replicas: Value,
    selector: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorkloadStatus {
    replicas: Value,
}

/// Deserializes a JSON object, and any other value as `None`. Unlike an untagged enum, it doesn't
/// buffer the value: a spec contains the whole pod template.
#[derive(Clone, Debug)]
pub(super) struct MapOrNone<T>(Option<T>);

impl<T> Default for MapOrNone<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for MapOrNone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for MapVisitor<T> {
            type Value = MapOrNone<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MapOrNone<T>, A::Error> {
                T::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    .map(|value| MapOrNone(Some(value)))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<MapOrNone<T>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(MapOrNone(None))
            }

            fn visit_unit<E>(self) -> Result<MapOrNone<T>, E> {
                Ok(MapOrNone(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<MapOrNone<T>, E> {
                Ok(MapOrNone(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<MapOrNone<T>, E> {
                Ok(MapOrNone(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<MapOrNone<T>, E> {
                Ok(MapOrNone(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<MapOrNone<T>, E> {
                Ok(MapOrNone(None))
            }

            fn visit_str<E>(self, _: &str) -> Result<MapOrNone<T>, E> {
                Ok(MapOrNone(None))
            }
        }

        deserializer.deserialize_any(MapVisitor(std::marker::PhantomData))
    }
}

pub(super) fn replicas(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

impl ScaleSource for Workload {
    fn scale(&self, _: &ScalePaths) -> Option<ScaleObject> {
        let spec = self.spec.0.as_ref()?;
        let status = self.status.0.as_ref().map_or(&Value::Null, |status| &status.replicas);
        let selector = Option::<LabelSelector>::deserialize(&spec.selector).ok()?;
        let scale = Scale {
            // The API server sets the default before it stores an object.
            spec_replicas: replicas(&spec.replicas)?,
            // The API server omits zero replicas.
            status_replicas: if status.is_null() { 0 } else { replicas(status)? },
            selector: Selector::from_label_selector(selector.as_ref()).ok()?.to_string(),
        };
        Some(scale_object(self, scale))
    }
}
