//! One metric of a spec: what to ask for it, what it proposes, and how the reference words it.

use std::sync::Arc;

use crate::{
    api::{
        ConditionReason, ContainerResourceMetricSource, ContainerResourceMetricStatus, ExternalMetricSource,
        ExternalMetricStatus, MetricIdentifier, MetricSourceType, MetricSpec, MetricStatus, MetricTarget,
        MetricTargetType, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, Pod, PodsMetricSource,
        PodsMetricStatus, ResourceMetricSource, ResourceMetricStatus, ResourceName, Scale,
    },
    quantity::{Format, Quantity},
    readings::{MetricQuery, PodSamples, ReadError, Reading},
    replicas::{self, AverageTarget, CalculationError, Proposal, UtilizationTarget, ValueTarget},
    selector::{self, LabelSelector, Selector},
    settings::{Readiness, Tolerances},
};

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
            Ok(MetricQuery::Object { object: source.described_object.clone(), metric, metric_selector })
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
        MetricSourceType::Object => (spec.object.as_ref().map(Source::Object), "object"),
        MetricSourceType::Pods => (spec.pods.as_ref().map(Source::Pods), "pods"),
        MetricSourceType::Resource => (spec.resource.as_ref().map(Source::Resource), "resource"),
        MetricSourceType::ContainerResource => {
            (spec.container_resource.as_ref().map(Source::ContainerResource), "containerResource")
        }
        MetricSourceType::External => (spec.external.as_ref().map(Source::External), "external"),
        MetricSourceType::Other(name) => return Err(format!("unknown metric source type {name:?}")),
    };
    source
        .ok_or_else(|| format!("invalid metric source: type is {} but {member} is not set", spec.source_type))
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
            Self::Resource(source) => format!("failed to get {} resource metric value: ", source.name),
            Self::ContainerResource(source) => {
                format!("failed to get {} container metric value: ", source.container)
            }
            Self::External(source) => format!("failed to get {} external metric value: ", source.metric.name),
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
                let resource = Resource { name: &source.name, container: None, target: &source.target };
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

/// What a shell that did not ask gave for an answer.
const NOT_READ: &str = "the metric was not read";

fn pod_samples(reading: Option<Result<Reading, ReadError>>) -> Result<PodSamples, String> {
    match reading {
        Some(Ok(Reading::Pods(samples))) => Ok(samples),
        Some(Err(error)) => Err(error.to_string()),
        _ => Err(NOT_READ.to_owned()),
    }
}

fn is_object_average(target: &MetricTarget) -> bool {
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

fn milli(value: i64) -> Quantity {
    Quantity::from_milli(value, Format::DecimalSI)
}

fn object(
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
    let usage = match reading {
        Some(Ok(Reading::Object(usage))) => Ok(usage),
        Some(Err(error)) => Err(error.to_string()),
        _ => Err(NOT_READ.to_owned()),
    };
    let usage = usage.map_err(|error| {
        let Context { namespace, .. } = context;
        let cause =
            format!("unable to get metric {metric} on {} {namespace}/{}: {error}", object.kind, object.name);
        Stage::Computation(cause)
    })?;
    let (proposal, name, current) = if by_replica {
        let proposal = replicas::object_average_value(&context.value_target(target, true), usage);
        let current = MetricValueStatus { average_value: Some(milli(proposal.usage)), ..Default::default() };
        (proposal, external_name(&source.metric), current)
    } else {
        let proposal = replicas::value(&context.value_target(target, false), usage, context.pods());
        let proposal = proposal.map_err(computation)?;
        let current = MetricValueStatus { value: Some(milli(proposal.usage)), ..Default::default() };
        (proposal, format!("{} metric {metric}", object.kind), current)
    };
    let status = ObjectMetricStatus {
        metric: source.metric.clone(),
        current,
        described_object: object.clone(),
        ..Default::default()
    };
    let status =
        MetricStatus { source_type: MetricSourceType::Object, object: Some(status), ..Default::default() };
    Ok(Valid { proposal, name, target, status })
}

/// The name of an External metric, and by an old slip of the reference that of an Object metric's average.
fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, go_selector(metric))
}

fn computation(error: CalculationError) -> Stage {
    Stage::Computation(error.to_string())
}

fn pods(
    source: &PodsMetricSource,
    reading: Option<Result<Reading, ReadError>>,
    context: &Context<'_>,
) -> Result<Valid, Stage> {
    let name = &source.metric.name;
    let target = source.target.average_value.as_ref().map(Quantity::milli_value);
    let target = target.ok_or(Stage::Spec("invalid pods metric source: no average value target was set"))?;
    let samples = pod_samples(reading)
        .map_err(|error| Stage::Computation(format!("unable to get metric {name}: {error}")))?;
    let proposal = replicas::average_value(
        &context.average_target(target, false),
        context.pods(),
        &samples,
        &context.readiness,
    )
    .map_err(computation)?;
    let current = MetricValueStatus { average_value: Some(milli(proposal.usage)), ..Default::default() };
    let status = PodsMetricStatus { metric: source.metric.clone(), current, ..Default::default() };
    let status =
        MetricStatus { source_type: MetricSourceType::Pods, pods: Some(status), ..Default::default() };
    Ok(Valid { proposal, name: format!("pods metric {name}"), target, status })
}

