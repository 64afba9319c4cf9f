//! Reports on a pause or a dry run of the autoscaler.

use serde_json::json;

use super::*;

#[test]
fn bound_and_pause_are_listed_as_possible_changes() {
    let mut inputs = inputs(json!({ "maxReplicas": 4 }));
    inputs.readings = [(0, Ok(equal_samples(900)))].into_iter().collect();
    let report = inputs.report();
    let expected = Change { trigger: Trigger::MaxReplicas { to: 8 }, replicas: 8 };
    assert_eq!(report.changes, [expected]);
    assert_contains(&report, "Raise spec.maxReplicas");
    inputs.hpa.spec.max_replicas = 6;
    inputs.settings.pause = Pause::BOTH;
    let report = inputs.report();
    assert_eq!(report.changes, [Change { trigger: Trigger::Unpause { at: None }, replicas: 6 }]);
    assert_contains(&report, "Remove the annotation");
    let start = "is paused by annotation and stays at 4: cpu is at 150% of requests, target 66%; ";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
}

#[test]
fn end_of_the_pause_is_the_first_change() {
    let mut inputs = inputs(json!({}));
    inputs.settings.pause = Pause::BOTH;
    let report = inputs.report();
    let start =
        "is paused by annotation and stays at 4: cpu is at 71% of requests, target 66%; within";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    let unpause = Change { trigger: Trigger::Unpause { at: None }, replicas: 4 };
    assert_eq!(report.changes[0], unpause);
    assert_contains(&report, "stays at 4 without the pause, if the metrics stay as they are");
    assert_contains(&report, "Remove the annotation");
    inputs.settings.pause = Pause { up: false, down: true };
    let report = inputs.report();
    let start = "is paused for scaling down by annotation and stays at 4: ";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    assert_contains(&report, "/pause to let the autoscaler scale down.");
}

#[test]
fn end_of_the_pause_has_the_end_of_the_stabilization_that_holds() {
    let mut inputs = inputs(json!({}));
    inputs.readings = [(0, Ok(equal_samples(200)))].into_iter().collect();
    inputs.history = Some(history_with(4, 60));
    inputs.settings.pause = Pause { up: false, down: true };
    let report = inputs.report();
    let Change { trigger: Trigger::Unpause { at: Some(end) }, replicas: 2 } = report.changes[0]
    else {
        panic!("{report}");
    };
    assert_eq!(end.duration_since(seconds_ago(0)).as_secs(), 240);
    assert_contains(&report, "scales to 2 without the pause, at ");
    assert_contains(&report, " (in 4:00) or in the next reconcile after it, if the metrics stay");
}

#[test]
fn dry_run_would_scale_and_writes_nothing() {
    let mut inputs = inputs(json!({}));
    inputs.hpa.status.conditions.clear();
    inputs.settings.dry_run = true;
    let report = inputs.report();
    let start = "is in dry run by annotation and would stay at 4: cpu is at 71%";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    assert_eq!(report.state(State::New), State::DryRun);
    inputs.readings = [(0, Ok(equal_samples(900)))].into_iter().collect();
    let report = inputs.report();
    let start = "is in dry run by annotation and would scale from 4 to 8: cpu is at 150%";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    assert!(report.sentence.ends_with("; nothing is written"), "{}", report.sentence);
    assert_contains(&report, "Remove the annotation autoscaling.hpa-rs.dev/dry-run");
    assert!(!report.to_string().contains("No controller"), "{report}");
    // Without the dry run, a decision that fails would write nothing either.
    inputs.readings = <_>::default();
    let report = inputs.report();
    assert_eq!(report.desired_replicas, None);
    assert!(!report.to_string().contains("Remove the annotation"), "{report}");
}

#[test]
fn dry_run_and_pause_leave_the_doubt_about_an_unknown_history() {
    let conditions = [("AbleToScale", "True", "ReadyForNewScale")];
    let mut inputs = inputs_at(200, json!({}), &conditions);
    inputs.settings.dry_run = true;
    let sentence = inputs.report().sentence;
    let end = "; a stabilization window of 300s may hold it or raise the replicas; nothing is \
               written";
    assert!(sentence.ends_with(end), "{sentence}");
    let idle = inputs.report_with_doubt(Some("no controller runs".to_owned()));
    let end = "; a stabilization window of 300s may hold it or raise the replicas; no controller \
               runs; nothing is written";
    assert!(idle.sentence.ends_with(end), "{}", idle.sentence);
    inputs.settings.dry_run = false;
    inputs.settings.pause = Pause::BOTH;
    let sentence = inputs.report().sentence;
    let end = "; without the pause, it would scale to 2, unless stabilization or a policy holds it";
    assert!(sentence.ends_with(end), "{sentence}");
    inputs.history = Some(History::default());
    let sentence = inputs.report().sentence;
    assert!(sentence.contains("; stabilization holds 4 for another "), "{sentence}");
    assert!(!sentence.contains("unless"), "{sentence}");
}
