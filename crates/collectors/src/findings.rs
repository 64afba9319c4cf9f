//! Finds problems of annotations and metrics, for events and for lint.

use std::collections::HashSet;

use hpa_calc::{HorizontalPodAutoscaler, api::MetricSpec, validation::MAX_METRICS};
use hpa_prometheus::promql::{self, Expr, SyntaxError};

use crate::{
    CollectorPlan, ConfigError, Environment, MetricConfig,
    annotations::{Annotations, MetricType},
    metric_configs,
    registry::Server,
};

/// The maximum total length of the settings of an autoscaler's metrics. Metrics with the same name
/// share annotations. These count once for each such metric.
pub(crate) const MAX_SETTINGS_BYTES: usize = 512 << 10;

/// A problem of an annotation or metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// An annotation, all annotations of a metric (`metric-config.TYPE.METRIC.COLLECTOR/*`), a
    /// metric, or `annotations` for a general problem.
    pub subject: String,
    pub message: String,
    /// Whether a metric can't be collected, or an annotation is invalid. Otherwise, the finding is
    /// a warning, for example that a setting has no effect.
    pub is_error: bool,
    /// Whether the problem is that no collector reads such a metric.
    pub has_no_collector: bool,
}

impl Finding {
    pub(crate) fn error(subject: String, message: String) -> Self {
        Self { subject, message, is_error: true, has_no_collector: false }
    }

    fn warning(subject: String, message: String) -> Self {
        Self { subject, message, is_error: false, has_no_collector: false }
    }
}

/// The problems of an autoscaler's annotations `metric-config.*`, and of its Pods, Object and
/// External metrics, of which only the first [`MAX_METRICS`] are checked. Sends no requests.
pub fn findings(hpa: &HorizontalPodAutoscaler, environment: &Environment) -> Vec<Finding> {
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let mut findings = annotation_findings(hpa, &annotations);
    let configs = match metric_configs(hpa, &annotations, environment.compat) {
        Ok(configs) => configs,
        Err(error) => {
            findings.push(Finding::error("annotations".to_owned(), error.to_string()));
            return findings;
        }
    };
    for config in configs.iter().take(MAX_METRICS) {
        let plan = CollectorPlan::new(config, environment);
        findings.extend(plan.err().and_then(|error| config_finding(config, &error)));
        findings.extend(setting_findings(config, environment, promql::parse));
    }
    findings
}

/// The collector that reads a metric, and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorSource {
    /// The name in the table of collectors.
    pub collector: &'static str,
    /// The annotations of the metric (`metric-config.TYPE.METRIC.COLLECTOR/*`), or the metric.
    pub subject: String,
    pub is_annotated: bool,
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
            subject: subject_of(&config),
            is_annotated: !config.collector.is_empty(),
            servers: plan.servers(),
        })),
        Err(error @ ConfigError::Annotation(_)) => {
            Some(Err(Finding::error(subject_of(&config), error.to_string())))
        }
        Err(error) => config_finding(&config, &error).map(Err),
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

