use std::{sync::Arc, time::Duration};

use hpa_calc::{
    api::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, Scale},
    decide::Decision,
    history::{History, Recommendation, ScaleEvent},
    plan::{Plan, SelectedPods},
    readings::Reading,
    settings::Settings,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Comparison, Record, Summary, Verdict, compare, differences, found};
use crate::{
    autoscalers::{Autoscalers, Seen},
    selectors::HpaKey,
};

const MINUTE: Duration = Duration::from_secs(60);

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().expect("a time")
}

fn status(value: Value) -> HorizontalPodAutoscalerStatus {
    serde_json::from_value(value).expect("a status")
}

/// An autoscaler that adds a replica for each job, and has a policy.
fn hpa(status: Value) -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "a", "resourceVersion": "1" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 10,
            "metrics": [{ "type": "External", "external": { "metric": { "name": "jobs" },
                "target": { "type": "AverageValue", "averageValue": "1" } } }],
            "behavior": { "scaleUp": { "stabilizationWindowSeconds": 0, "selectPolicy": "Max",
                    "policies": [{ "type": "Pods", "value": 9, "periodSeconds": 90 }] },
                "scaleDown": { "stabilizationWindowSeconds": 30, "selectPolicy": "Max",
                    "policies": [{ "type": "Percent", "value": 100, "periodSeconds": 15 }] } },
        },
        "status": status,
    }))
    .expect("an autoscaler")
}

/// A decision on this many jobs with this many replicas.
fn decide<T>(replicas: i32, jobs: i64, then: impl FnOnce(Decision<'_>) -> T) -> T {
    let (hpa, settings) = (hpa(json!({})), Settings::default());
    let scale = Scale { spec_replicas: replicas, status_replicas: replicas, selector: "app=web".into() };
    let plan = Plan::new(&hpa, Ok(scale), &settings, |_| SelectedPods::default());
    then(plan.decide(vec![Some(Ok(Reading::External(vec![jobs * 1000])))], History::default(), now()))
}

fn compared(replicas: i32, jobs: i64, theirs: &HorizontalPodAutoscalerStatus) -> Comparison {
    decide(replicas, jobs, |decision| compare(decision, theirs, true, now()))
}

/// What the other controller writes that decides as we do, with this many replicas and jobs.
fn answer(replicas: i32, jobs: i64) -> HorizontalPodAutoscalerStatus {
    decide(replicas, jobs, |decision| decision.conclude(Ok(()), now()).status)
}

#[test]
fn same_decision_has_no_differences_and_its_scaling_counts() {
    let Comparison { conclusion, differences, same_metrics } = compared(2, 5, &answer(2, 5));
    assert_eq!((differences, same_metrics), (vec![], true));
    assert_eq!(conclusion.history.scale_ups, [ScaleEvent { change: 3, at: now(), outdated: false }]);
}

#[test]
fn other_decision_is_told_and_the_scaling_that_was_done_counts() {
    let Comparison { conclusion, differences, same_metrics } = compared(2, 7, &answer(2, 5));
    let told: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["desiredReplicas: ours 7, theirs 5"]);
    assert!(!same_metrics);
    assert_eq!(conclusion.history.scale_ups, [ScaleEvent { change: 3, at: now(), outdated: false }]);
    assert_eq!(conclusion.history.recommendations.last(), Some(&Recommendation { replicas: 7, at: now() }));
}

#[test]
fn scaling_that_was_not_done_is_no_scale_event() {
    let Comparison { conclusion, differences, .. } = compared(2, 5, &answer(2, 2));
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert_eq!(conclusion.history.scale_ups, []);
}

#[test]
fn refused_write_of_theirs_is_none_of_ours() {
    let theirs = decide(2, 5, |decision| decision.conclude(Err("no".into()), now()).status);
    let Comparison { conclusion, differences, .. } = compared(2, 5, &theirs);
    assert_eq!((differences, conclusion.history.scale_ups), (vec![], vec![]));
}

#[test]
fn replicas_are_those_that_the_other_one_found() {
    let scale = Scale { spec_replicas: 5, status_replicas: 2, selector: "app=web".into() };
    assert_eq!(found(&answer(2, 5), scale.clone()).spec_replicas, 2);
    let unread = json!({ "conditions": [{ "type": "AbleToScale", "status": "False", "reason": "FailedGetScale" }],
        "currentReplicas": 3 });
    assert_eq!(found(&status(unread), scale).spec_replicas, 5);
}

#[test]
fn zero_of_somebody_else_says_the_same_as_no_condition() {
    let with = |value: &str| {
        status(json!({ "conditions": [{ "type": "ScaledToZero", "status": value, "reason": value }] }))
    };
    assert_eq!(differences(&with("False"), &status(json!({}))), []);
    assert_eq!(differences(&with("True"), &status(json!({}))).len(), 1);
}

