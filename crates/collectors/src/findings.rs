//! Finds problems of annotations and metrics, for events and for lint.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use hpa_calc::{
    HorizontalPodAutoscaler,
    api::{MetricIdentifier, MetricSpec},
    suggestions::most_similar,
    validation::MAX_METRICS,
};
use hpa_prometheus::promql::{self, Expr, SyntaxError};

use crate::{
    CollectorPlan, ConfigError, Environment, MetricConfig,
    annotations::{Annotations, MetricType, PREFIX},
    collectors::prometheus::query_setting,
    config::display_name,
    metric_configs,
    registry::{Registration, Server},
};

/// The maximum total length of the settings of an autoscaler's metrics. Annotations that several
/// metrics share count once for each metric.
pub(crate) const MAX_SETTINGS_BYTES: usize = 512 << 10;

/// The maximum total length of the settings of the collected metrics in a namespace.
pub(crate) const MAX_NAMESPACE_SETTINGS_BYTES: usize = 4 << 20;

/// The maximum length of the part of an annotation's key after the slash, in Kubernetes.
const MAX_KEY_NAME_BYTES: usize = 63;

/// The warning about a value that both the collector and the autoscaler divide, as in
/// kube-metrics-adapter.
const DIVIDED_TWICE: &str = "per-replica divides the value by the replicas, and the target \
                             averageValue does so again; use the target value, or no per-replica";

/// The maximum number of keys that are compared with a wrong one, because an autoscaler may have
/// thousands of annotations.
const MAX_COMPARED_KEYS: usize = 50;

/// A problem of an annotation or metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub subject: FindingSubject,
    pub message: String,
    /// Whether a metric can't be collected, or an annotation is invalid. Otherwise, the finding is
    /// a warning, for example that a setting has no effect.
    pub is_error: bool,
    /// Whether the problem is that no collector reads such a metric.
    pub has_no_collector: bool,
}

/// The annotations or the metric of a [`Finding`]. Displayed as in events, for example
/// `annotations metric-config.TYPE.METRIC.COLLECTOR/*`.
#[derive(Clone, Debug, PartialEq)]
pub enum FindingSubject {
    /// The annotations of the autoscaler in general.
    AllAnnotations,
    /// One annotation, by its key.
    Annotation(String),
    /// The annotations of a metric.
    MetricAnnotations {
        /// The start of their keys: `metric-config.TYPE.METRIC.COLLECTOR/`.
        prefix: String,
        /// The setting that is missing or invalid, if there is one. It may be a label.
        setting: Option<String>,
    },
    /// A metric without annotations.
    Metric(MetricType, MetricIdentifier),
}

impl fmt::Display for FindingSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllAnnotations => f.write_str("annotations"),
            Self::Annotation(key) => write!(f, "annotation {key}"),
            Self::MetricAnnotations { prefix, .. } => write!(f, "annotations {prefix}*"),
            Self::Metric(metric_type, metric) => {
                write!(f, "metric {}", display_name(*metric_type, metric))
            }
        }
    }
}

impl Finding {
    pub(crate) fn error(subject: FindingSubject, message: String) -> Self {
        Self { subject, message, is_error: true, has_no_collector: false }
    }

    fn warning(subject: FindingSubject, message: String) -> Self {
        Self { subject, message, is_error: false, has_no_collector: false }
    }
}

/// The problems of an autoscaler's annotations `metric-config.*`, and of its Pods, Object and
/// External metrics. Only the first [`MAX_METRICS`] metrics are checked. Sends no requests.
pub fn findings(hpa: &HorizontalPodAutoscaler, environment: &Environment) -> Vec<Finding> {
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let mut findings = annotation_findings(hpa, &annotations);
    let configs = metric_configs(hpa, &annotations, environment.compat);
    let configs = configs.unwrap_or_else(|error| {
        findings.push(Finding::error(FindingSubject::AllAnnotations, error.to_string()));
        Vec::new()
    });
    for config in configs.iter().take(MAX_METRICS) {
        let plan = CollectorPlan::new(config, environment);
        findings.extend(plan.err().and_then(|error| config_finding(config, &error, environment)));
        findings.extend(setting_findings(config, environment, promql::parse));
    }
    findings.extend(unknown_setting_findings(&configs, environment));
    findings
}

/// The collector that reads a metric, and its servers.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorSource {
    /// The name in the table of collectors.
    pub collector: &'static str,
    /// The annotations of the metric, or the metric if it has none.
    pub subject: FindingSubject,
    /// Whether the value is divided by the replicas each time that it is used.
    pub is_per_replica: bool,
    pub servers: Vec<Server>,
}

