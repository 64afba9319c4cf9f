//! Reconciles from and to zero replicas (KEP-2021).
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod world;

use hpa_calc::{api::HorizontalPodAutoscaler, explain::Summary};
use rstest::rstest;
use serde_json::{Value, json};
use world::{NOT_TO_ZERO, World, conditions, cpu, error, events, hpa};

fn zero(spec: Value, marked: Option<&str>) -> HorizontalPodAutoscaler {
    let mut all = json!({ "minReplicas": 0 });
    for (name, value) in spec.as_object().unwrap() {
        all[name] = value.clone();
    }
    let conditions: Vec<_> =
        marked.iter().map(|status| json!({ "type": "ScaledToZero", "status": status })).collect();
    hpa(all, json!({ "desiredReplicas": 9, "conditions": conditions }))
}

const DISABLED: &str = "ScalingActive=False ScalingDisabled: scaling is disabled since the replica count of the target is zero";

#[rstest]
#[case::not_marked(json!({}), None, true)]
#[case::marked_false(json!({}), Some("False"), true)]
#[case::gate_off(json!({}), Some("True"), false)]
#[case::no_metric_without_pods(json!({ "metrics": [cpu()] }), Some("True"), true)]
#[case::minimum_above_zero_but_not_marked(json!({ "minReplicas": 2 }), None, true)]
fn disabled_at_zero(#[case] spec: Value, #[case] marked: Option<&str>, #[case] gate: bool) {
    let mut world = World::of(0, &[Some(5)]);
    world.settings.scale_to_zero = gate;
    let conclusion = world.reconcile(&zero(spec, marked));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(conclusion.explanation.summary, Summary::ScalingDisabled);
    assert!(conditions(&conclusion).contains(&DISABLED.to_owned()));
    assert_eq!(
        conditions(&conclusion).iter().any(|one| one.starts_with("ScaledToZero")),
        gate && marked.is_some()
    );
    assert_eq!((events(&conclusion).len(), error(&conclusion)), (0, None));
    assert_eq!((conclusion.status.current_replicas, conclusion.status.desired_replicas), (0, 0));
    assert!(conclusion.status.current_metrics.is_empty());
}

#[rstest]
#[case::by_metrics(json!({}), Some(5), Some(4), "external metric m(nil) above target")]
#[case::nothing_to_do(json!({}), Some(0), None, "")]
// Without behavior the bound is a part of the normalization, which gives no reason.
#[case::the_minimum_was_raised(json!({ "minReplicas": 2 }), Some(0), Some(2), "")]
#[case::the_minimum_was_raised_with_behavior(
    json!({ "minReplicas": 2, "behavior": {} }), Some(0), Some(2), "Current number of replicas below Spec.MinReplicas"
)]
#[case::the_minimum_is_above_the_rate(
    json!({ "minReplicas": 6 }), Some(9), Some(6), "external metric m(nil) above target"
)]
fn woken_from_zero(
    #[case] spec: Value,
    #[case] read: Option<i64>,
    #[case] to: Option<i32>,
    #[case] reason: &str,
) {
    let conclusion = World::of(0, &[read]).reconcile(&zero(spec, Some("True")));
    assert_eq!(conclusion.scaled_to, to);
    let marker = conditions(&conclusion)[0].clone();
    if let Some(to) = to {
        assert_eq!(
            events(&conclusion),
            [format!("Normal SuccessfulRescale: New size: {to}; reason: {reason}")]
        );
        assert_eq!(marker, NOT_TO_ZERO);
    } else {
        assert!(marker.starts_with("ScaledToZero=True"));
    }
}

#[rstest]
#[case::marked(json!({}), true, "ScaledToZero=True ScaledToZero: the HPA controller scaled the workload to zero")]
#[case::gate_off(json!({}), false, "")]
fn scaled_to_zero(#[case] spec: Value, #[case] gate: bool, #[case] marker: &str) {
    let mut world = World::of(1, &[Some(0)]);
    world.settings.scale_to_zero = gate;
    let conclusion = world.reconcile(&zero(spec, Some("False")));
    assert_eq!(conclusion.scaled_to, Some(0));
    let conditions = conditions(&conclusion);
    let found = conditions.iter().find(|one| one.starts_with("ScaledToZero"));
    assert_eq!(found.map_or("", String::as_str), marker);
}

