//! Detects statuses that differ only slightly, in the values of metrics.

use hpa_calc::{
    Quantity,
    api::{
        HorizontalPodAutoscalerStatus, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
    },
};

/// Whether two statuses differ only in values of metrics, and each value moved by at most the
/// fraction `tolerance` of its target. `false` if a value appears or disappears, because then the
/// metric has recovered or failed.
pub(super) fn differ_slightly(
    old: &HorizontalPodAutoscalerStatus,
    new: &HorizontalPodAutoscalerStatus,
    metrics: &[MetricSpec],
    tolerance: f64,
) -> bool {
    let (old_values, new_values) = (&old.current_metrics, &new.current_metrics);
    [old_values.len(), new_values.len()] == [metrics.len(); 2]
        && without_values(old) == without_values(new)
        && metrics.iter().zip(old_values.iter().zip(new_values)).all(|(spec, (old, new))| {
            spec.target().is_some_and(|target| moved_within(tolerance, target, old, new))
        })
}

/// The status with each value of a metric replaced by zero.
fn without_values(status: &HorizontalPodAutoscalerStatus) -> HorizontalPodAutoscalerStatus {
    let mut status = status.clone();
    for current in status.current_metrics.iter_mut().filter_map(current_mut) {
        for quantity in [&mut current.value, &mut current.average_value].into_iter().flatten() {
            *quantity = Quantity::default();
        }
        if let Some(percent) = &mut current.average_utilization {
            *percent = 0;
        }
    }
    status
}

fn current_mut(metric: &mut MetricStatus) -> Option<&mut MetricValueStatus> {
    let MetricStatus { object, pods, resource, container_resource, external, .. } = metric;
    let resource = resource.as_mut().map(|source| &mut source.current);
    let container = container_resource.as_mut().map(|source| &mut source.current);
    let pods = pods.as_mut().map(|source| &mut source.current);
    let object = object.as_mut().map(|source| &mut source.current);
    let external = external.as_mut().map(|source| &mut source.current);
    resource.or(container).or(pods).or(object).or(external)
}

/// Whether each value for which the target has a number moved by at most `tolerance` times that
/// number. Other values follow from these or don't matter.
fn moved_within(
    tolerance: f64,
    target: &MetricTarget,
    old: &MetricStatus,
    new: &MetricStatus,
) -> bool {
    let (Some(old), Some(new)) = (old.current(), new.current()) else { return true };
    let number = |quantity: &Option<Quantity>| quantity.as_ref().map(Quantity::as_f64);
    let values = [
        (number(&target.value), number(&old.value), number(&new.value)),
        (number(&target.average_value), number(&old.average_value), number(&new.average_value)),
        (
            target.average_utilization.map(f64::from),
            old.average_utilization.map(f64::from),
            new.average_utilization.map(f64::from),
        ),
    ];
    values.into_iter().all(|(target, old, new)| match (target, old, new) {
        (Some(target), Some(old), Some(new)) => (new - old).abs() <= tolerance * target,
        _ => true,
    })
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

    /// A metric whose source has this member besides those that identify a metric of any kind.
    fn metric(kind: &str, member: &str, (name, value): (&str, Value)) -> Value {
        let source = json!({
            "name": "cpu", "container": "app", name: value,
            "metric": { "name": "requests" },
            "describedObject": { "kind": "Service", "name": "web" },
        });
        json!([{ "type": kind, member: source }])
    }

    fn cpu(current: Value) -> Value {
        metric("Resource", "resource", ("current", current))
    }

    /// A spec with a target of 100 of each kind.
    fn spec(kind: &str, member: &str) -> Vec<MetricSpec> {
        let target = json!({ "value": "100", "averageValue": "100", "averageUtilization": 100 });
        serde_json::from_value(metric(kind, member, ("target", target))).expect("metrics")
    }

    fn is_slight(old: &HorizontalPodAutoscalerStatus, new: &HorizontalPodAutoscalerStatus) -> bool {
        differ_slightly(old, new, &spec("Resource", "resource"), 0.1)
    }

    #[rstest]
    #[case::resource("Resource", "resource")]
    #[case::container_resource("ContainerResource", "containerResource")]
    #[case::pods("Pods", "pods")]
    #[case::object("Object", "object")]
    #[case::external("External", "external")]
    fn values_may_move_by_the_tolerance_of_the_target(#[case] kind: &str, #[case] member: &str) {
        let status_with = |name: &str, number: i32| {
            let mut current = json!({ "value": "7", "averageValue": "7", "averageUtilization": 7 });
            let is_percent = name == "averageUtilization";
            current[name] = if is_percent { json!(number) } else { json!(number.to_string()) };
            status(3, metric(kind, member, ("current", current)))
        };
        let spec = spec(kind, member);
        for name in ["value", "averageValue", "averageUtilization"] {
            for (number, expected) in [(40, true), (50, true), (30, true), (29, false), (51, false)]
            {
                let (old, new) = (status_with(name, 40), status_with(name, number));
                assert_eq!(differ_slightly(&old, &new, &spec, 0.1), expected, "{name} {number}");
            }
        }
    }

    #[test]
    fn values_without_a_target_may_change_freely() {
        let cpu = |milli: i32, percent: i32| {
            let average = format!("{milli}m");
            status(3, cpu(json!({ "averageValue": average, "averageUtilization": percent })))
        };
        let mut spec = spec("Resource", "resource");
        let target = &mut spec[0].resource.as_mut().expect("a resource").target;
        (target.value, target.average_value) = (None, None);
        assert!(differ_slightly(&cpu(100, 40), &cpu(300_000, 41), &spec, 0.1));
        assert!(!differ_slightly(&cpu(100, 40), &cpu(100, 60), &spec, 0.1));
    }

    #[rstest]
    #[case::replicas(4, cpu(json!({ "averageUtilization": 8 })))]
    #[case::missing_value(3, cpu(json!({})))]
    #[case::another_kind_of_value(3, cpu(json!({ "averageValue": "7" })))]
    #[case::missing_metric(3, json!([]))]
    #[case::another_metric(
        3,
        metric("Pods", "pods", ("current", json!({ "averageUtilization": 8 })))
    )]
    fn status_with_other_changes_does_not_differ_slightly(
        #[case] desired: i32,
        #[case] metrics: Value,
    ) {
        let old = status(3, cpu(json!({ "averageUtilization": 7 })));
        assert!(!is_slight(&old, &status(desired, metrics)));
    }
}