/// The collector and the servers of a metric, or the error in its settings. `None` if the metric
/// belongs to no collector.
pub fn source_of(
    hpa: &HorizontalPodAutoscaler,
    metric: &MetricSpec,
    environment: &Environment,
) -> Option<Result<CollectorSource, Finding>> {
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let config = MetricConfig::for_metric(hpa, metric, &annotations, environment.compat)?;
    match CollectorPlan::new(&config, environment) {
        Ok(plan) => Some(Ok(CollectorSource {
            collector: plan.name,
            subject: subject_of(&config, None),
            is_per_replica: plan.is_per_replica(),
            servers: plan.servers(),
        })),
        // `config_finding` omits the error of an annotation, because `annotation_findings` has it.
        Err(error @ ConfigError::Duration(_)) => {
            Some(Err(Finding::error(subject_of(&config, None), error.to_string())))
        }
        Err(error) => config_finding(&config, &error, environment).map(Err),
    }
}

/// The name of the collector that reads a metric of an autoscaler. `None` if the metric belongs to
/// no collector, or if its settings are invalid.
pub fn collector_of(
    hpa: &HorizontalPodAutoscaler,
    metric: &MetricSpec,
    environment: &Environment,
) -> Option<&'static str> {
    source_of(hpa, metric, environment)?.ok().map(|source| source.collector)
}

/// The query of a metric that the Prometheus collector reads. `None` for other metrics, and if the
/// settings have no query.
pub fn prometheus_query(
    hpa: &HorizontalPodAutoscaler,
    metric: &MetricSpec,
    environment: &Environment,
) -> Option<String> {
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let config = MetricConfig::for_metric(hpa, metric, &annotations, environment.compat)?;
    let collector = environment.collector_for(&config)?;
    let setting = query_setting(&config).ok().filter(|_| collector.name == "prometheus");
    setting.map(|(_, query)| query.to_owned())
}

/// Annotations that are invalid, whose type is unknown, or whose metric is not in the spec.
pub(crate) fn annotation_findings(
    hpa: &HorizontalPodAutoscaler,
    annotations: &Annotations,
) -> Vec<Finding> {
    let problems = annotations.problems.iter();
    let mut findings: Vec<Finding> = problems
        .map(|problem| {
            let subject = FindingSubject::Annotation(problem.annotation.clone());
            Finding::error(subject, problem.reason.clone())
        })
        .collect();
    // A set, because both lists can have thousands of elements.
    let in_spec: HashSet<(MetricType, &str)> =
        hpa.spec.metrics.iter().flat_map(metric_names).collect();
    for ((metric_type, name), config) in &annotations.metrics {
        let is_in_spec =
            |metric_type: &MetricType| in_spec.contains(&(*metric_type, name.as_str()));
        let kind = metric_type.name();
        let message = match &config.unknown_type {
            Some(unknown) if is_in_spec(metric_type) => {
                format!("`{unknown}` is not pods, object or external, and counts as external")
            }
            Some(unknown) => format!("`{unknown}` is not pods, object or external"),
            None if is_in_spec(metric_type) => continue,
            None => match MetricType::ALL.into_iter().find(is_in_spec) {
                Some(other) => {
                    format!("spec.metrics has {name} with the type {}, not {kind}", other.name())
                }
                None => format!("spec.metrics has no metric {name} of the type {kind}"),
            },
        };
        let type_name = config.type_name(*metric_type);
        let subject = metric_annotations(type_name, name, &config.collector, None);
        findings.push(Finding::warning(subject, message));
    }
    findings
}

/// The type and the name of a metric. An invalid metric may have several types, or none.
fn metric_names(metric: &MetricSpec) -> impl Iterator<Item = (MetricType, &str)> {
    let pods = metric.pods.as_ref().map(|pods| (MetricType::Pods, &pods.metric));
    let object = metric.object.as_ref().map(|object| (MetricType::Object, &object.metric));
    let external =
        metric.external.as_ref().map(|external| (MetricType::External, &external.metric));
    let all = [pods, object, external].into_iter().flatten();
    all.map(|(metric_type, identifier)| (metric_type, identifier.name.as_str()))
}

/// The finding for a metric whose [`CollectorPlan`] failed with `error`. `None` if there is already
/// a finding for the annotation. Also `None` if no collector reads such a metric and the metric has
/// no annotations: it may belong to another metric source.
pub(crate) fn config_finding(
    config: &MetricConfig,
    error: &ConfigError,
    environment: &Environment,
) -> Option<Finding> {
    let is_unannotated = !config.is_annotated();
    let is_omitted = match error {
        ConfigError::NoCollector(_) | ConfigError::SkipperMetric(_) => is_unannotated,
        ConfigError::PodFormat(_) | ConfigError::TargetKind(_) => {
            is_unannotated && config.metric_type == MetricType::Pods
        }
        // `annotation_findings` reports invalid annotations, but no invalid labels.
        ConfigError::Duration(_) => config.has_annotation_error(),
        _ => false,
    };
    if is_omitted {
        return None;
    }
    let has_no_collector = matches!(error, ConfigError::NoCollector(_));
    let mut setting = error.setting();
    let message = match (error, config.value("query-name")) {
        (ConfigError::NoQuery | ConfigError::NoFluxQuery(_), Some(name)) => {
            let similar = intended_query(config, name, environment);
            setting = similar.or(setting);
            let hint = similar.map_or_else(String::new, |key| format!(", similar: {key}"));
            format!("query-name {name} names no annotation{hint} ({error})")
        }
        (ConfigError::SqsRegion(_), _) => format!("{error} (--aws-region)"),
        _ => error.to_string(),
    };
    let subject = subject_of(config, setting);
    Some(Finding { has_no_collector, ..Finding::error(subject, message) })
}

