use std::{sync::Arc, time::Duration};

use hpa_calc::{
    api::{
        ConditionReason, ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus,
        Scale,
    },
    decide::Decision,
    history::{History, Recommendation, ScaleEvent},
    plan::{Plan, SelectedPods},
    readings::Reading,
    settings::Settings,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Comparison, DecisionInputs, Record, Summary, Verdict, compare, compare_any, differences, found,
};
use crate::{
    cache::{Autoscalers, Origin},
    key::HpaKey,
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
    let scale =
        Scale { spec_replicas: replicas, status_replicas: replicas, selector: "app=web".into() };
    let plan = Plan::new(&hpa, Ok(scale), &settings, |_| SelectedPods::default());
    then(plan.decide(
        vec![Some(Ok(Reading::External(vec![jobs * 1000])))],
        History::default(),
        now(),
    ))
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
    let Comparison { conclusion, differences, same_metrics, .. } = compared(2, 5, &answer(2, 5));
    assert_eq!((differences, same_metrics), (vec![], true));
    assert_eq!(
        conclusion.history.scale_ups,
        [ScaleEvent { change: 3, at: now(), outdated: false }]
    );
}

#[test]
fn other_decision_is_told_and_the_scaling_that_was_done_counts() {
    let Comparison { conclusion, differences, same_metrics, .. } = compared(2, 7, &answer(2, 5));
    let told: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["desiredReplicas: ours 7, theirs 5"]);
    assert!(!same_metrics);
    assert_eq!(
        conclusion.history.scale_ups,
        [ScaleEvent { change: 3, at: now(), outdated: false }]
    );
    assert_eq!(
        conclusion.history.recommendations.last(),
        Some(&Recommendation { replicas: 7, at: now() })
    );
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
fn other_scaling_on_the_same_metrics_is_not_what_we_recommend() {
    let theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..answer(2, 5) };
    let found =
        decide(2, 5, |decision| compare_any(decision.clone(), [decision], &theirs, true, now()));
    assert_eq!((found.differences.len(), found.same_metrics), (1, true));
    assert_eq!(found.conclusion.history.recommendations.last().map(|last| last.replicas), Some(5));
}

/// The jobs as read now and in looks before; what is compared with the answer to these jobs.
fn compared_any(now_and_earlier: &[i64], theirs: i64) -> Comparison {
    let (hpa, settings, theirs) = (hpa(json!({})), Settings::default(), answer(2, theirs));
    let scale = Scale { spec_replicas: 2, status_replicas: 2, selector: "app=web".into() };
    let mut decisions = now_and_earlier.iter().map(|jobs| {
        let readings = vec![Some(Ok(Reading::External(vec![jobs * 1000])))];
        let grounds = DecisionInputs { selected: SelectedPods::default(), readings };
        grounds.decide(&hpa, Ok(scale.clone()), &settings, History::default(), now())
    });
    let decision = decisions.next().expect("what was read now");
    compare_any(decision, decisions, &theirs, true, now())
}

#[test]
fn decision_on_what_was_read_earlier_counts_if_it_is_the_same() {
    let recommended = |comparison: &Comparison| {
        comparison.conclusion.history.recommendations.last().map(|last| last.replicas)
    };
    let found = compared_any(&[7, 6, 5], 5);
    assert_eq!(
        (recommended(&found), found.differences, found.same_metrics),
        (Some(5), vec![], true)
    );
    // Both are bounded alike.
    let told = compared_any(&[20, 15], 15);
    assert_eq!((recommended(&told), told.differences, told.same_metrics), (Some(15), vec![], true));
    let untold = compared_any(&[20, 15], 17);
    assert_eq!(
        (recommended(&untold), untold.differences, untold.same_metrics),
        (Some(20), vec![], false)
    );
    let unseen = compared_any(&[7, 6, 5], 4);
    assert_eq!(
        (recommended(&unseen), unseen.differences.len(), unseen.same_metrics),
        (Some(4), 1, false)
    );
}

