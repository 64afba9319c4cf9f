use std::{sync::Arc, time::Duration};

use hpa_calc::{
    MilliValue, ScaleWriteError,
    api::{
        ConditionReason, ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus,
        Scale,
    },
    decide::Decision,
    history::{History, Recommendation, ScaleEvent},
    plan::{Plan, SelectedPods},
    readings::{Reading, Readings},
    settings::Settings,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    ComparisonResult::{Different, Same, Unsettled},
    *,
};
use crate::{k8s::StatusWrite, key::HpaKey};

const MINUTE: Duration = Duration::from_secs(60);

/// The readings of a reconcile that read this many jobs.
fn readings(jobs: i64) -> Readings {
    Readings::from_iter([(0, Ok(Reading::External(vec![MilliValue::from_units(jobs)].into())))])
}

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().expect("a time")
}

fn status(value: Value) -> HorizontalPodAutoscalerStatus {
    serde_json::from_value(value).expect("a status")
}

/// An autoscaler that asks for a replica per job, with windows and policies.
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

/// Calls `then` with the decision on this many jobs and current replicas.
fn decide<T>(replicas: i32, jobs: i64, then: impl FnOnce(Decision<'_>) -> T) -> T {
    let (hpa, settings) = (hpa(json!({})), Settings::default());
    let scale =
        Scale { spec_replicas: replicas, status_replicas: replicas, selector: "app=web".into() };
    let plan = Plan::new(&hpa, Ok(scale), &settings, |_| SelectedPods::default());
    then(plan.decide(readings(jobs), History::default(), now()))
}

/// A status that the peer has just written.
fn new_status(status: &HorizontalPodAutoscalerStatus) -> PeerStatus<'_> {
    PeerStatus { status, is_new: true }
}

/// Our decision compared with a status that the peer has just written.
fn compare_with(replicas: i32, jobs: i64, peer: &HorizontalPodAutoscalerStatus) -> Comparison {
    decide(replicas, jobs, |decision| compare(decision, new_status(peer), now()))
}

/// The status of a peer that decides like this controller on these current replicas and jobs.
fn peer_status(replicas: i32, jobs: i64) -> HorizontalPodAutoscalerStatus {
    decide(replicas, jobs, |decision| decision.conclude(Ok(()), now()).status)
}

#[test]
fn same_decision_has_no_differences_and_adds_a_scale_event() {
    let Comparison { conclusion, differences, has_same_metrics, .. } =
        compare_with(2, 5, &peer_status(2, 5));
    assert_eq!((differences, has_same_metrics), (vec![], true));
    assert_eq!(
        conclusion.history.scale_ups,
        [ScaleEvent { change: 3, at: now(), outdated: false }]
    );
}

#[test]
fn different_decision_is_reported_and_adds_the_scale_event_of_the_peer() {
    let Comparison { conclusion, differences, has_same_metrics, .. } =
        compare_with(2, 7, &peer_status(2, 5));
    let texts: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["desiredReplicas: ours 7, theirs 5"]);
    assert!(!has_same_metrics);
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
fn scaling_that_the_peer_did_not_do_is_no_scale_event() {
    let Comparison { conclusion, differences, .. } = compare_with(2, 5, &peer_status(2, 2));
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert_eq!(conclusion.history.scale_ups, []);
}

#[test]
fn scale_write_that_the_peer_could_not_do_is_no_scale_event() {
    let theirs = decide(2, 5, |decision| {
        decision.conclude(Err(ScaleWriteError::failed("no")), now()).status
    });
    let Comparison { conclusion, differences, .. } = compare_with(2, 5, &theirs);
    assert_eq!((differences, conclusion.history.scale_ups), (vec![], vec![]));
}

#[test]
fn scale_has_the_replicas_that_the_peer_read() {
    let scale = Scale { spec_replicas: 5, status_replicas: 2, selector: "app=web".into() };
    assert_eq!(scale_as_seen_by_peer(&peer_status(2, 5), scale.clone()).spec_replicas, 2);
    let failed = json!({ "type": "AbleToScale", "status": "False", "reason": "FailedGetScale" });
    let unread = status(json!({ "conditions": [failed], "currentReplicas": 3 }));
    assert_eq!(scale_as_seen_by_peer(&unread, scale).spec_replicas, 5);
}

