use serde::{Deserialize, Serialize};

use super::{UnknownFields, enums::open_enum};
use crate::{
    quantity::Quantity,
    readings::MetricsApi,
    selector::{LabelSelector, Selector},
};

open_enum! {
    /// The source of a metric.
    MetricSourceType {
        /// The usage of a resource by one container of each pod.
        ContainerResource = "ContainerResource",
        /// A metric from outside the cluster.
        External = "External",
        /// A metric of one Kubernetes object.
        Object = "Object",
        /// A custom metric of each pod.
        Pods = "Pods",
        /// The usage of a resource by each pod.
        Resource = "Resource",
    }
}

open_enum! {
    /// The kind of a target.
    MetricTargetType {
        /// An average over pods or replicas.
        AverageValue = "AverageValue",
        /// Percent of the pods' requests.
        Utilization = "Utilization",
        /// The value itself.
        Value = "Value",
    }
}

impl MetricSourceType {
    /// The member of [`MetricSpec`] that the type names. `None` for an unknown type.
    pub fn member(&self) -> Option<&'static str> {
        match self {
            Self::ContainerResource => Some("containerResource"),
            Self::External => Some("external"),
            Self::Object => Some("object"),
            Self::Pods => Some("pods"),
            Self::Resource => Some("resource"),
            Self::Other(_) => None,
        }
    }

    /// The API that serves metrics of the type. `None` for an unknown type.
    pub fn metrics_api(&self) -> Option<MetricsApi> {
        match self {
            Self::ContainerResource | Self::Resource => Some(MetricsApi::Resource),
            Self::Object | Self::Pods => Some(MetricsApi::Custom),
            Self::External => Some(MetricsApi::External),
            Self::Other(_) => None,
        }
    }

    /// Whether metrics of the type exist without pods, so that they can scale up from zero.
    pub(crate) fn exists_without_pods(&self) -> bool {
        matches!(self, Self::Object | Self::External)
    }

    pub(crate) fn is_resource(&self) -> bool {
        self.metrics_api() == Some(MetricsApi::Resource)
    }
}

/// A metric to scale on. Exactly the member that `type` names is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct MetricSpec {
    /// The source, which names the member that is set.
    #[serde(rename = "type")]
    pub source_type: MetricSourceType,
    /// A metric of one Kubernetes object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Box<ObjectMetricSource>>,
    /// A custom metric of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Box<PodsMetricSource>>,
    /// The usage of a resource by each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Box<ResourceMetricSource>>,
    /// The usage of a resource by one container of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<Box<ContainerResourceMetricSource>>,
    /// A metric from outside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalMetricSource>>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

impl MetricSpec {
    /// The target of the member that is set, even if `type` names another. If several are set,
    /// which the API server rejects, the first in the order of this function counts.
    pub fn target(&self) -> Option<&MetricTarget> {
        let resource = self.resource.as_ref().map(|source| &source.target);
        let container = self.container_resource.as_ref().map(|source| &source.target);
        let pods = self.pods.as_ref().map(|source| &source.target);
        let object = self.object.as_ref().map(|source| &source.target);
        let external = self.external.as_ref().map(|source| &source.target);
        resource.or(container).or(pods).or(object).or(external)
    }

    /// The target that [`target`](Self::target) returns, to change it.
    pub fn target_mut(&mut self) -> Option<&mut MetricTarget> {
        let resource = self.resource.as_mut().map(|source| &mut source.target);
        let container = self.container_resource.as_mut().map(|source| &mut source.target);
        let pods = self.pods.as_mut().map(|source| &mut source.target);
        let object = self.object.as_mut().map(|source| &mut source.target);
        let external = self.external.as_mut().map(|source| &mut source.target);
        resource.or(container).or(pods).or(object).or(external)
    }

    /// The name of the metric or resource. Empty if the member that `type` names is not set.
    pub fn metric_name(&self) -> &str {
        let name = match self.source_type {
            MetricSourceType::Resource => self.resource.as_ref().map(|source| &source.name),
            MetricSourceType::ContainerResource => {
                self.container_resource.as_ref().map(|source| &source.name)
            }
            MetricSourceType::Pods => self.pods.as_ref().map(|source| &source.metric.name),
            MetricSourceType::Object => self.object.as_ref().map(|source| &source.metric.name),
            MetricSourceType::External => self.external.as_ref().map(|source| &source.metric.name),
            MetricSourceType::Other(_) => None,
        };
        name.map_or("", String::as_str)
    }

