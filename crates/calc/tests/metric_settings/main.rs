//! Decisions of autoscalers whose metrics have settings of their own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod requests;

use std::sync::Arc;

use hpa_calc::{
    Conclusion, HorizontalPodAutoscaler, MilliValue, Plan, Pod, PodSample, Reading, Readings,
    Sample, Scale, SelectedPods, Settings, settings::SettingPolicy,
};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use self::common::{old_history, ready_pod, unlimited_hpa};

fn now() -> Timestamp {
    Timestamp::from_second(100_000).unwrap()
}

fn resource(name: &str, target: &Value) -> Value {
    json!({ "type": "Resource", "resource": { "name": name, "target": target } })
}

fn utilization(percent: i32) -> Value {
    json!({ "type": "Utilization", "averageUtilization": percent })
}

fn sample(milli: i64, age: i64) -> PodSample {
    PodSample {
        value: MilliValue::from_milli(milli),
        timestamp: now() - SignedDuration::from_secs(age),
        window: SignedDuration::from_secs(30),
    }
}

fn samples(values: &[(&str, i64)]) -> Reading {
    Reading::Pods(values.iter().map(|(pod, milli)| (*pod, sample(*milli, 10))).collect())
}

fn decide(
    hpa: &HorizontalPodAutoscaler,
    (spec_replicas, status_replicas): (i32, i32),
    pods: &[Arc<Pod>],
    reading: Reading,
) -> Conclusion {
    let resolved = Settings::default().for_autoscaler(hpa, &SettingPolicy::default());
    assert_eq!(resolved.problems, []);
    let scale = Scale { spec_replicas, status_replicas, selector: "app=web".into() };
    let select = |_: &_| SelectedPods::new(pods.to_vec());
    let plan = Plan::new(hpa, Ok(scale), &resolved.settings, select);
    let readings = Readings::from_iter([(0, Ok(reading))]);
    plan.decide(readings, old_history(), now()).conclude(Ok(()), now())
}

fn sentence(hpa: &HorizontalPodAutoscaler, conclusion: &Conclusion) -> String {
    conclusion.explanation.sentence(hpa)
}

fn condition<'a>(conclusion: &'a Conclusion, name: &str) -> Option<&'a str> {
    let mut conditions = conclusion.status.conditions.iter();
    let condition = conditions.find(|one| one.condition_type.as_str() == name)?;
    Some(&condition.message)
}

/// Ready pods that request one CPU, and pods that request none.
fn pods(requesting: &[&str], others: &[&str]) -> Vec<Arc<Pod>> {
    let requests = json!({ "requests": { "cpu": "1" } });
    let requesting = requesting.iter().map(|name| ready_pod(name, &requests, &json!({})));
    requesting.chain(others.iter().map(|name| ready_pod(name, &json!({}), &json!({})))).collect()
}

/// Names of pods, such as `a007`. They are leaked, so that pods and samples can share them.
fn names(prefix: char, count: usize) -> Vec<&'static str> {
    (0..count).map(|index| -> &'static str { format!("{prefix}{index:03}").leak() }).collect()
}

fn pods_metric(target: &str) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": target });
    json!({ "type": "Pods", "pods": { "metric": { "name": "rps" }, "target": target } })
}

fn external(target: &Value) -> Value {
    json!({ "type": "External", "external": { "metric": { "name": "jobs" }, "target": target } })
}

#[rstest]
#[case::mean("average", None, "rps is at 1.9 per pod, target 2; within tolerance")]
#[case::p90(
    "p90",
    Some(5),
    "rps is at 1 per pod, target 2; aggregate: p90 of 10 pods, 0.53 times their mean"
)]
#[case::max(
    "max",
    Some(50),
    "rps is at 10 per pod, target 2; aggregate: max of 10 pods, 5.26 times their mean"
)]
fn aggregate_selects_the_value_of_a_hot_pod(
    #[case] aggregate: &str,
    #[case] replicas: Option<i32>,
    #[case] text: &str,
) {
    let hpa = unlimited_hpa(&pods_metric("2"), &[("aggregate", aggregate)]);
    let all = names('a', 10);
    let mut values: Vec<_> = all.iter().map(|name| (*name, 1000)).collect();
    values[4].1 = 10_000;
    let conclusion = decide(&hpa, (10, 10), &pods(&all, &[]), samples(&values));
    assert_eq!(conclusion.scaled_to, replicas);
    assert_eq!(sentence(&hpa, &conclusion), text);
    let active = condition(&conclusion, "ScalingActive").unwrap();
    let name = if aggregate == "average" { "rps" } else { &format!("rps ({aggregate})") };
    assert!(active.ends_with(&format!("pods metric {name}")), "{active}");
}

