//! Statuses that differ only in the values of metrics.

use hpa_calc::{
    Quantity,
    api::{HorizontalPodAutoscalerStatus, MetricStatus, MetricValueStatus},
};

/// Whether two statuses are equal but for the values of metrics. A value that appears or disappears
/// is another difference: the metric can be read again, or no longer.
pub(super) fn differ_in_values_only(
    old: &HorizontalPodAutoscalerStatus,
    new: &HorizontalPodAutoscalerStatus,
) -> bool {
    old.current_metrics != new.current_metrics && without_values(old) == without_values(new)
}

fn without_values(status: &HorizontalPodAutoscalerStatus) -> HorizontalPodAutoscalerStatus {
    let mut status = status.clone();
    for value in status.current_metrics.iter_mut().flat_map(values) {
        for quantity in [&mut value.value, &mut value.average_value].into_iter().flatten() {
            *quantity = Quantity::default();
        }
        if let Some(percent) = &mut value.average_utilization {
            *percent = 0;
        }
    }
    status
}

fn values(metric: &mut MetricStatus) -> impl Iterator<Item = &mut MetricValueStatus> {
    let MetricStatus { object, pods, resource, container_resource, external, .. } = metric;
    [
        object.as_mut().map(|it| &mut it.current),
        pods.as_mut().map(|it| &mut it.current),
        resource.as_mut().map(|it| &mut it.current),
        container_resource.as_mut().map(|it| &mut it.current),
        external.as_mut().map(|it| &mut it.current),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn status(desired: i32, metrics: Value) -> HorizontalPodAutoscalerStatus {
        serde_json::from_value(json!({ "desiredReplicas": desired, "currentMetrics": metrics }))
            .expect("a status")
    }

    fn metric(kind: &str, member: &str, current: Value) -> Value {
        let source = json!({ "name": "cpu", "container": "app", "current": current });
        json!([{ "type": kind, member: source }])
    }

    fn cpu(current: Value) -> Value {
        metric("Resource", "resource", current)
    }

    #[rstest]
    #[case::resource("Resource", "resource")]
    #[case::container_resource("ContainerResource", "containerResource")]
    #[case::pods("Pods", "pods")]
    #[case::object("Object", "object")]
    #[case::external("External", "external")]
    fn values_of_each_metric_type_are_ignored(#[case] kind: &str, #[case] member: &str) {
        let current = |number: i32| {
            json!({
                "value": number.to_string(), "averageValue": number.to_string(),
                "averageUtilization": number,
            })
        };
        let with = |number| {
            let mut metric = metric(kind, member, current(number));
            metric[0][member]["metric"] = json!({ "name": "requests" });
            metric[0][member]["describedObject"] = json!({ "kind": "Service", "name": "web" });
            status(3, metric)
        };
        assert!(differ_in_values_only(&with(7), &with(8)));
        assert!(!differ_in_values_only(&with(7), &with(7)));
    }

    #[rstest]
    #[case::replicas(4, cpu(json!({ "averageUtilization": 8 })))]
    #[case::missing_value(3, cpu(json!({})))]
    #[case::another_kind_of_value(3, cpu(json!({ "averageValue": "7" })))]
    #[case::missing_metric(3, json!([]))]
    #[case::another_metric(3, metric("Pods", "pods", json!({ "averageUtilization": 8 })))]
    fn other_differences_count(#[case] desired: i32, #[case] mut metrics: Value) {
        if metrics[0]["type"] == "Pods" {
            metrics[0]["pods"]["metric"] = json!({ "name": "requests" });
        }
        let old = status(3, cpu(json!({ "averageUtilization": 7 })));
        assert!(!differ_in_values_only(&old, &status(desired, metrics)));
    }
}
