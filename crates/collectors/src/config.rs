//! The settings of an autoscaler's metrics, from annotations and selectors.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use hpa_calc::{
    api::{CrossVersionObjectReference, HorizontalPodAutoscaler, MetricIdentifier, MetricSpec},
    go_duration,
};

use crate::{
    Compat,
    annotations::{AnnotationConfig, Annotations, MetricType, parse_duration},
    error::ConfigError,
};

/// A metric of an autoscaler, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricConfig {
    pub namespace: String,
    /// The name of the autoscaler.
    pub autoscaler: String,
    pub metric_type: MetricType,
    /// Name and selector.
    pub metric: MetricIdentifier,
    /// The `scaleTargetRef` of the autoscaler.
    pub target: CrossVersionObjectReference,
    /// The collector that the annotations name. Without annotations, it is the label `type` of an
    /// Object metric, and empty for other metrics or with compatibility.
    pub collector: String,
    /// The parsed annotations, shared by metrics with the same type and name.
    annotation_config: Option<Arc<AnnotationConfig>>,
    /// `describedObject` of a metric of the type Object.
    pub object: Option<CrossVersionObjectReference>,
    /// Whether the setting `per-replica` is present. Only Object metrics with a Prometheus query
    /// use it: their value is divided by the number of replicas.
    pub per_replica: bool,
    /// Nanoseconds between collections; 0 for the default.
    pub interval: i64,
    /// Nanoseconds for which a pod must have been ready.
    pub min_pod_ready_age: i64,
    /// Whether the metric has the target `averageValue`.
    pub has_average_target: bool,
    /// The error of the first invalid duration, in an annotation or a label.
    pub duration_error: Option<String>,
}

/// Returns the Pods, Object and External metrics of an autoscaler. With compatibility, an invalid
/// duration in any annotation is an error for all metrics.
pub fn metric_configs(
    hpa: &HorizontalPodAutoscaler,
    annotations: &Annotations,
    compat: Compat,
) -> Result<Vec<MetricConfig>, ConfigError> {
    let error = annotations.metrics.values().find_map(|config| config.duration_error.clone());
    if let (Compat::Reference, Some(error)) = (compat, error) {
        return Err(ConfigError::Duration(error));
    }
    let config = |metric| MetricConfig::for_metric(hpa, metric, annotations, compat);
    Ok(hpa.spec.metrics.iter().filter_map(config).collect())
}

impl MetricConfig {
    /// The settings of one metric. `None` if its type isn't Pods, Object or External.
    pub(crate) fn for_metric(
        hpa: &HorizontalPodAutoscaler,
        metric: &MetricSpec,
        annotations: &Annotations,
        compat: Compat,
    ) -> Option<Self> {
        let mut config = Self::from_spec(hpa, metric)?;
        let key = (config.metric_type, config.metric.name.clone());
        if let Some(annotation_config) = annotations.metrics.get(&key) {
            config.collector.clone_from(&annotation_config.collector);
            config.annotation_config = Some(annotation_config.clone());
            config.per_replica = annotation_config.per_replica;
            config.interval = annotation_config.interval;
            config.min_pod_ready_age = annotation_config.min_pod_ready_age;
            config.duration_error.clone_from(&annotation_config.duration_error);
        }
        Some(if compat == Compat::Off { config.with_labels() } else { config })
    }

    fn from_spec(hpa: &HorizontalPodAutoscaler, spec: &MetricSpec) -> Option<Self> {
        let (metric_type, metric, metric_target) = match (&spec.pods, &spec.object, &spec.external)
        {
            (Some(pods), ..) => (MetricType::Pods, &pods.metric, &pods.target),
            (_, Some(object), _) => (MetricType::Object, &object.metric, &object.target),
            (.., Some(external)) => (MetricType::External, &external.metric, &external.target),
            _ => return None,
        };
        if spec.source_type.as_str() != metric_type.name() {
            return None;
        }
        Some(Self {
            namespace: hpa.metadata.namespace.clone(),
            autoscaler: hpa.metadata.name.clone(),
            metric_type,
            metric: metric.clone(),
            target: hpa.spec.scale_target_ref.clone(),
            collector: String::new(),
            annotation_config: None,
            object: spec.object.as_ref().map(|object| object.described_object.clone()),
            per_replica: false,
            interval: 0,
            min_pod_ready_age: 0,
            has_average_target: metric_target.average_value.is_some(),
            duration_error: None,
        })
    }

    /// Reads `per-replica`, `interval` and, for an Object metric, the collector from labels.
    /// kube-metrics-adapter reads these only from annotations.
    fn with_labels(mut self) -> Self {
        self.per_replica |= self.value("per-replica").is_some();
        if self.collector.is_empty() && self.metric_type == MetricType::Object {
            self.collector = self.value("type").unwrap_or_default().to_owned();
        }
        if let (0, Some(value)) = (self.interval, self.value("interval")) {
            match parse_duration("interval", value, self.metric_type, &self.metric.name) {
                Ok(interval) => self.interval = interval,
                Err(error) => _ = self.duration_error.get_or_insert(error),
            }
        }
        self
    }

    /// A setting. Annotations take precedence over labels.
    pub fn value(&self, name: &str) -> Option<&str> {
        let annotation = self.annotation_config.as_ref().and_then(|config| config.values.get(name));
        let value = annotation.or_else(|| self.setting_labels()?.get(name));
        value.map(String::as_str)
    }

    /// A setting. `message` is the error if it is missing.
    pub(crate) fn require(
        &self,
        name: &'static str,
        message: &'static str,
    ) -> Result<&str, ConfigError> {
        self.value(name).ok_or_else(|| ConfigError::of_setting(name, message))
    }