/// A scale that no API server would have is not of the autoscaler's making.
#[test]
fn zero_from_below_is_not_marked() {
    let conclusion = World::of(-1, &[Some(0)]).reconcile(&zero(json!({}), None));
    assert_eq!(conclusion.scaled_to, Some(0));
    assert!(conditions(&conclusion).contains(&NOT_TO_ZERO.to_owned()));
}

/// Once the minimum is above zero, metrics of pods are asked for too, though there are none that could answer.
#[test]
fn a_raised_minimum_needs_no_metric_without_pods() {
    let hpa = zero(json!({ "minReplicas": 2, "metrics": [cpu()] }), Some("True"));
    let conclusion = World::of(0, &[]).reconcile(&hpa);
    assert_eq!(conclusion.scaled_to, None);
    assert!(
        conditions(&conclusion)
            .iter()
            .any(|one| one.starts_with("ScalingActive=False FailedGetResourceMetric"))
    );
}

/// What the reference does with a marker that is no longer true, and what [`Settings::strict_scale_to_zero`] does.
///
/// [`Settings::strict_scale_to_zero`]: hpa_calc::settings::Settings::strict_scale_to_zero
#[rstest]
#[case::reference(false, "ScaledToZero=True : ")]
#[case::corrected(true, NOT_TO_ZERO)]
fn replicas_by_another_hand_end_the_zero(#[case] corrected: bool, #[case] marker: &str) {
    let mut world = World::of(3, &[Some(3)]);
    world.settings.strict_scale_to_zero = corrected;
    let conclusion = world.reconcile(&zero(json!({}), Some("True")));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(conditions(&conclusion)[0], marker);
}

#[rstest]
#[case::reference(false, &[None], None)]
#[case::corrected(true, &[None], Some(2))]
#[case::corrected_metrics_say_more(true, &[Some(3)], Some(3))]
#[case::corrected_no_metric_fits(true, &[], Some(2))]
fn raised_minimum_wakes_without_metrics(
    #[case] corrected: bool,
    #[case] read: &[Option<i64>],
    #[case] to: Option<i32>,
) {
    let mut world = World::of(0, read);
    world.settings.strict_scale_to_zero = corrected;
    let spec = if read.is_empty() { json!({ "metrics": [cpu()] }) } else { json!({}) };
    let mut hpa = zero(spec, Some("True"));
    hpa.spec.min_replicas = Some(2);
    let conclusion = world.reconcile(&hpa);
    assert_eq!(conclusion.scaled_to, to);
    let told = events(&conclusion);
    if corrected && read.first().is_none_or(Option::is_none) {
        let woken = "Normal SuccessfulRescale: New size: 2; reason: Current number of replicas below Spec.MinReplicas";
        assert_eq!(told.last().map(String::as_str), Some(woken));
        // That the metrics failed is told all the same.
        assert!(error(&conclusion).is_some());
        assert!(conditions(&conclusion).iter().any(|one| one.starts_with("ScalingActive=False")));
    }
}

/// A pause stays one, be the metrics well or not.
#[test]
fn corrected_zero_leaves_a_pause_alone() {
    let mut world = World::of(0, &[None]);
    world.settings.strict_scale_to_zero = true;
    assert_eq!(world.reconcile(&zero(json!({ "minReplicas": 2 }), Some("False"))).scaled_to, None);
}

#[rstest]
#[case::to_zero(1, 0, json!({}), true)]
#[case::to_one(3, 1, json!({}), false)]
#[case::at_zero(0, 0, json!({}), false)]
#[case::up(1, 3, json!({}), false)]
#[case::not_to_be_woken(1, 0, json!({ "metrics": [cpu()] }), false)]
fn zero_is_stored_ahead(
    #[case] current: i32,
    #[case] read: i64,
    #[case] spec: Value,
    #[case] ahead: bool,
) {
    let hpa = zero(spec, (current == 0).then_some("True"));
    let world = World::of(current, &[Some(read)]);
    let found = world.status_before_scale(&hpa);
    assert_eq!(found.is_some(), ahead);
    let Some(found) = found else { return };
    assert!(found.is_true(&hpa_calc::api::ConditionType::ScaledToZero));
    // Nothing else is foretold.
    assert_eq!((found.conditions.len(), found.desired_replicas), (1, hpa.status.desired_replicas));
}