#[test]
fn aggregate_is_computed_from_utilizations_of_single_pods() {
    let hpa = unlimited_hpa(&resource("cpu", &utilization(50)), &[("aggregate", "max")]);
    let large = json!({ "requests": { "cpu": "4" } });
    let small = json!({ "requests": { "cpu": "333m" } });
    let none = json!({ "requests": { "cpu": "0" } });
    let all = [
        ready_pod("large", &large, &json!({})),
        ready_pod("small", &small, &json!({})),
        ready_pod("none", &none, &json!({})),
    ];
    let reading = samples(&[("large", 2000), ("small", 317), ("none", 100)]);
    let conclusion = decide(&hpa, (3, 3), &all, reading);
    // 317 of 333 are 95 %, which is 1.9 times the target.
    assert_eq!(conclusion.scaled_to, Some(6));
    let current = &conclusion.status.current_metrics[0].resource.as_ref().unwrap().current;
    assert_eq!(current.average_utilization, Some(95));
    assert_eq!(current.average_value.as_ref().unwrap().to_string(), "317m");
    let active = condition(&conclusion, "ScalingActive").unwrap();
    assert!(active.ends_with("cpu resource utilization (percentage of request, max)"), "{active}");
}

#[rstest]
#[case::missing_pods_count_at_the_target("Running", 400, 7)]
#[case::unready_pods_count_as_idle("Pending", 4000, 20)]
fn aggregate_counts_other_pods_like_the_mean(
    #[case] phase: &str,
    #[case] milli: i64,
    #[case] replicas: i32,
) {
    let hpa = unlimited_hpa(&pods_metric("1"), &[("aggregate", "max")]);
    let all = names('a', 5);
    let others = names('x', 5);
    let status = json!({ "phase": phase });
    let mut pods = pods(&all, &[]);
    pods.extend(others.iter().map(|name| ready_pod(name, &json!({}), &status)));
    let values: Vec<_> = all.iter().map(|name| (*name, milli)).collect();
    let conclusion = decide(&hpa, (10, 10), &pods, samples(&values));
    assert_eq!(conclusion.scaled_to, Some(replicas));
}

fn jobs(milli: i64) -> Reading {
    Reading::External(vec![MilliValue::from_milli(milli)].into())
}

#[rstest]
#[case::within_tolerance_of_the_surge("count-surge", 15_000, 15)]
#[case::surge_is_ignored("ignore-surge", 10_500, 10)]
#[case::rise_scales_up("ignore-surge", 15_000, 15)]
#[case::fall_scales_down("ignore-surge", 5_000, 5)]
fn external_average_can_ignore_the_surge_of_a_rollout(
    #[case] rollout: &str,
    #[case] load: i64,
    #[case] expected: i32,
) {
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let hpa = unlimited_hpa(&external(&target), &[("rollout", rollout)]);
    let conclusion = decide(&hpa, (10, 15), &[], jobs(load));
    assert_eq!(conclusion.scaled_to.unwrap_or(10), expected);
}

#[test]
fn ignored_surge_is_explained_only_if_it_changed_the_proposal() {
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let hpa = unlimited_hpa(&external(&target), &[("rollout", "ignore-surge")]);
    let conclusion = decide(&hpa, (10, 15), &[], jobs(10_500));
    assert_eq!(
        sentence(&hpa, &conclusion),
        "jobs is at 1.05 per pod, target 1; within tolerance; rollout: the metric asks for 10, \
            with the surge for 11"
    );
    let conclusion = decide(&hpa, (10, 15), &[], jobs(20_000));
    assert_eq!(sentence(&hpa, &conclusion), "jobs is at 2 per pod, target 1");
}

#[rstest]
#[case::surge_is_not_multiplied(1200, 12)]
#[case::below_the_target(800, 8)]
fn value_can_ignore_the_surge_of_a_rollout(#[case] value: i64, #[case] expected: i32) {
    let target = json!({ "type": "Value", "value": "1" });
    let hpa = unlimited_hpa(&external(&target), &[("rollout", "ignore-surge")]);
    let all = names('a', 15);
    let conclusion = decide(&hpa, (10, 15), &pods(&all, &[]), jobs(value));
    assert_eq!(conclusion.scaled_to, Some(expected));
}

#[rstest]
#[case::same_load(15, 700, 10)]
#[case::usage_that_each_pod_adds(15, 880, 10)]
#[case::more_than_the_surge_can_take(15, 1200, 18)]
#[case::less(15, 400, 6)]
#[case::starting_pods_do_not_hide_the_load(10, 1200, 12)]
fn average_over_pods_can_ignore_the_surge_of_a_rollout(
    #[case] ready: usize,
    #[case] milli: i64,
    #[case] expected: i32,
) {
    let hpa = unlimited_hpa(&pods_metric("1"), &[("rollout", "ignore-surge")]);
    let all = names('a', ready);
    let mut pods = pods(&all, &[]);
    let starting = names('x', 15 - ready);
    let pending = json!({ "phase": "Pending" });
    pods.extend(starting.iter().map(|name| ready_pod(name, &json!({}), &pending)));
    let values: Vec<_> = all.iter().map(|name| (*name, milli)).collect();
    let conclusion = decide(&hpa, (10, 15), &pods, samples(&values));
    assert_eq!(conclusion.scaled_to.unwrap_or(10), expected);
}

