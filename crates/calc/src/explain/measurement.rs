//! Formats the value and the target of a metric.

use std::fmt;

use super::{
    Explanation, TargetValue,
    format::{number, one_line},
};
use crate::{
    api::{HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTargetType},
    go_text::truncate,
    quantity::{MilliValue, Quantity},
    settings::{Settings, UtilizationOf},
    validation::MAX_METRICS,
};

/// A metric, its value and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measurement {
    /// The metric's name, with its container or object.
    pub metric: String,
    /// The measured usage.
    pub current: String,
    /// The target.
    pub target: String,
    /// ` of requests`, ` of limits`, ` per pod` or empty.
    pub unit: &'static str,
}

impl Explanation {
    /// The metric with the largest proposal, or else the first that could be read. `None` if there
    /// is none, or if the metric failed and its fallback has the largest proposal.
    pub fn measurement(&self, hpa: &HorizontalPodAutoscaler) -> Option<Measurement> {
        let readable = self.metrics.iter().position(|metric| metric.error.is_none());
        let index = self.winner.or(readable)?;
        let (spec, metric) = (hpa.spec.metrics.get(index)?, self.metrics.get(index)?);
        let (value, target) = match metric.target? {
            TargetValue::Value(target) => (metric.usage?, target),
            TargetValue::Utilization(target) => {
                (percent_value(metric.utilization?), percent_value(target))
            }
        };
        // Without pods, an average by replica is the total, and its ratio is not finite.
        let has_pods = self.current_replicas > 0 && metric.ratio.is_none_or(f64::is_finite);
        let name = metric_name(&hpa.spec.metrics, index);
        Some(Measurement::of_value(name, spec, metric.utilization_of, value, target, has_pods))
    }
}

impl Measurement {
    /// The value that the status reports for the metric at an index of `spec.metrics`. `None` if it
    /// reports none.
    pub(crate) fn of_status(
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        index: usize,
    ) -> Option<Self> {
        let (spec, status) = (hpa.spec.metrics.get(index)?, hpa.status.current_metrics.get(index)?);
        let (value, target) = (status_value(spec, status)?, target_value(spec)?);
        let has_pods = hpa.status.current_replicas > 0;
        let utilization_of = settings.metric(index).utilization_of;
        let name = metric_name(&hpa.spec.metrics, index);
        Some(Self::of_value(name, spec, utilization_of, value, target, has_pods))
    }

    /// Formats a value and its target, which are in percent for a utilization. Without pods, an
    /// average is the total, so it has no unit. `metric` is the name of the metric.
    fn of_value(
        metric: String,
        spec: &MetricSpec,
        utilization_of: UtilizationOf,
        value: MilliValue,
        target: MilliValue,
        has_pods: bool,
    ) -> Self {
        let (is_utilization, is_average) = (is_utilization(spec), is_average(spec));
        let unit = match (is_utilization, is_average && has_pods) {
            (true, _) => match utilization_of {
                UtilizationOf::Requests => " of requests",
                UtilizationOf::Limits => " of limits",
            },
            (false, true) => " per pod",
            (false, false) => "",
        };
        let format: fn(MilliValue) -> String = match (is_utilization, is_memory(spec)) {
            (true, _) => format_percent,
            (false, true) => bytes,
            (false, false) => quantity,
        };
        let (current, target) = (format(value), format(target));
        Self { metric, current, target, unit }
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metric, current, target, unit } = self;
        write!(f, "{metric} is at {current}{unit}, target {target}")
    }
}

/// The target of a metric: a utilization in percent, or a value.
pub fn target_value(spec: &MetricSpec) -> Option<MilliValue> {
    let target = spec.target()?;
    if is_utilization(spec) {
        return target.average_utilization.map(percent_value);
    }
    let value = if is_average(spec) { &target.average_value } else { &target.value };
    value.as_ref().map(Quantity::milli_value)
}

/// The value that a status reports for a metric, in the unit of its target.
pub fn status_value(spec: &MetricSpec, status: &MetricStatus) -> Option<MilliValue> {
    let current = status.current()?;
    if spec.source_type != status.source_type {
        return None;
    }
    if is_utilization(spec) {
        return current.average_utilization.map(percent_value);
    }
    let value = if is_average(spec) { &current.average_value } else { &current.value };
    value.as_ref().map(Quantity::milli_value)
}

