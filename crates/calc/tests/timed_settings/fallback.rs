//! Fallbacks of metrics that can't be read.

use hpa_calc::{MilliValue, Reading};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    Run,
    common::{events, external},
};

fn fallback_annotation(replicas: i32, behavior: &str) -> Value {
    let fallback =
        json!({ "replicas": replicas, "failureDurationSeconds": 60, "behavior": behavior });
    json!({ "fallback": fallback })
}

const FALLBACK: &str = "ExternalMetricFallbackActive";

#[test]
fn fallback_reports_when_it_starts() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    let report = run.inputs(15, &[None]).report();
    let pending = "; the fallback of m proposes 5 replicas once it has failed for 60s";
    let sentence = format!("stays at 8: m cannot be read: down{pending} (15s so far)");
    assert_eq!(report.sentence, sentence);
    assert!(report.sentence_without_durations().ends_with(pending));
    let text = report.to_string();
    let line = "  scales to 5 at 2026-01-05T12:01:00Z (in 0:45) or in the next reconcile after it, \
                if the metrics stay as they are\n";
    assert!(text.contains(line), "{text}");
}

#[rstest]
#[case::fixed("static", 8, 5, 5)]
#[case::fixed_upwards("static", 3, 5, 5)]
#[case::current("currentReplicas", 8, 5, 8)]
#[case::higher("currentReplicasIfHigher", 8, 5, 8)]
#[case::not_higher("currentReplicasIfHigher", 3, 5, 5)]
#[case::lower("currentReplicasIfLower", 3, 5, 3)]
#[case::not_lower("currentReplicasIfLower", 8, 5, 5)]
#[case::maximum("static", 8, 50, 16)]
#[case::minimum("static", 8, 0, 1)]
fn fallback_applies_after_the_failure_duration(
    #[case] behavior: &str,
    #[case] current: i32,
    #[case] replicas: i32,
    #[case] expected: i32,
) {
    let mut run = Run::new(current, fallback_annotation(replicas, behavior));
    for second in [0, 30, 59] {
        assert_eq!(run.replicas_at(second, None), current);
        assert_eq!(run.condition(FALLBACK), None);
    }
    assert_eq!(run.replicas_at(60, None), expected, "within policies and bounds");
    assert!(run.condition(FALLBACK).unwrap().starts_with("True FallbackActive: "));
}

#[test]
fn start_and_end_of_a_fallback_are_each_reported_once() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    let started = run.reconcile(60, &[None]);
    assert_eq!(
        events(&started)[1..],
        [
            "Warning MetricFallbackStarted: External metric m has kept failing since \
             2026-01-05T12:00:00Z: its fallback proposes 5 replicas",
            "Normal SuccessfulRescale: New size: 5; reason: the fallback of External metric m",
        ]
    );
    assert_eq!(started.status.current_metrics[0].external.as_ref().unwrap().current.value, None);
    assert!(started.error.as_ref().is_some_and(hpa_calc::ReconcileError::is_partial));
    assert_eq!(
        run.condition(FALLBACK).unwrap(),
        "True FallbackActive: External metric m has kept failing since 2026-01-05T12:00:00Z, 5 \
         replicas proposed"
    );
    let metric = &started.explanation.metrics[0];
    assert_eq!((metric.error.as_deref(), metric.proposed_replicas), (Some("down"), Some(5)));
    let sentence = run.inputs(75, &[None]).report().sentence;
    assert_eq!(
        sentence,
        "stays at 5: m cannot be read: down; fallback: 5 replicas, because it has kept failing \
         since 2026-01-05T12:00:00Z"
    );
    assert_eq!(events(&run.reconcile(75, &[None])).len(), 1, "only the failure itself");
    for second in [90, 105] {
        assert_eq!(events(&run.reconcile(second, &[Some(9)])), [""; 0]);
        assert_eq!(run.replicas, 5);
    }
    let ended = run.reconcile(120, &[Some(9)]);
    let ended = &events(&ended)[0];
    assert_eq!(
        ended,
        "Normal MetricFallbackEnded: External metric m can be read again: the fallback has ended"
    );
    assert_eq!(run.replicas, 9);
    assert_eq!(run.condition(FALLBACK).unwrap(), "False FallbackEnded: no fallback is active");
    run.annotate(json!({}));
    run.reconcile(135, &[Some(9)]);
    assert_eq!(run.condition(FALLBACK), None, "without the setting");
}

