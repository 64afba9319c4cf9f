//! The metrics of all autoscalers, by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hpa_calc::HorizontalPodAutoscaler;

use super::{
    CollectionSettings,
    metric::CollectedMetric,
    problems::{CollectorProblem, config_problem},
};
use crate::{
    ConfigError, MetricConfig, Plan,
    annotations::{Annotations, MetricType},
    metric_configs,
};

/// Identifies an autoscaler: API group, namespace and name.
pub(super) type AutoscalerKey = (String, String, String);

/// Namespace, type and name of a metric.
type MetricKey = (String, MetricType, String);

#[derive(Default)]
pub(super) struct Index {
    pub(super) is_synced: bool,
    autoscalers: BTreeMap<AutoscalerKey, Entry>,
    by_metric: BTreeMap<MetricKey, BTreeMap<AutoscalerKey, Vec<Arc<CollectedMetric>>>>,
}

/// What an autoscaler asks for.
pub(super) struct Entry {
    metrics: Vec<Arc<CollectedMetric>>,
    problem: Option<CollectorProblem>,
}

impl Entry {
    /// Metrics that are in `known` keep their values.
    pub(super) fn new(
        key: &AutoscalerKey,
        hpa: &HorizontalPodAutoscaler,
        known: &[Arc<CollectedMetric>],
        settings: &CollectionSettings,
    ) -> Self {
        let (metrics, messages) = metrics_of(hpa, known, settings);
        Self { metrics, problem: CollectorProblem::new(&key.0, hpa, messages) }
    }
}

impl Index {
    pub(super) fn metrics(&self) -> impl Iterator<Item = &Arc<CollectedMetric>> {
        self.autoscalers.values().flat_map(|entry| &entry.metrics)
    }

    /// The metrics of an autoscaler.
    pub(super) fn metrics_of(&self, key: &AutoscalerKey) -> Vec<Arc<CollectedMetric>> {
        self.autoscalers.get(key).map(|entry| entry.metrics.clone()).unwrap_or_default()
    }

    /// The metrics with a name, in the order of their autoscalers.
    pub(super) fn named(
        &self,
        namespace: &str,
        metric_type: MetricType,
        name: &str,
    ) -> Vec<Arc<CollectedMetric>> {
        let key = (namespace.to_owned(), metric_type, name.to_owned());
        let found = self.by_metric.get(&key).into_iter().flat_map(BTreeMap::values);
        found.flatten().cloned().collect()
    }

    pub(super) fn problems(&self) -> Vec<CollectorProblem> {
        self.autoscalers.values().filter_map(|entry| entry.problem.clone()).collect()
    }

    /// Returns whether the problems of the autoscaler changed.
    pub(super) fn insert(&mut self, key: AutoscalerKey, entry: Entry) -> bool {
        let before = self.remove(&key);
        let has_changed =
            before.as_ref().map(|it| &it.message) != entry.problem.as_ref().map(|it| &it.message);
        if entry.metrics.is_empty() && entry.problem.is_none() {
            return has_changed;
        }
        for metric in &entry.metrics {
            let config = &metric.config;
            let name = (key.1.clone(), config.metric_type, config.metric.name.clone());
            let own = self.by_metric.entry(name).or_default().entry(key.clone()).or_default();
            own.push(metric.clone());
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
            if let Some(own) = self.by_metric.get_mut(&name) {
                own.remove(key);
                if own.is_empty() {
                    self.by_metric.remove(&name);
                }
            }
        }
        entry.problem
    }

    /// The autoscalers of an API group other than these.
    fn others(&self, group: &str, keys: &BTreeSet<AutoscalerKey>) -> Vec<AutoscalerKey> {
        let own = self.autoscalers.keys().filter(|key| key.0 == group);
        own.filter(|key| !keys.contains(*key)).cloned().collect()
    }

    /// Removes the autoscalers of an API group that a list doesn't have.
    pub(super) fn finish_list(&mut self, group: &str, listed: &BTreeSet<AutoscalerKey>) {
        for key in self.others(group, listed) {
            self.remove(&key);
        }
        self.is_synced = true;
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.autoscalers.is_empty() && self.by_metric.is_empty()
    }
}

/// The metrics of an autoscaler that can be collected, and the problems of others.
fn metrics_of(
    hpa: &HorizontalPodAutoscaler,
    known: &[Arc<CollectedMetric>],
    settings: &CollectionSettings,
) -> (Vec<Arc<CollectedMetric>>, Vec<String>) {
    let environment = &settings.environment;
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let mut messages: Vec<String> = annotations.problems.iter().map(ToString::to_string).collect();
    let configs = match metric_configs(hpa, &annotations, environment.compat) {
        Ok(configs) => configs,
        Err(error) => {
            messages.push(error.to_string());
            return (Vec::new(), messages);
        }
    };
    let mut metrics = Vec::new();
    for config in configs {
        if let Some(metric) = known.iter().find(|metric| metric.config == config) {
            metrics.push(metric.clone());
            continue;
        }
        match Plan::new(&config, environment) {
            Ok(plan) if !settings.collectors.contains(plan.name) => {}
            Ok(plan) => {
                let namespace = &hpa.metadata.namespace;
                metrics.push(Arc::new(CollectedMetric::new(namespace, config, plan)));
            }
            // Reported above, with the annotation.
            Err(ConfigError::Annotation(error))
                if annotations.problems.iter().any(|problem| problem.reason == error) => {}
            Err(error) if is_of_others(&config, &error) => {}
            Err(error) => messages.push(config_problem(&config, &error)),
        }
    }
    (metrics, messages)
}

/// Whether a metric belongs to another source of metrics.
fn is_of_others(config: &MetricConfig, error: &ConfigError) -> bool {
    let is_unknown = match error {
        ConfigError::NoCollector(_) | ConfigError::SkipperMetric(_) => true,
        ConfigError::PodFormat(_) | ConfigError::TargetKind(_) => {
            config.metric_type == MetricType::Pods
        }
        _ => false,
    };
    is_unknown && config.collector.is_empty()
}
