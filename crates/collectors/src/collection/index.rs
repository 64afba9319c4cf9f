//! The metrics of all autoscalers, by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::RandomState,
    sync::Arc,
};

use hpa_calc::{HorizontalPodAutoscaler, validation::MAX_METRICS};
use hpa_prometheus::promql::parse_without_regex_checks;

use super::{
    CollectionSettings,
    metric::CollectedMetric,
    problems::{CollectorProblem, FindingSummary},
};
use crate::{
    CollectorPlan, ConfigError, Finding, FindingSubject, MetricConfig,
    annotations::{Annotations, MetricType},
    findings::{
        MAX_NAMESPACE_SETTINGS_BYTES, MAX_SETTINGS_BYTES, annotation_findings, config_finding,
        setting_findings, unknown_setting_findings,
    },
    metric_configs,
};

/// Identifies an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AutoscalerKey {
    /// The API group of the autoscaler.
    pub(super) group: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Namespace, type and name of a metric.
type MetricKey = (String, MetricType, String);

fn metric_key(config: &MetricConfig) -> MetricKey {
    (config.namespace.clone(), config.metric_type, config.metric.name.clone())
}

/// The metrics and problems of all autoscalers.
#[derive(Default)]
pub(super) struct Index {
    autoscalers: BTreeMap<AutoscalerKey, Entry>,
    /// The lengths of the settings by namespace, in bytes.
    settings_len: BTreeMap<String, usize>,
    /// Hashes the settings in annotations.
    hasher: RandomState,
    by_metric: BTreeMap<MetricKey, BTreeMap<AutoscalerKey, Vec<Arc<CollectedMetric>>>>,
}

/// The metrics and problems of an autoscaler.
pub(super) struct Entry {
    metrics: Vec<Arc<CollectedMetric>>,
    /// The length of the settings of the metrics, in bytes.
    settings_len: usize,
    problem: Option<CollectorProblem>,
}

/// The inputs of [`Entry::new`] from the index.
pub(super) struct EntryContext {
    previous_metrics: Vec<Arc<CollectedMetric>>,
    /// The part of [`MAX_NAMESPACE_SETTINGS_BYTES`] that other autoscalers leave.
    free_bytes: usize,
    hasher: RandomState,
}

impl Index {
    pub(super) fn metrics(&self) -> impl Iterator<Item = &Arc<CollectedMetric>> {
        self.autoscalers.values().flat_map(|entry| &entry.metrics)
    }

    pub(super) fn entry_context(&self, key: &AutoscalerKey) -> EntryContext {
        let previous = self.autoscalers.get(key);
        let used = self.settings_len.get(&key.namespace).copied().unwrap_or_default();
        let used_by_others = used.saturating_sub(previous.map_or(0, |entry| entry.settings_len));
        EntryContext {
            previous_metrics: previous.map(|entry| entry.metrics.clone()).unwrap_or_default(),
            free_bytes: MAX_NAMESPACE_SETTINGS_BYTES.saturating_sub(used_by_others),
            hasher: self.hasher.clone(),
        }
    }

    /// The metrics with a name, ordered by the API groups and names of their autoscalers.
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
        let previous = self.remove(&key).map(|problem| problem.message);
        let current = entry.problem.as_ref().map(|problem| &problem.message);
        let has_changed = previous.as_ref() != current;
        if entry.metrics.is_empty() && entry.problem.is_none() {
            return has_changed;
        }
        for metric in &entry.metrics {
            let autoscalers = self.by_metric.entry(metric_key(&metric.config)).or_default();
            autoscalers.entry(key.clone()).or_default().push(metric.clone());
        }
        *self.settings_len.entry(key.namespace.clone()).or_default() += entry.settings_len;
        self.autoscalers.insert(key, entry);
        has_changed
    }

    /// Removes an autoscaler, and returns its problem.
    pub(super) fn remove(&mut self, key: &AutoscalerKey) -> Option<CollectorProblem> {
        let entry = self.autoscalers.remove(key)?;
        if let Some(len) = self.settings_len.get_mut(&key.namespace) {
            *len = len.saturating_sub(entry.settings_len);
            if *len == 0 {
                self.settings_len.remove(&key.namespace);
            }
        }
        for metric in &entry.metrics {
            let metric_key = metric_key(&metric.config);
            if let Some(autoscalers) = self.by_metric.get_mut(&metric_key) {
                autoscalers.remove(key);
                if autoscalers.is_empty() {
                    self.by_metric.remove(&metric_key);
                }
            }
        }
        entry.problem
    }

    /// Removes the autoscalers of an API group that are not in `listed`.
    pub(super) fn remove_unlisted(&mut self, group: &str, listed: &BTreeSet<AutoscalerKey>) {
        let of_group = self.autoscalers.keys().filter(|key| key.group == group);
        let unlisted: Vec<_> = of_group.filter(|key| !listed.contains(*key)).cloned().collect();
        for key in unlisted {
            self.remove(&key);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.autoscalers.is_empty() && self.by_metric.is_empty() && self.settings_len.is_empty()
    }
}