/// The fallback asks for these replicas, not the metrics: at a policy, at a bound, and while the
/// metric is read again.
#[test]
fn replicas_of_a_fallback_are_not_those_of_metrics() {
    let mut run = Run::new(8, fallback_annotation(50, "static"));
    run.reconcile(0, &[None]);
    for (second, value) in [(60, None), (75, None), (90, Some(9))] {
        let report = run.inputs(second, &[value]).report().to_string();
        assert!(report.contains(", the fallback asks for 50; fallback: 50 replicas"), "{report}");
        assert!(!report.contains("metrics ask"), "{report}");
        run.reconcile(second, &[value]);
    }
}

#[test]
fn flapping_source_neither_ends_the_failure_nor_changes_the_replicas() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    run.reconcile(15, &[Some(8)]);
    run.reconcile(30, &[None]);
    run.reconcile(45, &[Some(8)]);
    assert_eq!(run.replicas_at(60, None), 5, "failed for 60s in spite of single successes");
    for step in 0..40 {
        let value = (step % 3 != 0).then_some(12);
        assert_eq!(run.replicas_at(75 + step * 15, value), 5);
    }
}

#[test]
fn failure_ends_if_the_metric_is_read_for_long_enough() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    for second in [15, 30, 45] {
        run.reconcile(second, &[Some(8)]);
    }
    assert_eq!(run.history.failing_metrics, []);
    assert_eq!(run.replicas_at(60, None), 8, "a new failure");
    assert_eq!(run.replicas_at(119, None), 8);
    assert_eq!(run.replicas_at(120, None), 5);
}

#[test]
fn changed_metric_does_not_inherit_a_failure() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    run.reconcile(60, &[None]);
    run.hpa.spec.metrics = serde_json::from_value(json!([external("other")])).unwrap();
    let changed = run.reconcile(75, &[None]);
    assert_eq!(run.replicas, 5);
    let ended = "Normal MetricFallbackEnded: the metric or its fallback has changed: the fallback \
                 has ended";
    assert!(events(&changed).iter().any(|event| event == ended), "{:?}", events(&changed));
    assert!(run.condition(FALLBACK).unwrap().starts_with("False FallbackEnded"));
}

#[test]
fn changed_target_does_not_end_the_failure() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    let target = &mut run.hpa.spec.metrics[0].external.as_mut().unwrap().target;
    target.average_value = Some("2".parse().unwrap());
    assert_eq!(run.replicas_at(60, None), 5);
}

#[test]
fn fallback_is_one_proposal_among_others() {
    let spec = json!({ "metrics": [external("a"), external("b")] });
    let text = json!({ "a": { "replicas": 5, "failureDurationSeconds": 60 } }).to_string();
    let mut run = Run::with_spec(8, spec, json!({ "fallback": text }));
    run.reconcile(0, &[None, Some(2)]);
    assert_eq!(run.replicas, 8, "a failed metric blocks a scale-down");
    run.reconcile(60, &[None, Some(7)]);
    assert_eq!(run.replicas, 7, "the other metric asks for more");
    run.reconcile(75, &[None, Some(2)]);
    assert_eq!(run.replicas, 5);
    for second in [90, 105] {
        run.reconcile(second, &[None, None]);
        assert_eq!(run.replicas, 5, "b has no fallback");
    }
}

#[test]
fn fallback_stops_when_scaling_is_disabled() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    run.reconcile(60, &[None]);
    run.replicas = 0;
    let disabled = run.reconcile(75, &[None]);
    assert_eq!(
        events(&disabled),
        ["Normal MetricFallbackEnded: scaling is disabled: the fallback has ended"]
    );
    run.replicas = 8;
    assert_eq!(run.replicas_at(90, None), 8);
}

#[test]
fn fallback_scales_from_zero() {
    let spec = json!({ "minReplicas": 0 });
    let mut run = Run::with_spec(3, spec, fallback_annotation(5, "static"));
    assert_eq!(run.replicas_at(0, Some(0)), 0);
    run.reconcile(15, &[None]);
    // The policies limit the first step.
    assert_eq!(run.replicas_at(75, None), 4);
    assert_eq!(run.replicas_at(90, None), 5);
}

#[test]
fn status_restores_an_active_fallback_without_a_history() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    run.reconcile(60, &[None]);
    run.replicas = 8;
    let mut inputs = run.inputs(75, &[None]);
    inputs.history = None;
    assert_eq!(inputs.resulting_replicas(), 5);
    inputs.readings =
        [(0, Ok(Reading::External(vec![MilliValue::from_units(7)].into())))].into_iter().collect();
    assert_eq!(inputs.resulting_replicas(), 7);
}

#[test]
fn shifted_history_keeps_the_duration_of_a_failure() {
    let mut run = Run::new(8, fallback_annotation(5, "static"));
    run.reconcile(0, &[None]);
    run.history.shift(SignedDuration::from_secs(1000));
    assert_eq!(run.replicas_at(1059, None), 8);
    assert_eq!(run.replicas_at(1060, None), 5);
}
