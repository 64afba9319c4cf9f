//! Values of metrics and their units.

use hpa_calc::{
    MilliValue, Quantity,
    api::{MetricSpec, MetricStatus, MetricTarget, MetricTargetType, MetricValueStatus},
    explain::{metric_name, number},
};
use serde::Serialize;

use crate::past::percent;

const BYTES_PER_MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Unit {
    /// Percent of the pods' requests.
    Percent,
    Bytes,
    Number,
}

impl Unit {
    pub(crate) fn new(spec: &MetricSpec) -> Self {
        if spec.target().is_some_and(is_utilization) {
            Self::Percent
        } else if metric_name(spec).contains("memory") {
            Self::Bytes
        } else {
            Self::Number
        }
    }

    /// A value for people.
    pub(crate) fn format(self, value: MilliValue) -> String {
        match self {
            Self::Percent => format!("{}%", number(value.as_f64())),
            Self::Bytes => format!("{}Mi", number(value.as_f64() / BYTES_PER_MEBIBYTE)),
            Self::Number => number(value.as_f64()),
        }
    }
}

/// The target of a metric, in its unit.
pub(crate) fn target_of(spec: &MetricSpec) -> Option<MilliValue> {
    let target = spec.target()?;
    if is_utilization(target) {
        return target.average_utilization.map(percent);
    }
    let value = target.average_value.as_ref().or(target.value.as_ref());
    value.map(Quantity::milli_value)
}

/// The value that a status reports for a metric, in the unit of its target.
pub(crate) fn value_of(spec: &MetricSpec, status: &MetricStatus) -> Option<MilliValue> {
    let (target, current) = (spec.target()?, current(status)?);
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

fn current(status: &MetricStatus) -> Option<&MetricValueStatus> {
    let resource = status.resource.as_ref().map(|source| &source.current);
    let container = status.container_resource.as_ref().map(|source| &source.current);
    let pods = status.pods.as_ref().map(|source| &source.current);
    let object = status.object.as_ref().map(|source| &source.current);
    let external = status.external.as_ref().map(|source| &source.current);
    resource.or(container).or(pods).or(object).or(external)
}
