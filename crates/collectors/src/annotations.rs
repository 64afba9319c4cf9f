//! Parses annotations `metric-config.TYPE.METRIC.COLLECTOR/NAME`.

use std::{collections::BTreeMap, sync::Arc};

use hpa_calc::go_duration;

use crate::error::AnnotationProblem;

/// The start of the annotations' keys.
pub(crate) const PREFIX: &str = "metric-config.";

/// The type of a metric that annotations can configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricType {
    Pods,
    Object,
    External,
}

impl MetricType {
    pub(crate) const ALL: [Self; 3] = [Self::Pods, Self::Object, Self::External];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pods => "Pods",
            Self::Object => "Object",
            Self::External => "External",
        }
    }

    /// The name in the keys of annotations.
    pub(crate) fn annotation_name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Object => "object",
            Self::External => "external",
        }
    }

    /// As in kube-metrics-adapter, any name but `pods` and `object` means an external metric.
    fn from_annotation(name: &str) -> Self {
        match name {
            "pods" => Self::Pods,
            "object" => Self::Object,
            _ => Self::External,
        }
    }
}

/// The settings of one metric, from its annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationConfig {
    pub collector: String,
    /// The first type in the keys that isn't `pods`, `object` or `external`. It counts as external.
    pub unknown_type: Option<String>,
    /// All settings except `per-replica`, `interval` and `min-pod-ready-age`.
    pub values: BTreeMap<String, String>,
    /// Whether `per-replica` is present, with any value.
    pub per_replica: bool,
    /// Nanoseconds between collections; 0 for the default.
    pub interval: i64,
    /// Nanoseconds for which a pod must have been ready.
    pub min_pod_ready_age: i64,
    /// The error of the first invalid duration. If there is one, the metric is not collected.
    pub duration_error: Option<String>,
}

impl AnnotationConfig {
    /// The type as the keys of the annotations write it: the first unknown one, if there is any.
    pub(crate) fn type_name(&self, metric_type: MetricType) -> &str {
        self.unknown_type.as_deref().unwrap_or(metric_type.annotation_name())
    }
}

/// The annotations of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// By type and name of the metric.
    pub metrics: BTreeMap<(MetricType, String), Arc<AnnotationConfig>>,
    /// Invalid annotations, and those that are ignored because of another collector.
    pub problems: Vec<AnnotationProblem>,
}

impl Annotations {
    /// Parses annotations in the order of their keys. If they name several collectors for a metric,
    /// the settings of the first one are used, and those of the others are problems.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Self {
        let mut parsed = Self::default();
        for (annotation, value) in annotations {
            let Some(key) = annotation.strip_prefix(PREFIX) else { continue };
            let problem = match split_key(key) {
                Some(key) => parsed.add(key, value).err(),
                None => Some("the key is not metric-config.TYPE.METRIC.COLLECTOR/NAME".to_owned()),
            };
            if let Some(reason) = problem {
                parsed.problems.push(AnnotationProblem { annotation: annotation.clone(), reason });
            }
        }
        parsed
    }

    fn add(
        &mut self,
        (type_name, metric, collector, name): (&str, &str, &str, &str),
        value: &str,
    ) -> Result<(), String> {
        let metric_type = MetricType::from_annotation(type_name);
        let config = self.metrics.entry((metric_type, metric.to_owned())).or_insert_with(|| {
            Arc::new(AnnotationConfig { collector: collector.to_owned(), ..Default::default() })
        });
        let config = Arc::make_mut(config);
        if config.collector != collector {
            let used = &config.collector;
            return Err(format!("ignored, because the metric is collected by {used}"));
        }
        if type_name != metric_type.annotation_name() {
            config.unknown_type.get_or_insert_with(|| type_name.to_owned());
        }
        let duration = match name {
            "per-replica" => {
                config.per_replica = true;
                return Ok(());
            }
            "interval" => &mut config.interval,
            "min-pod-ready-age" => &mut config.min_pod_ready_age,
            _ => {
                config.values.insert(name.to_owned(), value.to_owned());
                return Ok(());
            }
        };
        *duration = parse_duration(name, value, metric_type, metric).inspect_err(|error| {
            config.duration_error.get_or_insert_with(|| error.clone());
        })?;
        Ok(())
    }
}

/// Parses the duration of a setting into nanoseconds.
pub(crate) fn parse_duration(
    setting: &str,
    value: &str,
    metric_type: MetricType,
    metric: &str,
) -> Result<i64, String> {
    go_duration::parse_nanos(value).map_err(|error| {
        let metric = format!("{{{} {metric}}}", metric_type.name());
        format!("failed to parse {setting} value {value} for {metric}: {error}")
    })
}

/// Splits a key, without its prefix, into metric type, metric, collector and name. Metric names
/// can't contain dots.
fn split_key(key: &str) -> Option<(&str, &str, &str, &str)> {
    let (left, name) = key.split_once('/').filter(|(_, name)| !name.contains('/'))?;
    let mut parts = left.split('.');
    let (type_name, metric, collector) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some((type_name, metric, collector, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(annotations: &[(&str, &str)]) -> Annotations {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Annotations::parse(&annotations.iter().map(pair).collect())
    }

    #[test]
    fn reserved_keys_are_separate_from_other_settings() {
        let parsed = parse(&[
            ("metric-config.pods.rps.json-path/json-key", "$.rps"),
            ("metric-config.pods.rps.json-path/interval", "30s"),
            ("metric-config.pods.rps.json-path/min-pod-ready-age", "1m"),
            ("metric-config.pods.rps.json-path/per-replica", "false"),
            ("other", "x"),
        ]);
        assert_eq!(parsed.problems, []);
        let config = &parsed.metrics[&(MetricType::Pods, "rps".to_owned())];
        assert_eq!(config.values, BTreeMap::from([("json-key".to_owned(), "$.rps".to_owned())]));
        assert_eq!((config.interval, config.min_pod_ready_age), (30_000_000_000, 60_000_000_000));
        assert!(config.per_replica);
    }

    #[test]
    fn invalid_annotation_is_named_and_other_metrics_are_parsed() {
        let parsed = parse(&[
            ("metric-config.pods.a.json-path/interval", "soon"),
            ("metric-config.pods.b.c.json-path/path", "/"),
            ("metric-config.pods.d.json-path/path", "/"),
            ("metric-config.pods.d.prometheus/query", "up"),
        ]);
        let texts: Vec<String> = parsed.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "annotation metric-config.pods.a.json-path/interval: failed to parse interval \
                 value soon for {Pods a}: time: invalid duration \"soon\"",
                "annotation metric-config.pods.b.c.json-path/path: the key is not \
                 metric-config.TYPE.METRIC.COLLECTOR/NAME",
                "annotation metric-config.pods.d.prometheus/query: ignored, because the metric is \
                 collected by json-path",
            ]
        );
        let config = |name: &str| &parsed.metrics[&(MetricType::Pods, name.to_owned())];
        assert!(config("a").duration_error.is_some());
        assert_eq!(config("d").duration_error, None);
    }
}
