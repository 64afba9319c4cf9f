//! The value of a metric beside its target.

use std::fmt;

use super::{
    Explanation, TargetValue,
    format::{number, one_line},
};
use crate::{
    api::{HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricTargetType},
    quantity::{MilliValue, Quantity},
    settings::UtilizationOf,
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
    /// ` of requests`, ` of limits`, ` per pod` or empty.
    pub unit: &'static str,
}

impl Measurement {
    /// The metric with the largest proposal, else the first that could be read.
    pub(super) fn new(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> Option<Self> {
        let readable = explanation.metrics.iter().position(|metric| metric.error.is_none());
        let index = explanation.winner.or(readable)?;
        let (spec, metric) = (hpa.spec.metrics.get(index)?, explanation.metrics.get(index)?);
        let (value, target) = match metric.target? {
            TargetValue::Value(target) => (metric.usage?, target),
            TargetValue::Utilization(target) => {
                let (current, target) =
                    (percentage(percent(metric.utilization?)), percentage(percent(target)));
                return Some(Self {
                    metric: metric_name(spec),
                    current,
                    target,
                    unit: of(metric.utilization_of),
                });
            }
        };
        let has_pods = explanation.current_replicas > 0;
        Some(Self::of_value(spec, metric.utilization_of, value, target, has_pods))
    }

    /// A value and its target, utilizations in percent. Without pods, an average is a total.
    pub(crate) fn of_value(
        spec: &MetricSpec,
        utilization_of: UtilizationOf,
        value: MilliValue,
        target: MilliValue,
        has_pods: bool,
    ) -> Self {
        let name = metric_name(spec);
        let (unit, format): (_, fn(MilliValue) -> String) = match spec.target() {
            Some(target) if is_utilization(target) => (of(utilization_of), percentage),
            _ if name.contains("memory") => (" per pod", mebibytes),
            Some(target) if target.average_value.is_some() && has_pods => (" per pod", quantity),
            _ => ("", quantity),
        };
        Self { metric: name, current: format(value), target: format(target), unit }
    }
}

/// The unit of a utilization.
fn of(utilization_of: UtilizationOf) -> &'static str {
    match utilization_of {
        UtilizationOf::Requests => " of requests",
        UtilizationOf::Limits => " of limits",
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metric, current, target, unit } = self;
        write!(f, "{metric} is at {current}{unit}, target {target}")
    }
}

/// The target of a metric: a utilization in percent, or a value.
pub fn target_value(spec: &MetricSpec) -> Option<MilliValue> {
    let target = spec.target()?;
    if is_utilization(target) {
        return target.average_utilization.map(percent);
    }
    target.average_value.as_ref().or(target.value.as_ref()).map(Quantity::milli_value)
}

/// The value that a status reports for a metric, in the unit of its target.
pub fn status_value(spec: &MetricSpec, status: &MetricStatus) -> Option<MilliValue> {
    let (target, current) = (spec.target()?, status.current()?);
    if spec.source_type != status.source_type {
        return None;
    }
    if is_utilization(target) {
        return current.average_utilization.map(percent);
    }
    let value = match target.average_value {
        Some(_) => current.average_value.as_ref(),
        None => current.value.as_ref(),
    };
    value.map(Quantity::milli_value)
}

fn is_utilization(target: &MetricTarget) -> bool {
    target.target_type == MetricTargetType::Utilization || target.average_utilization.is_some()
}

fn percent(percent: i32) -> MilliValue {
    MilliValue::from_units(i64::from(percent))
}

fn percentage(value: MilliValue) -> String {
    format!("{}%", quantity(value))
}

fn quantity(value: MilliValue) -> String {
    number(value.as_f64())
}

fn mebibytes(value: MilliValue) -> String {
    format!("{}Mi", number(value.as_f64() / 1024.0 / 1024.0))
}

/// The name of a metric, with its container or object, without control characters.
pub fn metric_name(spec: &MetricSpec) -> String {
    one_line(&full_name(spec)).into_owned()
}

fn full_name(spec: &MetricSpec) -> String {
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
