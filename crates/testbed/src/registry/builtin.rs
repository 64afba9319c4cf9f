//! The built-in resources.

use super::resource::{Resource, ScalePaths, ScaleSelector, Version};

#[allow(clippy::struct_excessive_bools, reason = "independent properties")]
struct Builtin {
    group: &'static str,
    version: &'static str,
    older_versions: &'static [&'static str],
    plural: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
    /// Part of the category `all` (`kubectl get all`).
    is_in_all: bool,
    namespaced: bool,
    has_status: bool,
    has_generation: bool,
    scale: BuiltinScale,
}

enum BuiltinScale {
    None,
    /// `spec.selector` is a `metav1.LabelSelector`.
    LabelSelector,
    /// `spec.selector` is a map of labels.
    Labels,
}

const PLAIN: Builtin = Builtin {
    group: "",
    version: "v1",
    older_versions: &[],
    plural: "",
    kind: "",
    short_names: &[],
    is_in_all: false,
    namespaced: true,
    has_status: false,
    has_generation: false,
    scale: BuiltinScale::None,
};

const APPS: Builtin = Builtin {
    group: "apps",
    is_in_all: true,
    has_status: true,
    has_generation: true,
    scale: BuiltinScale::LabelSelector,
    ..PLAIN
};

const ALL: &[Builtin] = &[
    Builtin {
        plural: "namespaces",
        kind: "Namespace",
        short_names: &["ns"],
        namespaced: false,
        has_status: true,
        ..PLAIN
    },
    Builtin {
        plural: "pods",
        kind: "Pod",
        short_names: &["po"],
        is_in_all: true,
        has_status: true,
        has_generation: true,
        ..PLAIN
    },
    Builtin {
        plural: "services",
        kind: "Service",
        short_names: &["svc"],
        is_in_all: true,
        has_status: true,
        ..PLAIN
    },
    Builtin { plural: "events", kind: "Event", short_names: &["ev"], ..PLAIN },
    Builtin { plural: "serviceaccounts", kind: "ServiceAccount", short_names: &["sa"], ..PLAIN },
    Builtin { plural: "configmaps", kind: "ConfigMap", short_names: &["cm"], ..PLAIN },
    Builtin {
        plural: "replicationcontrollers",
        kind: "ReplicationController",
        short_names: &["rc"],
        scale: BuiltinScale::Labels,
        group: "",
        ..APPS
    },
    Builtin { plural: "deployments", kind: "Deployment", short_names: &["deploy"], ..APPS },
    Builtin { plural: "replicasets", kind: "ReplicaSet", short_names: &["rs"], ..APPS },
    Builtin { plural: "statefulsets", kind: "StatefulSet", short_names: &["sts"], ..APPS },
    Builtin {
        group: "autoscaling",
        version: "v2",
        older_versions: &["v1"],
        plural: "horizontalpodautoscalers",
        kind: "HorizontalPodAutoscaler",
        short_names: &["hpa"],
        is_in_all: true,
        has_status: true,
        ..PLAIN
    },
    Builtin {
        group: "networking.k8s.io",
        plural: "ingresses",
        kind: "Ingress",
        short_names: &["ing"],
        has_status: true,
        has_generation: true,
        ..PLAIN
    },
    Builtin { group: "coordination.k8s.io", plural: "leases", kind: "Lease", ..PLAIN },
    Builtin {
        group: "apiextensions.k8s.io",
        plural: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        short_names: &["crd", "crds"],
        namespaced: false,
        has_status: true,
        has_generation: true,
        ..PLAIN
    },
];

pub(super) fn resources() -> impl Iterator<Item = Resource> {
    ALL.iter().map(resource)
}

fn resource(builtin: &Builtin) -> Resource {
    let names = std::iter::once(&builtin.version).chain(builtin.older_versions).copied();
    let version = |name: &str| Version {
        name: name.to_owned(),
        has_status: builtin.has_status,
        scale: scale_paths(builtin),
        columns: Vec::new(),
        schema: None,
    };
    Resource {
        group: builtin.group.to_owned(),
        versions: names.map(version).collect(),
        plural: builtin.plural.to_owned(),
        singular: builtin.kind.to_lowercase(),
        kind: builtin.kind.to_owned(),
        list_kind: format!("{}List", builtin.kind),
        short_names: builtin.short_names.iter().map(|&name| name.to_owned()).collect(),
        categories: if builtin.is_in_all { vec!["all".to_owned()] } else { Vec::new() },
        namespaced: builtin.namespaced,
        has_generation: builtin.has_generation,
        is_custom: false,
    }
}

fn scale_paths(builtin: &Builtin) -> Option<ScalePaths> {
    let selector = match builtin.scale {
        BuiltinScale::None => return None,
        BuiltinScale::LabelSelector => ScaleSelector::LabelSelector("/spec/selector".to_owned()),
        BuiltinScale::Labels => ScaleSelector::Labels("/spec/selector".to_owned()),
    };
    let (spec, status) = ("/spec/replicas".to_owned(), "/status/replicas".to_owned());
    Some(ScalePaths { spec_replicas: spec, status_replicas: status, selector })
}