    /// Checks that the metric has a selector. `message` is the error if it has none.
    pub(crate) fn require_selector(&self, message: &'static str) -> Result<(), ConfigError> {
        self.labels().map(|_| ()).ok_or_else(|| ConfigError::new(message))
    }

    /// All settings by name, from annotations and labels.
    pub fn values(&self) -> BTreeMap<&str, &str> {
        let labels = self.setting_labels().into_iter().flatten();
        let annotations = self.annotation_config.iter().flat_map(|config| &config.values);
        labels.chain(annotations).map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Whether annotations configure the metric. A non-empty `collector` alone doesn't show that,
    /// because it may be from the label `type`.
    pub(crate) fn is_annotated(&self) -> bool {
        self.annotation_config.is_some()
    }

    /// Whether `duration_error` is that of an annotation, not of a label.
    pub(crate) fn has_annotation_error(&self) -> bool {
        self.annotation_config.as_ref().is_some_and(|config| config.duration_error.is_some())
    }

    /// The type of the metric in the keys of its annotations.
    pub(crate) fn annotated_type(&self) -> &str {
        let config = self.annotation_config.as_ref();
        config
            .map_or(self.metric_type.annotation_name(), |config| config.type_name(self.metric_type))
    }

    /// The length of all settings, and of the name and the selector as JSON, in bytes.
    pub(crate) fn settings_len(&self) -> usize {
        let values: usize =
            self.values().iter().map(|(name, value)| name.len() + value.len()).sum();
        values + serde_json::to_string(&self.metric).map_or(0, |metric| metric.len())
    }

    /// A hash of the settings in annotations.
    pub(crate) fn annotations_hash(&self, hasher: &RandomState) -> u64 {
        hasher.hash_one(self.annotation_config.as_ref().map(|config| &config.values))
    }

    /// Drops the settings in annotations, because the metric's plan has them.
    pub(crate) fn without_annotations(self) -> Self {
        Self { annotation_config: None, ..self }
    }

    /// The names of the settings in annotations, without those in labels.
    pub(crate) fn annotated_keys(&self) -> impl Iterator<Item = &str> {
        self.annotation_config.iter().flat_map(|config| config.values.keys()).map(String::as_str)
    }

    /// The labels, unless the metric has the type Pods, whose labels aren't settings.
    fn setting_labels(&self) -> Option<&BTreeMap<String, String>> {
        self.labels().filter(|_| self.metric_type != MetricType::Pods)
    }

    /// The label `type` of an external metric, or else its name.
    pub fn external_type(&self) -> &str {
        let label = self.labels().and_then(|labels| labels.get("type"));
        label.filter(|kind| !kind.is_empty()).unwrap_or(&self.metric.name)
    }

    /// `matchLabels` of the metric's selector.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metric.selector.as_ref().map(|selector| &selector.match_labels)
    }

    /// The metric in the notation of kube-metrics-adapter's events:
    /// `External/rps {type=prometheus}`.
    pub fn display_name(&self) -> String {
        display_name(self.metric_type, &self.metric)
    }
}

/// A metric in the notation of [`MetricConfig::display_name`].
pub fn display_name(metric_type: MetricType, metric: &MetricIdentifier) -> String {
    let name = format!("{}/{}", metric_type.name(), metric.name);
    let labels = metric.selector.iter().flat_map(|selector| &selector.match_labels);
    let pairs: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { name } else { format!("{name} {{{}}}", pairs.join(",")) }
}

/// Parses the duration in the setting `key` into nanoseconds, with the errors of Go.
pub(crate) fn nanos_setting(key: &'static str, text: &str) -> Result<i64, ConfigError> {
    go_duration::parse_nanos(text).map_err(|error| ConfigError::of_setting(key, error.to_string()))
}

/// Parses the integer in the setting `key`, with the errors of Go.
pub(crate) fn integer_setting(key: &'static str, text: &str) -> Result<i64, ConfigError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let problem = if is_number { "value out of range" } else { "invalid syntax" };
    let message = || format!("strconv.Atoi: parsing {text:?}: {problem}");
    text.parse().map_err(|_| ConfigError::of_setting(key, message()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configs(labels: &serde_json::Value, compat: Compat) -> Vec<MetricConfig> {
        let identifier = json!({ "name": "m", "selector": { "matchLabels": labels } });
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "maxReplicas": 9, "scaleTargetRef": {}, "metrics": [
                { "type": "External", "external": { "metric": identifier, "target": {} } },
                { "type": "Object", "object": { "metric": identifier, "target": {},
                    "describedObject": { "kind": "Service", "name": "web" } } },
            ] },
        }))
        .unwrap();
        metric_configs(&hpa, &Annotations::default(), compat).unwrap()
    }

    #[test]
    fn labels_set_the_collector_interval_and_per_replica_unless_compatible() {
        let labels = json!({ "type": "prometheus", "interval": "30s", "per-replica": "true" });
        for config in configs(&labels, Compat::Off) {
            assert_eq!((config.interval, config.per_replica), (30_000_000_000, true));
        }
        assert_eq!(configs(&labels, Compat::Off)[1].collector, "prometheus");
        for config in configs(&labels, Compat::Reference) {
            assert_eq!((config.interval, config.per_replica), (0, false));
            assert_eq!(config.collector, "");
        }
        let invalid = configs(&json!({ "interval": "soon" }), Compat::Off);
        let error = invalid[0].duration_error.as_deref().unwrap_or_default();
        assert!(error.starts_with("failed to parse interval value soon"), "{error}");
    }
}
