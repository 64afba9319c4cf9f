//! The metrics of an autoscaler, and the loads that they measure.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use hpa_calc::{
    HorizontalPodAutoscaler, Quantity,
    api::{CrossVersionObjectReference, MetricIdentifier, MetricSpec, MetricTarget},
};
use hpa_collectors::{CollectorSource, FindingSubject, source_of};

use super::series::Series;
use crate::collectors::environment_of_unknown_flags;

const MEBI: f64 = 1_048_576.0;

/// A metric of the spec.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    /// The index in `spec.metrics`.
    pub(super) index: usize,
    /// The path, such as `spec.metrics[0]`.
    pub(super) field: String,
    /// The name of the metric or resource.
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) target: Target,
    /// The collector that may read the metric.
    collector: Option<CollectorSource>,
}

/// The type of a metric, with what identifies its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// CPU in cores or memory in bytes, of a container or of whole pods.
    Resource {
        container: Option<String>,
    },
    Pods(MetricIdentifier),
    Object {
        object: CrossVersionObjectReference,
        identifier: MetricIdentifier,
    },
    External(MetricIdentifier),
}

/// The target of a metric, in the unit of the metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// A target for the average over pods, or for the value divided by the replicas.
    PerPod(f64),
    /// A percentage of the pods' requests.
    Utilization(f64),
    /// A target for the value, regardless of the replicas.
    Value(f64),
}

impl Source {
    /// Whether each pod has its own value.
    pub(super) fn is_of_pods(&self) -> bool {
        matches!(self, Self::Resource { .. } | Self::Pods(_))
    }
}

impl Metric {
    /// Whether the metric is one value with a target of type `Value`. Such a value is assumed to be
    /// inversely proportional to the replicas.
    pub(super) fn falls_with_replicas(&self) -> bool {
        matches!(self.target, Target::Value(_)) && !self.source.is_of_pods()
    }

    /// Whether a collector divides the value by the replicas. The recorded values are those of its
    /// query, before the division.
    pub(super) fn is_divided(&self) -> bool {
        self.collector.as_ref().is_some_and(|collector| collector.is_per_replica)
    }

    /// Whether the load is the value times the replicas.
    pub(super) fn is_multiplied(&self) -> bool {
        self.falls_with_replicas() && !self.is_divided()
    }

    /// Converts recorded values to the load. Values that fall with the replicas are multiplied by
    /// them. Other values are totals already.
    pub(super) fn total(&self, value: Series, replicas: &Series) -> Series {
        if self.is_multiplied() {
            value.zip(replicas, |value, replicas| value * replicas)
        } else {
            value
        }
    }

    /// The metrics of an autoscaler that aren't ignored. Fails if there are none, if one of them
    /// can't be replayed, or if an ignored name is not that of a metric.
    pub(super) fn used(
        hpa: &HorizontalPodAutoscaler,
        ignored: &[String],
    ) -> anyhow::Result<Vec<Self>> {
        let names = numbered_names(hpa);
        for text in ignored {
            if select_metrics(&names, text).is_empty() {
                let names: Vec<&str> = names.iter().map(|(_, name)| *name).collect();
                bail!("--ignore-metric {text}: the autoscaler has {}", names.join(", "));
            }
        }
        let used: Vec<Self> = used_metrics(hpa, ignored)
            .map(|(index, metric)| Self::new(hpa, index, metric))
            .collect::<Result<_, _>>()?;
        if used.is_empty() {
            bail!("the autoscaler has no metric to replay");
        }
        Ok(used)
    }

    /// Fails if the metric isn't complete, is of a resource other than CPU and memory, or is
    /// divided by the replicas twice.
    pub(super) fn new(
        hpa: &HorizontalPodAutoscaler,
        index: usize,
        spec: &MetricSpec,
    ) -> anyhow::Result<Self> {
        let field = format!("spec.metrics[{index}]");
        let context = || format!("{field}: not a complete metric");
        let source = source_of_spec(spec).with_context(context)?;
        let name = spec.metric_name().to_owned();
        let is_resource = matches!(source, Source::Resource { .. });
        if is_resource && !matches!(name.as_str(), "cpu" | "memory") {
            bail!("{field}: the resource {name} can't be replayed: add --ignore-metric {name}");
        }
        let target = spec.target().and_then(numeric_target).with_context(context)?;
        let collector = source_of(hpa, spec, &environment_of_unknown_flags(hpa));
        let collector = collector.and_then(Result::ok);
        let metric = Self { index, field, name, source, target, collector };
        if metric.is_divided() && !metric.falls_with_replicas() {
            let Self { field, name, .. } = metric;
            bail!(
                "{field}: the setting per-replica divides the value by the replicas, and the \
                 target averageValue does so again. This can't be replayed: add \
                 --ignore-metric {name}"
            );
        }
        Ok(metric)
    }

