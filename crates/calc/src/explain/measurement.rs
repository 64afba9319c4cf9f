//! The value of a metric beside its target.

use super::{Explanation, TargetValue, format::number};
use crate::{
    api::{HorizontalPodAutoscaler, MetricSpec},
    quantity::MilliValue,
};

/// A metric, its value and its target, formatted in the same unit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measurement {
    /// The metric's name, with its container or object.
    pub metric: String,
    /// The measured usage.
    pub current: String,
    /// The target.
    pub target: String,
    /// ` of requests`, ` per pod` or empty.
    pub unit: &'static str,
}

impl Measurement {
    /// The metric with the largest proposal, else the first that could be read.
    pub(super) fn new(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> Option<Self> {
        let readable = explanation.metrics.iter().position(|metric| metric.error.is_none());
        let index = explanation.winner.or(readable)?;
        let (spec, metric) = (hpa.spec.metrics.get(index)?, explanation.metrics.get(index)?);
        let name = metric_name(spec);
        let target_value = match metric.target? {
            TargetValue::Value(value) => value,
            TargetValue::Utilization(target) => {
                let (current, target) = (format!("{}%", metric.utilization?), format!("{target}%"));
                return Some(Self { metric: name, current, target, unit: " of requests" });
            }
        };
        let (unit, format): (_, fn(MilliValue) -> String) = match spec.target() {
            _ if name.contains("memory") => (" per pod", mebibytes),
            // Without pods, the usage is a total.
            Some(target) if target.average_value.is_some() && explanation.current_replicas > 0 => {
                (" per pod", quantity)
            }
            _ => ("", quantity),
        };
        let (current, target) = (format(metric.usage?), format(target_value));
        Some(Self { metric: name, current, target, unit })
    }
}

fn quantity(value: MilliValue) -> String {
    number(value.as_f64())
}

fn mebibytes(value: MilliValue) -> String {
    format!("{}Mi", number(value.as_f64() / 1024.0 / 1024.0))
}

/// The name of a metric, with its container or object.
pub fn metric_name(spec: &MetricSpec) -> String {
    if let Some(source) = &spec.resource {
        return source.name.clone();
    }
    if let Some(source) = &spec.container_resource {
        return format!("{} of container {}", source.name, source.container);
    }
    if let Some(source) = &spec.object {
        let object = &source.described_object;
        return format!("{} of {}/{}", source.metric.name, object.kind, object.name);
    }
    let metric = spec.pods.as_ref().map(|source| &source.metric);
    let metric = metric.or(spec.external.as_ref().map(|source| &source.metric));
    metric.map_or_else(|| spec.source_type.to_string(), |metric| metric.name.clone())
}
