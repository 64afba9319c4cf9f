//! One metric of a spec: what to ask for it, what it proposes, and how the reference words it.

mod average;
mod status;
mod value;

use std::sync::Arc;

use crate::{
    api::{
        ConditionReason, ContainerResourceMetricSource, ExternalMetricSource, MetricIdentifier,
        MetricSourceType, MetricSpec, MetricStatus, ObjectMetricSource, Pod, PodsMetricSource,
        ResourceMetricSource, Scale,
    },
    quantity::{Format, Quantity},
    readings::{MetricQuery, ReadError, Reading},
    replicas::{AverageTarget, CalculationError, Proposal, ValueTarget},
    selector::{self, LabelSelector, Selector},
    settings::{Readiness, Tolerances},
};

use average::{Resource, pods};
pub(crate) use status::status_without_value;
use value::{external, is_object_average, object};

/// What a metric is computed against.
pub(crate) struct Context<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) scale: &'a Scale,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) tolerances: Tolerances,
    pub(crate) readiness: Readiness,
}

/// A metric's proposal, with its name in conditions and events, its target, and what its status shows.
pub(crate) struct Valid {
    pub(crate) proposal: Proposal,
    pub(crate) name: String,
    pub(crate) target: i64,
    pub(crate) status: MetricStatus,
}

/// Why a metric proposes nothing, in the two wordings of the reference.
pub(crate) struct Invalid {
    pub(crate) reason: ConditionReason,
    /// For the metric's own event and the condition.
    pub(crate) cause: String,
    /// For the error of the whole decision.
    pub(crate) wrapped: String,
}

/// What to ask for a metric; the error is that of a selector, or of a spec that no API server would let pass.
pub(crate) fn query(spec: &MetricSpec) -> Result<MetricQuery, String> {
    let by = |metric: &MetricIdentifier| -> Result<(String, Selector), String> {
        let selector = selector_of(metric.selector.as_ref())?;
        Ok((metric.name.clone(), selector))
    };
    match source(spec)? {
        Source::Resource(source) => {
            Ok(MetricQuery::Resource { resource: source.name.as_str().into(), container: None })
        }
        Source::ContainerResource(source) => Ok(MetricQuery::Resource {
            resource: source.name.as_str().into(),
            container: Some(source.container.clone()),
        }),
        Source::Pods(source) => {
            let (metric, metric_selector) = by(&source.metric)?;
            Ok(MetricQuery::Pods { metric, metric_selector })
        }
        Source::Object(source) => {
            let (metric, metric_selector) = by(&source.metric)?;
            Ok(MetricQuery::Object {
                object: source.described_object.clone(),
                metric,
                metric_selector,
            })
        }
        Source::External(source) => {
            let (metric, metric_selector) = by(&source.metric)?;
            Ok(MetricQuery::External { metric, metric_selector })
        }
    }
}

/// The selector of a metric's series. An absent one selects nothing as an object, but every series once the API has
/// it as a string.
fn selector_of(selector: Option<&LabelSelector>) -> Result<Selector, String> {
    selector::selector_of(selector).map_err(|error| error.to_string())
}