/// The error if the settings of an autoscaler's metrics, or those of its namespace, are too long.
fn exceeded_limit(settings_len: usize, namespace_is_full: bool) -> Option<String> {
    if settings_len > MAX_SETTINGS_BYTES {
        return Some(format!("the settings of all metrics exceed {MAX_SETTINGS_BYTES} bytes"));
    }
    namespace_is_full.then(|| {
        format!(
            "the settings of all autoscalers in the namespace exceed \
             {MAX_NAMESPACE_SETTINGS_BYTES} bytes"
        )
    })
}

/// The equal metric in `known`, with its values, or else a new one. `None` if its collector isn't
/// enabled.
fn collected_metric<'m>(
    config: &MetricConfig,
    mut known: impl Iterator<Item = &'m Arc<CollectedMetric>>,
    hasher: &RandomState,
    settings: &CollectionSettings,
) -> Result<Option<Arc<CollectedMetric>>, ConfigError> {
    let hash = config.annotations_hash(hasher);
    let kept_config = config.clone().without_annotations();
    let is_same = |metric: &&Arc<CollectedMetric>| {
        metric.annotations_hash == hash && metric.config == kept_config
    };
    if let Some(same) = known.find(is_same) {
        return Ok(Some(same.clone()));
    }
    let plan = CollectorPlan::new(config, &settings.environment)?;
    let is_enabled = settings.collectors.contains(plan.name);
    Ok(is_enabled.then(|| Arc::new(CollectedMetric::new(kept_config, hash, plan))))
}

impl Entry {
    /// The metrics of an autoscaler that enabled collectors can read, and the problems of all its
    /// metrics and annotations. Unchanged metrics are taken from `context`, with their values.
    /// Equal metrics are one object, which is collected once.
    pub(super) fn new(
        key: &AutoscalerKey,
        hpa: &HorizontalPodAutoscaler,
        context: &EntryContext,
        settings: &CollectionSettings,
    ) -> Self {
        let environment = &settings.environment;
        let annotations = Annotations::parse(&hpa.metadata.annotations);
        let mut problems = FindingSummary::default();
        problems.extend(annotation_findings(hpa, &annotations));
        let general_error =
            |message: String| [Finding::error(FindingSubject::AllAnnotations, message)];
        let configs = metric_configs(hpa, &annotations, environment.compat);
        let configs = configs.unwrap_or_else(|error| {
            problems.extend(general_error(error.to_string()));
            Vec::new()
        });
        if configs.len() > MAX_METRICS {
            let message = format!("only the first {MAX_METRICS} metrics are collected");
            problems.extend(general_error(message));
        }
        problems.extend(unknown_setting_findings(&configs, environment));
        let mut metrics: Vec<Arc<CollectedMetric>> = Vec::new();
        let (mut total_len, mut collected_len) = (0, 0);
        for config in configs.into_iter().take(MAX_METRICS) {
            let len = config.settings_len();
            total_len += len;
            let namespace_is_full = collected_len + len > context.free_bytes;
            if let Some(message) = exceeded_limit(total_len, namespace_is_full) {
                problems.extend(general_error(message));
                break;
            }
            // Regular expressions are not checked, because compiling them for each change of an
            // autoscaler would cost too much. Prometheus checks them.
            problems.extend(setting_findings(&config, environment, parse_without_regex_checks));
            let known = context.previous_metrics.iter().chain(&metrics);
            match collected_metric(&config, known, &context.hasher, settings) {
                Ok(Some(metric)) => {
                    collected_len += len;
                    metrics.push(metric);
                }
                Ok(None) => {}
                Err(error) => problems.extend(config_finding(&config, &error, environment)),
            }
        }
        let problem = CollectorProblem::new(&key.group, hpa, &problems);
        Self { metrics, settings_len: collected_len, problem }
    }
}