    /// Advice to give the query of the metric. Names the annotations that configure the metric.
    pub(super) fn query_advice(&self) -> String {
        let name = &self.name;
        let advice = format!("give its query with --load-query '{name}=QUERY'");
        match &self.collector {
            None | Some(CollectorSource { subject: FindingSubject::Metric(..), .. }) => advice,
            Some(CollectorSource { collector: "prometheus", subject, .. }) => {
                format!("{advice} (that of its {subject})")
            }
            Some(CollectorSource { collector, subject, .. }) => {
                format!("{advice} (its {subject} name the collector {collector})")
            }
        }
    }

    /// The metric as users write it, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.source {
            Source::Resource { container: Some(container) } => {
                format!("{} of the container {container}", self.name)
            }
            _ => self.name.clone(),
        }
    }

    /// The size of the load's unit: 1 MiB in bytes for memory, else 1.
    pub(super) fn load_unit_size(&self) -> f64 {
        if self.resource() == Some("memory") { MEBI } else { 1.0 }
    }

    /// The unit of the rebuilt load.
    pub(super) fn load_unit(&self) -> String {
        match self.resource() {
            Some("cpu") => "cores".to_owned(),
            Some("memory") => "MiB".to_owned(),
            _ if self.is_multiplied() => format!("{} × replicas", self.name),
            _ => self.name.clone(),
        }
    }

    /// Formats an amount of the rebuilt load with its unit.
    pub(super) fn load_amount(&self, value: f64) -> String {
        let preposition = if self.resource().is_some() { "" } else { "of " };
        format!("{value} {preposition}{}", self.load_unit())
    }

    /// `cpu` or `memory` for a resource metric. `None` for others.
    pub(super) fn resource(&self) -> Option<&str> {
        matches!(self.source, Source::Resource { .. }).then_some(self.name.as_str())
    }
}

/// The metrics of an autoscaler that aren't ignored, with their indices.
pub(super) fn used_metrics<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    ignored: &'a [String],
) -> impl Iterator<Item = (usize, &'a MetricSpec)> {
    let names = numbered_names(hpa);
    let ignored = ignored.iter().flat_map(|text| select_metrics(&names, text));
    let ignored: BTreeSet<usize> = ignored.collect();
    let metrics = hpa.spec.metrics.iter().enumerate();
    metrics.filter(move |(index, _)| !ignored.contains(index))
}

/// The indices in `spec.metrics` and the names of an autoscaler's metrics.
fn numbered_names(hpa: &HorizontalPodAutoscaler) -> Vec<(usize, &str)> {
    hpa.spec.metrics.iter().map(MetricSpec::metric_name).enumerate().collect()
}

/// The indices of the metrics that `text` selects: all metrics of that name. If no metric has the
/// name, the metric at that index. If metrics are named with a number, and the metric at that index
/// is one of them, only that metric.
pub(super) fn select_metrics(metrics: &[(usize, &str)], text: &str) -> Vec<usize> {
    let named = metrics.iter().filter(|(_, name)| *name == text);
    let named: Vec<usize> = named.map(|(index, _)| *index).collect();
    let mut indices = metrics.iter().map(|(index, _)| *index);
    let is_selected =
        |index: &usize| (named.is_empty() || named.contains(index)) && text.parse() == Ok(*index);
    match indices.find(is_selected) {
        Some(index) => vec![index],
        None => named,
    }
}

/// The source of the member that is set, as in [`MetricSpec::target`].
fn source_of_spec(spec: &MetricSpec) -> Option<Source> {
    Some(match spec {
        MetricSpec { resource: Some(_), .. } => Source::Resource { container: None },
        MetricSpec { container_resource: Some(resource), .. } => {
            Source::Resource { container: Some(resource.container.clone()) }
        }
        MetricSpec { pods: Some(pods), .. } => Source::Pods(pods.metric.clone()),
        MetricSpec { object: Some(object), .. } => Source::Object {
            object: object.described_object.clone(),
            identifier: object.metric.clone(),
        },
        MetricSpec { external: Some(external), .. } => Source::External(external.metric.clone()),
        _ => return None,
    })
}

/// Labels that match the metric's selector, for the metric of the simulated workload. `NotIn` and
/// `DoesNotExist` need none.
pub(super) fn matching_labels(metric: &MetricIdentifier) -> BTreeMap<String, String> {
    let Some(selector) = &metric.selector else { return BTreeMap::new() };
    let expressions = selector.match_expressions.iter().filter_map(|expression| {
        let value = match expression.operator.as_str() {
            "In" => expression.values.first()?.clone(),
            "Exists" => "present".to_owned(),
            _ => return None,
        };
        Some((expression.key.clone(), value))
    });
    expressions.chain(selector.match_labels.clone()).collect()
}

fn numeric_target(target: &MetricTarget) -> Option<Target> {
    let number = |quantity: &Option<Quantity>| quantity.as_ref().map(Quantity::as_f64);
    let utilization =
        target.average_utilization.map(|percent| Target::Utilization(f64::from(percent)));
    let per_pod = || number(&target.average_value).map(Target::PerPod);
    utilization.or_else(per_pod).or_else(|| number(&target.value).map(Target::Value))
}
