//! Reports on stabilization, policies and bounds.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::history::ScaleEvent;

#[test]
fn policies_of_a_disabled_direction_are_not_listed() {
    let behavior = json!({ "scaleDown": { "selectPolicy": "Disabled" } });
    let report = inputs(json!({ "behavior": behavior })).report();
    assert_contains(&report, "  scale-down now: at least 4 (selectPolicy Disabled)\n  bounds: ");
    assert_contains(&report, "    100 Percent in 15s, from 4: at most 8\n");
}

#[test]
fn disabled_direction_is_the_reason_although_stabilization_holds() {
    let behavior = json!({ "scaleDown": { "selectPolicy": "Disabled" } });
    let mut inputs = inputs(json!({ "behavior": behavior }));
    inputs.readings = [(0, Ok(equal_samples(100)))].into_iter().collect();
    inputs.history = Some(history_with(4, 100));
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        "stays at 4: cpu is at 16% of requests, target 66%; scale-down is disabled by \
         behavior.scaleDown.selectPolicy, metrics ask for 1"
    );
    assert_contains(&report, "Set it to Max or Min to scale in that direction.");
}

#[test]
fn stabilization_reports_the_recommendation_and_its_end() {
    let mut inputs = inputs(json!({}));
    inputs.readings = [(0, Ok(equal_samples(10)))].into_iter().collect();
    inputs.history = Some(History {
        recommendations: vec![
            Recommendation { replicas: 4, at: seconds_ago(280) },
            Recommendation { replicas: 4, at: seconds_ago(100) },
            Recommendation { replicas: 1, at: seconds_ago(15) },
        ],
        ..History::default()
    });
    let report = inputs.report();
    let held = report.limits.as_ref().unwrap().stabilization.held_by.unwrap();
    assert_eq!((held.replicas, held.at, held.until), (4, seconds_ago(100), seconds_ago(-200)));
    let [start, end] = ["; stabilization holds 4", ", metrics ask for "];
    let lasting = format!("{start} for another 3:20{end}");
    assert!(report.sentence.contains(&lasting), "{}", report.sentence);
    assert!(report.sentence_without_durations().contains(&format!("{start}{end}")));
    assert_contains(&report, "the recommendation of 4 at 1970-01-01T02:45:00Z holds it until");
    // A window includes its start, so the replicas change just after its end.
    let change =
        report.changes.iter().find(|change| matches!(change.trigger, Trigger::Time { .. }));
    let change = change.unwrap();
    let end = seconds_ago(-200) + jiff::SignedDuration::from_millis(1);
    assert_eq!((&change.trigger, change.replicas), (&Trigger::Time { at: end }, 2));
}

#[rstest]
#[case::above_the_maximum(json!({ "maxReplicas": 4 }), 16, State::Stabilizing,
    "stabilization keeps a recommendation of 16 for another 4:00, maxReplicas is 4, metrics ask \
     for 2")]
#[case::minimum_binds_as_well(json!({ "minReplicas": 4 }), 4, State::AtMinimum,
    "minReplicas is 4, metrics ask for 2")]
fn bound_is_the_reason_only_if_it_limits_what_the_metrics_ask_for(
    #[case] spec: Value,
    #[case] recommended: i32,
    #[case] state: State,
    #[case] limit: &str,
) {
    let mut inputs = inputs_at(200, spec, &[("AbleToScale", "True", "ScaleDownStabilized")]);
    inputs.history = Some(history_with(recommended, 60));
    let report = inputs.report();
    let expected = format!("stays at 4: cpu is at 33% of requests, target 66%; {limit}");
    assert_eq!((&*report.sentence, report.state(State::Steady)), (&*expected, state));
    assert!(!report.advice.iter().any(|one| one.contains("maxReplicas")), "{report}");
    let raises_maximum = |change: &Change| matches!(change.trigger, Trigger::MaxReplicas { .. });
    assert!(!report.changes.iter().any(raises_maximum), "{report}");
}