/// A Resource or ContainerResource metric.
struct Resource<'a> {
    name: &'a str,
    container: Option<&'a str>,
    target: &'a MetricTarget,
}

impl Resource<'_> {
    fn evaluate(
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
            let failed = |error: String| Stage::Computation(format!("failed to get {name} usage: {error}"));
            let samples = samples().map_err(failed)?;
            let average = context.average_target(target, resource == ResourceName::Cpu);
            let proposal = replicas::average_value(&average, context.pods(), &samples, &context.readiness)
                .map_err(|error| failed(error.to_string()))?;
            (proposal, target, format!("{name} resource"))
        } else if let Some(target) = self.target.average_utilization {
            let failed =
                |error: String| Stage::Computation(format!("failed to get {name} utilization: {error}"));
            let samples = samples().map_err(failed)?;
            let proposal = self
                .utilization(target, &resource, &samples, context)
                .map_err(|error| failed(error.to_string()))?;
            let of = if self.container.is_some() { "container resource" } else { "resource" };
            (proposal, i64::from(target), format!("{name} {of} utilization (percentage of request)"))
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
        let format = if *resource == ResourceName::Memory { Format::BinarySI } else { Format::DecimalSI };
        let current = MetricValueStatus {
            average_value: Some(Quantity::from_milli(proposal.usage, format)),
            average_utilization: proposal.utilization,
            ..Default::default()
        };
        resource_status(self.name, self.container, current)
    }
}

fn resource_status(name: &str, container: Option<&str>, current: MetricValueStatus) -> MetricStatus {
    let name = name.to_owned();
    match container {
        None => MetricStatus {
            source_type: MetricSourceType::Resource,
            resource: Some(ResourceMetricStatus { name, current, ..Default::default() }),
            ..Default::default()
        },
        Some(container) => {
            let container = container.to_owned();
            MetricStatus {
                source_type: MetricSourceType::ContainerResource,
                container_resource: Some(ContainerResourceMetricStatus {
                    name,
                    container,
                    current,
                    ..Default::default()
                }),
                ..Default::default()
            }
        }
    }
}

fn external(
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
    let values = match reading {
        Some(Ok(Reading::External(values))) => Ok(values),
        Some(Err(error)) => Err(error.to_string()),
        _ => Err(NOT_READ.to_owned()),
    };
    let metric = &source.metric;
    let values = values.map_err(|error| {
        let (namespace, selector) = (context.namespace, go_selector(metric));
        Stage::Computation(format!(
            "unable to get external metric {namespace}/{}/{selector}: {error}",
            metric.name
        ))
    })?;
    let (proposal, current) = if by_replica {
        let proposal = replicas::external_average_value(&context.value_target(target, true), &values);
        let current = MetricValueStatus { average_value: Some(milli(proposal.usage)), ..Default::default() };
        (proposal, current)
    } else {
        let usage = replicas::external_total(&values);
        let proposal = replicas::value(&context.value_target(target, false), usage, context.pods());
        let proposal = proposal.map_err(computation)?;
        let current = MetricValueStatus { value: Some(milli(proposal.usage)), ..Default::default() };
        (proposal, current)
    };
    let status = ExternalMetricStatus { metric: metric.clone(), current, ..Default::default() };
    let status = MetricStatus {
        source_type: MetricSourceType::External,
        external: Some(status),
        ..Default::default()
    };
    Ok(Valid { proposal, name: external_name(metric), target, status })
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
        let replicas = if by_replica { self.scale.status_replicas } else { self.scale.spec_replicas };
        ValueTarget { replicas, target, tolerances: self.tolerances }
    }
}

/// The status of a metric that gave no value: what it is, without a value. (The reference leaves an empty entry,
/// which strict clients choke on.)
pub(crate) fn status_without_value(spec: &MetricSpec) -> MetricStatus {
    let current = MetricValueStatus::default();
    let source_type = spec.source_type.clone();
    match source(spec) {
        Ok(Source::Resource(source)) => resource_status(&source.name, None, current),
        Ok(Source::ContainerResource(source)) => {
            resource_status(&source.name, Some(&source.container), current)
        }
        Ok(Source::Pods(source)) => {
            let pods = PodsMetricStatus { metric: source.metric.clone(), ..Default::default() };
            MetricStatus { source_type, pods: Some(pods), ..Default::default() }
        }
        Ok(Source::Object(source)) => {
            let object = ObjectMetricStatus {
                metric: source.metric.clone(),
                described_object: source.described_object.clone(),
                ..Default::default()
            };
            MetricStatus { source_type, object: Some(object), ..Default::default() }
        }
        Ok(Source::External(source)) => {
            let external = ExternalMetricStatus { metric: source.metric.clone(), ..Default::default() };
            MetricStatus { source_type, external: Some(external), ..Default::default() }
        }
        Err(_) => MetricStatus { source_type, ..Default::default() },
    }
}
