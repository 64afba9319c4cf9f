//! The objects that are checked together.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::manifests::{Manifest, text};

/// Objects of files or of a cluster.
pub(super) struct Workspace {
    objects: Vec<Manifest>,
    /// Whether the objects are manifests, as opposed to what a cluster has stored.
    is_files: bool,
    /// The metrics that the cluster or a rules file serves, if that is known.
    pub(super) served: Option<ServedMetrics>,
}

/// The metrics that are served.
#[derive(Clone, Debug, Default)]
pub(super) struct ServedMetrics {
    /// What serves them, for messages.
    pub(super) by: &'static str,
    /// The metrics APIs.
    pub(super) groups: BTreeSet<String>,
    /// The metrics of `custom.metrics.k8s.io`, such as `pods/http_requests`. `None` if they are not
    /// listed.
    pub(super) custom: Option<BTreeSet<String>>,
    /// The metrics of `external.metrics.k8s.io`. `None` if they are not listed.
    pub(super) external: Option<BTreeSet<String>>,
}

impl Workspace {
    pub(super) fn from_manifests(objects: Vec<Manifest>) -> Self {
        Self { objects, is_files: true, served: None }
    }

    pub(super) fn from_cluster(objects: Vec<Manifest>, served: ServedMetrics) -> Self {
        Self { objects, is_files: false, served: Some(served) }
    }

    /// Whether the objects are manifests, as opposed to what a cluster has stored.
    pub(super) fn is_files(&self) -> bool {
        self.is_files
    }

    pub(super) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Manifest> {
        self.objects.iter().filter(move |object| object.kind() == kind)
    }

    /// The autoscalers of both APIs.
    pub(super) fn autoscalers(&self) -> impl Iterator<Item = &Manifest> {
        self.of_kind(hpa_crd::KIND).filter(|manifest| {
            let api = text(&manifest.object, "/apiVersion");
            api.starts_with("autoscaling/") || api == hpa_crd::API_VERSION
        })
    }

    /// The object that a reference of an object in the same namespace names.
    pub(super) fn referenced(&self, from: &Manifest, pointer: &str) -> Option<&Manifest> {
        let reference = from.object.pointer(pointer)?;
        let (kind, name) = (text(reference, "/kind"), text(reference, "/name"));
        let group = group(text(reference, "/apiVersion"));
        let found = self.objects.iter().filter(|object| {
            object.kind() == kind
                && text(&object.object, "/metadata/name") == name
                && self::group(text(&object.object, "/apiVersion")) == group
        });
        found.into_iter().find(|object| namespace(object) == namespace(from))
    }
}

/// The namespace of an object; empty if the manifest leaves it out.
pub(super) fn namespace(manifest: &Manifest) -> &str {
    text(&manifest.object, "/metadata/namespace")
}

/// The group of an `apiVersion`; empty for the core group.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The containers of a pod template whose requests count: containers and sidecars.
pub(super) fn containers(target: &Value) -> impl Iterator<Item = &Value> {
    let list = |pointer: &str| {
        let list = target.pointer(pointer).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    let sidecars = list("/spec/template/spec/initContainers")
        .filter(|container| text(container, "/restartPolicy") == "Always");
    list("/spec/template/spec/containers").chain(sidecars)
}