/// The member of a metric spec that its type names.
enum Source<'a> {
    Object(&'a ObjectMetricSource),
    Pods(&'a PodsMetricSource),
    Resource(&'a ResourceMetricSource),
    ContainerResource(&'a ContainerResourceMetricSource),
    External(&'a ExternalMetricSource),
}

fn source(spec: &MetricSpec) -> Result<Source<'_>, String> {
    let (source, member) = match &spec.source_type {
        MetricSourceType::Object => (spec.object.as_deref().map(Source::Object), "object"),
        MetricSourceType::Pods => (spec.pods.as_deref().map(Source::Pods), "pods"),
        MetricSourceType::Resource => (spec.resource.as_deref().map(Source::Resource), "resource"),
        MetricSourceType::ContainerResource => {
            (spec.container_resource.as_deref().map(Source::ContainerResource), "containerResource")
        }
        MetricSourceType::External => (spec.external.as_deref().map(Source::External), "external"),
        MetricSourceType::Other(name) => {
            return Err(format!("unknown metric source type {name:?}"));
        }
    };
    source.ok_or_else(|| {
        format!("invalid metric source: type is {} but {member} is not set", spec.source_type)
    })
}

/// The proposal of a metric from what its API answered.
pub(crate) fn evaluate(
    spec: &MetricSpec,
    query: &Result<MetricQuery, String>,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<Valid, Invalid> {
    let source = match source(spec) {
        Ok(source) => source,
        Err(cause) => return Err(Invalid { reason: reason(spec), wrapped: cause.clone(), cause }),
    };
    let valid = match query {
        Ok(_) => source.evaluate(reading, context),
        Err(cause) => Err(Failure::of(cause.clone(), source.fetch_prefix(true))),
    };
    valid.map_err(|failure| Invalid {
        reason: reason(spec),
        wrapped: format!("{}{}{}", source.prefix(), failure.prefix, failure.cause),
        cause: failure.cause,
    })
}

/// An error below the metric's own, and what the error of the decision puts before it.
struct Failure {
    cause: String,
    prefix: String,
}

impl Failure {
    fn of(cause: String, prefix: String) -> Self {
        Self { cause, prefix }
    }
}

fn reason(spec: &MetricSpec) -> ConditionReason {
    match spec.source_type {
        MetricSourceType::Object => ConditionReason::FailedGetObjectMetric,
        MetricSourceType::Pods => ConditionReason::FailedGetPodsMetric,
        MetricSourceType::Resource => ConditionReason::FailedGetResourceMetric,
        MetricSourceType::ContainerResource => ConditionReason::FailedGetContainerResourceMetric,
        MetricSourceType::External => ConditionReason::FailedGetExternalMetric,
        MetricSourceType::Other(_) => ConditionReason::InvalidMetricSourceType,
    }
}

impl Source<'_> {
    /// What the error of the decision begins with.
    fn prefix(&self) -> String {
        match self {
            Self::Object(_) => "failed to get object metric value: ".to_owned(),
            Self::Pods(_) => "failed to get pods metric value: ".to_owned(),
            Self::Resource(source) => {
                format!("failed to get {} resource metric value: ", source.name)
            }
            Self::ContainerResource(source) => {
                format!("failed to get {} container metric value: ", source.container)
            }
            Self::External(source) => {
                format!("failed to get {} external metric value: ", source.metric.name)
            }
        }
    }

    /// What follows it where the metric could not be read or computed. A selector that does not parse is noticed
    /// later for External metrics than for the others, hence the flag.
    fn fetch_prefix(&self, is_selector: bool) -> String {
        match self {
            Self::Object(source) if is_object_average(&source.target) && !is_selector => {
                format!("failed to get {} object metric: ", source.metric.name)
            }
            Self::External(source) if source.target.average_value.is_some() => {
                format!("failed to get {} external metric: ", source.metric.name)
            }
            Self::External(source) if source.target.value.is_some() => {
                format!("failed to get external metric {}: ", source.metric.name)
            }
            _ => String::new(),
        }
    }

    fn evaluate(
        &self,
        reading: Option<Result<Reading, ReadError>>,
        context: &Context<'_>,
    ) -> Result<Valid, Failure> {
        match self {
            Self::Object(source) => object(source, reading, context),
            Self::Pods(source) => pods(source, reading, context),
            Self::Resource(source) => {
                let resource =
                    Resource { name: &source.name, container: None, target: &source.target };
                resource.evaluate(reading, context)
            }
            Self::ContainerResource(source) => {
                let container = Some(source.container.as_str());
                let resource = Resource { name: &source.name, container, target: &source.target };
                resource.evaluate(reading, context)
            }
            Self::External(source) => external(source, reading, context),
        }
        .map_err(|error| match error {
            Stage::Spec(cause) => Failure::of(cause.to_owned(), String::new()),
            Stage::Computation(cause) => Failure::of(cause, self.fetch_prefix(false)),
        })
    }
}

/// Where a metric failed.
enum Stage {
    /// The spec says nothing that could be computed.
    Spec(&'static str),
    /// Reading or computing.
    Computation(String),
}

/// What was read, if it is an answer to what was asked: a shell may not have asked at all.
fn answered<T>(
    reading: Option<Result<Reading, ReadError>>,
    expected: impl FnOnce(Reading) -> Option<T>,
) -> Result<T, String> {
    let reading = reading.transpose().map_err(|error| error.to_string())?;
    reading.and_then(expected).ok_or_else(|| "the metric was not read".to_owned())
}

fn milli(value: i64) -> Quantity {
    Quantity::from_milli(value, Format::DecimalSI)
}

fn computation(error: CalculationError) -> Stage {
    Stage::Computation(error.to_string())
}

impl Context<'_> {
    fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(AsRef::as_ref)
    }

    fn average_target(&self, target: i64, is_cpu: bool) -> AverageTarget {
        let current_replicas = self.scale.spec_replicas;
        AverageTarget { current_replicas, target, is_cpu, tolerances: self.tolerances }
    }

    fn value_target(&self, target: i64, by_replica: bool) -> ValueTarget {
        let replicas =
            if by_replica { self.scale.status_replicas } else { self.scale.spec_replicas };
        ValueTarget { replicas, target, tolerances: self.tolerances }
    }
}
