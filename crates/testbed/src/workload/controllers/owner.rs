//! Objects that own pods or `ReplicaSet`s.

use hpa_calc::selector::Selector;
use hpa_simulate::{
    MAX_PODS,
    workload::{model::WorkloadId, random},
};
use serde_json::{Value, json};

use crate::{
    Testbed, json_fields,
    registry::{ScalePaths, ScaleSelector},
    store::{Object, ObjectId, ResourceKey},
};

/// An object that owns pods, or a Deployment, which owns `ReplicaSet`s.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) key: ResourceKey,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) object: Object,
    pub(crate) paths: ScalePaths,
}

pub(super) fn pods_key() -> ResourceKey {
    key("", "pods")
}

pub(super) fn replica_sets_key() -> ResourceKey {
    key("apps", "replicasets")
}

fn key(group: &str, plural: &str) -> ResourceKey {
    (group.to_owned(), plural.to_owned())
}

/// The resources that the controllers depend on.
pub(super) fn relevant_keys(testbed: &Testbed) -> Vec<ResourceKey> {
    let crds = key("apiextensions.k8s.io", "customresourcedefinitions");
    let scalable = testbed.scalable_resources();
    scalable.iter().map(|resource| resource.key()).chain([pods_key(), crds]).collect()
}

/// All objects with a scale.
pub(crate) fn list_owners(testbed: &Testbed) -> Vec<Owner> {
    let mut owners = Vec::new();
    for resource in testbed.scalable_resources() {
        let mut versions = resource.versions.iter();
        let version = versions.find_map(|one| Some((&one.name, one.scale.as_ref()?)));
        let Some((version, paths)) = version else { continue };
        let (key, api_version) = (resource.key(), resource.api_version(version));
        owners.extend(testbed.objects(&key).into_iter().map(|object| Owner {
            key: key.clone(),
            api_version: api_version.clone(),
            kind: resource.kind.clone(),
            object,
            paths: paths.clone(),
        }));
    }
    owners
}

impl Owner {
    pub(crate) fn uid(&self) -> &str {
        json_fields::str_at(&self.object, "/metadata/uid")
    }

    pub(crate) fn name(&self) -> &str {
        json_fields::str_at(&self.object, "/metadata/name")
    }

    pub(crate) fn namespace(&self) -> &str {
        json_fields::str_at(&self.object, "/metadata/namespace")
    }

    pub(super) fn id(&self) -> ObjectId {
        (self.namespace().to_owned(), self.name().to_owned())
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind == kind && !self.is_custom()
    }

    pub(super) fn is_custom(&self) -> bool {
        self.key.0 != "apps" && !self.key.0.is_empty()
    }

    pub(super) fn replicas(&self) -> u32 {
        let replicas =
            json_fields::i64_at(&self.object, &self.paths.spec_replicas).unwrap_or_default();
        u32::try_from(replicas.max(0)).unwrap_or(u32::MAX)
    }

    /// The pods that the controllers create: `replicas`, but at most [`MAX_PODS`]. A huge
    /// `maxReplicas` must not exhaust the memory.
    pub(super) fn desired_pods(&self) -> u32 {
        self.replicas().min(MAX_PODS)
    }

    /// `minReadySeconds`: how long a pod must be ready to be available.
    pub(super) fn min_ready_seconds(&self) -> f64 {
        json_fields::i64_at(&self.object, "/spec/minReadySeconds").unwrap_or_default() as f64
    }

    /// The workload that the pods belong to. For a `ReplicaSet` of a Deployment it is the
    /// Deployment.
    pub(crate) fn workload(&self) -> WorkloadId {
        let (kind, name) = match self.controller() {
            Some(controller) if json_fields::str_at(controller, "/kind") == "Deployment" => {
                ("Deployment", json_fields::str_at(controller, "/name"))
            }
            _ => (self.kind.as_str(), self.name()),
        };
        WorkloadId::new(self.namespace(), kind, name)
    }

    /// The reference to the object's controller.
    fn controller(&self) -> Option<&Value> {
        let mut references = json_fields::array_at(&self.object, "/metadata/ownerReferences");
        references.find(|one| one.get("controller") == Some(&Value::Bool(true)))
    }

    pub(super) fn controller_uid(&self) -> Option<&str> {
        self.controller().map(|controller| json_fields::str_at(controller, "/uid"))
    }

    pub(super) fn pod_labels(&self) -> Value {
        if let Some(labels) = self.object.pointer("/spec/template/metadata/labels") {
            return labels.clone();
        }
        let mut labels = Value::Null;
        if let ScaleSelector::Text(pointer) = &self.paths.selector {
            let selector = Selector::parse(json_fields::str_at(&self.object, pointer));
            for (key, value) in selector.iter().flat_map(Selector::required_pairs) {
                json_fields::set(&mut labels, &[key], value);
            }
        }
        if labels.is_null() { json!({ "app": self.name() }) } else { labels }
    }

    /// A hash of the pod template, as a suffix for names.
    pub(super) fn template_hash(&self) -> String {
        let template = self.object.pointer("/spec/template");
        let template = template.map(ToString::to_string).unwrap_or_default();
        random::suffix(&mut fastrand::Rng::with_seed(random::hash(&[&template])), 10)
    }

    /// The template hash in the labels of a `ReplicaSet`.
    pub(super) fn hash_label(&self) -> &str {
        json_fields::str_at(&self.object, "/metadata/labels/pod-template-hash")
    }

    /// Deletes the object, unless a client has already deleted it.
    pub(super) fn delete(&self, testbed: &Testbed) {
        let _ = testbed.delete(&self.api_version, &self.kind, self.namespace(), self.name());
    }

    /// An owner reference for a controlled object.
    pub(super) fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name(),
            "uid": self.uid(), "controller": true, "blockOwnerDeletion": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn huge_number_of_replicas_creates_a_limited_number_of_pods() {
        let owner = |replicas: i64| Owner {
            key: replica_sets_key(),
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            object: Arc::new(json!({ "spec": { "replicas": replicas } })),
            paths: ScalePaths {
                spec_replicas: "/spec/replicas".to_owned(),
                status_replicas: "/status/replicas".to_owned(),
                selector: ScaleSelector::None,
            },
        };
        assert_eq!(owner(3).desired_pods(), 3);
        assert_eq!(owner(2_000_000_000).desired_pods(), MAX_PODS);
        assert_eq!(owner(2_000_000_000).replicas(), 2_000_000_000);
        assert_eq!(owner(1 << 40).desired_pods(), MAX_PODS);
    }
}
