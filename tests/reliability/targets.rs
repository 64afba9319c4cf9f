//! Targets and their autoscalers.

use std::fmt;

use hpa_calc::settings::DOMAIN;
use hpa_tests::harness::objects;
use serde_json::{Value, json};

use crate::{MAX_REPLICAS, NAMESPACE};

/// Namespace and name of a target, and of its autoscaler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Id {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// An object in [`NAMESPACE`], the default of the tests.
    pub(crate) fn in_shop(name: &str) -> Self {
        Self::new(NAMESPACE, name)
    }

    pub(crate) fn of(object: &Value) -> Self {
        let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default();
        Self::new(text("namespace"), text("name"))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment,
    /// A custom resource.
    Fleet,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Deployment, Self::Fleet];

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::Deployment => "apps/v1",
            Self::Fleet => "example.com/v1",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::Fleet => "Fleet",
        }
    }

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Deployment => "apps",
            Self::Fleet => "example.com",
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::Fleet => "fleets",
        }
    }

    pub(crate) fn from_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }
}

/// The metric of an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Cpu,
    Pods,
    External,
}

impl Source {
    /// The API group that serves the metric.
    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Cpu => "metrics.k8s.io",
            Self::Pods => "custom.metrics.k8s.io",
            Self::External => "external.metrics.k8s.io",
        }
    }
}

/// A target and its autoscaler of the same name.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
    pub(crate) source: Source,
    /// Whether the autoscaler may scale to zero.
    pub(crate) can_scale_to_zero: bool,
    /// Settings of the autoscaler, as annotations.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
}

impl Target {
    /// A Deployment in [`NAMESPACE`]. `web` is scaled by CPU, `api` by a pods metric and with
    /// a behavior, others by an external metric, and `jobs` down to zero.
    pub(crate) fn in_shop(name: &str) -> Self {
        let source = match name {
            "web" => Source::Cpu,
            "api" => Source::Pods,
            _ => Source::External,
        };
        let can_scale_to_zero = name == "jobs";
        let (id, kind) = (Id::in_shop(name), Kind::Deployment);
        Self { id, kind, source, can_scale_to_zero, settings: Vec::new() }
    }

    /// The minimum load, in replicas.
    pub(crate) fn min_load(&self) -> i64 {
        i64::from(!self.can_scale_to_zero)
    }

    pub(crate) fn workload(&self, replicas: i64) -> Value {
        let Id { namespace, name } = &self.id;
        let mut object = match self.kind {
            Kind::Deployment => objects::deployment(name, replicas),
            Kind::Fleet => json!({
                "apiVersion": self.kind.api_version(), "kind": self.kind.name(),
                "metadata": { "name": name },
                "spec": { "replicas": replicas },
                "status": { "replicas": 0, "selector": format!("app={name}") },
            }),
        };
        object["metadata"]["namespace"] = namespace.as_str().into();
        object
    }

    pub(crate) fn autoscaler(&self) -> Value {
        let Id { namespace, name } = &self.id;
        let metric = match self.source {
            Source::Cpu => objects::cpu_metric(50),
            Source::Pods => objects::pods_metric("requests", "10"),
            Source::External => objects::external_metric(name, "10"),
        };
        let min = i32::from(!self.can_scale_to_zero);
        let mut object = objects::hpa(name, min..=MAX_REPLICAS, [metric]);
        object["metadata"]["namespace"] = namespace.as_str().into();
        for (name, value) in &self.settings {
            object["metadata"]["annotations"][format!("{DOMAIN}/{name}")] = (*value).into();
        }
        let target = &mut object["spec"]["scaleTargetRef"];
        target["apiVersion"] = self.kind.api_version().into();
        target["kind"] = self.kind.name().into();
        if self.source == Source::Pods {
            // The policies allow each possible change. If they limited the replicas, the final
            // replicas would depend on when faults delayed a scaling.
            let policies = json!([{ "type": "Pods", "value": MAX_REPLICAS, "periodSeconds": 15 }]);
            object["spec"]["behavior"] = json!({
                "scaleUp": { "stabilizationWindowSeconds": 0, "policies": policies },
                "scaleDown": { "stabilizationWindowSeconds": 45, "policies": policies },
            });
        }
        object
    }
}

/// The definition of [`Kind::Fleet`].
pub(crate) fn fleet_definition() -> Value {
    let scale = json!({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "subresources": { "status": {}, "scale": scale },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "fleets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": { "plural": "fleets", "singular": "fleet", "kind": "Fleet" },
        },
    })
}
