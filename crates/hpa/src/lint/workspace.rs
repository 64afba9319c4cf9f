//! The objects of a run of `hpa lint`, and the metrics that are served.

use std::collections::BTreeSet;

use hpa_collectors::{Compat, collection::CollectionSettings};
use serde_json::Value;

use crate::{
    args::SourceArguments,
    convert::versions,
    manifests::{Manifest, text},
};

/// Objects from files or from a cluster.
pub(super) struct Workspace {
    objects: Vec<Manifest>,
    /// The kinds that were listed, with their groups. `None` for objects from files.
    listed: Option<BTreeSet<(String, String)>>,
    /// The metrics that the cluster or a rules file serves. `None` if unknown.
    pub(super) served: Option<ServedMetrics>,
    /// The controller's other sources of metrics.
    pub(super) own_sources: OwnSources,
}

/// The sources in the controller's process that need no API and no rules.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnSources {
    /// The settings of `--collectors`, if it is on.
    pub(super) collectors: Option<CollectionSettings>,
    /// Whether `--scaling-schedule` is on.
    pub(super) schedules: bool,
}

impl OwnSources {
    pub(super) fn from_flags(arguments: &SourceArguments) -> Self {
        let SourceArguments { schedules, collectors, rules } = arguments;
        let has_prometheus = rules.prometheus.prometheus_url.is_some();
        let settings =
            collectors.collectors.then(|| collectors.collection(Compat::Off, has_prometheus));
        Self { collectors: settings, schedules: schedules.scaling_schedule }
    }
}

/// The metrics that are served.
#[derive(Clone, Debug, Default)]
pub(super) struct ServedMetrics {
    /// The name of the source, for messages.
    pub(super) by: &'static str,
    /// The metrics APIs.
    pub(super) groups: BTreeSet<String>,
    /// The metrics of `custom.metrics.k8s.io`, such as `pods/http_requests`. `None` if they are not
    /// listed.
    pub(super) custom: Option<BTreeSet<String>>,
    /// The metrics of `external.metrics.k8s.io`. `None` if they are not listed.
    pub(super) external: Option<BTreeSet<String>>,
    /// The metrics of rules whose query is an average, by the same names.
    pub(super) averages: BTreeSet<String>,
    /// The reason why the series of the rules could not be read. The rules' metrics are then
    /// unknown.
    pub(super) undiscovered: Option<String>,
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
            group: group(text(reference, "/apiVersion")).to_owned(),
            kind: text(reference, "/kind").to_owned(),
            name: text(reference, "/name").to_owned(),
        }
    }

    /// The reference to an object.
    pub(super) fn to(manifest: &Manifest) -> Self {
        let object = &manifest.object;
        Self {
            group: group(text(object, "/apiVersion")).to_owned(),
            kind: manifest.kind().to_owned(),
            name: text(object, "/metadata/name").to_owned(),
        }
    }
}

impl Workspace {
    pub(super) fn from_manifests(objects: Vec<Manifest>) -> Self {
        Self { objects, listed: None, served: None, own_sources: OwnSources::default() }
    }

    pub(super) fn from_cluster(
        objects: Vec<Manifest>,
        listed: BTreeSet<(String, String)>,
        served: ServedMetrics,
    ) -> Self {
        let own_sources = OwnSources::default();
        Self { objects, listed: Some(listed), served: Some(served), own_sources }
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
    pub(super) fn is_files(&self) -> bool {
        self.listed.is_none()
    }

    /// Whether the workspace has all objects of a kind in a cluster.
    pub(super) fn has_all(&self, reference: &Reference) -> bool {
        let kind = (reference.group.clone(), reference.kind.clone());
        self.listed.as_ref().is_some_and(|listed| listed.contains(&kind))
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

    /// The object that an object of the same namespace refers to. A manifest without a namespace
    /// can be in any.
    pub(super) fn referenced(&self, from: &Manifest, reference: &Reference) -> Option<&Manifest> {
        let found = || self.objects.iter().filter(|object| Reference::to(object) == *reference);
        let may_match =
            |object: &&Manifest| namespace(object).is_empty() != namespace(from).is_empty();
        found()
            .find(|object| namespace(object) == namespace(from))
            .or_else(|| found().find(may_match))
    }
}

/// Whether an object is an autoscaler of the core API in any version, or of the custom API.
pub(crate) fn is_autoscaler(manifest: &Manifest) -> bool {
    manifest.kind() == hpa_crd::KIND && versions::is_known(text(&manifest.object, "/apiVersion"))
}

/// The namespace of an object; empty if the manifest leaves it out.
pub(super) fn namespace(manifest: &Manifest) -> &str {
    text(&manifest.object, "/metadata/namespace")
}

/// The group of an `apiVersion`; empty for the core group.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The template of the pods that an object creates.
pub(super) fn pod_template(object: &Value) -> Option<&Value> {
    object.pointer("/spec/jobTemplate/spec/template").or_else(|| object.pointer("/spec/template"))
}

/// The containers and sidecars of a target's pods, whose requests count, with their paths.
pub(super) fn containers(target: &Value) -> impl Iterator<Item = (String, &Value)> {
    let list = |member: &'static str| {
        let pods = target.pointer("/spec/template/spec");
        let list = pods.and_then(|pods| pods.get(member)?.as_array());
        list.into_iter().flatten().enumerate().map(move |(index, container)| {
            (format!("spec.template.spec.{member}[{index}]"), container)
        })
    };
    let sidecars = list("initContainers")
        .filter(|(_, container)| text(container, "/restartPolicy") == "Always");
    list("containers").chain(sidecars)
}