/// The annotation that a `query-name` without an annotation probably means. Of the annotations that
/// aren't settings of the collector, it is a similar one, or else the only one.
fn intended_query<'c>(
    config: &'c MetricConfig,
    name: &str,
    environment: &Environment,
) -> Option<&'c str> {
    if name.len() > MAX_KEY_NAME_BYTES {
        return None;
    }
    let collector = environment.collector_for(config)?;
    let keys = config.annotated_keys().filter(|key| !collector.has_key(key));
    let keys: Vec<&str> = keys.take(MAX_COMPARED_KEYS).collect();
    let only = keys.first().filter(|_| keys.len() == 1).copied();
    most_similar(name, keys).or(only)
}

/// The settings of metrics, with their collectors.
type CollectedConfigs<'c> = Vec<(&'c MetricConfig, &'c Registration)>;

/// Annotations with settings that no collector of their metrics has. Metrics with the same type and
/// name share their annotations, and each may name another setting as its query.
pub(crate) fn unknown_setting_findings(
    configs: &[MetricConfig],
    environment: &Environment,
) -> Vec<Finding> {
    let mut sharing: BTreeMap<(MetricType, &str), CollectedConfigs<'_>> = BTreeMap::new();
    for config in configs.iter().take(MAX_METRICS) {
        if let Some(collector) = environment.collector_for(config) {
            let key = (config.metric_type, config.metric.name.as_str());
            sharing.entry(key).or_default().push((config, collector));
        }
    }
    let mut findings = Vec::new();
    for metrics in sharing.values() {
        let Some((first, collector)) = metrics.first() else { continue };
        let queries: HashSet<&str> =
            metrics.iter().filter_map(|(config, _)| named_query(config, environment)).collect();
        let is_known = |key: &str| {
            queries.contains(key) || metrics.iter().any(|(_, collector)| collector.has_key(key))
        };
        for key in first.annotated_keys().filter(|key| !is_known(key)) {
            let similar = collector.most_similar_key(key);
            let hint = similar.map_or_else(String::new, |key| format!(": did you mean {key}?"));
            let message = format!("the collector {} has no setting {key}{hint}", collector.name);
            findings.push(Finding::warning(subject_of(first, Some(key)), message));
        }
    }
    findings
}

/// The setting that `query-name` names, or probably means.
fn named_query<'c>(config: &'c MetricConfig, environment: &Environment) -> Option<&'c str> {
    let name = config.value("query-name")?;
    if config.value(name).is_some() {
        return Some(name);
    }
    // With `query`, the name doesn't matter.
    let is_needed = config.value("query").is_none();
    is_needed.then(|| intended_query(config, name, environment)).flatten()
}

/// The warnings about a metric that a collector reads:
///
/// - The annotations of an external metric name another collector than its type does.
/// - `parse` refuses the Prometheus query, or the query returns no value.
/// - The value is divided twice by the replicas.
pub(crate) fn setting_findings(
    config: &MetricConfig,
    environment: &Environment,
    parse: impl Fn(&str) -> Result<Expr<'_>, SyntaxError>,
) -> Vec<Finding> {
    let Some(collector) = environment.collector_for(config) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut warn = |setting: Option<&str>, message: String| {
        findings.push(Finding::warning(subject_of(config, setting), message));
    };
    if config.metric_type == MetricType::External
        && !config.collector.is_empty()
        && !collector.reads_external_type(&config.collector)
    {
        let (annotated, external_type) = (&config.collector, config.external_type());
        let message = format!(
            "the annotations name {annotated}, but the type of the metric is {external_type}"
        );
        warn(None, message);
    }
    let is_prometheus = collector.name == "prometheus";
    if is_prometheus
        && let Ok((key, query)) = query_setting(config)
        && let Some(problem) =
            parse(query).map_or_else(|error| Some(error.to_string()), |query| query.value_problem())
    {
        warn(Some(key), format!("{key}: {problem}"));
    }
    let is_divided = is_prometheus && config.object.is_some() && config.per_replica;
    if is_divided && config.has_average_target {
        warn(Some("per-replica"), DIVIDED_TWICE.to_owned());
    }
    findings
}

/// The annotations of a metric, or the metric itself if it has none.
fn subject_of(config: &MetricConfig, setting: Option<&str>) -> FindingSubject {
    if !config.is_annotated() {
        return FindingSubject::Metric(config.metric_type, config.metric.clone());
    }
    let type_name = config.annotated_type();
    metric_annotations(type_name, &config.metric.name, &config.collector, setting)
}

fn metric_annotations(
    type_name: &str,
    metric: &str,
    collector: &str,
    setting: Option<&str>,
) -> FindingSubject {
    FindingSubject::MetricAnnotations {
        prefix: format!("{PREFIX}{type_name}.{metric}.{collector}/"),
        setting: setting.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