/// Stabilization would hold the same replicas.
#[test]
fn schedule_of_a_minimum_is_named_although_stabilization_holds() {
    let mut inputs = inputs_at(200, json!({}), &[("AbleToScale", "True", "ScaleDownStabilized")]);
    let bounds = json!([{ "start": "00:00", "end": "12:00", "minReplicas": 4 }]);
    let annotations = &mut inputs.hpa.metadata.annotations;
    annotations.insert("autoscaling.hpa-rs.dev/bounds".into(), bounds.to_string());
    resolve_settings(&mut inputs);
    inputs.history = Some(history_with(4, 60));
    let sentence = inputs.report().sentence;
    let named = "; minReplicas is 4, metrics ask for 2; bounds: 4 to 10 replicas until ";
    assert!(sentence.contains(named), "{sentence}");
}

#[test]
fn maximum_below_a_past_recommendation_is_named_although_the_metrics_ask_for_it() {
    let mut inputs = inputs(json!({ "maxReplicas": 4 }));
    inputs.history = Some(history_with(9, 60));
    let expected = "stays at 4: cpu is at 71% of requests, target 66%; within tolerance; \
                    stabilization keeps a recommendation of 9 for another 4:00, maxReplicas is 4";
    assert_eq!(inputs.report().sentence, expected);
}

#[test]
fn unknown_history_is_reported_and_does_not_stabilize() {
    let mut inputs = inputs(json!({}));
    inputs.readings = [(0, Ok(samples(&[("web-0", 10)])))].into_iter().collect();
    inputs.selected = SelectedPods::new([pod("web-0", "Running", Some("600m"))]);
    inputs.history = None;
    let report = inputs.report();
    assert_eq!((report.scale_to, report.history_known), (Some(2), false));
    assert_eq!(
        report.sentence,
        "would scale from 4 to 2: cpu is at 1% of requests, target 66%; minReplicas is 2, metrics \
         ask for 1; the controller last reported ScaleDownStabilized"
    );
    assert_contains(&report, "\nWhat would change it, unless the history prevents it\n");
    let idle = inputs.report_with_doubt(Some("no controller runs".to_owned()));
    let end = "ask for 1; a stabilization window of 300s may hold it or raise the replicas; no \
               controller runs";
    assert!(idle.sentence.ends_with(end), "{}", idle.sentence);
    assert_contains(&report, "past recommendations are not known");
    assert_contains(&report, "It reports ScaleDownStabilized");
}

#[test]
fn listed_scale_down_is_qualified_if_the_history_is_unknown() {
    let qualified = "\nWhat would change it, unless the history prevents it\n";
    let mut inputs = inputs(json!({}));
    let report = inputs.report();
    assert!(!report.to_string().contains(qualified), "{report}");
    inputs.history = None;
    assert_contains(&inputs.report(), qualified);
    inputs.hpa.spec.behavior =
        serde_json::from_value(json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } }))
            .unwrap();
    let report = inputs.report();
    assert!(!report.to_string().contains(qualified), "{report}");
}

#[rstest]
#[case::down_window(200, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")],
    "would scale from 4 to 2: ",
    "; a stabilization window of 300s may hold it or raise the replicas")]
#[case::up_without_window(900, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")],
    "scales from 4 to 8: ", "metrics ask for 10")]
#[case::up_window(
    900, json!({ "behavior": { "scaleUp": { "stabilizationWindowSeconds": 60 } } }),
    &[("AbleToScale", "True", "ReadyForNewScale")],
    "would scale from 4 to 8: ", "; a stabilization window of 60s may hold it")]
#[case::reported_limit(
    200, json!({}), &[("ScalingLimited", "True", "ScaleDownLimit")],
    "would scale from 4 to 2: ", "; the controller last reported ScaleDownLimit")]
#[case::limit_of_the_other_direction(
    900, json!({}), &[("AbleToScale", "True", "ScaleDownStabilized")],
    "scales from 4 to 8: ", "metrics ask for 10")]
#[case::failing_write(
    900, json!({}), &[("AbleToScale", "False", "FailedUpdateScale")],
    "would scale from 4 to 8: ", "; the controller last reported FailedUpdateScale")]
#[case::failing_write_before_the_window(
    200, json!({}), &[("AbleToScale", "False", "FailedUpdateScale")],
    "would scale from 4 to 2: ",
    "; a stabilization window of 300s may hold it or raise the replicas, and the controller last \
     reported FailedUpdateScale")]
#[case::failing_metric(
    200, json!({}), &[("ScalingActive", "False", "FailedGetResourceMetric")],
    "would scale from 4 to 2: ",
    "; the controller last reported FailedGetResourceMetric, and a stabilization window of 300s \
     may hold it or raise the replicas")]
