//! The description of a served resource.

use serde_json::Value;

use crate::{error::ObjectReference, store::ResourceKey};

/// JSON pointers to the fields of an object from which its scale is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: ScaleSelector,
}

/// The format of an object's selector, and the JSON pointer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScaleSelector {
    /// The scale has no selector.
    None,
    /// A serialized selector, as in the scale itself.
    Text(String),
    /// A `metav1.LabelSelector`.
    LabelSelector(String),
    /// A map of labels.
    Labels(String),
}

/// A version of a resource, and its properties.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    /// Whether the status is a subresource.
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// The `additionalPrinterColumns` of a custom resource.
    pub(crate) columns: Vec<Value>,
    /// The `openAPIV3Schema` of a custom resource.
    pub(crate) schema: Option<Value>,
}

/// A resource: its names, versions and properties.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    /// The preferred version first.
    pub(crate) versions: Vec<Version>,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether spec changes increment `metadata.generation`.
    pub(crate) has_generation: bool,
    /// Whether a CRD defines the resource.
    pub(crate) is_custom: bool,
}

impl Resource {
    pub(crate) fn key(&self) -> ResourceKey {
        (self.group.clone(), self.plural.clone())
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Whether the objects are Kubernetes' own autoscalers, which have two versions. Autoscalers of
    /// the custom API have one.
    pub(crate) fn is_core_autoscaler(&self) -> bool {
        self.is("autoscaling", "horizontalpodautoscalers")
    }

    pub(crate) fn is_crd(&self) -> bool {
        self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.is("", "namespaces")
    }

    pub(crate) fn reference<'a>(&'a self, name: &'a str) -> ObjectReference<'a> {
        ObjectReference { group: &self.group, plural: &self.plural, kind: &self.kind, name }
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        api_version(&self.group, version)
    }
}

/// `group/version`, or `version` for the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
