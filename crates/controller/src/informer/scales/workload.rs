//! What a scale is made of, in an object of a kind that has one.

use std::{borrow::Cow, fmt};

use hpa_calc::{
    api::Scale,
    selector::{LabelSelector, selector_of},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::core::{ApiResource, DynamicResourceScope, Resource};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use crate::{k8s::PartialMeta, scale_target::ScaleObject};

/// Where a kind has its scale: the paths of a `CustomResourceDefinition`'s `subresources.scale`, split at the dots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScalePaths {
    pub(super) spec_replicas: Vec<String>,
    pub(super) status_replicas: Vec<String>,
    /// Of a text, in which there is a selector.
    pub(super) selector: Option<Vec<String>>,
}

/// An object that has a scale.
pub(super) trait ScaleSource {
    fn metadata(&self) -> &meta::ObjectMeta;

    /// Its scale as the API server would tell it; `None` if that is not clear.
    fn scale(&self, paths: &ScalePaths) -> Option<ScaleObject>;

    /// Namespace and name.
    fn name(&self) -> Option<(&str, &str)> {
        Some((self.metadata().namespace.as_deref()?, self.metadata().name.as_deref()?))
    }

    fn resource_version(&self) -> &str {
        self.metadata().resource_version.as_deref().unwrap_or_default()
    }

    fn read(&self, scale: Scale) -> ScaleObject {
        let uid = self.metadata().uid.clone().unwrap_or_default();
        ScaleObject { scale, uid, resource_version: self.resource_version().to_owned() }
    }
}

/// Metadata, and of spec and status what is asked for.
#[derive(Clone, Debug)]
pub(super) struct PartialWorkload<S, T> {
    metadata: meta::ObjectMeta,
    pub(super) spec: S,
    pub(super) status: T,
}

/// A Deployment, a StatefulSet or a ReplicaSet.
pub(super) type Workload = PartialWorkload<Members<WorkloadSpec>, Members<WorkloadStatus>>;

/// What cannot be of another type in an object that the API server has accepted is a `Value` all the same: one garbled
/// object must not spoil the list that it is in.
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

/// The members of an object; nothing of what is none.
#[derive(Clone, Debug)]
pub(super) struct Members<T>(Option<T>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
            type Value = Members<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Members<T>, A::Error> {
                T::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    .map(|it| Members(Some(it)))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<Members<T>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Members(None))
            }

            fn visit_unit<E>(self) -> Result<Members<T>, E> {
                Ok(Members(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Members<T>, E> {
                Ok(Members(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Members<T>, E> {
                Ok(Members(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Members<T>, E> {
                Ok(Members(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Members<T>, E> {
                Ok(Members(None))
            }

            fn visit_str<E>(self, _: &str) -> Result<Members<T>, E> {
                Ok(Members(None))
            }
        }

        deserializer.deserialize_any(MembersVisitor(std::marker::PhantomData))
    }
}

impl<'de, S, T> Deserialize<'de> for PartialWorkload<S, T>
where
    S: Deserialize<'de> + Default,
    T: Deserialize<'de> + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(bound = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default")]
        struct Read<S, T> {
            #[serde(default)]
            metadata: PartialMeta,
            #[serde(default)]
            spec: S,
            #[serde(default)]
            status: T,
        }

        let Read { metadata, spec, status } = Read::deserialize(deserializer)?;
        Ok(Self { metadata: metadata.to_object_meta(), spec, status })
    }
}

impl<S, T> Resource for PartialWorkload<S, T> {
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

    fn meta(&self) -> &meta::ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut meta::ObjectMeta {
        &mut self.metadata
    }
}

/// A number of replicas.
pub(super) fn replicas(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

impl ScaleSource for Workload {
    fn metadata(&self) -> &meta::ObjectMeta {
        &self.metadata
    }

    fn scale(&self, _: &ScalePaths) -> Option<ScaleObject> {
        let spec = self.spec.0.as_ref()?;
        let status = self.status.0.as_ref().map_or(&Value::Null, |status| &status.replicas);
        let selector = Option::<LabelSelector>::deserialize(&spec.selector).ok()?;
        Some(self.read(Scale {
            // The API server has set it in whatever it stores.
            spec_replicas: replicas(&spec.replicas)?,
            // It leaves out a zero.
            status_replicas: if status.is_null() { 0 } else { replicas(status)? },
            selector: selector_of(selector.as_ref()).ok()?.to_string(),
        }))
    }
}
