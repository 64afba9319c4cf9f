//! Resources and how they are served.

use crate::{error::Subject, store::Key};

/// Where a scale finds its members in an object, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: ScaleSelector,
}

/// What stands at the path of a scale's selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScaleSelector {
    /// There is none.
    None,
    /// The text itself.
    Text(String),
    /// A meta/v1 LabelSelector.
    LabelSelector(String),
    /// A map of labels.
    Labels(String),
}

/// A version in which a resource is served.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// The `additionalPrinterColumns` of a custom resource.
    pub(crate) columns: Vec<serde_json::Value>,
}

/// A resource: a kind of objects and how they are served.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    /// The preferred one comes first.
    pub(crate) versions: Vec<Version>,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether `metadata.generation` counts the changes of the spec.
    pub(crate) counts_generations: bool,
    /// Whether it is defined by a `CustomResourceDefinition`.
    pub(crate) custom: bool,
}

impl Resource {
    pub(crate) fn key(&self) -> Key {
        (self.group.clone(), self.plural.clone())
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn is_autoscaler(&self) -> bool {
        self.is("autoscaling", "horizontalpodautoscalers")
    }

    pub(crate) fn is_definition(&self) -> bool {
        self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.is("", "namespaces")
    }

    pub(crate) fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject { group: &self.group, plural: &self.plural, kind: &self.kind, name }
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        api_version(&self.group, version)
    }
}

/// `group/version`, or `version` for the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