/// Annotations that are invalid, or whose metric is not in the spec.
pub(crate) fn annotation_findings(
    hpa: &HorizontalPodAutoscaler,
    annotations: &Annotations,
) -> Vec<Finding> {
    let problems = annotations.problems.iter();
    let mut findings: Vec<Finding> = problems
        .map(|problem| {
            let subject = format!("annotation {}", problem.annotation);
            Finding::error(subject, problem.reason.to_string())
        })
        .collect();
    // A set, because both lists can have thousands of elements.
    let in_spec: HashSet<(MetricType, &str)> =
        hpa.spec.metrics.iter().flat_map(metric_names).collect();
    for ((metric_type, name), config) in &annotations.metrics {
        if !in_spec.contains(&(*metric_type, name.as_str())) {
            let subject = annotations_of(*metric_type, name, &config.collector);
            let kind = metric_type.name();
            let message = format!("spec.metrics has no metric {name} of the type {kind}");
            findings.push(Finding::warning(subject, message));
        }
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
/// a finding for the annotation, or if the metric may belong to another metric source.
pub(crate) fn config_finding(config: &MetricConfig, error: &ConfigError) -> Option<Finding> {
    let is_unannotated = config.collector.is_empty();
    let is_omitted = match error {
        ConfigError::NoCollector(_) | ConfigError::SkipperMetric(_) => is_unannotated,
        ConfigError::PodFormat(_) | ConfigError::TargetKind(_) => {
            is_unannotated && config.metric_type == MetricType::Pods
        }
        // [`annotation_findings`] reports invalid annotations, but no invalid labels.
        ConfigError::Annotation(_) => config.is_annotation_invalid(),
        _ => false,
    };
    let has_no_collector = matches!(error, ConfigError::NoCollector(_));
    (!is_omitted).then(|| Finding {
        has_no_collector,
        ..Finding::error(subject_of(config), error.to_string())
    })
}

/// Annotations with settings that the collector doesn't have, annotations that name another
/// collector than the type of an external metric does, and Prometheus queries that `parse` refuses.
pub(crate) fn setting_findings(
    config: &MetricConfig,
    environment: &Environment,
    parse: impl Fn(&str) -> Result<Expr<'_>, SyntaxError>,
) -> Vec<Finding> {
    let Some(collector) = environment.collector_for(config) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut warn = |message: String| findings.push(Finding::warning(subject_of(config), message));
    let query_name = config.value("query-name");
    for key in config.annotated_keys() {
        if !collector.has_key(key) && query_name != Some(key) {
            warn(format!("the collector {} has no setting {key}", collector.name));
        }
    }
    let external_type = config.external_type();
    let is_external = config.metric_type == MetricType::External;
    if is_external
        && !config.collector.is_empty()
        && !collector.reads_external_type(&config.collector)
    {
        let annotated = &config.collector;
        warn(format!(
            "the annotations name {annotated}, but the type of the metric is {external_type}"
        ));
    }
    let query = config.value("query").filter(|_| collector.name == "prometheus");
    if let Some(error) = query.and_then(|query| parse(query).err()) {
        warn(format!("query: {error}"));
    }
    findings
}

/// The annotations of a metric, or the metric itself if it has none.
fn subject_of(config: &MetricConfig) -> String {
    if config.collector.is_empty() {
        return format!("metric {}", config.display_name());
    }
    annotations_of(config.metric_type, &config.metric.name, &config.collector)
}

fn annotations_of(metric_type: MetricType, name: &str, collector: &str) -> String {
    let metric_type = metric_type.name().to_lowercase();
    format!("annotations metric-config.{metric_type}.{name}.{collector}/*")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn texts(annotations: &[(&str, &str)]) -> Vec<String> {
        let annotations: serde_json::Map<_, _> = annotations
            .iter()
            .map(|(name, value)| (format!("metric-config.{name}"), json!(value)))
            .collect();
        let external = |name: &str, kind: &str| {
            json!({ "type": "External", "external": {
                "metric": { "name": name, "selector": { "matchLabels": { "type": kind } } },
                "target": { "type": "AverageValue", "averageValue": "1" },
            } })
        };
        let hpa = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web", "annotations": annotations },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "maxReplicas": 9,
                "metrics": [external("queue", "prometheus"), external("jobs", "json-path")],
            },
        }));
        let hpa: HorizontalPodAutoscaler = hpa.unwrap();
        let found = findings(&hpa, &Environment::default());
        found.iter().map(|finding| format!("{}: {}", finding.subject, finding.message)).collect()
    }

    const QUERY: (&str, &str) = ("external.queue.prometheus/query", "sum(x)");
    const KEY: (&str, &str) = ("external.jobs.json-path/json-key", "$.x");
    const ENDPOINT: (&str, &str) = ("external.jobs.json-path/endpoint", "http://a/");

    #[test]
    fn valid_annotations_have_no_finding() {
        assert_eq!(texts(&[QUERY, KEY, ENDPOINT]), [""; 0]);
    }

    #[rstest]
    #[case::missing_key(
        &[QUERY, ENDPOINT],
        "annotations metric-config.external.jobs.json-path/*: config value json-key or json-eval \
         not found"
    )]
    #[case::unknown_key(
        &[QUERY, KEY, ENDPOINT, ("external.jobs.json-path/intervall", "30s")],
        "annotations metric-config.external.jobs.json-path/*: the collector http has no setting \
         intervall"
    )]
    #[case::other_collector(
        &[("external.queue.promtheus/query", "x"), KEY, ENDPOINT],
        "annotations metric-config.external.queue.promtheus/*: the annotations name promtheus, but \
         the type of the metric is prometheus"
    )]
    #[case::unbalanced(
        &[("external.queue.prometheus/query", "sum(x"), KEY, ENDPOINT],
        "annotations metric-config.external.queue.prometheus/*: query: the query \
         ends instead of `,` or `)`"
    )]
    #[case::no_metric(
        &[QUERY, KEY, ENDPOINT, ("pods.rps.json-path/path", "/")],
        "annotations metric-config.pods.rps.json-path/*: spec.metrics has no metric rps of the \
         type Pods"
    )]
    #[case::grammar(
        &[QUERY, KEY, ENDPOINT, ("external.jobs/interval", "30s")],
        "annotation metric-config.external.jobs/interval: the key is not \
         metric-config.TYPE.METRIC.COLLECTOR/NAME"
    )]
    #[case::interval(
        &[QUERY, KEY, ENDPOINT, ("external.jobs.json-path/interval", "soon")],
        "annotation metric-config.external.jobs.json-path/interval: failed to parse interval value \
         soon for {External jobs}: time: invalid duration \"soon\""
    )]
    fn mistake_is_reported_once(#[case] annotations: &[(&str, &str)], #[case] expected: &str) {
        assert_eq!(texts(annotations), [expected]);
    }

    #[test]
    fn thousands_of_annotations_and_metrics_are_compared_quickly() {
        let pods = json!({"type": "Pods", "pods": {
            "metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"},
        }});
        let annotation =
            |index| (format!("metric-config.pods.m{index}.json-path/path"), json!("/"));
        let annotations: serde_json::Map<_, _> = (0..40_000).map(annotation).collect();
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 9, "metrics": vec![pods; 60_000],
            },
        }))
        .unwrap();
        let parsed = Annotations::parse(&hpa.metadata.annotations);
        let start = std::time::Instant::now();
        assert_eq!(annotation_findings(&hpa, &parsed).len(), 40_000);
        assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    }
}
