//! Object and External metrics: one value, or the sum of all series.

use super::{Context, Stage, Valid, answered, computation, milli};
use crate::{
    api::{
        ExternalMetricSource, ExternalMetricStatus, MetricIdentifier, MetricSourceType,
        MetricStatus, MetricTarget, MetricTargetType, MetricValueStatus, ObjectMetricSource,
        ObjectMetricStatus,
    },
    quantity::Quantity,
    readings::{ReadError, Reading},
    replicas, selector,
};

pub(super) fn object(
    source: &ObjectMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<Valid, Stage> {
    let (target, by_replica) = match &source.target {
        target if is_object_value(target) => (target.value.as_ref(), false),
        target if is_object_average(target) => (target.average_value.as_ref(), true),
        _ => (None, false),
    };
    let target = target.map(Quantity::milli_value).ok_or(Stage::Spec(
        "invalid object metric source: neither a value target nor an average value target was set",
    ))?;
    let (metric, object) = (&source.metric.name, &source.described_object);
    let usage = answered(reading, |reading| match reading {
        Reading::Object(usage) => Some(usage),
        _ => None,
    });
    let usage = usage.map_err(|error| {
        let Context { namespace, .. } = context;
        let cause = format!(
            "unable to get metric {metric} on {} {namespace}/{}: {error}",
            object.kind, object.name
        );
        Stage::Computation(cause)
    })?;
    let (proposal, name, current) = if by_replica {
        let proposal = replicas::object_average_value(&context.value_target(target, true), usage);
        let current =
            MetricValueStatus { average_value: Some(milli(proposal.usage)), ..Default::default() };
        (proposal, external_name(&source.metric), current)
    } else {
        let proposal = replicas::value(&context.value_target(target, false), usage, context.pods());
        let proposal = proposal.map_err(computation)?;
        let current =
            MetricValueStatus { value: Some(milli(proposal.usage)), ..Default::default() };
        (proposal, format!("{} metric {metric}", object.kind), current)
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
    Ok(Valid { proposal, name, target, status })
}

/// The name of an External metric, and by an old slip of the reference that of an Object metric's average.
fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, go_selector(metric))
}

pub(super) fn external(
    source: &ExternalMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<Valid, Stage> {
    let (target, by_replica) = match &source.target {
        MetricTarget { average_value: Some(target), .. } => (target.milli_value(), true),
        MetricTarget { value: Some(target), .. } => (target.milli_value(), false),
        _ => {
            return Err(Stage::Spec(
                "invalid external metric source: neither a value target nor an average value target was set",
            ));
        }
    };
    let values = answered(reading, |reading| match reading {
        Reading::External(values) => Some(values),
        _ => None,
    });
    let metric = &source.metric;
    let values = values.map_err(|error| {
        let (namespace, selector) = (context.namespace, go_selector(metric));
        Stage::Computation(format!(
            "unable to get external metric {namespace}/{}/{selector}: {error}",
            metric.name
        ))
    })?;
    let (proposal, current) = if by_replica {
        let proposal =
            replicas::external_average_value(&context.value_target(target, true), &values);
        let current =
            MetricValueStatus { average_value: Some(milli(proposal.usage)), ..Default::default() };
        (proposal, current)
    } else {
        let usage = replicas::external_total(&values);
        let proposal = replicas::value(&context.value_target(target, false), usage, context.pods());
        let proposal = proposal.map_err(computation)?;
        let current =
            MetricValueStatus { value: Some(milli(proposal.usage)), ..Default::default() };
        (proposal, current)
    };
    let status = ExternalMetricStatus { metric: metric.clone(), current, ..Default::default() };
    let status = MetricStatus {
        source_type: MetricSourceType::External,
        external: Some(status.into()),
        ..Default::default()
    };
    Ok(Valid { proposal, name: external_name(metric), target, status })
}

pub(super) fn is_object_average(target: &MetricTarget) -> bool {
    !is_object_value(target)
        && target.target_type == MetricTargetType::AverageValue
        && target.average_value.is_some()
}

fn is_object_value(target: &MetricTarget) -> bool {
    target.target_type == MetricTargetType::Value && target.value.is_some()
}

/// An absent selector prints as Go prints it, as the reference does in all its texts.
fn go_selector(metric: &MetricIdentifier) -> String {
    selector::go_string(metric.selector.as_ref())
}
