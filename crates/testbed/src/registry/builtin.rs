//! The built-in resources.

use super::{Resource, ScalePaths, ScaleSelector, Version};

#[allow(clippy::struct_excessive_bools, reason = "independent properties")]
struct Builtin {
    group: &'static str,
    version: &'static str,
    older_versions: &'static [&'static str],
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    /// Part of the category `all` (`kubectl get all`).
    is_in_all: bool,
    namespaced: bool,
    has_status: bool,
    has_generation: bool,
    scale: Scale,
}

enum Scale {
    No,
    BySelector,
    ByLabels,
}

const PLAIN: Builtin = Builtin {
    group: "",
    version: "v1",
    older_versions: &[],
    plural: "",
    kind: "",
    short: &[],
    is_in_all: false,
    namespaced: true,
    has_status: false,
    has_generation: false,
    scale: Scale::No,
};

const APPS: Builtin = Builtin {
    group: "apps",
    is_in_all: true,
    has_status: true,
    has_generation: true,
    scale: Scale::BySelector,
    ..PLAIN
};

const ALL: &[Builtin] = &[
    Builtin {
        plural: "namespaces",
        kind: "Namespace",
        short: &["ns"],
        namespaced: false,
        has_status: true,
        ..PLAIN
    },
    Builtin {
        plural: "pods",
        kind: "Pod",
        short: &["po"],
        is_in_all: true,
        has_status: true,
        has_generation: true,
        ..PLAIN
    },
    Builtin {
        plural: "services",
        kind: "Service",
        short: &["svc"],
        is_in_all: true,
        has_status: true,
        ..PLAIN
    },
    Builtin { plural: "events", kind: "Event", short: &["ev"], ..PLAIN },
    Builtin { plural: "serviceaccounts", kind: "ServiceAccount", short: &["sa"], ..PLAIN },
    Builtin { plural: "configmaps", kind: "ConfigMap", short: &["cm"], ..PLAIN },
    Builtin {
        plural: "replicationcontrollers",
        kind: "ReplicationController",
        short: &["rc"],
        scale: Scale::ByLabels,
        group: "",
        ..APPS
    },
    Builtin { plural: "deployments", kind: "Deployment", short: &["deploy"], ..APPS },
    Builtin { plural: "replicasets", kind: "ReplicaSet", short: &["rs"], ..APPS },
    Builtin { plural: "statefulsets", kind: "StatefulSet", short: &["sts"], ..APPS },
    Builtin {
        group: "autoscaling",
        version: "v2",
        older_versions: &["v1"],
        plural: "horizontalpodautoscalers",
        kind: "HorizontalPodAutoscaler",
        short: &["hpa"],
        is_in_all: true,
        has_status: true,
        ..PLAIN
    },
    Builtin {
        group: "networking.k8s.io",
        plural: "ingresses",
        kind: "Ingress",
        short: &["ing"],
        has_status: true,
        has_generation: true,
        ..PLAIN
    },
    Builtin { group: "coordination.k8s.io", plural: "leases", kind: "Lease", ..PLAIN },
    Builtin {
        group: "apiextensions.k8s.io",
        plural: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        short: &["crd", "crds"],
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
        scale: scale(builtin),
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
        short_names: builtin.short.iter().map(|&name| name.to_owned()).collect(),
        categories: if builtin.is_in_all { vec!["all".to_owned()] } else { Vec::new() },
        namespaced: builtin.namespaced,
        has_generation: builtin.has_generation,
        is_custom: false,
    }
}

fn scale(builtin: &Builtin) -> Option<ScalePaths> {
    let selector = match builtin.scale {
        Scale::No => return None,
        Scale::BySelector => ScaleSelector::LabelSelector("/spec/selector".to_owned()),
        Scale::ByLabels => ScaleSelector::Labels("/spec/selector".to_owned()),
    };
    let (spec, status) = ("/spec/replicas".to_owned(), "/status/replicas".to_owned());
    Some(ScalePaths { spec_replicas: spec, status_replicas: status, selector })
}
