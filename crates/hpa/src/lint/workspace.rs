//! The input of the checks: objects, and the metrics that are served.

use std::collections::BTreeSet;

use hpa_collectors::{Compat, collection::CollectionSettings};
use serde_json::Value;

use crate::{
    args::SourceArguments,
    convert::versions,
    manifests::{Manifest, string_at},
};

/// Objects from files or from a cluster.
#[derive(Default)]
pub(super) struct Workspace {
    objects: Vec<Manifest>,
    /// Group and kind of the lists that succeeded. `None` for objects from files.
    listed_kinds: Option<BTreeSet<(String, String)>>,
    /// The metrics that the cluster or a rules file serves. `None` if unknown.
    pub(super) served: Option<ServedMetrics>,
    pub(super) in_process_sources: InProcessSources,
}

/// The controller's sources of metrics other than the metrics APIs and rules.
#[derive(Clone, Debug, Default)]
pub(super) struct InProcessSources {
    /// The settings of `--collectors`, if it is on.
    pub(super) collectors: Option<CollectionSettings>,
    /// Whether `--scaling-schedule` is on.
    pub(super) schedules: bool,
}

impl InProcessSources {
    pub(super) fn from_flags(arguments: &SourceArguments) -> Self {
        let SourceArguments { schedules, collectors, rules } = arguments;
        let has_prometheus = rules.prometheus.prometheus_url.is_some();
        let settings = collectors
            .collectors
            .then(|| collectors.collection_settings(Compat::Off, has_prometheus));
        Self { collectors: settings, schedules: schedules.scaling_schedule }
    }
}

/// The metrics that the metrics APIs or the rules of `--metrics-config` serve.
#[derive(Clone, Debug, Default)]
pub(super) struct ServedMetrics {
    /// The end of a message such as "is not served by the cluster".
    pub(super) source: &'static str,
    /// The groups of the metrics APIs that are served.
    pub(super) groups: BTreeSet<String>,
    /// The metrics of `custom.metrics.k8s.io`, such as `pods/http_requests`. `None` if they are
    /// unknown: the API is not served, doesn't answer or lists no metrics.
    pub(super) custom: Option<BTreeSet<String>>,
    /// The metrics of `external.metrics.k8s.io`. `None` as for `custom`.
    pub(super) external: Option<BTreeSet<String>>,
    /// The metrics of rules whose query computes an average, named as in `custom` and `external`.
    pub(super) averages: BTreeSet<String>,
    /// The error if Prometheus could not list the series of the rules, whose metrics are then
    /// unknown.
    pub(super) discovery_error: Option<String>,
}

/// A reference to an object: its group, kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl Reference {
    /// The reference in a field of an object.
    pub(super) fn at(object: &Value, pointer: &str) -> Self {
        let reference = object.pointer(pointer).unwrap_or(&Value::Null);
        Self {
            group: group(string_at(reference, "/apiVersion")).to_owned(),
            kind: string_at(reference, "/kind").to_owned(),
            name: string_at(reference, "/name").to_owned(),
        }
    }

    /// The reference to an object.
    pub(super) fn to(manifest: &Manifest) -> Self {
        let object = &manifest.object;
        Self {
            group: group(string_at(object, "/apiVersion")).to_owned(),
            kind: manifest.kind().to_owned(),
            name: string_at(object, "/metadata/name").to_owned(),
        }
    }
}

impl Workspace {
    pub(super) fn from_manifests(objects: Vec<Manifest>) -> Self {
        Self { objects, ..Self::default() }
    }

    pub(super) fn from_cluster(
        objects: Vec<Manifest>,
        listed_kinds: BTreeSet<(String, String)>,
        served: ServedMetrics,
    ) -> Self {
        let (listed_kinds, served) = (Some(listed_kinds), Some(served));
        Self { objects, listed_kinds, served, ..Self::default() }
    }

    /// Sets the namespace of the objects that have none, as `kubectl apply --namespace` does.
    pub(super) fn set_namespace(&mut self, name: Option<&str>) {
        let Some(name) = name else { return };
        for manifest in &mut self.objects {
            if namespace(manifest).is_empty()
                && let Some(metadata) = manifest.object.get_mut("metadata")
                && let Some(metadata) = metadata.as_object_mut()
            {
                metadata.insert("namespace".to_owned(), name.into());
            }
        }
    }

    /// Whether the objects are from files, not from a cluster.
    pub(super) fn is_from_files(&self) -> bool {
        self.listed_kinds.is_none()
    }

    /// Whether the workspace has all objects of the reference's kind in the checked namespaces.
    pub(super) fn has_all_of_kind(&self, reference: &Reference) -> bool {
        let kind = (reference.group.clone(), reference.kind.clone());
        self.listed_kinds.as_ref().is_some_and(|kinds| kinds.contains(&kind))
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Manifest> {
        self.objects.iter()
    }

    pub(super) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Manifest> {
        self.objects.iter().filter(move |object| object.kind() == kind)
    }

    pub(super) fn autoscalers(&self) -> impl Iterator<Item = &Manifest> {
        self.objects.iter().filter(|manifest| is_autoscaler(manifest))
    }

    /// The object to which `from` refers, in the same namespace. If only one of both manifests
    /// leaves the namespace out, they may be in the same one.
    pub(super) fn referenced_object(
        &self,
        from: &Manifest,
        reference: &Reference,
    ) -> Option<&Manifest> {
        let is_named = |object: &&Manifest| Reference::to(object) == *reference;
        let candidates = || self.objects.iter().filter(is_named);
        let may_match =
            |object: &&Manifest| namespace(object).is_empty() != namespace(from).is_empty();
        candidates()
            .find(|object| namespace(object) == namespace(from))
            .or_else(|| candidates().find(may_match))
    }
}

/// Whether an object is an autoscaler of the core API in any version, or of the custom API.
pub(crate) fn is_autoscaler(manifest: &Manifest) -> bool {
    manifest.kind() == hpa_crd::KIND
        && versions::is_known(string_at(&manifest.object, "/apiVersion"))
}

/// The namespace of an object; empty if the manifest leaves it out.
pub(super) fn namespace(manifest: &Manifest) -> &str {
    string_at(&manifest.object, "/metadata/namespace")
}

/// The group of an `apiVersion`; empty for the core group.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The template of the pods that an object creates.
pub(super) fn pod_template(object: &Value) -> Option<&Value> {
    object.pointer("/spec/jobTemplate/spec/template").or_else(|| object.pointer("/spec/template"))
}

/// The containers of a target's pods whose requests count, with their paths: all but the init
/// containers that end before the pod runs.
pub(super) fn containers(target: &Value) -> impl Iterator<Item = (String, &Value)> {
    let list = |member: &'static str| {
        let pods = target.pointer("/spec/template/spec");
        let list = pods.and_then(|pods| pods.get(member)?.as_array());
        list.into_iter().flatten().enumerate().map(move |(index, container)| {
            (format!("spec.template.spec.{member}[{index}]"), container)
        })
    };
    let sidecars = list("initContainers")
        .filter(|(_, container)| string_at(container, "/restartPolicy") == "Always");
    list("containers").chain(sidecars)
}