#[test]
fn different_scaling_on_the_same_metrics_is_not_our_recommendation() {
    let theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..peer_status(2, 5) };
    let found = decide(2, 5, |decision| {
        compare_any(decision.clone(), [decision], new_status(&theirs), now())
    });
    assert_eq!((found.differences.len(), found.has_same_metrics), (1, true));
    assert_eq!(found.conclusion.history.recommendations.last().map(|last| last.replicas), Some(5));
}

/// Our decisions on the jobs read now and earlier, compared with the status of a peer that read
/// `peer_jobs`.
fn compare_any_with(now_and_earlier: &[i64], peer_jobs: i64) -> Comparison {
    let (hpa, settings, theirs) = (hpa(json!({})), Settings::default(), peer_status(2, peer_jobs));
    let scale = Scale { spec_replicas: 2, status_replicas: 2, selector: "app=web".into() };
    let mut decisions = now_and_earlier.iter().map(|jobs| {
        let inputs =
            DecisionInputs { selected: SelectedPods::default(), readings: readings(*jobs) };
        inputs.decide(&hpa, Ok(scale.clone()), &settings, History::default(), now())
    });
    let decision = decisions.next().expect("the decision on the jobs read now");
    compare_any(decision, decisions, new_status(&theirs), now())
}

#[test]
fn decision_on_earlier_inputs_counts_if_it_is_the_same() {
    let recommended = |comparison: &Comparison| {
        comparison.conclusion.history.recommendations.last().map(|last| last.replicas)
    };
    let found = compare_any_with(&[7, 6, 5], 5);
    assert_eq!(
        (recommended(&found), found.differences, found.has_same_metrics),
        (Some(5), vec![], true)
    );
    // The bounds make the decisions equal for all of these metric values.
    let seen = compare_any_with(&[20, 15], 15);
    assert_eq!(
        (recommended(&seen), seen.differences, seen.has_same_metrics),
        (Some(15), vec![], true)
    );
    let unseen = compare_any_with(&[20, 15], 17);
    assert_eq!(
        (recommended(&unseen), unseen.differences, unseen.has_same_metrics),
        (Some(20), vec![], false)
    );
    let different = compare_any_with(&[7, 6, 5], 4);
    assert_eq!(
        (recommended(&different), different.differences.len(), different.has_same_metrics),
        (Some(4), 1, false)
    );
}

/// Our comparison with a peer that scaled from 8 replicas. `readings` are those of our reconciles,
/// newest first.
fn compare_scaling_with(
    tolerance: f64,
    readings: [Readings; 2],
    theirs: &HorizontalPodAutoscalerStatus,
) -> Comparison {
    let hpa = hpa(json!({}));
    let settings = Settings::default().with(|settings| settings.tolerance = tolerance);
    let inputs = readings
        .map(|readings| Arc::new(DecisionInputs { selected: SelectedPods::default(), readings }));
    let scale = Scale { spec_replicas: 8, status_replicas: 8, selector: "app=web".into() };
    let decide = |inputs: &DecisionInputs, scale| {
        inputs.decide(&hpa, Ok(scale), &settings, History::default(), now())
    };
    let [latest, earlier] = inputs.each_ref().map(|inputs| decide(inputs, scale.clone()));
    let comparison = compare_any(latest, [earlier], new_status(theirs), now());
    compare_scaling(comparison, &inputs, &scale, new_status(theirs), now(), decide)
}

/// The readings of two reconciles that both read 8 jobs.
fn eight_jobs() -> [Readings; 2] {
    [(); 2].map(|()| readings(8))
}

#[test]
fn scaling_that_our_decision_does_not_reach_counts_at_once() {
    let theirs = peer_status(8, 9);
    let found = compare_scaling_with(0.3, eight_jobs(), &theirs);
    assert_eq!(found.scaling_difference, Some(ScalingDifference::Exceeding));
    assert_eq!(found.conclusion.explanation.desired_replicas, 8);
    let mut record = record(false);
    assert_eq!(record.evaluate(&found, &theirs, MINUTE).result, Different);
}

#[test]
fn scaling_is_the_same_on_the_metric_values_of_the_peer() {
    let found = compare_scaling_with(0.1, eight_jobs(), &peer_status(8, 9));
    assert_eq!((found.scaling_difference, found.differences), (None, vec![]));
}

