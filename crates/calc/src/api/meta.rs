use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The part of meta/v1 ObjectMeta that decisions and event recorders need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The object's name, unique in its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's identity: a re-created object has a different UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The version for optimistic locking.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The version of the spec: 1 at creation, incremented by every spec change. Kubernetes sets
    /// it on autoscalers since 1.37.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When the object was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// When the deletion was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// The object's annotations.
    #[serde(deserialize_with = "super::null_as_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The object's labels.
    #[serde(deserialize_with = "super::null_as_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The objects that this one belongs to.
    #[serde(deserialize_with = "super::null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

impl ObjectMeta {
    /// `namespace/name`, or only the name if the object has no namespace, as in a manifest.
    pub fn qualified_name(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{}{slash}{}", self.namespace, self.name)
    }
}

/// An object that another one belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `group/version`, or `version` for the core group.
    pub api_version: Box<str>,
    /// The owner's kind.
    pub kind: Box<str>,
    /// The owner's name.
    pub name: Box<str>,
    /// The owner's UID.
    pub uid: Box<str>,
    /// Whether the owner manages the object. At most one owner does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
}

impl OwnerReference {
    /// The owner that manages the object.
    pub fn of_controller(owners: &[Self]) -> Option<&Self> {
        owners.iter().find(|owner| owner.controller == Some(true))
    }
}
