//! Resource, ContainerResource and Pods metrics: an average over pods.

use super::{Context, Stage, Valid, answered, computation, milli, status::resource_status};
use crate::{
    api::{
        MetricSourceType, MetricStatus, MetricTarget, MetricValueStatus, PodsMetricSource,
        PodsMetricStatus, ResourceName,
    },
    quantity::{Format, Quantity},
    readings::{PodSamples, ReadError, Reading},
    replicas::{self, CalculationError, Proposal, UtilizationTarget},
};

pub(super) fn pods(
    source: &PodsMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<Valid, Stage> {
    let name = &source.metric.name;
    let target = source.target.average_value.as_ref().map(Quantity::milli_value);
    let target =
        target.ok_or(Stage::Spec("invalid pods metric source: no average value target was set"))?;
    let samples = pod_samples(reading)
        .map_err(|error| Stage::Computation(format!("unable to get metric {name}: {error}")))?;
    let proposal = replicas::average_value(
        &context.average_target(target, false),
        context.pods(),
        &samples,
        &context.readiness,
    )
    .map_err(computation)?;
    let current =
        MetricValueStatus { average_value: Some(milli(proposal.usage)), ..Default::default() };
    let status = PodsMetricStatus { metric: source.metric.clone(), current, ..Default::default() };
    let status = MetricStatus {
        source_type: MetricSourceType::Pods,
        pods: Some(status.into()),
        ..Default::default()
    };
    Ok(Valid { proposal, name: format!("pods metric {name}"), target, status })
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
    ) -> Result<Valid, Stage> {
        let (name, resource) = (self.name, ResourceName::from(self.name));
        let samples = || {
            pod_samples(reading)
                .map_err(|error| format!("unable to get metrics for resource {name}: {error}"))
        };
        let (proposal, target, name) = if let Some(target) = &self.target.average_value {
            let target = target.milli_value();
            let failed =
                |error: String| Stage::Computation(format!("failed to get {name} usage: {error}"));
            let samples = samples().map_err(failed)?;
            let average = context.average_target(target, resource == ResourceName::Cpu);
            let proposal =
                replicas::average_value(&average, context.pods(), &samples, &context.readiness)
                    .map_err(|error| failed(error.to_string()))?;
            (proposal, target, format!("{name} resource"))
        } else if let Some(target) = self.target.average_utilization {
            let failed = |error: String| {
                Stage::Computation(format!("failed to get {name} utilization: {error}"))
            };
            let samples = samples().map_err(failed)?;
            let proposal = self
                .utilization(target, &resource, &samples, context)
                .map_err(|error| failed(error.to_string()))?;
            let of = if self.container.is_some() { "container resource" } else { "resource" };
            (
                proposal,
                i64::from(target),
                format!("{name} {of} utilization (percentage of request)"),
            )
        } else {
            return Err(Stage::Spec(
                "invalid resource metric source: neither an average utilization target nor an average value (usage) \
                 target was set",
            ));
        };
        Ok(Valid { proposal, name, target, status: self.status(&resource, &proposal) })
    }

    fn utilization(
        &self,
        target: i32,
        resource: &ResourceName,
        samples: &PodSamples,
        context: &Context<'_>,
    ) -> Result<Proposal, CalculationError> {
        let target = UtilizationTarget {
            current_replicas: context.scale.spec_replicas,
            target,
            resource,
            container: self.container,
            tolerances: context.tolerances,
        };
        replicas::utilization(&target, context.pods(), samples, &context.readiness)
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

fn pod_samples(reading: Option<Result<Reading, ReadError>>) -> Result<PodSamples, String> {
    answered(reading, |reading| match reading {
        Reading::Pods(samples) => Some(samples),
        _ => None,
    })
}
