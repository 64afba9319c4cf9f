//! Resource, ContainerResource and Pods metrics: an average over pods.

use super::{
    context::{EvaluatedMetric, MetricContext, expect_reading},
    effects,
    error::{EvaluateError, MetricSpecError, ReadingError},
    value::average_status,
};
use crate::{
    api::{MetricTarget, MetricValueStatus, PodsMetricSource, ResourceName},
    explain::{SettingEffect, TargetValue},
    quantity::{Format, Quantity},
    readings::{PodSamples, ReadError, Reading},
    replicas::{Proposal, UtilizationTarget, average_value_with_rules, utilization_with_rules},
    settings::{Aggregate, MetricSettings},
};

pub(super) fn evaluate_pods(
    source: &PodsMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &MetricContext<'_>,
) -> Result<EvaluatedMetric, EvaluateError> {
    let name = &source.metric.name;
    let target = source.target.average_value.as_ref().map(Quantity::milli_value);
    let target = target.ok_or(MetricSpecError::PodsTarget)?;
    let (samples, too_old) = pod_samples(reading, context)
        .map_err(EvaluateError::with_metric(|| format!("metric {name}")))?;
    let average = average_value_with_rules(
        &context.average_target(target, false),
        context.rules(),
        context.pods(),
        &samples,
        &context.readiness,
    )?;
    let (proposal, effects) =
        (average.proposal, effects::average_effects(&average, too_old, context, None));
    let current = average_status(proposal.usage);
    let name = match context.metric_settings.aggregate {
        Aggregate::Average => format!("pods metric {name}"),
        aggregate => format!("pods metric {name} ({})", aggregate.as_str()),
    };
    Ok(EvaluatedMetric { proposal, name, target: TargetValue::Value(target), current, effects })
}

/// A Resource or ContainerResource metric.
pub(super) struct ResourceMetric<'a> {
    pub(super) name: &'a str,
    pub(super) container: Option<&'a str>,
    pub(super) target: &'a MetricTarget,
}

impl ResourceMetric<'_> {
    pub(super) fn evaluate(
        &self,
        reading: Option<Result<Reading, ReadError>>,
        context: &MetricContext<'_>,
    ) -> Result<EvaluatedMetric, EvaluateError> {
        let resource = ResourceName::from(self.name);
        let (target, kind) = match (&self.target.average_value, self.target.average_utilization) {
            (Some(target), _) => (TargetValue::Value(target.milli_value()), "usage"),
            (None, Some(target)) => (TargetValue::Utilization(target), "utilization"),
            (None, None) => return Err(MetricSpecError::ResourceTarget.into()),
        };
        let proposed = self.propose(target, &resource, reading, context);
        let (proposal, effects) = proposed.map_err(|error| {
            let resource = self.name.to_owned();
            EvaluateError::Resource { resource, target: kind, error: error.into() }
        })?;
        let name = self.condition_name(target, context.metric_settings);
        let format =
            if resource == ResourceName::Memory { Format::BinarySI } else { Format::DecimalSI };
        let current = MetricValueStatus {
            average_value: Some(Quantity::from_milli(proposal.usage, format)),
            average_utilization: proposal.utilization,
            ..Default::default()
        };
        Ok(EvaluatedMetric { proposal, name, target, current, effects })
    }

    /// The name in conditions and events.
    fn condition_name(&self, target: TargetValue, settings: &MetricSettings) -> String {
        let name = self.name;
        let aggregate = match settings.aggregate {
            Aggregate::Average => None,
            aggregate => Some(aggregate.as_str()),
        };
        let kind = if self.container.is_some() { "container resource" } else { "resource" };
        let base = settings.utilization_of.singular();
        match (target, aggregate) {
            (TargetValue::Value(_), None) => format!("{name} resource"),
            (TargetValue::Value(_), Some(aggregate)) => format!("{name} resource ({aggregate})"),
            (TargetValue::Utilization(_), None) => {
                format!("{name} {kind} utilization (percentage of {base})")
            }
            (TargetValue::Utilization(_), Some(aggregate)) => {
                format!("{name} {kind} utilization (percentage of {base}, {aggregate})")
            }
        }
    }

    fn propose(
        &self,
        target: TargetValue,
        resource: &ResourceName,
        reading: Option<Result<Reading, ReadError>>,
        context: &MetricContext<'_>,
    ) -> Result<(Proposal, Vec<SettingEffect>), EvaluateError> {
        let (samples, too_old) =
            pod_samples(reading, context).map_err(EvaluateError::with_metric(|| {
                format!("metrics for resource {}", self.name)
            }))?;
        let (rules, pods, readiness) = (context.rules(), context.pods(), &context.readiness);
        let (average, utilization_resource) = match target {
            TargetValue::Value(target) => {
                let target = context.average_target(target, *resource == ResourceName::Cpu);
                (average_value_with_rules(&target, rules, pods, &samples, readiness)?, None)
            }
            TargetValue::Utilization(target) => {
                let target = UtilizationTarget {
                    current_replicas: context.scale.spec_replicas,
                    target,
                    resource,
                    container: self.container,
                    tolerances: context.tolerances,
                };
                let average = utilization_with_rules(&target, rules, pods, &samples, readiness)?;
                (average, Some(self.name))
            }
        };
        let effects = effects::average_effects(&average, too_old, context, utilization_resource);
        Ok((average.proposal, effects))
    }
}

/// The samples that are not too old, and the number of samples that are too old.
fn pod_samples(
    reading: Option<Result<Reading, ReadError>>,
    context: &MetricContext<'_>,
) -> Result<(PodSamples, usize), ReadingError> {
    let mut samples = expect_reading(reading, |reading| match reading {
        Reading::Pods(samples) => Some(samples),
        _ => None,
    })?;
    let (settings, now) = (context.metric_settings, context.readiness.now);
    if settings.max_sample_age.is_none() {
        return Ok((samples, 0));
    }
    let newest = samples.iter().map(|(_, sample)| sample.timestamp).max();
    let count_before = samples.len();
    samples.retain(|sample| !settings.is_too_old(sample.timestamp, now));
    match newest {
        Some(newest) if samples.is_empty() => Err(context.too_old_error(newest)),
        _ => {
            let too_old = count_before - samples.len();
            Ok((samples, too_old))
        }
    }
}