#[case::failing_metric_and_old_limit(
    200, json!({}),
    &[
        ("ScalingActive", "False", "FailedGetResourceMetric"),
        ("ScalingLimited", "True", "ScaleDownLimit"),
    ],
    "would scale from 4 to 2: ",
    "; the controller last reported FailedGetResourceMetric, and a stabilization window of 300s \
     may hold it or raise the replicas")]
#[case::failing_scale(
    200, json!({}), &[("AbleToScale", "False", "FailedGetScale")],
    "would scale from 4 to 2: ",
    "; the controller last reported FailedGetScale, and a stabilization window of 300s may hold it \
     or raise the replicas")]
#[case::recovered_metric_without_window(
    900, json!({}), &[("ScalingActive", "False", "FailedGetResourceMetric")],
    "would scale from 4 to 8: ", "; the controller last reported FailedGetResourceMetric")]
#[case::no_controller(
    900, json!({}), &[], "would scale from 4 to 8: ", "; no controller has stored a status")]
fn sentence_is_conditional_if_scaling_may_be_prevented(
    #[case] milli: i64,
    #[case] spec: Value,
    #[case] conditions: &[(&str, &str, &str)],
    #[case] start: &str,
    #[case] end: &str,
) {
    let mut inputs = inputs_at(milli, spec, conditions);
    let report = inputs.report();
    let Report { sentence, doubt, .. } = &report;
    assert!(sentence.starts_with(start) && sentence.ends_with(end), "{sentence}");
    assert_eq!(doubt.is_some(), start.starts_with("would"), "{sentence}");
    let failed = conditions.iter().filter(|(_, status, _)| *status == "False");
    let (failed_writes, failed_reads): (Vec<&(&str, &str, &str)>, Vec<_>) =
        failed.partition(|(.., reason)| *reason == "FailedUpdateScale");
    let scales_up = start.ends_with("to 8: ");
    inputs.history = Some(History::default());
    // Stabilization holds a scale-down, as on the controller's first reconcile.
    let is_doubtful = !failed_reads.is_empty() || !failed_writes.is_empty() && scales_up;
    assert_eq!(inputs.report().doubt.is_some(), is_doubtful, "the history is known");
}

#[rstest]
#[case::scale_down(
    200, json!({}), &[], 4,
    "would scale from 4 to 2: ",
    "; a stabilization window of 300s may hold it or raise the replicas")]
#[case::scale_down_below_higher_desired_replicas(
    200, json!({}), &[], 8,
    "would scale from 4 to 2: ",
    "; a stabilization window of 300s may hold it or raise the replicas (the controller last \
     desired 8)")]
#[case::refused_write(
    200, json!({}), &[("AbleToScale", "False", "FailedUpdateScale")], 8,
    "would scale from 4 to 2: ",
    "; a stabilization window of 300s may hold it or raise the replicas (the controller last \
     desired 8), and the controller last reported FailedUpdateScale")]
#[case::reported_stabilization(
    200, json!({}), &[("AbleToScale", "True", "ScaleDownStabilized")], 8,
    "would scale from 4 to 2: ",
    "; the controller last reported ScaleDownStabilized, and stabilization may raise the replicas \
     (the controller last desired 8)")]
#[case::same_replicas(
    431, json!({}), &[], 8,
    "would stay at 4: ", "; stabilization may raise the replicas (the controller last desired 8)")]
#[case::scale_up_to_fewer(
    600, json!({}), &[], 8,
    "would scale from 4 to 7: ",
    "; stabilization may raise the replicas (the controller last desired 8)")]
#[case::scale_up_to_as_many(900, json!({}), &[], 8, "scales from 4 to 8: ", "ask for 10")]
#[case::at_the_maximum(
    200, json!({ "maxReplicas": 4 }), &[], 8,
    "would scale from 4 to 2: ", "; a stabilization window of 300s may hold it")]
#[case::behavior_only_holds(
    200, json!({ "behavior": {} }), &[], 8,
    "would scale from 4 to 2: ", "; a stabilization window of 300s may hold it")]
