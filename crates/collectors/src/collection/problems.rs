//! What is wrong with annotations of autoscalers.

use hpa_calc::HorizontalPodAutoscaler;

use crate::{ConfigError, MetricConfig, annotations::MetricType};

/// What is wrong with the collectors of an autoscaler, for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorProblem {
    /// The API group of the autoscaler.
    pub group: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
    /// The message.
    pub message: String,
}

impl CollectorProblem {
    pub(super) fn new(
        group: &str,
        hpa: &HorizontalPodAutoscaler,
        messages: Vec<String>,
    ) -> Option<Self> {
        let metadata = &hpa.metadata;
        (!messages.is_empty()).then(|| Self {
            group: group.to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            message: format!("Failed to create new metrics collector: {}", messages.join("; ")),
        })
    }
}

/// Names the annotations of a metric that has no plan, or the metric if it has none.
pub(super) fn config_problem(config: &MetricConfig, error: &ConfigError) -> String {
    if config.collector.is_empty() {
        return format!("metric {}: {error}", config.display_name());
    }
    let metric_type = match config.metric_type {
        MetricType::Pods => "pods",
        MetricType::Object => "object",
        MetricType::External => "external",
    };
    let (name, collector) = (&config.metric.name, &config.collector);
    format!("annotations metric-config.{metric_type}.{name}.{collector}/*: {error}")
}