    /// The selector of the metric's series, as in the spec. It may be invalid.
    pub fn label_selector(&self) -> Option<&LabelSelector> {
        let of_pods = self.pods.as_ref().map(|source| &source.metric);
        let of_object = self.object.as_ref().map(|source| &source.metric);
        let of_external = self.external.as_ref().map(|source| &source.metric);
        of_pods.or(of_object).or(of_external)?.selector.as_ref()
    }

    /// The selector of the metric's series. `None` if there is none, or if it is invalid.
    pub(crate) fn series_selector(&self) -> Option<Selector> {
        self.label_selector()?.to_selector().ok()
    }
}

/// A reference to an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct CrossVersionObjectReference {
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// `group/version`, or `version` for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

impl CrossVersionObjectReference {
    /// The API group. Empty for the core group. As in the reference, any text that isn't
    /// `group/version` is of the core group: not only `v1`, but also `a/b/c`.
    #[must_use]
    pub fn group(&self) -> &str {
        match self.api_version.split_once('/') {
            Some((group, version)) if !version.contains('/') => group,
            _ => "",
        }
    }

    /// Whether this is a `Namespace` of the core group. The reference ignores its name, and reads
    /// the metric of the autoscaler's namespace.
    #[must_use]
    pub fn is_namespace(&self) -> bool {
        self.group().is_empty() && self.kind == "Namespace"
    }

    /// Whether this is a `ScalingSchedule` or `ClusterScalingSchedule` of `zalando.org`, whose
    /// metrics follow a schedule.
    pub fn is_scaling_schedule(&self) -> bool {
        self.group() == "zalando.org"
            && matches!(self.kind.as_str(), "ScalingSchedule" | "ClusterScalingSchedule")
    }
}

/// The plural of a kind, by the rule of apimachinery (`UnsafeGuessKindToResource`), but `gateways`
/// instead of its `gatewaies`.
#[must_use]
pub fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    if singular.ends_with("endpoints") {
        return singular;
    }
    if let Some(stem) = singular.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'o', 'u'])
    {
        return format!("{stem}ies");
    }
    if singular.ends_with('s') { format!("{singular}es") } else { format!("{singular}s") }
}

/// A metric's name, with an optional selector of series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct MetricIdentifier {
    /// The metric's name.
    pub name: String,
    /// Selects series of the metric. The default is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The target of a metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct MetricTarget {
    /// The kind of the target. The API server doesn't compare it with the member that is set.
    #[serde(rename = "type")]
    pub target_type: MetricTargetType,
    /// The target for the value itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// The target for the average over pods or replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// The target for the average usage, in percent of the pods' requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A metric of one Kubernetes object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMetricSource {
    /// The object the metric describes.
    pub described_object: CrossVersionObjectReference,
    /// The metric's name and selector.
    pub metric: MetricIdentifier,
    /// The target: `value` or `averageValue`.
    pub target: MetricTarget,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A custom metric of each pod, as an average over the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PodsMetricSource {
    /// The metric's name and selector.
    pub metric: MetricIdentifier,
    /// The target: `averageValue`.
    pub target: MetricTarget,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The usage of a resource (cpu, memory, …) by each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceMetricSource {
    /// The resource's name.
    pub name: String,
    /// The target: `averageUtilization` or `averageValue`.
    pub target: MetricTarget,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The usage of a resource by one container of each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerResourceMetricSource {
    /// The resource's name.
    pub name: String,
    /// The target: `averageUtilization` or `averageValue`.
    pub target: MetricTarget,
    /// The container's name.
    pub container: String,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A metric from outside the cluster, for example the length of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalMetricSource {
    /// The metric's name and selector.
    pub metric: MetricIdentifier,
    /// The target: `value` or `averageValue`.
    pub target: MetricTarget,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}