fn unknown_recommendations_may_raise_the_replicas(
    #[case] milli: i64,
    #[case] spec: Value,
    #[case] conditions: &[(&str, &str, &str)],
    #[case] last_desired: i32,
    #[case] start: &str,
    #[case] end: &str,
) {
    let active = [("ScalingActive", "True", "ValidMetricFound")];
    let conditions = [active.as_slice(), conditions].concat();
    let mut inputs = inputs_at(milli, spec, &conditions);
    inputs.hpa.status.desired_replicas = last_desired;
    let Report { sentence, .. } = inputs.report();
    assert!(sentence.starts_with(start) && sentence.ends_with(end), "{sentence}");
}

#[test]
fn cause_of_a_failed_write_is_in_the_first_line() {
    let mut inputs = inputs_at(900, json!({}), &[("AbleToScale", "False", "FailedUpdateScale")]);
    inputs.hpa.status.conditions[0].message = "the HPA controller was unable to update the target \
        scale: admission webhook \"w\" denied the request: a\nb"
        .into();
    let report = inputs.report();
    let mut in_dry_run = inputs.clone();
    in_dry_run.settings.dry_run = true;
    let sentence = in_dry_run.report().sentence;
    assert!(!sentence.contains("could not write"), "{sentence}");
    let end = "; the controller could not write the scale: admission webhook \"w\" denied the \
               request: a\\nb";
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    let cause = "denied the request: a\\nb. An admission webhook";
    assert!(report.advice.iter().any(|one| one.contains(cause)), "{report}");
}

#[test]
fn fallback_that_may_apply_soon_is_in_the_first_line() {
    let mut inputs = inputs_with_unreadable_metric("False");
    inputs.hpa.status.current_metrics.clear();
    inputs.hpa.status.conditions =
        conditions_of(&[("ScalingActive", "False", "FailedGetExternalMetric")]);
    let fallback = json!({ "replicas": 9, "failureDurationSeconds": 30 });
    let fallback = serde_json::from_value(fallback).unwrap();
    let metric = MetricSettings { fallback: Some(fallback), ..MetricSettings::default() };
    inputs.settings.metrics = Some([metric].into());
    inputs.history = None;
    let sentence = inputs.report().sentence;
    let end = "; the fallback of queue proposes 9 replicas once it has failed for 30s";
    assert!(sentence.ends_with(end), "{sentence}");
    inputs.history = Some(History::default());
    let sentence = inputs.report().sentence;
    assert!(!sentence.contains("once it has failed"), "{sentence}");
}

#[test]
fn recent_scaling_may_be_limited_by_policies() {
    let policies = json!([{ "type": "Pods", "value": 8, "periodSeconds": 60 }]);
    let spec = json!({ "behavior": { "scaleUp": { "policies": policies } } });
    let mut inputs = inputs_at(900, spec, &[("AbleToScale", "True", "ReadyForNewScale")]);
    inputs.hpa.status.last_scale_time = Some(seconds_ago(60));
    assert_eq!(inputs.report().doubt, None, "the period has ended");
    inputs.hpa.status.last_scale_time = Some(seconds_ago(59));
    let report = inputs.report();
    let doubt = "policies may hold it after the last scaling";
    assert_eq!(report.doubt, Some(format!("{doubt} (59s ago)")));
    assert!(report.sentence_without_durations().ends_with(doubt), "{}", report.sentence);
}

#[test]
fn policy_limit_reports_when_the_next_step_is_allowed() {
    let policies = json!([{ "type": "Pods", "value": 1, "periodSeconds": 60 }]);
    let mut inputs = inputs(json!({ "behavior": { "scaleUp": { "policies": policies } } }));
    inputs.readings = [(0, Ok(equal_samples(900)))].into_iter().collect();
    let event = ScaleEvent { change: 1, at: seconds_ago(20), outdated: false };
    inputs.history = Some(History { scale_ups: vec![event], ..History::default() });
    let report = inputs.report();
    assert_eq!((report.scale_to, report.proposed_replicas), (None, Some(10)));
    let policy = &report.limits.as_ref().unwrap().scale_up.policies[0];
    assert_eq!((policy.replicas_at_start, policy.allowed_replicas), (3, 4));
    assert_eq!(policy.next_change_at, Some(seconds_ago(-40)));
    let change = &report.changes[0];
    assert_eq!((&change.trigger, change.replicas), (&Trigger::Time { at: seconds_ago(-40) }, 5));
}
