//! Properties of one object: its namespace, its API, and the objects that it refers to.

use hpa_calc::crd::versions;
use hpa_calc::{MetricsApi, api::MetricSourceType};
use hpa_controller::AutoscalerApi;
use serde_json::Value;

use crate::manifests::{Manifest, items, string_at};

/// The path of an autoscaler's reference to its target, also in KEDA's `ScaledObject`.
pub(super) const TARGET_POINTER: &str = "/spec/scaleTargetRef";
/// The built-in kinds that have a scale, with their API groups.
pub(super) const SCALABLE_KINDS: [(&str, &str); 4] = [
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "ReplicaSet"),
    ("", "ReplicationController"),
];

/// A reference to an object: its group, kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// Whether an object is an autoscaler of the core API in any version, or of the custom API.
pub(crate) fn is_autoscaler(manifest: &Manifest) -> bool {
    manifest.kind() == hpa_calc::crd::KIND
        && versions::is_known(string_at(&manifest.object, "/apiVersion"))
}

/// The API of an autoscaler of any version.
pub(super) fn autoscaler_api(autoscaler: &Manifest) -> AutoscalerApi {
    let is_custom = group(string_at(&autoscaler.object, "/apiVersion")) == hpa_calc::crd::GROUP;
    if is_custom { AutoscalerApi::Custom } else { AutoscalerApi::Core }
}

/// Whether an autoscaler of the latest version has a metric of the metrics API with this group. An
/// autoscaler without metrics reads CPU.
pub(super) fn uses_metrics_api(autoscaler: &Manifest, group: &str) -> bool {
    let metrics = autoscaler.object.pointer("/spec/metrics").and_then(Value::as_array);
    let Some(metrics) = metrics.filter(|metrics| !metrics.is_empty()) else {
        return group == MetricsApi::Resource.group();
    };
    metrics.iter().any(|metric| {
        let api = MetricSourceType::from(string_at(metric, "/type")).metrics_api();
        api.is_some_and(|api| api.group() == group)
    })
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
        let list = items(pods.and_then(|pods| pods.get(member)));
        list.enumerate().map(move |(index, container)| {
            (format!("spec.template.spec.{member}[{index}]"), container)
        })
    };
    let sidecars = list("initContainers")
        .filter(|(_, container)| string_at(container, "/restartPolicy") == "Always");
    list("containers").chain(sidecars)
}

/// `namespace/name` of an object, or `name` if the manifest has no namespace. `generateName` stands
/// for a name, and `(no name)` for the lack of both.
pub(super) fn qualified_name(manifest: &Manifest) -> String {
    let object = &manifest.object;
    let names = ["/metadata/name", "/metadata/generateName"];
    let mut names = names.into_iter().map(|pointer| string_at(object, pointer));
    let name = names.find(|name| !name.is_empty()).unwrap_or("(no name)");
    match string_at(object, "/metadata/namespace") {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// Whether objects of the kind may have a scale.
pub(super) fn is_scalable(target: &Reference) -> bool {
    let Reference { group, kind, .. } = target;
    // A group with a dot may be one of custom resources, which may have a scale.
    group.contains('.') || SCALABLE_KINDS.contains(&(group.as_str(), kind.as_str()))
}
