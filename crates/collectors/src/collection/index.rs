//! The metrics of all autoscalers, by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hpa_calc::{HorizontalPodAutoscaler, validation::MAX_METRICS};
use hpa_prometheus::promql::parse_without_regexes;

use super::{
    CollectionSettings,
    metric::CollectedMetric,
    problems::{CollectorProblem, Problems},
};
use crate::{
    CollectorPlan, Finding,
    annotations::{Annotations, MetricType},
    findings::{MAX_SETTINGS_BYTES, annotation_findings, config_finding, setting_findings},
    metric_configs,
};

/// Identifies an autoscaler: API group, namespace and name.
pub(super) type AutoscalerKey = (String, String, String);

/// Namespace, type and name of a metric.
type MetricKey = (String, MetricType, String);

#[derive(Default)]
pub(super) struct Index {
    autoscalers: BTreeMap<AutoscalerKey, Entry>,
    by_metric: BTreeMap<MetricKey, BTreeMap<AutoscalerKey, Vec<Arc<CollectedMetric>>>>,
}

/// The metrics and problems of an autoscaler.
pub(super) struct Entry {
    metrics: Vec<Arc<CollectedMetric>>,
    problem: Option<CollectorProblem>,
}

impl Entry {
    /// Creates an entry. Metrics that are also in `current` keep their values.
    pub(super) fn new(
        key: &AutoscalerKey,
        hpa: &HorizontalPodAutoscaler,
        current: &[Arc<CollectedMetric>],
        settings: &CollectionSettings,
    ) -> Self {
        let (metrics, problems) = create_metrics(hpa, current, settings);
        Self { metrics, problem: CollectorProblem::new(&key.0, hpa, &problems) }
    }
}

impl Index {
    pub(super) fn metrics(&self) -> impl Iterator<Item = &Arc<CollectedMetric>> {
        self.autoscalers.values().flat_map(|entry| &entry.metrics)
    }

    pub(super) fn metrics_of(&self, key: &AutoscalerKey) -> Vec<Arc<CollectedMetric>> {
        self.autoscalers.get(key).map(|entry| entry.metrics.clone()).unwrap_or_default()
    }

    /// The metrics with a name, in the order of their autoscalers.
    pub(super) fn metrics_named(
        &self,
        namespace: &str,
        metric_type: MetricType,
        name: &str,
    ) -> Vec<Arc<CollectedMetric>> {
        let key = (namespace.to_owned(), metric_type, name.to_owned());
        let metrics = self.by_metric.get(&key).into_iter().flat_map(BTreeMap::values);
        metrics.flatten().cloned().collect()
    }

    pub(super) fn problems(&self) -> Vec<CollectorProblem> {
        self.autoscalers.values().filter_map(|entry| entry.problem.clone()).collect()
    }

    /// Adds or replaces an autoscaler. Returns whether the message about its problems changed.
    pub(super) fn insert(&mut self, key: AutoscalerKey, entry: Entry) -> bool {
        let previous = self.remove(&key);
        let has_changed =
            previous.as_ref().map(|it| &it.message) != entry.problem.as_ref().map(|it| &it.message);
        if entry.metrics.is_empty() && entry.problem.is_none() {
            return has_changed;
        }
        for metric in &entry.metrics {
            let config = &metric.config;
            let name = (key.1.clone(), config.metric_type, config.metric.name.clone());
            let autoscalers = self.by_metric.entry(name).or_default();
            autoscalers.entry(key.clone()).or_default().push(metric.clone());
        }
        self.autoscalers.insert(key, entry);
        has_changed
    }

    /// Removes an autoscaler, and returns its problem.
    pub(super) fn remove(&mut self, key: &AutoscalerKey) -> Option<CollectorProblem> {
        let entry = self.autoscalers.remove(key)?;
        for metric in &entry.metrics {
            let config = &metric.config;
            let name = (key.1.clone(), config.metric_type, config.metric.name.clone());
            if let Some(autoscalers) = self.by_metric.get_mut(&name) {
                autoscalers.remove(key);
                if autoscalers.is_empty() {
                    self.by_metric.remove(&name);
                }
            }
        }
        entry.problem
    }

    /// Removes the autoscalers of an API group that are not in `listed`.
    pub(super) fn remove_unlisted(&mut self, group: &str, listed: &BTreeSet<AutoscalerKey>) {
        let of_group = self.autoscalers.keys().filter(|key| key.0 == group);
        let unlisted: Vec<_> = of_group.filter(|key| !listed.contains(*key)).cloned().collect();
        for key in unlisted {
            self.remove(&key);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.autoscalers.is_empty() && self.by_metric.is_empty()
    }
}

/// Returns the metrics of an autoscaler that enabled collectors can read, and the problems of its
/// metrics and annotations. Unchanged metrics are taken from `current`.
fn create_metrics(
    hpa: &HorizontalPodAutoscaler,
    current: &[Arc<CollectedMetric>],
    settings: &CollectionSettings,
) -> (Vec<Arc<CollectedMetric>>, Problems) {
    let environment = &settings.environment;
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let mut problems = Problems::default();
    problems.extend(annotation_findings(hpa, &annotations));
    let general_error = |message: String| [Finding::error("annotations".to_owned(), message)];
    let configs = match metric_configs(hpa, &annotations, environment.compat) {
        Ok(configs) => configs,
        Err(error) => {
            problems.extend(general_error(error.to_string()));
            return (Vec::new(), problems);
        }
    };
    if configs.len() > MAX_METRICS {
        let message = format!("only the first {MAX_METRICS} metrics are collected");
        problems.extend(general_error(message));
    }
    let mut metrics: Vec<Arc<CollectedMetric>> = Vec::new();
    let mut settings_len = 0;
    for config in configs.into_iter().take(MAX_METRICS) {
        settings_len += config.settings_len();
        if settings_len > MAX_SETTINGS_BYTES {
            let message = format!("the settings of all metrics exceed {MAX_SETTINGS_BYTES} bytes");
            problems.extend(general_error(message));
            break;
        }
        // Regular expressions are not checked, because compiling them for each change of an
        // autoscaler would cost too much. Prometheus checks them.
        problems.extend(setting_findings(&config, environment, parse_without_regexes));
        let is_same = |metric: &&Arc<CollectedMetric>| metric.config == config;
        if let Some(metric) = current.iter().chain(&metrics).find(is_same).cloned() {
            metrics.push(metric);
            continue;
        }
        match CollectorPlan::new(&config, environment) {
            Ok(plan) if !settings.collectors.contains(plan.name) => {}
            Ok(plan) => metrics.push(Arc::new(CollectedMetric::new(config, plan))),
            Err(error) => problems.extend(config_finding(&config, &error)),
        }
    }
    (metrics, problems)
}