#[test]
fn scaling_that_agrees_only_on_the_metrics_of_the_peer_ends_no_streak() {
    let mut record = record(false);
    for _ in 0..7 {
        assert_eq!(evaluate(&mut record, 7, 5, 1), (Unsettled, false));
    }
    let theirs = peer_status(8, 9);
    let found = compare_scaling_with(0.1, eight_jobs(), &theirs);
    assert_eq!(record.evaluate(&found, &theirs, MINUTE).result, Same);
    assert_eq!(evaluate(&mut record, 7, 5, 1), (Different, true));
    let evaluation = record.evaluate(&found, &theirs, MINUTE);
    assert_eq!((evaluation.result, evaluation.is_new), (Same, false));
}

#[test]
fn scaling_that_a_policy_of_the_peer_may_reduce_does_not_count_at_once() {
    let theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..peer_status(8, 10) };
    let found = compare_scaling_with(0.1, eight_jobs(), &theirs);
    assert_eq!(found.scaling_difference, None);
    assert!(!found.differences.is_empty());
}

#[test]
fn scaling_is_not_counted_but_reported_if_the_metrics_cannot_be_read_here() {
    let theirs = peer_status(8, 9);
    let found = compare_scaling_with(0.1, [(); 2].map(|()| Readings::new()), &theirs);
    assert_eq!(found.scaling_difference, Some(ScalingDifference::NotReproduced));
    let mut record = record(false);
    record.observe(&Arc::new(hpa(json!(theirs))));
    assert_eq!(record.evaluate(&found, &theirs, MINUTE).result, Unsettled);
    let mut summary = Summary::default();
    summary.add(HpaKey::new("shop", "web"), None, Some(&record), now());
    assert_eq!((summary.different_count, summary.uncounted_scaling_count()), (0, 1));
    let text = summary.to_string();
    let expected =
        "\nshop/web: 1 scaling of the peer not counted, the last one:\n  desiredReplicas: ";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn scaled_to_zero_false_equals_no_condition() {
    let with = |value: &str| {
        status(
            json!({ "conditions": [{ "type": "ScaledToZero", "status": value, "reason": value }] }),
        )
    };
    assert_eq!(differences(&with("False"), &status(json!({}))), []);
    assert_eq!(differences(&with("True"), &status(json!({}))).len(), 1);
}

/// The record of an autoscaler that is new, or older than this process.
fn record(has_past: bool) -> ShadowRecord {
    let past = if has_past { json!(peer_status(2, 2)) } else { json!({}) };
    ShadowRecord::new(Arc::new(hpa(past)), &Settings::default(), MINUTE)
}

fn evaluate(
    record: &mut ShadowRecord,
    jobs: i64,
    theirs: i64,
    minute: u32,
) -> (ComparisonResult, bool) {
    let theirs = peer_status(2, theirs);
    let evaluation = record.evaluate(&compare_with(2, jobs, &theirs), &theirs, MINUTE * minute);
    (evaluation.result, evaluation.is_new)
}

#[test]
fn persistent_difference_counts() {
    let mut record = record(false);
    // The peer read metric values that we have not seen: eight comparisons are needed.
    for _ in 0..7 {
        assert_eq!(evaluate(&mut record, 7, 5, 1), (Unsettled, false));
    }
    assert_eq!(evaluate(&mut record, 7, 5, 1), (Different, true));
    assert_eq!(evaluate(&mut record, 7, 5, 1), (Different, false));
    assert_eq!(evaluate(&mut record, 5, 5, 1), (Same, true));
    assert_eq!(evaluate(&mut record, 5, 5, 1), (Same, false));
    assert_eq!(evaluate(&mut record, 7, 5, 1), (Unsettled, false));
}

#[test]
fn difference_on_the_same_metrics_counts_after_two_comparisons() {
    let mut record = record(false);
    let theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..peer_status(2, 5) };
    let results =
        [(); 2].map(|()| record.evaluate(&compare_with(2, 5, &theirs), &theirs, MINUTE).result);
    assert_eq!(results, [Unsettled, Different]);
}

#[test]
fn difference_under_a_policy_counts_after_four_comparisons() {
    let mut record = record(false);
    let mut theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..peer_status(2, 5) };
    for condition in &mut theirs.conditions {
        if condition.condition_type == ConditionType::ScalingLimited {
            condition.reason = ConditionReason::ScaleUpLimit;
        }
    }
    let results =
        [(); 4].map(|()| record.evaluate(&compare_with(2, 5, &theirs), &theirs, MINUTE).result);
    assert_eq!(results, [Unsettled, Unsettled, Unsettled, Different]);
}