#[rstest]
#[case::none(None, 1, Some(1))]
#[case::below(Some("5"), 4999, None)]
#[case::at(Some("5"), 5000, None)]
#[case::above(Some("5"), 5001, Some(6))]
fn activation_scales_up_from_zero_only_above_its_value(
    #[case] activation: Option<&str>,
    #[case] value: i64,
    #[case] expected: Option<i32>,
    #[values("AverageValue", "Value")] target_type: &str,
) {
    let target = match target_type {
        "Value" => json!({ "type": "Value", "value": "1" }),
        _ => json!({ "type": "AverageValue", "averageValue": "1" }),
    };
    let settings: Vec<_> = activation.iter().map(|value| ("activation", *value)).collect();
    let mut hpa = unlimited_hpa(&external(&target), &settings);
    hpa.spec.min_replicas = Some(0);
    let scaled_to_zero = json!({ "type": "ScaledToZero", "status": "True" });
    hpa.status = serde_json::from_value(json!({ "conditions": [scaled_to_zero] })).unwrap();
    let conclusion = decide(&hpa, (0, 0), &[], jobs(value));
    assert_eq!(conclusion.scaled_to, expected);
    if activation.is_some() && expected.is_none() {
        let text = sentence(&hpa, &conclusion);
        assert!(text.contains("activation: "), "{text}");
    }
    // Above zero replicas, the setting has no effect.
    let conclusion = decide(&hpa, (1, 1), &pods(&["a"], &[]), jobs(value));
    let units = (value + 999) / 1000;
    assert_eq!(i64::from(conclusion.scaled_to.unwrap_or(1)), units);
}

#[test]
fn old_samples_of_pods_are_missing() {
    let hpa = unlimited_hpa(&pods_metric("1"), &[("max-sample-age", "5m")]);
    let reading = |values: &[(&str, i64, i64)]| {
        let samples = values.iter().map(|(pod, milli, age)| (*pod, sample(*milli, *age)));
        Reading::Pods(samples.collect())
    };
    let all = pods(&["a", "b"], &[]);
    // At the limit, a sample counts.
    let conclusion = decide(&hpa, (2, 2), &all, reading(&[("a", 400, 10), ("b", 400, 300)]));
    assert_eq!(conclusion.scaled_to, Some(1));
    // A missing pod counts at the target.
    let conclusion = decide(&hpa, (2, 2), &all, reading(&[("a", 400, 10), ("b", 400, 301)]));
    assert_eq!(conclusion.scaled_to, None);
    let text = sentence(&hpa, &conclusion);
    assert!(text.ends_with("; max-sample-age: 1 sample too old to count"), "{text}");
    let conclusion = decide(&hpa, (2, 2), &all, reading(&[("a", 400, 500), ("b", 400, 380)]));
    let error = conclusion.error.unwrap().to_string();
    let expected = "unable to get metric rps: the newest sample is more than 6m old, \
        max-sample-age is 5m";
    assert!(error.ends_with(expected), "{error}");
}

#[rstest]
#[case::at_the_limit(Some(300), None)]
#[case::too_old(Some(301), Some("more than 5m old, max-sample-age is 5m"))]
#[case::hours(Some(9000), Some("more than 2h old, max-sample-age is 5m"))]
#[case::ahead(Some(-60), None)]
#[case::without_a_time(None, None)]
fn old_value_fails_the_metric(
    #[case] age: Option<i64>,
    #[case] text: Option<&str>,
    #[values("Object", "External")] source_type: &str,
) {
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let metric = match source_type {
        "External" => external(&target),
        _ => json!({ "type": "Object", "object": {
            "describedObject": { "kind": "Service", "name": "s" },
            "metric": { "name": "jobs" }, "target": target,
        } }),
    };
    let hpa = unlimited_hpa(&metric, &[("max-sample-age", "5m")]);
    let timestamp = age.map(|age| now() - SignedDuration::from_secs(age));
    let value = MilliValue::from_units(5);
    let reading = match source_type {
        "External" => Reading::External(Sample { value: vec![value], timestamp }),
        _ => Reading::Object(Sample { value, timestamp }),
    };
    let conclusion = decide(&hpa, (1, 1), &[], reading);
    match text {
        None => assert_eq!(conclusion.scaled_to, Some(5)),
        Some(text) => {
            assert_eq!(conclusion.scaled_to, None);
            let sentence = sentence(&hpa, &conclusion);
            assert!(sentence.ends_with(text), "{sentence}");
        }
    }
}

#[test]
fn sample_with_the_zero_time_of_go_is_not_old() {
    let hpa = unlimited_hpa(&pods_metric("1"), &[("max-sample-age", "5m")]);
    let timestamp = "0001-01-01T00:00:00Z".parse().unwrap();
    let reading =
        Reading::Pods([("a", PodSample { timestamp, ..sample(3000, 0) })].into_iter().collect());
    assert_eq!(decide(&hpa, (1, 1), &pods(&["a"], &[]), reading).scaled_to, Some(3));
}
