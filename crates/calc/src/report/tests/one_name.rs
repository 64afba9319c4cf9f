//! Reports on metrics with the same name, of which the controller could not read one.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{api::MetricSpec, report::reported::failed_metrics};

const DOWN: &str = "unable to fetch metrics: down";

fn queue(selector: &Value) -> Value {
    let metric = json!({ "name": "queue", "selector": selector });
    let target = json!({ "type": "Value", "value": "5" });
    json!({ "type": "External", "external": { "metric": metric, "target": target } })
}

fn queue_of(name: &str) -> Value {
    queue(&json!({ "matchLabels": { "queue": name } }))
}

fn rps(verb: &str) -> Value {
    let metric = json!({ "name": "rps", "selector": { "matchLabels": { "verb": verb } } });
    let target = json!({ "type": "AverageValue", "averageValue": "10" });
    json!({ "type": "Pods", "pods": { "metric": metric, "target": target } })
}

fn schedule(name: &str) -> Value {
    let object = json!({ "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule", "name": name });
    let target = json!({ "type": "AverageValue", "averageValue": "10" });
    let source =
        json!({ "describedObject": object, "metric": { "name": "same" }, "target": target });
    json!({ "type": "Object", "object": source })
}

fn renamed(mut object_metric: Value, name: &str) -> Value {
    object_metric["object"]["metric"]["name"] = name.into();
    object_metric
}

fn cpu_of(container: &str) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": 50 });
    let source = json!({ "name": "cpu", "container": container, "target": target });
    json!({ "type": "ContainerResource", "containerResource": source })
}

/// The condition of the controller about a metric of this type.
fn failed(source_type: &str, message: &str) -> Condition {
    let message = format!("the HPA was unable to compute the replica count: {message}");
    scaling_inactive(&format!("FailedGet{source_type}Metric"), &message)
}

#[rstest]
#[case::selector(
    [queue_of("orders"), queue_of("mail")],
    "unable to get external metric shop/queue/&LabelSelector{MatchLabels:map[string]string{queue: \
     mail,},MatchExpressions:[]LabelSelectorRequirement{},}: unable to fetch metrics from external \
     metrics API: down",
    &[1],
)]
#[case::no_selector(
    [queue_of("orders"), queue(&Value::Null)],
    "unable to get external metric shop/queue/nil: unable to fetch metrics from external metrics \
     API: down",
    &[1],
)]
#[case::message_without_selector(
    [queue_of("orders"), queue_of("mail")],
    "the metric queue is down",
    &[0, 1],
)]
#[case::object(
    [schedule("evening"), schedule("evenin")],
    "unable to get metric same on ScalingSchedule shop/evenin: unable to fetch metrics from custom \
     metrics API: there is no ScalingSchedule shop/evenin",
    &[1],
)]
#[case::object_of_older_kube_controller_manager(
    [schedule("evening"), schedule("evenin")],
    "unable to get metric same: ScalingSchedule on shop evenin/unable to fetch metrics from custom \
     metrics API: down",
    &[1],
)]
#[case::longer_name_of_the_same_object(
    [schedule("evening"), renamed(schedule("evening"), "same_total")],
    "unable to get metric same_total on ScalingSchedule shop/evening: unable to fetch metrics from \
     custom metrics API: down",
    &[1],
)]
#[case::container(
    [cpu_of("app"), cpu_of("proxy")],
    "failed to get cpu utilization: missing request for cpu in container proxy of Pod web-0",
    &[1],
)]
#[case::any_of_pods(
    [rps("GET"), rps("PUT")],
    "unable to get metric rps: unable to fetch metrics from custom metrics API: down",
    &[0, 1],
)]
fn message_identifies_one_of_the_metrics_if_it_can(
    #[case] metrics: [Value; 2],
    #[case] message: &str,
    #[case] expected: &[usize],
) {
    let metrics = metrics.map(|spec| serde_json::from_value::<MetricSpec>(spec).unwrap());
    let condition = failed(metrics[0].source_type.as_str(), message);
    let mut inputs = inputs(json!({}));
    inputs.hpa.spec.metrics = metrics.into();
    assert_eq!(failed_metrics(&inputs.hpa, &condition), expected);
}