#[test]
fn last_inputs_are_kept_until_the_spec_changes() {
    let mut record = record(false);
    let inputs = |jobs: i64| {
        Arc::new(DecisionInputs { selected: SelectedPods::default(), readings: readings(jobs) })
    };
    let add = |record: &mut ShadowRecord, jobs: Option<i64>| -> Vec<_> {
        let earlier = record.add_inputs(jobs.map(inputs));
        earlier.iter().map(|inputs| inputs.readings.get(0).cloned()).collect()
    };
    let of_jobs = |all: &[i64]| -> Vec<_> {
        all.iter().map(|jobs| readings(*jobs).get(0).cloned()).collect()
    };
    assert_eq!(add(&mut record, Some(1)), of_jobs(&[]));
    assert_eq!(add(&mut record, Some(2)), of_jobs(&[1]));
    assert_eq!(add(&mut record, Some(3)), of_jobs(&[2, 1]));
    assert_eq!(add(&mut record, None), of_jobs(&[3, 2]));
    assert_eq!(add(&mut record, Some(4)), of_jobs(&[3]), "the last reconcile read nothing");
    let mut changed = hpa(json!({}));
    changed.spec.max_replicas = 3;
    record.observe(&Arc::new(changed));
    assert_eq!(add(&mut record, Some(5)), of_jobs(&[]));
}

#[test]
fn difference_on_earlier_metrics_counts_after_four_comparisons() {
    let mut record = record(false);
    let theirs = HorizontalPodAutoscalerStatus { desired_replicas: 9, ..peer_status(2, 5) };
    let comparison = || {
        decide(2, 7, |decision| {
            decide(2, 5, |earlier| compare_any(decision, [earlier], new_status(&theirs), now()))
        })
    };
    let results = [(); 4].map(|()| record.evaluate(&comparison(), &theirs, MINUTE).result);
    assert_eq!(results, [Unsettled, Unsettled, Unsettled, Different]);
}

#[test]
fn difference_does_not_count_before_the_past_is_known() {
    let mut record = record(true);
    // The longest policy period is 90 seconds.
    for _ in 0..9 {
        assert_eq!(evaluate(&mut record, 7, 5, 2), (Unsettled, false));
    }
    assert_eq!(evaluate(&mut record, 7, 5, 3), (Different, true));
}

#[test]
fn status_is_compared_once_the_peer_has_written_it() {
    let untouched = Arc::new(hpa(json!({})));
    let mut record = record(false);
    assert!(record.observe(&untouched).is_none(), "no controller has decided on it");
    let decided = Arc::new(hpa(json!(peer_status(2, 5))));
    let observation = record.observe(&decided).expect("a status to compare with");
    assert_eq!(
        (observation.is_new_status, observation.is_compared, observation.previous_status),
        (true, true, untouched.status.clone())
    );
    for is_compared in [false, true] {
        let observation = record.observe(&decided).expect("a status to compare with");
        assert_eq!((observation.is_new_status, observation.is_compared), (false, is_compared));
        assert_eq!(observation.previous_status, decided.status);
    }
    let mut changed = HorizontalPodAutoscaler::clone(&decided);
    changed.spec.max_replicas = 3;
    let changed = Arc::new(changed);
    assert!(record.observe(&changed).is_none(), "the peer has not decided on the new spec");
    for is_compared in [false, true] {
        assert_eq!(record.observe(&changed).expect("an unchanged status").is_compared, is_compared);
    }
}