/// Whether the target is a utilization. As in a decision, the field counts, not the target's type.
fn is_utilization(spec: &MetricSpec) -> bool {
    let is_resource = spec.resource.is_some() || spec.container_resource.is_some();
    is_resource && !is_average(spec)
}

/// Whether the target is an average. If the target of an Object metric has both `value` and
/// `averageValue`, its type decides.
fn is_average(spec: &MetricSpec) -> bool {
    let Some(target) = spec.target() else { return false };
    let is_object_value = spec.object.is_some()
        && target.target_type == MetricTargetType::Value
        && target.value.is_some();
    target.average_value.is_some() && !is_object_value
}

fn percent_value(percent: i32) -> MilliValue {
    MilliValue::from_units(i64::from(percent))
}

fn format_percent(value: MilliValue) -> String {
    format!("{}%", quantity(value))
}

/// Formats a value. One below 0.01 is printed exactly, because it would be rounded to 0 or 0.01.
fn quantity(value: MilliValue) -> String {
    if value.as_milli().unsigned_abs() < 10 { value.to_decimal() } else { number(value.as_f64()) }
}

/// Formats bytes in mebibytes or, if smaller, in kibibytes. A value below 1Ki is printed exactly,
/// as by kubectl, because it may be something other than bytes, such as a ratio.
pub(crate) fn bytes(value: MilliValue) -> String {
    const KIBI: f64 = 1024.0;
    let bytes = value.as_f64();
    match bytes.abs() {
        size if size >= KIBI * KIBI => format!("{}Mi", number(bytes / KIBI / KIBI)),
        size if size >= KIBI => format!("{}Ki", number(bytes / KIBI)),
        _ => value.to_string(),
    }
}

/// Whether the values of a metric are bytes of memory, by the metric's own name.
pub fn is_memory(spec: &MetricSpec) -> bool {
    spec.metric_name().contains("memory")
}

/// The maximum length of a selector in the name of a metric, in characters.
const MAX_SELECTOR_LEN: usize = 80;

/// The name of the metric at an index of `spec.metrics`, with its container or object. If another
/// metric has the same name, the name is followed by the selector of the metric's series. Control
/// characters are escaped. Without a source, the name is the metric's type. Empty if there is no
/// such metric.
pub fn metric_name(metrics: &[MetricSpec], index: usize) -> String {
    let Some(spec) = metrics.get(index) else { return String::new() };
    let name = full_name(spec);
    let mut others = metrics.iter().take(MAX_METRICS).enumerate();
    let is_shared = others.any(|(other, spec)| other != index && has_full_name(spec, &name));
    let selector = if is_shared { spec.series_selector() } else { None };
    let text = match selector.filter(|selector| !selector.is_empty()) {
        Some(selector) => format!("{name} ({})", truncate(selector.to_string(), MAX_SELECTOR_LEN)),
        None => name,
    };
    one_line(&text).into_owned()
}

/// Whether a metric has this full name. The first test needs no allocation.
fn has_full_name(spec: &MetricSpec, name: &str) -> bool {
    name.starts_with(spec.metric_name()) && full_name(spec) == name
}

