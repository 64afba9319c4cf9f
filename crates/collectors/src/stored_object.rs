//! Objects of the API server whose large fields are kept as text until they are needed.

use std::borrow::Cow;

use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// The maximum number of objects in one page of a list. The client of `hpa-controller` reduces it
/// to keep pages to a few megabytes.
pub(crate) const PAGE_SIZE: u32 = 250;

/// An object as it is stored. A page of a list has many of them, and a tree of JSON values needs
/// more than ten times the memory of its text. Therefore, the fields that tenants can make large
/// are kept as text, and `metadata.managedFields` is skipped.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub(crate) struct StoredObject {
    /// Name, namespace, UID and resource version.
    metadata: ObjectMeta,
    pub(crate) labels: Option<Box<RawValue>>,
    pub(crate) annotations: Option<Box<RawValue>>,
    pub(crate) spec: Option<Box<RawValue>>,
    pub(crate) status: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMetadata,
    #[serde(default)]
    spec: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default)]
    labels: Option<Box<RawValue>>,
    #[serde(default)]
    annotations: Option<Box<RawValue>>,
}

impl From<Wire> for StoredObject {
    fn from(Wire { metadata, spec, status }: Wire) -> Self {
        let WireMetadata { name, namespace, uid, resource_version, labels, annotations } = metadata;
        let metadata =
            ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        Self { metadata, labels, annotations, spec, status }
    }
}

impl kube::Resource for StoredObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Decodes a field of an object. A missing field is decoded as null.
pub(crate) fn decode<T: DeserializeOwned>(field: Option<&RawValue>) -> serde_json::Result<T> {
    serde_json::from_str(field.map_or("null", RawValue::get))
}

#[cfg(test)]
mod tests {
    use kube::{ResourceExt, core::WatchEvent};

    use super::*;

    /// A field of an unexpected type must not make the whole page undecodable.
    #[test]
    fn fields_are_kept_as_text_in_events() {
        let event = r#"{"type":"ADDED","object":{"kind":"A","metadata":{"name":"a","namespace":"n",
            "resourceVersion":"7","labels":null,"managedFields":[{"fieldsV1":{"f:spec":{}}}]},
            "spec":[1, 2]}}"#;
        let WatchEvent::Added(object) = serde_json::from_str(event).unwrap() else {
            panic!("not an added object")
        };
        let object: StoredObject = object;
        assert_eq!((object.name_any(), object.namespace().as_deref()), ("a".into(), Some("n")));
        assert_eq!(object.resource_version().as_deref(), Some("7"));
        assert!(object.managed_fields().is_empty() && object.labels.is_none());
        assert_eq!(object.spec.as_deref().map(RawValue::get), Some("[1, 2]"));
        assert_eq!(decode::<Vec<u8>>(object.spec.as_deref()).unwrap(), [1, 2]);
        assert_eq!(decode::<Option<u8>>(object.status.as_deref()).unwrap(), None);
    }
}
