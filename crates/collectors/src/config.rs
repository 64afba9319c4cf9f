//! The metrics of an autoscaler, with what annotations and selectors say about them.

use std::collections::BTreeMap;

use hpa_calc::{
    api::{HorizontalPodAutoscaler, MetricIdentifier, MetricSpec},
    go_duration,
};

use crate::{
    Compat,
    annotations::{Annotations, MetricType},
    error::{AnnotationError, PlanError},
};

/// The object that a metric describes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in the API")]
pub struct ObjectReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

/// A metric to collect.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricConfig {
    /// The type.
    pub metric_type: MetricType,
    /// Name and selector.
    pub metric: MetricIdentifier,
    /// The collector of the annotations. Empty without annotations.
    pub collector: String,
    /// The labels that the selector matches, overlaid by the annotations.
    pub values: BTreeMap<String, String>,
    /// The object of a metric of the type Object.
    pub object: Option<ObjectReference>,
    /// Whether the value is divided by the replicas.
    pub per_replica: bool,
    /// Nanoseconds between collections; 0 for the default.
    pub interval: i64,
    /// Nanoseconds for which a pod must have been ready.
    pub min_pod_ready_age: i64,
    /// Whether the target is an average.
    pub has_average_target: bool,
    /// Why the annotations of the metric are invalid.
    pub invalid: Option<AnnotationError>,
}

/// The metrics that collectors can have. Compatible with the reference, one invalid duration in any
/// annotation is an error of all metrics.
pub fn metric_configs(
    hpa: &HorizontalPodAutoscaler,
    annotations: &Annotations,
    compat: Compat,
) -> Result<Vec<MetricConfig>, PlanError> {
    let invalid = annotations.metrics.values().find_map(|config| config.invalid.clone());
    if let (Compat::KubeMetricsAdapter, Some(error)) = (compat, invalid) {
        return Err(PlanError::Annotation(error));
    }
    let metrics = hpa.spec.metrics.iter();
    let configs = metrics.filter_map(|metric| MetricConfig::new(hpa, metric, annotations));
    Ok(match compat {
        Compat::Off => configs.map(MetricConfig::with_labels).collect(),
        Compat::KubeMetricsAdapter => configs.collect(),
    })
}

impl MetricConfig {
    fn new(
        hpa: &HorizontalPodAutoscaler,
        spec: &MetricSpec,
        annotations: &Annotations,
    ) -> Option<Self> {
        let mut config = Self::without_annotations(hpa, spec)?;
        let key = (config.metric_type, config.metric.name.clone());
        if let Some(annotated) = annotations.metrics.get(&key) {
            config.collector.clone_from(&annotated.collector);
            config.values.extend(annotated.values.clone());
            config.per_replica = annotated.per_replica;
            config.interval = annotated.interval;
            config.min_pod_ready_age = annotated.min_pod_ready_age;
            config.invalid.clone_from(&annotated.invalid);
        }
        Some(config)
    }

    fn without_annotations(hpa: &HorizontalPodAutoscaler, spec: &MetricSpec) -> Option<Self> {
        let (metric_type, metric, target) = match (&spec.pods, &spec.object, &spec.external) {
            (Some(pods), ..) => (MetricType::Pods, &pods.metric, &pods.target),
            (_, Some(object), _) => (MetricType::Object, &object.metric, &object.target),
            (.., Some(external)) => (MetricType::External, &external.metric, &external.target),
            _ => return None,
        };
        if spec.source_type.as_str() != metric_type.name() {
            return None;
        }
        let selector = metric.selector.as_ref().filter(|_| metric_type != MetricType::Pods);
        let object = spec.object.as_ref().map(|object| ObjectReference {
            api_version: object.described_object.api_version.clone(),
            kind: object.described_object.kind.clone(),
            name: object.described_object.name.clone(),
            namespace: hpa.metadata.namespace.clone(),
        });
        Some(Self {
            metric_type,
            metric: metric.clone(),
            collector: String::new(),
            values: selector.map(|selector| selector.match_labels.clone()).unwrap_or_default(),
            object,
            per_replica: false,
            interval: 0,
            min_pod_ready_age: 0,
            has_average_target: target.average_value.is_some(),
            invalid: None,
        })
    }

    /// Takes what the reference reads from annotations only from labels, too: the reserved keys,
    /// and the collector of an object's metric.
    fn with_labels(mut self) -> Self {
        self.per_replica |= self.values.contains_key("per-replica");
        if self.collector.is_empty() && self.metric_type == MetricType::Object {
            self.collector = self.value("type").unwrap_or_default().to_owned();
        }
        if let (0, Some(value)) = (self.interval, self.value("interval").map(str::to_owned)) {
            match go_duration::parse_nanos(&value) {
                Ok(interval) => self.interval = interval,
                Err(error) => {
                    let metric = format!("{{{} {}}}", self.metric_type.name(), self.metric.name);
                    let invalid = AnnotationError::Interval { value, metric, error };
                    self.invalid.get_or_insert(invalid);
                }
            }
        }
        self
    }

    /// A value, if it is set.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The labels that the metric's selector must match.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metric.selector.as_ref().map(|selector| &selector.match_labels)
    }

    /// The metric as the reference names it in events: `External/rps {type=prometheus}`.
    pub fn display_name(&self) -> String {
        let name = format!("{}/{}", self.metric_type.name(), self.metric.name);
        let labels = self.labels().filter(|labels| !labels.is_empty());
        let Some(labels) = labels else { return name };
        let pairs: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{name} {{{}}}", pairs.join(","))
    }
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
    fn reserved_keys_can_be_labels() {
        let labels = json!({ "type": "prometheus", "interval": "30s", "per-replica": "true" });
        for config in configs(&labels, Compat::Off) {
            assert_eq!((config.interval, config.per_replica), (30_000_000_000, true));
        }
        assert_eq!(configs(&labels, Compat::Off)[1].collector, "prometheus");
        for config in configs(&labels, Compat::KubeMetricsAdapter) {
            assert_eq!((config.interval, config.per_replica), (0, false));
            assert_eq!(config.collector, "");
        }
        let invalid = configs(&json!({ "interval": "soon" }), Compat::Off);
        let error = invalid[0].invalid.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(error.starts_with("failed to parse interval value soon"), "{error}");
    }
}
