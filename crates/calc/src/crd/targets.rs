//! The text of the column `Targets`, as `kubectl get hpa` prints it for the core API.
//!
//! A printer column is a single `JSONPath`, which can't combine spec and status. The controller
//! therefore writes the text to the status.

use crate::{
    api::{
        HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, MetricSourceType, MetricSpec,
        MetricStatus,
    },
    quantity::Quantity,
};

/// The field of the status for the text of [`targets_text`]. The core API doesn't have this field.
pub const TARGETS_FIELD: &str = "targets";

/// The text has the values of this many metrics, as in the core API. The others are counted.
const MAX_LISTED_METRICS: usize = 2;
const UNKNOWN: &str = "<unknown>";
const UNKNOWN_TYPE: &str = "<unknown type>";

/// Formats the values and targets of the first two metrics: `cpu: 8%/50%, 3/10 (avg) + 1 more...`.
pub fn targets_text(
    spec: &HorizontalPodAutoscalerSpec,
    status: &HorizontalPodAutoscalerStatus,
) -> String {
    let texts: Vec<_> = spec
        .metrics
        .iter()
        .enumerate()
        .take(MAX_LISTED_METRICS)
        .map(|(index, metric)| metric_text(metric, status.current_metrics.get(index)))
        .collect();
    let text = texts.join(", ");
    match spec.metrics.len() {
        0 => "<none>".to_owned(),
        count if count > MAX_LISTED_METRICS => {
            format!("{text} + {} more...", count - MAX_LISTED_METRICS)
        }
        _ => text,
    }
}

/// Formats one metric. `status` is the status entry at the same index as `spec`.
fn metric_text(spec: &MetricSpec, status: Option<&MetricStatus>) -> String {
    let status = status.filter(|status| status.source_type == spec.source_type);
    let current = status.and_then(MetricStatus::current);
    let Some(target) = spec.target() else { return UNKNOWN_TYPE.to_owned() };
    let average_value = current.and_then(|current| current.average_value.as_ref());
    let averages = value_and_target(average_value, target.average_value.as_ref());
    let is_average = target.average_value.is_some();
    match spec.source_type {
        MetricSourceType::Pods => averages,
        MetricSourceType::Resource | MetricSourceType::ContainerResource if is_average => {
            format!("{}: {averages}", spec.metric_name())
        }
        MetricSourceType::Resource | MetricSourceType::ContainerResource => {
            let percent = |value: Option<i32>, missing: &str| {
                value.map_or_else(|| missing.to_owned(), |value| format!("{value}%"))
            };
            let utilization = current.and_then(|current| current.average_utilization);
            let (value, target) =
                (percent(utilization, UNKNOWN), percent(target.average_utilization, "<auto>"));
            format!("{}: {value}/{target}", spec.metric_name())
        }
        MetricSourceType::Object | MetricSourceType::External if is_average => {
            format!("{averages} (avg)")
        }
        MetricSourceType::Object | MetricSourceType::External => {
            let value = current.and_then(|current| current.value.as_ref());
            value_and_target(value, target.value.as_ref())
        }
        MetricSourceType::Other(_) => UNKNOWN_TYPE.to_owned(),
    }
}

fn value_and_target(current: Option<&Quantity>, target: Option<&Quantity>) -> String {
    let quantity = |value: Option<&Quantity>| value.map_or(UNKNOWN.to_owned(), Quantity::to_string);
    format!("{}/{}", quantity(current), quantity(target))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::targets_text;

    fn text(metrics: Value, current: Value) -> String {
        let spec = serde_json::from_value(json!({ "metrics": metrics })).unwrap();
        let status = serde_json::from_value(json!({ "currentMetrics": current })).unwrap();
        targets_text(&spec, &status)
    }

    fn cpu(target: Value) -> Value {
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
    }

    fn external(target: Value) -> Value {
        let external = json!({ "metric": { "name": "queue" }, "target": target });
        json!({ "type": "External", "external": external })
    }

    fn current(source_type: &str, source_field: &str, value: Value) -> Value {
        json!({ "type": source_type, source_field: { "current": value } })
    }

    #[test]
    fn utilization_is_printed_in_percent_with_the_name() {
        let metrics = json!([cpu(json!({ "averageUtilization": 50 }))]);
        let value = json!({ "averageUtilization": 8, "averageValue": "80m" });
        let current = json!([current("Resource", "resource", value)]);
        assert_eq!(text(metrics.clone(), current), "cpu: 8%/50%");
        assert_eq!(text(metrics, json!([])), "cpu: <unknown>/50%");
    }

    #[test]
    fn averages_of_external_metrics_are_marked_as_avg() {
        let metrics = json!([cpu(json!({ "averageValue": "1" })), {
            "type": "Pods",
            "pods": { "metric": { "name": "hits" }, "target": { "averageValue": "5" } },
        }]);
        let values = json!([
            current("Resource", "resource", json!({ "averageValue": "500m" })),
            current("Pods", "pods", json!({ "averageValue": "2" })),
        ]);
        assert_eq!(text(metrics, values), "cpu: 500m/1, 2/5");
        let metrics = json!([external(json!({ "averageValue": "20" }))]);
        let values = json!([current("External", "external", json!({ "averageValue": "10" }))]);
        assert_eq!(text(metrics, values), "10/20 (avg)");
        let metrics = json!([external(json!({ "value": "20" }))]);
        let values = json!([current("External", "external", json!({ "value": "10" }))]);
        assert_eq!(text(metrics, values), "10/20");
    }

    #[test]
    fn metrics_after_the_second_are_counted() {
        let metrics: Vec<_> =
            (1..=4).map(|value| external(json!({ "value": value.to_string() }))).collect();
        assert_eq!(text(metrics.into(), json!([])), "<unknown>/1, <unknown>/2 + 2 more...");
        assert_eq!(text(json!([]), json!([])), "<none>");
        assert_eq!(text(json!([{ "type": "New" }]), json!([])), "<unknown type>");
    }
}
