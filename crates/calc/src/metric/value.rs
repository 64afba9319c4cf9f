//! Object and External metrics: one value, or the sum of all series.

use super::{
    context::{EvaluatedMetric, MetricContext, expect_reading},
    effects,
    error::{EvaluateError, MetricSpecError},
    source::{is_object_average, is_object_value},
};
use crate::{
    api::{
        ExternalMetricSource, MetricIdentifier, MetricTarget, MetricValueStatus,
        ObjectMetricSource, Scale,
    },
    explain::{SettingEffect, TargetValue},
    quantity::{MilliValue, Quantity},
    readings::{ReadError, Reading},
    replicas::{
        self, CalculationError, Proposal, ValueTarget, ignore_surge_pods_by_replica,
        value_with_rollout,
    },
    selector,
    settings::Rollout,
};

pub(super) fn evaluate_object(
    source: &ObjectMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &MetricContext<'_>,
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
    let usage = usage.and_then(|usage| context.value_if_fresh(usage));
    let usage = usage.map_err(EvaluateError::with_metric(|| {
        format!("metric {metric} on {} {}/{}", object.kind, context.namespace, object.name)
    }))?;
    let average = |target: &ValueTarget| replicas::object_average_value(target, usage);
    let (proposal, effects) = propose(context, target, usage, is_average.then_some(average))?;
    let (name, current) = if is_average {
        (external_name(&source.metric), average_status(proposal.usage))
    } else {
        (format!("{} metric {metric}", object.kind), value_status(proposal.usage))
    };
    Ok(EvaluatedMetric { proposal, name, target: TargetValue::Value(target), current, effects })
}

/// The proposal after the settings `rollout` and `activation`, and their effects. `total` is the
/// whole value. `average` calculates the proposal of an average by replica. `None` for a `value`.
fn propose(
    context: &MetricContext<'_>,
    target: MilliValue,
    total: MilliValue,
    average: Option<impl Fn(&ValueTarget) -> Proposal>,
) -> Result<(Proposal, Vec<SettingEffect>), CalculationError> {
    let Scale { spec_replicas, status_replicas, .. } = *context.scale;
    let target_for = |replicas| ValueTarget { replicas, target, tolerances: context.tolerances };
    let calculate = |rollout| match (&average, rollout) {
        (None, _) => value_with_rollout(&target_for(spec_replicas), rollout, total, context.pods()),
        (Some(average), Rollout::CountSurge) => Ok(average(&target_for(status_replicas))),
        // The value measures the whole load, regardless of the number of pods.
        (Some(average), Rollout::IgnoreSurge) => {
            let target = target_for(spec_replicas);
            Ok(ignore_surge_pods_by_replica(average(&target), &target, context.pods()))
        }
    };
    let rollout = context.settings.rollout;
    let mut proposal = calculate(rollout)?;
    let mut effects = Vec::new();
    if rollout == Rollout::IgnoreSurge {
        let with_surge = calculate(Rollout::CountSurge)?.replicas;
        effects.extend(effects::surge_effect(&proposal, Some(with_surge)));
    }
    if let Some(activation) = context.metric_settings.activation
        && spec_replicas == 0
        && proposal.replicas > 0
    {
        let value = proposal.total.unwrap_or(proposal.usage);
        if value <= activation {
            let text = format!(
                "{value} is not above {activation}, so the metric asks for 0 and not for {}",
                proposal.replicas
            );
            effects.push(SettingEffect { setting: "activation", text });
            proposal.replicas = 0;
        }
    }
    Ok((proposal, effects))
}

/// The name of an External metric in conditions and events. The reference also gives it to an
/// Object metric with an average target, by mistake.
fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, go_selector(metric))
}

pub(super) fn evaluate_external(
    source: &ExternalMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &MetricContext<'_>,
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
    let values = values.and_then(|values| context.value_if_fresh(values));
    let values = values.map_err(EvaluateError::with_metric(|| {
        format!("external metric {}/{}/{}", context.namespace, metric.name, go_selector(metric))
    }))?;
    let average = |target: &ValueTarget| replicas::external_average_value(target, &values);
    let total = replicas::external_total(&values);
    let (proposal, effects) = propose(context, target, total, is_average.then_some(average))?;
    let current =
        if is_average { average_status(proposal.usage) } else { value_status(proposal.usage) };
    let name = external_name(metric);
    Ok(EvaluatedMetric { proposal, name, target: TargetValue::Value(target), current, effects })
}

fn value_status(usage: MilliValue) -> MetricValueStatus {
    MetricValueStatus { value: Some(usage.into()), ..Default::default() }
}

pub(super) fn average_status(usage: MilliValue) -> MetricValueStatus {
    MetricValueStatus { average_value: Some(usage.into()), ..Default::default() }
}

/// The metric's selector as Go prints it with `%v`, as in all texts of the reference.
fn go_selector(metric: &MetricIdentifier) -> String {
    selector::go_string(metric.selector.as_ref())
}