/// A record of an autoscaler that is new to all, or older than us.
fn record(has_past: bool) -> Record {
    let past = if has_past { json!(answer(2, 2)) } else { json!({}) };
    Record::begin(Arc::new(hpa(past)), &Settings::default(), MINUTE)
}

fn judge(record: &mut Record, jobs: i64, theirs: i64, minute: u32) -> (Verdict, bool) {
    let theirs = answer(2, theirs);
    let judged = record.judge(&compared(2, jobs, &theirs), &theirs, MINUTE * minute);
    (judged.verdict, judged.is_news)
}

#[test]
fn difference_counts_where_it_holds() {
    use Verdict::{Different, Same, Unsettled};
    let mut record = record(false);
    // They read other metrics: it has to hold in four comparisons.
    for _ in 0..3 {
        assert_eq!(judge(&mut record, 7, 5, 1), (Unsettled, false));
    }
    assert_eq!(judge(&mut record, 7, 5, 1), (Different, true));
    assert_eq!(judge(&mut record, 7, 5, 1), (Different, false));
    assert_eq!(judge(&mut record, 5, 5, 1), (Same, true));
    assert_eq!(judge(&mut record, 5, 5, 1), (Same, false));
    assert_eq!(judge(&mut record, 7, 5, 1), (Unsettled, false));
}

#[test]
fn difference_on_the_same_metrics_counts_the_second_time() {
    let mut record = record(false);
    let theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..answer(2, 5) };
    let verdicts =
        [1, 1].map(|minute| record.judge(&compared(2, 5, &theirs), &theirs, MINUTE * minute).verdict);
    assert_eq!(verdicts, [Verdict::Unsettled, Verdict::Different]);
}

#[test]
fn nothing_counts_before_the_past_is_known() {
    let mut record = record(true);
    // A policy looks back for 90 seconds.
    for _ in 0..5 {
        assert_eq!(judge(&mut record, 7, 5, 2), (Verdict::Unsettled, false));
    }
    assert_eq!(judge(&mut record, 7, 5, 3), (Verdict::Different, true));
}

#[test]
fn what_the_other_one_has_not_answered_to_is_not_compared() {
    let begin = |status: Value| Record::begin(Arc::new(hpa(status)), &Settings::default(), MINUTE);
    let untouched = Arc::new(hpa(json!({})));
    let mut record = begin(json!({}));
    assert!(record.look(&untouched).is_none(), "nobody decided on it yet");
    let answered = Arc::new(hpa(json!(answer(2, 5))));
    let look = record.look(&answered).expect("an answer");
    assert_eq!((look.is_answer, look.is_compared, look.before), (true, true, untouched.status.clone()));
    for is_compared in [false, true] {
        let look = record.look(&answered).expect("an answer");
        assert_eq!((look.is_answer, look.is_compared), (false, is_compared));
        assert_eq!(look.before, answered.status);
    }
    let mut changed = HorizontalPodAutoscaler::clone(&answered);
    changed.spec.max_replicas = 3;
    let changed = Arc::new(changed);
    assert!(record.look(&changed).is_none(), "the change is not answered to");
    for is_compared in [false, true] {
        assert_eq!(record.look(&changed).expect("it stays").is_compared, is_compared);
    }
}

#[test]
fn summary_names_who_differed() {
    let autoscalers = Autoscalers::default();
    for name in ["web", "api", "new"] {
        autoscalers.apply(&HpaKey::new("shop", name), hpa(json!({})), Seen::Listed);
    }
    let set = |name: &str, jobs: i64| {
        let mut record = record(false);
        for _ in 0..5 {
            judge(&mut record, jobs, 5, 1);
        }
        let known = autoscalers.get(&HpaKey::new("shop", name)).expect("it was applied");
        *known.shadow.lock() = Some(record);
    };
    set("web", 7);
    set("api", 5);
    let summary = Summary::of(&autoscalers);
    assert_eq!((summary.autoscalers, summary.compared, summary.decisions), (3, 2, 10));
    assert_eq!((summary.different, summary.unsettled, summary.rows.len()), (2, 3, 1));
    let text = summary.to_string();
    assert!(text.starts_with("3 HPAs, 10 decisions, 2 differences\n1 HPAs were not compared"), "{text}");
    assert!(
        text.contains("\nshop/web: 2 of 5\n  desiredReplicas: ours 7, theirs 5\n  ours:   2 -> 7: "),
        "{text}"
    );
    assert!(text.contains("\n  theirs: 2 -> 5; AbleToScale True SucceededRescale: "), "{text}");
}
