//! The built-in resources.

use super::resource::{Resource, ScalePaths, ScaleSelector, Version};

/// Group, versions (the preferred one first), plural, kind, short names, and properties:
///
/// - `all`: in the category `all` (`kubectl get all`)
/// - `cluster`: without a namespace
/// - `status`: with a status subresource
/// - `generation`: with `metadata.generation` (for autoscalers since Kubernetes 1.37)
/// - `scale`: with a scale, whose selector is a `metav1.LabelSelector`
/// - `scale-labels`: with a scale, whose selector is a map of labels
type Row = [&'static str; 6];

const ROWS: &[Row] = &[
    ["", "v1", "namespaces", "Namespace", "ns", "cluster status"],
    ["", "v1", "pods", "Pod", "po", "all status generation"],
    ["", "v1", "services", "Service", "svc", "all status"],
    ["", "v1", "events", "Event", "ev", ""],
    ["", "v1", "serviceaccounts", "ServiceAccount", "sa", ""],
    ["", "v1", "configmaps", "ConfigMap", "cm", ""],
    ["", "v1", "replicationcontrollers", "ReplicationController", "rc", REPLICATION_CONTROLLER],
    ["apps", "v1", "deployments", "Deployment", "deploy", WORKLOAD],
    ["apps", "v1", "replicasets", "ReplicaSet", "rs", WORKLOAD],
    ["apps", "v1", "statefulsets", "StatefulSet", "sts", WORKLOAD],
    [AUTOSCALING, "v2 v1", "horizontalpodautoscalers", AUTOSCALER, "hpa", "all status generation"],
    ["networking.k8s.io", "v1", "ingresses", "Ingress", "ing", "status generation"],
    ["coordination.k8s.io", "v1", "leases", "Lease", "", ""],
    [EXTENSIONS, "v1", "customresourcedefinitions", CRD, "crd crds", "cluster status generation"],
];

const WORKLOAD: &str = "all status generation scale";
const REPLICATION_CONTROLLER: &str = "all status generation scale-labels";
const AUTOSCALING: &str = "autoscaling";
const AUTOSCALER: &str = "HorizontalPodAutoscaler";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const CRD: &str = "CustomResourceDefinition";

pub(super) fn resources() -> impl Iterator<Item = Resource> {
    ROWS.iter().map(resource)
}

fn resource([group, versions, plural, kind, short_names, properties]: &Row) -> Resource {
    let has = |property: &str| properties.split(' ').any(|one| one == property);
    let version = |name: &str| Version {
        name: name.to_owned(),
        has_status: has("status"),
        scale: scale_paths(has),
        columns: Vec::new(),
        schema: None,
    };
    Resource {
        group: (*group).to_owned(),
        versions: versions.split(' ').map(version).collect(),
        plural: (*plural).to_owned(),
        singular: kind.to_lowercase(),
        kind: (*kind).to_owned(),
        list_kind: format!("{kind}List"),
        short_names: short_names.split_whitespace().map(str::to_owned).collect(),
        categories: has("all").then(|| "all".to_owned()).into_iter().collect(),
        namespaced: !has("cluster"),
        has_generation: has("generation"),
        is_custom: false,
    }
}

fn scale_paths(has: impl Fn(&str) -> bool) -> Option<ScalePaths> {
    let selector = "/spec/selector".to_owned();
    let selector = match (has("scale"), has("scale-labels")) {
        (false, false) => return None,
        (true, _) => ScaleSelector::LabelSelector(selector),
        (false, true) => ScaleSelector::Labels(selector),
    };
    let (spec, status) = ("/spec/replicas".to_owned(), "/status/replicas".to_owned());
    Some(ScalePaths { spec_replicas: spec, status_replicas: status, selector })
}
