//! The text of the column `Targets`, as `kubectl get hpa` prints it for the core API.
//!
//! A printer column is one `JSONPath`, which can't combine spec and status. The controller therefore
//! stores the text in the status.

use hpa_calc::{
    api::{
        HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, MetricSourceType, MetricSpec,
        MetricStatus, MetricTarget, MetricValueStatus,
    },
    quantity::Quantity,
};

/// The field of the status with the text of [`targets`]. The core API doesn't have it.
pub const TARGETS_FIELD: &str = "targets";

/// How many metrics the text has. The core API prints as many.
const SHOWN: usize = 2;
const UNKNOWN: &str = "<unknown>";

/// Value and target of the first metrics: `cpu: 8%/50%, 3/10 (avg) + 1 more...`.
pub fn targets(
    spec: &HorizontalPodAutoscalerSpec,
    status: &HorizontalPodAutoscalerStatus,
) -> String {
    let texts: Vec<_> = spec
        .metrics
        .iter()
        .enumerate()
        .take(SHOWN)
        .map(|(index, metric)| text(metric, status.current_metrics.get(index)))
        .collect();
    let shown = texts.join(", ");
    match spec.metrics.len() {
        0 => "<none>".to_owned(),
        count if count > SHOWN => format!("{shown} + {} more...", count - SHOWN),
        _ => shown,
    }
}

/// The text of one metric, from the entries of spec and status at the same index.
fn text(spec: &MetricSpec, status: Option<&MetricStatus>) -> String {
    let current = status.and_then(|status| current(&spec.source_type, status));
    let Some(target) = target(spec) else { return "<unknown type>".to_owned() };
    let average_value = current.and_then(|current| current.average_value.as_ref());
    match &spec.source_type {
        MetricSourceType::Pods => pair(average_value, target.average_value.as_ref()),
        MetricSourceType::Resource | MetricSourceType::ContainerResource => {
            let name = spec.metric_name();
            if target.average_value.is_some() {
                return format!("{name}: {}", pair(average_value, target.average_value.as_ref()));
            }
            let percent = |value: Option<i32>, missing: &str| {
                value.map_or_else(|| missing.to_owned(), |value| format!("{value}%"))
            };
            let utilization = current.and_then(|current| current.average_utilization);
            let (value, target) =
                (percent(utilization, UNKNOWN), percent(target.average_utilization, "<auto>"));
            format!("{name}: {value}/{target}")
        }
        _ if target.average_value.is_some() => {
            format!("{} (avg)", pair(average_value, target.average_value.as_ref()))
        }
        _ => pair(current.and_then(|current| current.value.as_ref()), target.value.as_ref()),
    }
}

fn pair(current: Option<&Quantity>, target: Option<&Quantity>) -> String {
    let text = |value: Option<&Quantity>| value.map_or(UNKNOWN.to_owned(), Quantity::to_string);
    format!("{}/{}", text(current), text(target))
}

/// The target in the member that `type` names.
fn target(spec: &MetricSpec) -> Option<&MetricTarget> {
    match spec.source_type {
        MetricSourceType::Resource => spec.resource.as_ref().map(|source| &source.target),
        MetricSourceType::ContainerResource => {
            spec.container_resource.as_ref().map(|source| &source.target)
        }
        MetricSourceType::Pods => spec.pods.as_ref().map(|source| &source.target),
        MetricSourceType::Object => spec.object.as_ref().map(|source| &source.target),
        MetricSourceType::External => spec.external.as_ref().map(|source| &source.target),
        _ => None,
    }
}

/// The value in the member for metrics of this type.
fn current<'a>(
    source_type: &MetricSourceType,
    status: &'a MetricStatus,
) -> Option<&'a MetricValueStatus> {
    match source_type {
        MetricSourceType::Resource => status.resource.as_ref().map(|source| &source.current),
        MetricSourceType::ContainerResource => {
            status.container_resource.as_ref().map(|source| &source.current)
        }
        MetricSourceType::Pods => status.pods.as_ref().map(|source| &source.current),
        MetricSourceType::Object => status.object.as_ref().map(|source| &source.current),
        MetricSourceType::External => status.external.as_ref().map(|source| &source.current),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::targets;

    fn text(metrics: Value, current: Value) -> String {
        let spec = serde_json::from_value(json!({ "metrics": metrics })).unwrap();
        let status = serde_json::from_value(json!({ "currentMetrics": current })).unwrap();
        targets(&spec, &status)
    }

    fn cpu(target: Value) -> Value {
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
    }

    fn external(target: Value) -> Value {
        let external = json!({ "metric": { "name": "queue" }, "target": target });
        json!({ "type": "External", "external": external })
    }

    fn current(source_type: &str, member: &str, value: Value) -> Value {
        json!({ "type": source_type, member: { "current": value } })
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
    fn quantities_are_printed_with_the_kind_of_the_average() {
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
    fn more_than_two_metrics_are_counted() {
        let metrics: Vec<_> =
            (1..=4).map(|value| external(json!({ "value": value.to_string() }))).collect();
        assert_eq!(text(metrics.into(), json!([])), "<unknown>/1, <unknown>/2 + 2 more...");
        assert_eq!(text(json!([]), json!([])), "<none>");
        assert_eq!(text(json!([{ "type": "New" }]), json!([])), "<unknown type>");
    }
}