#[test]
fn summary_lists_the_autoscalers_with_differences() {
    let compared = |jobs: i64| {
        let mut record = record(false);
        record.observe(&Arc::new(hpa(json!(peer_status(2, 5)))));
        for _ in 0..9 {
            evaluate(&mut record, jobs, 5, 1);
        }
        record
    };
    let write = |manager: &str, age: i64| {
        let at = now() - SignedDuration::from_secs(age);
        Some(StatusWrite { manager: manager.into(), at })
    };
    let mut summary = Summary::default();
    let mut add = |name: &str, write: Option<StatusWrite>, record: Option<ShadowRecord>| {
        summary.add(HpaKey::new("shop", name), write, record.as_ref(), now());
    };
    add("api", write("kube-controller-manager", 7), Some(compared(5)));
    add("new", None, None);
    add("web", write("old", 100), Some(compared(7)));
    let Summary { autoscaler_count, compared_autoscaler_count, comparison_count, .. } = summary;
    assert_eq!((autoscaler_count, compared_autoscaler_count, comparison_count), (3, 2, 18));
    let differing_count = summary.differing_autoscalers.len();
    assert_eq!((summary.different_count, summary.unsettled_count, differing_count), (2, 7, 1));
    let text = summary.to_string();
    assert!(
        text.starts_with(
            "The peer (kube-controller-manager) last wrote a status 7s ago\n\
             1 autoscaler not compared: no status of the peer to compare with yet\n\
             7 decisions not counted: "
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "\nshop/web: 2 of 9\n  desiredReplicas: ours 7, theirs 5\n  ours:   2 -> 7; *external \
             metric jobs"
        ),
        "{text}"
    );
    assert!(text.contains("\n  theirs: 2 -> 5; AbleToScale True SucceededRescale: "), "{text}");
}

/// The summary of one autoscaler, which is older than this process, after this many minutes without
/// a difference. The peer's last recorded write was 250 s ago. If `is_active`, the peer wrote a
/// status during the comparison.
fn summary(is_active: bool, minutes: u32) -> Summary {
    let at = now() - SignedDuration::from_secs(250);
    let write = StatusWrite { manager: "k3s".into(), at };
    let mut record = record(true);
    let status = peer_status(2, if is_active { 5 } else { 2 });
    record.observe(&Arc::new(hpa(json!(status))));
    for minute in 1..=minutes {
        assert_eq!(evaluate(&mut record, 5, 5, minute).0, Same);
    }
    let mut summary = Summary::default();
    summary.add(HpaKey::new("shop", "web"), Some(write), Some(&record), now());
    summary
}

#[test]
fn comparison_with_an_inactive_peer_is_inconclusive() {
    let inactive = summary(false, 5);
    assert!(!inactive.is_conclusive());
    assert_eq!(
        inactive.to_string(),
        "The peer (k3s) wrote no status during the comparison, the last one 4m 10s ago: it may \
         have stopped\n"
    );
    let active = summary(true, 5);
    assert!(active.is_conclusive());
    assert_eq!(
        active.to_string(),
        "The peer (k3s) last wrote a status 4m 10s ago: it may have stopped\n"
    );
    let idle = Summary { peer_lease_holder: Some("cp-1".to_owned()), ..inactive.clone() };
    assert_eq!(
        idle.to_string(),
        "The peer (k3s) wrote no status during the comparison, the last one 4m 10s ago; cp-1 holds \
         its lease\n"
    );
    let write = inactive.last_peer_write.clone().map(|(write, _)| write);
    let last_peer_write = write.map(|write| (write, SignedDuration::ZERO));
    let recent = Summary { last_peer_write, ..inactive };
    assert!(!recent.peer_is_quiet());
    assert_eq!(
        recent.to_string(),
        "The peer (k3s) wrote no status during the comparison, the last one 0s ago\n"
    );
}

#[test]
fn comparison_shorter_than_the_windows_is_inconclusive() {
    // The record begins after one minute, and the longest policy period is 90 seconds.
    let short = summary(true, 2);
    assert!(!short.is_conclusive());
    let text = short.to_string();
    assert!(
        text.ends_with(
            "\n1 autoscaler could not show a difference: stabilization windows and policy periods \
             (up to 1m 30s) had not passed since the start (shop/web)\n"
        ),
        "{text}"
    );
    let names = (0..7).map(|index| HpaKey::new("shop", format!("web-{index}")));
    let several = Summary { inconclusive_autoscalers: names.collect(), ..short.clone() };
    let several = several.to_string();
    assert!(several.contains("\n7 autoscalers could not show a difference: "), "{several}");
    assert!(several.contains(" (shop/web-0, ") && several.contains(" and 2 more)\n"), "{several}");
    assert!(summary(true, 3).is_conclusive());
    let unsettled = Summary { unsettled_count: 1, ..short }.to_string();
    assert!(unsettled.contains("\n1 decision not counted: "), "{unsettled}");
}
