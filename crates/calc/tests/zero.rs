//! Reconciles to zero and from zero replicas (KEP-2021).
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{NOT_SCALED_TO_ZERO, Scenario, conditions, cpu, error, events, hpa};
use hpa_calc::{HorizontalPodAutoscaler, explain::Summary, settings::ScheduledBounds};
use rstest::rstest;
use serde_json::{Value, json};

/// An autoscaler whose `minReplicas` is 0 unless `spec` sets it, and whose `ScaledToZero` has this
/// status.
fn hpa_with_zero_minimum(spec: Value, scaled_to_zero: Option<&str>) -> HorizontalPodAutoscaler {
    let mut all = json!({ "minReplicas": 0 });
    for (name, value) in spec.as_object().unwrap() {
        all[name] = value.clone();
    }
    let conditions: Vec<_> = scaled_to_zero
        .iter()
        .map(|status| json!({ "type": "ScaledToZero", "status": status }))
        .collect();
    hpa(all, json!({ "desiredReplicas": 9, "conditions": conditions }))
}

const DISABLED: &str = "ScalingActive=False ScalingDisabled: scaling is disabled since the replica \
    count of the target is zero";

#[rstest]
#[case::not_marked(json!({}), None, true)]
#[case::marked_false(json!({}), Some("False"), true)]
#[case::gate_off(json!({}), Some("True"), false)]
#[case::no_metric_without_pods(json!({ "metrics": [cpu()] }), Some("True"), true)]
#[case::minimum_above_zero_but_not_marked(json!({ "minReplicas": 2 }), None, true)]
fn scaling_is_disabled_at_zero_unless_the_autoscaler_scaled_there(
    #[case] spec: Value,
    #[case] scaled_to_zero: Option<&str>,
    #[case] is_feature_on: bool,
) {
    let mut scenario = Scenario::new(0, &[Some(5)]);
    scenario.settings.scale_to_zero = is_feature_on;
    let conclusion = scenario.reconcile(&hpa_with_zero_minimum(spec, scaled_to_zero));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(conclusion.explanation.summary, Summary::ScalingDisabled);
    assert!(conditions(&conclusion).contains(&DISABLED.to_owned()));
    assert_eq!(
        conditions(&conclusion).iter().any(|one| one.starts_with("ScaledToZero")),
        is_feature_on && scaled_to_zero.is_some()
    );
    assert_eq!((events(&conclusion).len(), error(&conclusion)), (0, None));
    assert_eq!((conclusion.status.current_replicas, conclusion.status.desired_replicas), (0, 0));
    assert!(conclusion.status.current_metrics.is_empty());
}

#[rstest]
#[case::by_metrics(json!({}), Some(5), Some(4), "external metric m(nil) above target")]
#[case::no_load(json!({}), Some(0), None, "")]
// Without behavior, the bound is part of the normalization, which sets no reason.
#[case::raised_minimum(json!({ "minReplicas": 2 }), Some(0), Some(2), "")]
#[case::raised_minimum_with_behavior(
    json!({ "minReplicas": 2, "behavior": {} }), Some(0), Some(2), "Current number of replicas \
        below Spec.MinReplicas"
)]
#[case::minimum_above_the_rate_limit(
    json!({ "minReplicas": 6 }), Some(9), Some(6), "external metric m(nil) above target"
)]
fn target_that_was_scaled_to_zero_is_scaled_up_again(
    #[case] spec: Value,
    #[case] read: Option<i64>,
    #[case] to: Option<i32>,
    #[case] reason: &str,
) {
    let conclusion =
        Scenario::new(0, &[read]).reconcile(&hpa_with_zero_minimum(spec, Some("True")));
    assert_eq!(conclusion.scaled_to, to);
    let marker = conditions(&conclusion)[0].clone();
    if let Some(to) = to {
        assert_eq!(
            events(&conclusion),
            [format!("Normal SuccessfulRescale: New size: {to}; reason: {reason}")]
        );
        assert_eq!(marker, NOT_SCALED_TO_ZERO);
    } else {
        assert!(marker.starts_with("ScaledToZero=True"));
    }
}

#[rstest]
#[case::marked(
    true,
    "ScaledToZero=True ScaledToZero: the HPA controller scaled the workload to zero"
)]
#[case::gate_off(false, "")]
fn scaling_to_zero_sets_the_condition(#[case] is_feature_on: bool, #[case] marker: &str) {
    let mut scenario = Scenario::new(1, &[Some(0)]);
    scenario.settings.scale_to_zero = is_feature_on;
    let conclusion = scenario.reconcile(&hpa_with_zero_minimum(json!({}), Some("False")));
    assert_eq!(conclusion.scaled_to, Some(0));
    let conditions = conditions(&conclusion);
    let found = conditions.iter().find(|one| one.starts_with("ScaledToZero"));
    assert_eq!(found.map_or("", String::as_str), marker);
}

// The API server accepts no negative replicas.
#[test]
fn zero_from_negative_replicas_is_not_marked() {
    let conclusion =
        Scenario::new(-1, &[Some(0)]).reconcile(&hpa_with_zero_minimum(json!({}), None));
    assert_eq!(conclusion.scaled_to, Some(0));
    assert!(conditions(&conclusion).contains(&NOT_SCALED_TO_ZERO.to_owned()));
}