#[test]
fn advice_names_the_failing_one_of_two_metrics_with_the_same_name() {
    let mut inputs = inputs(json!({ "metrics": [queue_of("orders"), queue_of("mail")] }));
    let cause = "no value: the query max(queue{queue=\"mail\"}) has no result";
    let value = Reading::External(vec![crate::MilliValue::from_units(5)].into());
    let error = ReadError::fetch(MetricsApi::External, cause);
    inputs.readings = [(0, Ok(value)), (1, Err(error))].into_iter().collect();
    let selector = inputs.hpa.spec.metrics[1].external.as_ref().unwrap().metric.selector.clone();
    let message = format!(
        "unable to get external metric shop/queue/{}: unable to fetch metrics from external \
         metrics API: {cause}",
        crate::selector::go_string(selector.as_ref())
    );
    inputs.hpa.status.conditions = vec![failed("External", &message)];
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        format!(
            "stays at 4: queue (queue=orders) is at 5, target 5; within tolerance; queue \
             (queue=mail) cannot be read: {cause}"
        )
    );
    assert_contains(&report, "\n  queue (queue=mail): failed: ");
    assert_contains(&report, "spec.metrics[1]: hpa rules explain external queue --namespace shop");
    assert_contains(&report, "--selector 'queue=mail'");
    let text = report.to_string();
    assert!(!text.contains("spec.metrics[0]") && !text.contains("last reported"), "{text}");
}

/// Two Pods metrics of one name, and a failure of one of them by the status.
#[rstest]
#[case::fails_here_alike(DOWN, "stays at 4: ", false)]
#[case::fails_here_otherwise(
    "the server could not find the metric rps for pods",
    "stays at",
    false
)]
#[case::succeeds_here("", "would stay at 4: ", true)]
fn reported_failure_is_no_doubt_if_any_metric_of_that_name_fails_here(
    #[case] error: &str,
    #[case] start: &str,
    #[case] is_only_reported: bool,
) {
    let mut inputs = inputs(json!({ "metrics": [rps("GET"), rps("PUT")] }));
    let second = match error {
        "" => Ok(equal_samples(10_000)),
        error => Err(ReadError::fetch(MetricsApi::Custom, error)),
    };
    inputs.readings = [(0, Ok(equal_samples(10_000))), (1, second)].into_iter().collect();
    let message = format!(
        "unable to get metric rps: unable to fetch metrics from custom metrics API: {DOWN}"
    );
    inputs.hpa.status.conditions = vec![failed("Pods", &message)];
    let report = inputs.report();
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    let text = report.to_string();
    for part in ["the controller last reported FailedGetPodsMetric", "This doesn't fail here."] {
        assert_eq!(text.contains(part), is_only_reported, "{part:?} in:\n{text}");
    }
}

#[test]
fn failure_of_a_rule_for_one_of_several_metrics_does_not_blame_the_api() {
    let mut inputs = inputs(json!({ "metrics": [rps("GET"), rps("PUT")] }));
    let no_api = || Err(ReadError::fetch(MetricsApi::Custom, error_texts::NO_CUSTOM_API));
    inputs.readings = [(0, no_api()), (1, no_api())].into_iter().collect();
    let message = format!(
        "unable to get metric rps: unable to fetch metrics from custom metrics API: {DOWN}"
    );
    inputs.hpa.status.conditions = vec![failed("Pods", &message)];
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        format!(
            "stays at 4: rps (verb=GET) and rps (verb=PUT) cannot be read here: {}",
            error_texts::NO_CUSTOM_API
        )
    );
    assert!(!report.to_string().contains("install"), "{report}");
    let status = ShortReport::new(&inputs.hpa, &inputs.settings);
    assert_eq!(status.sentence, format!("rps cannot be read: {DOWN}"));
}