fn full_name(spec: &MetricSpec) -> String {
    if let Some(source) = &spec.resource {
        return source.name.clone();
    }
    if let Some(source) = &spec.container_resource {
        return format!("{} of container {}", source.name, source.container);
    }
    if let Some(source) = &spec.object {
        let object = &source.described_object;
        return format!("{} of {}/{}", source.metric.name, object.kind, object.name);
    }
    let metric = spec.pods.as_ref().map(|source| &source.metric);
    let metric = metric.or(spec.external.as_ref().map(|source| &source.metric));
    metric.map_or_else(|| spec.source_type.to_string(), |metric| metric.name.clone())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn average(bytes: &str) -> Value {
        json!({ "type": "AverageValue", "averageValue": bytes })
    }

    fn resource(target: &Value) -> Value {
        json!({ "type": "Resource", "resource": { "name": "memory", "target": target } })
    }

    /// A metric of the Service `memory-store`.
    fn object(metric: &str, target: &Value) -> Value {
        let service = json!({ "apiVersion": "v1", "kind": "Service", "name": "memory-store" });
        let metric = json!({ "name": metric });
        let source = json!({ "describedObject": service, "metric": metric, "target": target });
        json!({ "type": "Object", "object": source })
    }

    fn container_cpu(target: &Value) -> Value {
        let source = json!({ "name": "cpu", "container": "memory-store", "target": target });
        json!({ "type": "ContainerResource", "containerResource": source })
    }

    #[rstest]
    #[case::object_name(
        object("requests", &json!({ "type": "Value", "value": "50" })), 45_000, 4,
        "requests of Service/memory-store is at 45, target 50")]
    #[case::container_name(
        container_cpu(&average("500m")), 450, 4,
        "cpu of container memory-store is at 0.45 per pod, target 0.5")]
    #[case::below_a_hundredth(
        container_cpu(&average("5m")), 4, 4,
        "cpu of container memory-store is at 0.004 per pod, target 0.005")]
    #[case::total(
        object("memory_used", &json!({ "type": "Value", "value": "200Mi" })), 104_857_600_000, 4,
        "memory_used of Service/memory-store is at 100Mi, target 200Mi")]
    #[case::without_pods(
        resource(&average("200Mi")), 104_857_600_000, 0, "memory is at 100Mi, target 200Mi")]
    #[case::with_pods(
        resource(&average("200Mi")), 104_857_600_000, 4,
        "memory is at 100Mi per pod, target 200Mi")]
    #[case::below_a_mebibyte(
        resource(&average("1Mi")), 921_601_000, 4, "memory is at 900Ki per pod, target 1Mi")]
    #[case::type_that_does_not_fit(
        resource(&json!({ "type": "Utilization", "averageValue": "200Mi" })), 104_857_600_000, 4,
        "memory is at 100Mi per pod, target 200Mi")]
    #[case::type_of_two_targets(
        object("requests", &json!({ "type": "Value", "value": "50", "averageValue": "5" })),
        45_000, 4, "requests of Service/memory-store is at 45, target 50")]
    #[case::ratio(
        object("memory_ratio", &average("900m")), 800, 4,
        "memory_ratio of Service/memory-store is at 800m per pod, target 900m")]
    fn format_and_unit_are_those_of_the_metric_and_its_target(
        #[case] spec: Value,
        #[case] milli: i64,
        #[case] pods: i32,
        #[case] expected: &str,
    ) {
        let spec: MetricSpec = serde_json::from_value(spec).unwrap();
        let (value, target) = (MilliValue::from_milli(milli), target_value(&spec).unwrap());
        let (name, requests) = (full_name(&spec), UtilizationOf::Requests);
        let measurement = Measurement::of_value(name, &spec, requests, value, target, pods > 0);
        assert_eq!(measurement.to_string(), expected);
    }

    #[test]
    fn metrics_with_one_name_have_their_selectors() {
        let external = |selector: Value| {
            let metric = json!({ "name": "queue", "selector": selector });
            let source = json!({ "metric": metric, "target": { "type": "Value", "value": "5" } });
            serde_json::from_value(json!({ "type": "External", "external": source })).unwrap()
        };
        let labels = |labels: Value| external(json!({ "matchLabels": labels }));
        let long = "x".repeat(63);
        let metrics: Vec<MetricSpec> = vec![
            labels(json!({ "queue": "orders" })),
            labels(json!({ "queue": long, "zone": long })),
            external(Value::Null),
        ];
        assert_eq!(metric_name(&metrics, 0), "queue (queue=orders)");
        assert_eq!(metric_name(&metrics, 1), format!("queue (queue={long},zone=xxxxx…)"));
        assert_eq!(metric_name(&metrics, 2), "queue");
        assert_eq!(metric_name(&metrics, 3), "");
        assert_eq!(metric_name(metrics.get(..1).unwrap(), 0), "queue");
    }
}