// At zero replicas, there are no pods that could have samples.
#[test]
fn raised_minimum_queries_pod_metrics_at_zero() {
    let hpa = hpa_with_zero_minimum(json!({ "minReplicas": 2, "metrics": [cpu()] }), Some("True"));
    let conclusion = Scenario::new(0, &[]).reconcile(&hpa);
    assert_eq!(conclusion.scaled_to, None);
    assert!(
        conditions(&conclusion)
            .iter()
            .any(|one| one.starts_with("ScalingActive=False FailedGetResourceMetric"))
    );
}

#[rstest]
#[case::reference(false, "ScaledToZero=True : ")]
#[case::strict(true, NOT_SCALED_TO_ZERO)]
fn strict_mode_clears_scaled_to_zero_once_there_are_replicas(
    #[case] strict: bool,
    #[case] marker: &str,
) {
    let mut scenario = Scenario::new(3, &[Some(3)]);
    scenario.settings.strict_scale_to_zero = strict;
    let conclusion = scenario.reconcile(&hpa_with_zero_minimum(json!({}), Some("True")));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(conditions(&conclusion)[0], marker);
}

#[rstest]
#[case::reference(false, &[None], None)]
#[case::strict(true, &[None], Some(2))]
#[case::strict_metrics_propose_more(true, &[Some(3)], Some(3))]
#[case::strict_without_a_usable_metric(true, &[], Some(2))]
fn strict_mode_applies_raised_minimum_without_metrics(
    #[case] strict: bool,
    #[case] read: &[Option<i64>],
    #[case] to: Option<i32>,
) {
    let mut scenario = Scenario::new(0, read);
    scenario.settings.strict_scale_to_zero = strict;
    let spec = if read.is_empty() { json!({ "metrics": [cpu()] }) } else { json!({}) };
    let mut hpa = hpa_with_zero_minimum(spec, Some("True"));
    hpa.spec.min_replicas = Some(2);
    let conclusion = scenario.reconcile(&hpa);
    assert_eq!(conclusion.scaled_to, to);
    let events = events(&conclusion);
    if strict && read.first().is_none_or(Option::is_none) {
        let rescaled = "Normal SuccessfulRescale: New size: 2; reason: Current number of replicas \
            below Spec.MinReplicas";
        assert_eq!(events.last().map(String::as_str), Some(rescaled));
        // The failure of the metrics is also reported.
        assert!(error(&conclusion).is_some());
        assert!(conditions(&conclusion).iter().any(|one| one.starts_with("ScalingActive=False")));
    }
}

#[test]
fn strict_mode_keeps_a_disabled_workload_at_zero() {
    let mut scenario = Scenario::new(0, &[None]);
    scenario.settings.strict_scale_to_zero = true;
    assert_eq!(
        scenario
            .reconcile(&hpa_with_zero_minimum(json!({ "minReplicas": 2 }), Some("False")))
            .scaled_to,
        None
    );
}

#[rstest]
#[case::to_zero(1, 0, json!({}), true)]
#[case::to_one(3, 1, json!({}), false)]
#[case::at_zero(0, 0, json!({}), false)]
#[case::up(1, 3, json!({}), false)]
#[case::without_object_or_external_metric(1, 0, json!({ "metrics": [cpu()] }), false)]
fn scaling_to_zero_is_premarked(
    #[case] current: i32,
    #[case] read: i64,
    #[case] spec: Value,
    #[case] expected: bool,
) {
    let hpa = hpa_with_zero_minimum(spec, (current == 0).then_some("True"));
    let scenario = Scenario::new(current, &[Some(read)]);
    let status = scenario.status_before_scale(&hpa);
    assert_eq!(status.is_some(), expected);
    let Some(status) = status else { return };
    assert!(status.is_true(&hpa_calc::api::ConditionType::ScaledToZero));
    // Nothing else changes before the write.
    assert_eq!(
        (status.conditions.len(), status.desired_replicas),
        (1, hpa.status.desired_replicas)
    );
}

/// As with kube-controller-manager before 1.36, which doesn't have the condition.
#[rstest]
#[case::zero_minimum(0, false, Some(4))]
#[case::minimum_above_zero(2, false, None)]
#[case::scheduled_maximum(0, true, Some(3))]
#[case::scheduled_maximum_and_minimum_above_zero(2, true, None)]
fn metrics_scale_up_from_any_zero_if_the_minimum_is_zero(
    #[case] min: i32,
    #[case] is_scheduled: bool,
    #[case] expected: Option<i32>,
) {
    let mut scenario = Scenario::new(0, &[Some(5)]);
    scenario.settings.scale_from_any_zero = true;
    let entry = json!({ "start": "00:00", "end": "00:00", "maxReplicas": 3 });
    let entry: ScheduledBounds = serde_json::from_value(entry).unwrap();
    scenario.settings.bounds = is_scheduled.then(|| vec![entry].into());
    let hpa = hpa_with_zero_minimum(json!({ "minReplicas": min }), None);
    assert_eq!(scenario.reconcile(&hpa).scaled_to, expected);
}
