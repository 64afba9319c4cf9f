//! Pauses: what is decided is told and not written.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod world;

use hpa_calc::{conclude::Conclusion, explain::Summary, history::Recommendation, pause::Pause};
use rstest::rstest;
use serde_json::{Value, json};
use world::{ABLE, BEFORE, NOT_TO_ZERO, VALID, WITHIN, World, conditions, error, events, hpa, now};

fn behavior() -> Value {
    json!({ "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } } })
}

/// A reconcile of a target of 4 for which so many are wanted.
fn paused(pause: &str, wanted: i64) -> Conclusion {
    World::of(4, &[Some(wanted)])
        .paused(pause.parse().unwrap())
        .reconcile(&hpa(behavior(), json!({})))
}

fn paused_condition(conclusion: &Conclusion) -> Option<String> {
    conditions(conclusion).into_iter().find(|condition| condition.starts_with("Paused"))
}

#[rstest]
#[case::both_up("true", 6, "scaling is paused: 6 replicas are wanted")]
#[case::both_down("true", 2, "scaling is paused: 2 replicas are wanted")]
#[case::up("up", 6, "scaling up is paused: 6 replicas are wanted")]
#[case::down("down", 2, "scaling down is paused: 2 replicas are wanted")]
fn paused_direction_is_told_and_not_written(
    #[case] pause: &str,
    #[case] wanted: i64,
    #[case] message: &str,
) {
    let conclusion = paused(pause, wanted);
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(
        paused_condition(&conclusion),
        Some(format!("Paused=True PausedByAnnotation: {message}"))
    );
    let status = &conclusion.status;
    assert_eq!((status.current_replicas, i64::from(status.desired_replicas)), (4, wanted));
    assert_eq!(status.last_scale_time, None);
    assert_eq!(status.current_metrics.len(), 1);
    assert_eq!((events(&conclusion).len(), error(&conclusion)), (0, None));
    assert!(matches!(conclusion.explanation.summary, Summary::Paused(_)));
    let replicas = i32::try_from(wanted).unwrap();
    // The past is as if it had been scaled, but for the scale event that there was not.
    assert!(conclusion.history.recommendations.contains(&Recommendation { replicas, at: now() }));
    assert_eq!(
        (&conclusion.history.scale_ups, &conclusion.history.scale_downs),
        (&vec![], &vec![])
    );
}

#[rstest]
#[case::up("up", 2, "scaling up is paused")]
#[case::down("down", 6, "scaling down is paused")]
fn other_direction_is_written(#[case] pause: &str, #[case] wanted: i32, #[case] message: &str) {
    let conclusion = paused(pause, wanted.into());
    assert_eq!(conclusion.scaled_to, Some(wanted));
    assert_eq!(
        paused_condition(&conclusion),
        Some(format!("Paused=True PausedByAnnotation: {message}"))
    );
}

#[test]
fn conditions_of_the_decision_stay() {
    let conclusion = paused("true", 6);
    let able = "AbleToScale=True ReadyForNewScale: recommended size matches current size";
    assert_eq!(conditions(&conclusion)[..3], [able, VALID, WITHIN]);
}

#[test]
fn bounds_are_held_back_too() {
    let world = World::of(12, &[]).paused(Pause { up: false, down: true });
    let conclusion = world.reconcile(&hpa(json!({}), json!({})));
    assert_eq!((conclusion.scaled_to, conclusion.status.desired_replicas), (None, 10));
    let paused = "Paused=True PausedByAnnotation: scaling down is paused: 10 replicas are wanted";
    assert_eq!(conditions(&conclusion), [ABLE, paused]);
}

#[test]
fn pause_that_lasts_does_not_change_the_condition() {
    let before = json!({ "conditions": [{ "type": "Paused", "status": "True", "lastTransitionTime": BEFORE,
        "reason": "PausedByAnnotation", "message": "scaling is paused: 6 replicas are wanted" }] });
    let hpa = hpa(json!({}), before);
    let conclusion = World::of(4, &[Some(6)]).paused(Pause::BOTH).reconcile(&hpa);
    assert_eq!(conclusion.status.conditions[0], hpa.status.conditions[0]);
}

#[test]
fn end_of_a_pause_removes_the_condition_and_writes_the_scale() {
    let before = json!({ "conditions": [{ "type": "Paused", "status": "True", "lastTransitionTime": BEFORE }] });
    let conclusion = World::of(4, &[Some(6)]).reconcile(&hpa(json!({}), before));
    assert_eq!(conclusion.scaled_to, Some(6));
    let able = "AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 6";
    assert_eq!(conditions(&conclusion), [able, VALID, WITHIN, NOT_TO_ZERO]);
}

#[test]
fn zero_that_is_held_back_is_not_foretold() {
    let hpa = hpa(json!({ "minReplicas": 0 }), json!({}));
    assert!(World::of(4, &[Some(0)]).status_before_scale(&hpa).is_some());
    assert!(World::of(4, &[Some(0)]).paused(Pause::BOTH).status_before_scale(&hpa).is_none());
}

#[rstest]
#[case("")]
#[case("True")]
#[case("yes")]
#[case("both")]
fn other_texts_are_refused(#[case] text: &str) {
    text.parse::<Pause>().unwrap_err();
}