#[test]
fn zero_of_somebody_else_says_the_same_as_no_condition() {
    let with = |value: &str| {
        status(
            json!({ "conditions": [{ "type": "ScaledToZero", "status": value, "reason": value }] }),
        )
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
    // They read metrics that we have not seen: it has to hold in eight comparisons.
    for _ in 0..7 {
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
    let verdicts = [1, 1]
        .map(|minute| record.judge(&compared(2, 5, &theirs), &theirs, MINUTE * minute).verdict);
    assert_eq!(verdicts, [Verdict::Unsettled, Verdict::Different]);
}

#[test]
fn difference_under_a_policy_counts_the_fourth_time() {
    let mut record = record(false);
    let mut theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..answer(2, 5) };
    for condition in &mut theirs.conditions {
        if condition.condition_type == ConditionType::ScalingLimited {
            condition.reason = ConditionReason::ScaleUpLimit;
        }
    }
    let verdicts =
        [(); 4].map(|()| record.judge(&compared(2, 5, &theirs), &theirs, MINUTE).verdict);
    assert_eq!(
        verdicts,
        [Verdict::Unsettled, Verdict::Unsettled, Verdict::Unsettled, Verdict::Different]
    );
}

#[test]
fn what_the_last_looks_read_is_kept_while_the_same_is_asked() {
    let mut record = record(false);
    let read = |jobs: i64| {
        let readings = vec![Some(Ok(Reading::External(vec![jobs])))];
        Some(DecisionInputs { selected: SelectedPods::default(), readings })
    };
    let keep = |record: &mut Record, jobs: Option<i64>| -> Vec<_> {
        let earlier = record.keep(jobs.and_then(read));
        earlier.iter().map(|grounds| grounds.readings[0].clone()).collect()
    };
    let was = |jobs: &[i64]| -> Vec<_> {
        jobs.iter().map(|jobs| Some(Ok(Reading::External(vec![*jobs])))).collect()
    };
    assert_eq!(keep(&mut record, Some(1)), was(&[]));
    assert_eq!(keep(&mut record, Some(2)), was(&[1]));
    assert_eq!(keep(&mut record, Some(3)), was(&[2, 1]));
    assert_eq!(keep(&mut record, None), was(&[3, 2]));
    assert_eq!(keep(&mut record, Some(4)), was(&[3]), "nothing was read the last time");
    let mut changed = hpa(json!({}));
    changed.spec.max_replicas = 3;
    record.look(&Arc::new(changed));
    assert_eq!(keep(&mut record, Some(5)), was(&[]));
}

#[test]
fn difference_on_metrics_that_an_earlier_look_saw_counts_the_fourth_time() {
    let mut record = record(false);
    let theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..answer(2, 5) };
    let comparison = || {
        decide(2, 7, |decision| {
            decide(2, 5, |earlier| compare_any(decision, [earlier], &theirs, true, now()))
        })
    };
    let verdicts = [(); 4].map(|()| record.judge(&comparison(), &theirs, MINUTE).verdict);
    assert_eq!(
        verdicts,
        [Verdict::Unsettled, Verdict::Unsettled, Verdict::Unsettled, Verdict::Different]
    );
}

#[test]
fn nothing_counts_before_the_past_is_known() {
    let mut record = record(true);
    // A policy looks back for 90 seconds.
    for _ in 0..9 {
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
    assert_eq!(
        (look.is_answer, look.is_compared, look.before),
        (true, true, untouched.status.clone())
    );
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
        autoscalers.apply(&HpaKey::new("shop", name), hpa(json!({})), Origin::List);
    }
    let set = |name: &str, jobs: i64| {
        let mut record = record(false);
        for _ in 0..9 {
            judge(&mut record, jobs, 5, 1);
        }
        let known = autoscalers.get(&HpaKey::new("shop", name)).expect("it was applied");
        *known.shadow.lock() = Some(Box::new(record));
    };
    set("web", 7);
    set("api", 5);
    let summary = Summary::of(&autoscalers);
    assert_eq!((summary.autoscalers, summary.compared, summary.decisions), (3, 2, 18));
    assert_eq!((summary.different, summary.unsettled, summary.rows.len()), (2, 7, 1));
    let text = summary.to_string();
    assert!(
        text.starts_with("3 HPAs, 18 decisions, 2 differences\n1 HPAs were not compared"),
        "{text}"
    );
    assert!(
        text.contains(
            "\nshop/web: 2 of 9\n  desiredReplicas: ours 7, theirs 5\n  ours:   2 -> 7: "
        ),
        "{text}"
    );
    assert!(text.contains("\n  theirs: 2 -> 5; AbleToScale True SucceededRescale: "), "{text}");
}
