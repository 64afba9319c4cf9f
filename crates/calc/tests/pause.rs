//! Pauses: the decision is reported and the scale is not written.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{
    ABLE_TO_SCALE, BEFORE, NOT_SCALED_TO_ZERO, SCALING_ACTIVE, Scenario, WITHIN_RANGE, conditions,
    error, events, hpa, now,
};
use hpa_calc::{Conclusion, Pause, explain::Summary, history::Recommendation};
use rstest::rstest;
use serde_json::json;

const READY: &str = "AbleToScale=True ReadyForNewScale: recommended size matches current size";

/// A reconcile of a target with 4 replicas whose metric proposes `proposed`, without stabilization.
fn reconcile(pause: &str, proposed: i64) -> Conclusion {
    let behavior = json!({ "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } } });
    Scenario::new(4, &[Some(proposed)])
        .paused(pause.parse().unwrap())
        .reconcile(&hpa(behavior, json!({})))
}

fn paused_condition(conclusion: &Conclusion) -> Option<String> {
    conditions(conclusion).into_iter().find(|condition| condition.starts_with("Paused"))
}

#[rstest]
#[case::both_up("true", 6, "scaling is paused: 6 replicas desired")]
#[case::both_down("true", 2, "scaling is paused: 2 replicas desired")]
#[case::up("up", 6, "scaling up is paused: 6 replicas desired")]
#[case::down("down", 2, "scaling down is paused: 2 replicas desired")]
fn paused_direction_is_reported_and_not_written(
    #[case] pause: &str,
    #[case] proposed: i64,
    #[case] message: &str,
) {
    let conclusion = reconcile(pause, proposed);
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(
        paused_condition(&conclusion),
        Some(format!("Paused=True PausedByAnnotation: {message}"))
    );
    let status = &conclusion.status;
    assert_eq!((status.current_replicas, i64::from(status.desired_replicas)), (4, proposed));
    assert_eq!(status.last_scale_time, None);
    assert_eq!(status.current_metrics.len(), 1);
    assert_eq!((events(&conclusion).len(), error(&conclusion)), (0, None));
    assert!(matches!(conclusion.explanation.summary, Summary::Paused(_)));
    let replicas = i32::try_from(proposed).unwrap();
    // The recommendation is recorded as without a pause, but there is no scale event.
    assert!(conclusion.history.recommendations.contains(&Recommendation { replicas, at: now() }));
    assert_eq!(
        (&conclusion.history.scale_ups, &conclusion.history.scale_downs),
        (&vec![], &vec![])
    );
}

#[rstest]
#[case::up("up", 2, "scaling up is paused")]
#[case::down("down", 6, "scaling down is paused")]
fn other_direction_is_still_scaled(
    #[case] pause: &str,
    #[case] proposed: i32,
    #[case] message: &str,
) {
    let conclusion = reconcile(pause, proposed.into());
    assert_eq!(conclusion.scaled_to, Some(proposed));
    assert_eq!(
        paused_condition(&conclusion),
        Some(format!("Paused=True PausedByAnnotation: {message}"))
    );
}

#[rstest]
#[case::change_is_prevented("up", 6, ABLE_TO_SCALE)]
#[case::both_directions_are_paused("true", 4, ABLE_TO_SCALE)]
#[case::one_direction_is_paused_without_a_change("up", 4, READY)]
fn target_is_ready_for_a_new_scale_unless_the_pause_prevents_it(
    #[case] pause: &str,
    #[case] proposed: i64,
    #[case] able: &str,
) {
    let conclusion = reconcile(pause, proposed);
    assert_eq!(conditions(&conclusion)[..3], [able, SCALING_ACTIVE, WITHIN_RANGE]);
}

#[test]
fn pause_also_applies_to_bounds() {
    let scenario = Scenario::new(12, &[]).paused(Pause { up: false, down: true });
    let conclusion = scenario.reconcile(&hpa(json!({}), json!({})));
    assert_eq!((conclusion.scaled_to, conclusion.status.desired_replicas), (None, 10));
    let paused = "Paused=True PausedByAnnotation: scaling down is paused: 10 replicas desired";
    assert_eq!(conditions(&conclusion), [ABLE_TO_SCALE, paused]);
}

#[test]
fn ongoing_pause_keeps_the_condition() {
    let before = json!({ "conditions": [{
        "type": "Paused", "status": "True", "lastTransitionTime": BEFORE,
        "reason": "PausedByAnnotation", "message": "scaling is paused: 6 replicas desired" }] });
    let hpa = hpa(json!({}), before);
    let conclusion = Scenario::new(4, &[Some(6)]).paused(Pause::BOTH).reconcile(&hpa);
    assert_eq!(conclusion.status.conditions[0], hpa.status.conditions[0]);
}

#[test]
fn end_of_pause_removes_the_condition_and_scales() {
    let before = json!({
        "conditions": [{ "type": "Paused", "status": "True", "lastTransitionTime": BEFORE }],
    });
    let conclusion = Scenario::new(4, &[Some(6)]).reconcile(&hpa(json!({}), before));
    assert_eq!(conclusion.scaled_to, Some(6));
    let able = "AbleToScale=True SucceededRescale: the HPA controller was able to update the \
        target scale to 6";
    assert_eq!(conditions(&conclusion), [able, SCALING_ACTIVE, WITHIN_RANGE, NOT_SCALED_TO_ZERO]);
}

#[test]
fn paused_scaling_to_zero_is_not_premarked() {
    let hpa = hpa(json!({ "minReplicas": 0 }), json!({}));
    assert!(Scenario::new(4, &[Some(0)]).status_before_scale(&hpa).is_some());
    assert!(Scenario::new(4, &[Some(0)]).paused(Pause::BOTH).status_before_scale(&hpa).is_none());
}

#[rstest]
#[case("")]
#[case("True")]
#[case("yes")]
#[case("both")]
fn invalid_pause_value_is_rejected(#[case] text: &str) {
    text.parse::<Pause>().unwrap_err();
}
