//! Resource, ContainerResource and Pods metrics: an average over pods.

use super::{
    Context, EvaluateError, EvaluatedMetric, MetricSpecError, ReadingError, expect_reading,
    status::resource_status, value::average_status,
};
use crate::{
    api::{
        MetricSourceType, MetricStatus, MetricTarget, MetricValueStatus, PodsMetricSource,
        PodsMetricStatus, ResourceName,
    },
    explain::TargetValue,
    quantity::{Format, Quantity},
    readings::{PodSamples, ReadError, Reading},
    replicas::{self, Proposal, UtilizationTarget},
};

pub(super) fn pods(
    source: &PodsMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<EvaluatedMetric, EvaluateError> {
    let name = &source.metric.name;
    let target = source.target.average_value.as_ref().map(Quantity::milli_value);
    let target = target.ok_or(MetricSpecError::PodsTarget)?;
    let samples =
        pod_samples(reading).map_err(EvaluateError::reading(|| format!("metric {name}")))?;
    let proposal = replicas::average_value(
        &context.average_target(target, false),
        context.pods(),
        &samples,
        &context.readiness,
    )?;
    let current = average_status(proposal.usage);
    let status = PodsMetricStatus { metric: source.metric.clone(), current, ..Default::default() };
    let status = MetricStatus {
        source_type: MetricSourceType::Pods,
        pods: Some(status.into()),
        ..Default::default()
    };
    let name = format!("pods metric {name}");
    Ok(EvaluatedMetric {
        proposal,
        name,
        target: TargetValue::Value(target),
        status,
        effects: Vec::new(),
    })
}

/// A Resource or ContainerResource metric.
pub(super) struct Resource<'a> {
    pub(super) name: &'a str,
    pub(super) container: Option<&'a str>,
    pub(super) target: &'a MetricTarget,
}

impl Resource<'_> {
    pub(super) fn evaluate(
        &self,
        reading: Option<Result<Reading, ReadError>>,
        context: &Context<'_>,
    ) -> Result<EvaluatedMetric, EvaluateError> {
        let resource = ResourceName::from(self.name);
        let (target, kind) = match (&self.target.average_value, self.target.average_utilization) {
            (Some(target), _) => (TargetValue::Value(target.milli_value()), "usage"),
            (None, Some(target)) => (TargetValue::Utilization(target), "utilization"),
            (None, None) => return Err(MetricSpecError::ResourceTarget.into()),
        };
        let proposal = self.propose(target, &resource, reading, context).map_err(|error| {
            let resource = self.name.to_owned();
            EvaluateError::Resource { resource, target: kind, error: error.into() }
        })?;
        let name = match (target, self.container) {
            (TargetValue::Value(_), _) => format!("{} resource", self.name),
            (TargetValue::Utilization(_), None) => {
                format!("{} resource utilization (percentage of request)", self.name)
            }
            (TargetValue::Utilization(_), Some(_)) => {
                format!("{} container resource utilization (percentage of request)", self.name)
            }
        };
        let status = self.status(&resource, &proposal);
        Ok(EvaluatedMetric { proposal, name, target, status, effects: Vec::new() })
    }

    fn propose(
        &self,
        target: TargetValue,
        resource: &ResourceName,
        reading: Option<Result<Reading, ReadError>>,
        context: &Context<'_>,
    ) -> Result<Proposal, EvaluateError> {
        let samples = pod_samples(reading)
            .map_err(EvaluateError::reading(|| format!("metrics for resource {}", self.name)))?;
        let (pods, readiness) = (context.pods(), &context.readiness);
        Ok(match target {
            TargetValue::Value(target) => {
                let target = context.average_target(target, *resource == ResourceName::Cpu);
                replicas::average_value(&target, pods, &samples, readiness)?
            }
            TargetValue::Utilization(target) => {
                let target = UtilizationTarget {
                    current_replicas: context.scale.spec_replicas,
                    target,
                    resource,
                    container: self.container,
                    tolerances: context.tolerances,
                };
                replicas::utilization(&target, pods, &samples, readiness)?
            }
        })
    }

    fn status(&self, resource: &ResourceName, proposal: &Proposal) -> MetricStatus {
        let format =
            if *resource == ResourceName::Memory { Format::BinarySI } else { Format::DecimalSI };
        let current = MetricValueStatus {
            average_value: Some(Quantity::from_milli(proposal.usage, format)),
            average_utilization: proposal.utilization,
            ..Default::default()
        };
        resource_status(self.name, self.container, current)
    }
}

fn pod_samples(reading: Option<Result<Reading, ReadError>>) -> Result<PodSamples, ReadingError> {
    expect_reading(reading, |reading| match reading {
        Reading::Pods(samples) => Some(samples),
        _ => None,
    })
}
