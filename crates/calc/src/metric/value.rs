//! Object and External metrics: one value, or the sum of all series.

use super::{Context, EvaluateError, EvaluatedMetric, MetricSpecError, expect_reading};
use crate::{
    api::{
        ExternalMetricSource, ExternalMetricStatus, MetricIdentifier, MetricSourceType,
        MetricStatus, MetricTarget, MetricTargetType, MetricValueStatus, ObjectMetricSource,
        ObjectMetricStatus,
    },
    explain::TargetValue,
    quantity::{MilliValue, Quantity},
    readings::{ReadError, Reading},
    replicas, selector,
};

pub(super) fn object(
    source: &ObjectMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<EvaluatedMetric, EvaluateError> {
    let (target, is_average) = match &source.target {
        target if is_object_value(target) => (target.value.as_ref(), false),
        target if is_object_average(target) => (target.average_value.as_ref(), true),
        _ => (None, false),
    };
    let target = target.map(Quantity::milli_value).ok_or(MetricSpecError::ObjectTarget)?;
    let (metric, object) = (&source.metric.name, &source.described_object);
    let usage = expect_reading(reading, |reading| match reading {
        Reading::Object(usage) => Some(usage),
        _ => None,
    });
    let usage = usage.map_err(EvaluateError::reading(|| {
        format!("metric {metric} on {} {}/{}", object.kind, context.namespace, object.name)
    }))?;
    let (proposal, name, current) = if is_average {
        let target = context.average_by_replica_target(target);
        let proposal = replicas::object_average_value(&target, usage);
        (proposal, external_name(&source.metric), average_status(proposal.usage))
    } else {
        let proposal = replicas::value(&context.value_target(target), usage, context.pods())?;
        let name = format!("{} metric {metric}", object.kind);
        (proposal, name, value_status(proposal.usage))
    };
    let status = ObjectMetricStatus {
        metric: source.metric.clone(),
        current,
        described_object: object.clone(),
        ..Default::default()
    };
    let status = MetricStatus {
        source_type: MetricSourceType::Object,
        object: Some(status.into()),
        ..Default::default()
    };
    Ok(EvaluatedMetric {
        proposal,
        name,
        target: TargetValue::Value(target),
        status,
        effects: Vec::new(),
    })
}

/// The name of an External metric in conditions and events. The reference also gives it to an
/// Object metric with an average target, by mistake.
fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, go_selector(metric))
}

pub(super) fn external(
    source: &ExternalMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<EvaluatedMetric, EvaluateError> {
    let (target, is_average) = match &source.target {
        MetricTarget { average_value: Some(target), .. } => (target.milli_value(), true),
        MetricTarget { value: Some(target), .. } => (target.milli_value(), false),
        _ => return Err(MetricSpecError::ExternalTarget.into()),
    };
    let values = expect_reading(reading, |reading| match reading {
        Reading::External(values) => Some(values),
        _ => None,
    });
    let metric = &source.metric;
    let values = values.map_err(EvaluateError::reading(|| {
        format!("external metric {}/{}/{}", context.namespace, metric.name, go_selector(metric))
    }))?;
    let (proposal, current) = if is_average {
        let target = context.average_by_replica_target(target);
        let proposal = replicas::external_average_value(&target, &values);
        (proposal, average_status(proposal.usage))
    } else {
        let usage = replicas::external_total(&values);
        let proposal = replicas::value(&context.value_target(target), usage, context.pods())?;
        (proposal, value_status(proposal.usage))
    };
    let status = ExternalMetricStatus { metric: metric.clone(), current, ..Default::default() };
    let status = MetricStatus {
        source_type: MetricSourceType::External,
        external: Some(status.into()),
        ..Default::default()
    };
    let name = external_name(metric);
    Ok(EvaluatedMetric {
        proposal,
        name,
        target: TargetValue::Value(target),
        status,
        effects: Vec::new(),
    })
}

fn value_status(usage: MilliValue) -> MetricValueStatus {
    MetricValueStatus { value: Some(usage.into()), ..Default::default() }
}

pub(super) fn average_status(usage: MilliValue) -> MetricValueStatus {
    MetricValueStatus { average_value: Some(usage.into()), ..Default::default() }
}

pub(super) fn is_object_average(target: &MetricTarget) -> bool {
    !is_object_value(target)
        && target.target_type == MetricTargetType::AverageValue
        && target.average_value.is_some()
}

fn is_object_value(target: &MetricTarget) -> bool {
    target.target_type == MetricTargetType::Value && target.value.is_some()
}

/// The metric's selector as Go prints it with `%v`, as in all texts of the reference.
fn go_selector(metric: &MetricIdentifier) -> String {
    selector::go_string(metric.selector.as_ref())
}
