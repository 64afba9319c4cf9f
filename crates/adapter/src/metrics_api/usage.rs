//! The objects and lists of `metrics.k8s.io`.

use std::time::Duration;

use hpa_calc::{Quantity, api::ResourceName, quantity::Format};
use hpa_metrics::wire::{self, ItemLabels, ItemMeta, NodeMetrics, PodMetrics};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::metrics_api::values::{List, WholeSeconds};

const API_VERSION: &str = "metrics.k8s.io/v1beta1";

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata<'a> {
    pub name: &'a str,
    /// Empty for nodes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: &'a str,
    creation_timestamp: WholeSeconds,
    #[serde(skip_serializing_if = "ItemLabels::is_empty")]
    labels: &'a ItemLabels,
}

/// CPU in cores and memory in bytes. `None` if not measured.
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Container<'a> {
    name: &'a str,
    pub usage: Usage,
}

/// The usage of a pod or node. Serializes to the body of a response, or to an item of a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMetrics<'a> {
    /// `None` in items of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    pub metadata: Metadata<'a>,
    pub(crate) timestamp: WholeSeconds,
    pub window: String,
    /// `None` for nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<Vec<Container<'a>>>,
    /// `None` for pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Metrics of pods or of nodes, by their names in the API and in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsKind {
    pub object: &'static str,
    pub list: &'static str,
    pub noun: &'static str,
    /// The resource in errors about missing objects, as in prometheus-adapter.
    pub not_found_resource: &'static str,
}

impl MetricsKind {
    pub const PODS: Self = Self {
        object: "PodMetrics",
        list: "PodMetricsList",
        noun: "pod",
        not_found_resource: "pods",
    };
    pub const NODES: Self = Self {
        object: "NodeMetrics",
        list: "NodeMetricsList",
        noun: "node",
        not_found_resource: "node",
    };

    pub(crate) fn list_of(self, items: Vec<ObjectMetrics<'_>>) -> List<ObjectMetrics<'_>> {
        List::new(self.list, API_VERSION, items)
    }
}

impl<'a> ObjectMetrics<'a> {
    fn new(
        object: &'a ItemMeta,
        timestamp: Timestamp,
        window: SignedDuration,
        now: Timestamp,
    ) -> Self {
        let metadata = Metadata {
            name: &object.name,
            namespace: &object.namespace,
            // The object exists only in the response.
            creation_timestamp: WholeSeconds(now),
            labels: &object.labels,
        };
        Self {
            kind: None,
            api_version: None,
            metadata,
            timestamp: WholeSeconds(timestamp),
            window: go_duration_text(window.unsigned_abs()),
            containers: None,
            usage: None,
        }
    }

    pub(crate) fn with_kind(self, kind: MetricsKind) -> Self {
        Self { kind: Some(kind.object), api_version: Some(API_VERSION), ..self }
    }

    /// The metrics of a pod in a response that is created `now`.
    pub(crate) fn of_pod(pod: &'a PodMetrics, now: Timestamp) -> Self {
        let containers = pod.containers.iter();
        let containers = containers.map(|container| Container {
            name: &container.name,
            usage: Usage::from(&container.usage),
        });
        let containers = Some(containers.collect());
        Self { containers, ..Self::new(&pod.metadata, pod.timestamp, pod.window, now) }
    }

    /// The metrics of a node in a response that is created `now`.
    pub(crate) fn of_node(node: &'a NodeMetrics, now: Timestamp) -> Self {
        let usage = Some(Usage::from(&node.usage));
        Self { usage, ..Self::new(&node.metadata, node.timestamp, node.window, now) }
    }
}

impl From<&wire::Usage> for Usage {
    fn from(usage: &wire::Usage) -> Self {
        let quantity = |resource, format| {
            usage.get(&resource).map(|milli| Quantity::from_milli(milli, format))
        };
        Self {
            cpu: quantity(ResourceName::Cpu, Format::DecimalSI),
            memory: quantity(ResourceName::Memory, Format::BinarySI),
        }
    }
}

/// A duration as Go prints it: `3m0s`, `1h0m0s`, `1.5s`, `250ms`, `0s`.
fn go_duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (unit, name) = match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let (whole, width) = (nanos / unit, unit.ilog10() as usize);
    let fraction = match nanos % unit {
        0 => String::new(),
        digits => format!(".{}", format!("{digits:0width$}").trim_end_matches('0')),
    };
    if name != "s" || whole < 60 {
        return format!("{whole}{fraction}{name}");
    }
    let hours = if whole < 3600 { String::new() } else { format!("{}h", whole / 3600) };
    format!("{hours}{}m{}{fraction}s", whole / 60 % 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn objects_are_created_at_the_time_of_the_response() {
        let pod: PodMetrics = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "web-0", "namespace": "shop" },
            "timestamp": "2026-01-05T12:00:00Z",
            "window": "30s",
            "containers": [],
        }))
        .unwrap();
        let now = "2026-01-05T12:00:20Z".parse().unwrap();
        let metrics = serde_json::to_value(ObjectMetrics::of_pod(&pod, now)).unwrap();
        assert_eq!(metrics["metadata"]["creationTimestamp"], "2026-01-05T12:00:20Z");
        assert_eq!(metrics["timestamp"], "2026-01-05T12:00:00Z");
    }

    #[rstest]
    #[case(0, "0s")]
    #[case(5, "5ns")]
    #[case(1_500, "1.5µs")]
    #[case(250_000_000, "250ms")]
    #[case(1_050_000_000, "1.05s")]
    #[case(180_000_000_000, "3m0s")]
    #[case(3_600_000_000_000, "1h0m0s")]
    #[case(90_061_000_000_000, "25h1m1s")]
    fn durations_print_as_in_go(#[case] nanos: u64, #[case] text: &str) {
        assert_eq!(go_duration_text(Duration::from_nanos(nanos)), text);
    }
}
