use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn spec(behavior: Value) -> HorizontalPodAutoscalerSpec {
    serde_json::from_value(json!({ "maxReplicas": 100, "behavior": behavior })).expect("a spec")
}

fn status(desired: i32, scaled: Option<i64>) -> HorizontalPodAutoscalerStatus {
    let last_scale_time = scaled.map(at);
    HorizontalPodAutoscalerStatus {
        desired_replicas: desired,
        last_scale_time,
        ..Default::default()
    }
}

fn history_with(points: &[(i32, i64)]) -> History {
    let recommendation =
        |(replicas, second): &(i32, i64)| Recommendation { replicas: *replicas, at: at(*second) };
    History { recommendations: points.iter().map(recommendation).collect(), ..History::default() }
}

fn event(change: i32, second: i64) -> ScaleEvent {
    ScaleEvent { change, at: at(second), outdated: false }
}

fn snapshot(history: &History, desired: i32, scaled: Option<i64>) -> HistorySnapshot {
    let (spec, status) = (spec(json!({})), status(desired, scaled));
    HistorySnapshot::new("shop/web".into(), &spec, &status, history, &Settings::default(), at(NOW))
}

fn restore(
    snapshot: &HistorySnapshot,
    status: &HorizontalPodAutoscalerStatus,
    valid_until: i64,
    now: i64,
) -> History {
    snapshot.restore(&spec(json!({})), status, &Settings::default(), at(valid_until), at(now))
}

// The window is 300 seconds.
#[rstest]
#[case::one(&[(5, 9_990)], &[(5, 9_990)])]
#[case::any_order(&[(5, 9_990), (8, 9_900)], &[(8, 9_900), (5, 9_990)])]
#[case::latest_of_equal_ones(&[(5, 9_800), (5, 9_900), (5, 9_990)], &[(5, 9_990)])]
#[case::not_between_the_largest_and_the_smallest(&[(9, 9_800), (6, 9_810), (5, 9_820), (7, 9_990)],
    &[(9, 9_800), (5, 9_820), (7, 9_990)])]
#[case::superseded_in_both_directions(
    &[(6, 9_800), (9, 9_900), (1, 9_990)],
    &[(9, 9_900), (1, 9_990)]
)]
#[case::at_the_edge_of_the_window(&[(9, 9_700), (5, 9_990)], &[(9, 9_700), (5, 9_990)])]
#[case::beyond_the_window(&[(9, 9_699), (5, 9_990)], &[(5, 9_990)])]
fn only_points_that_a_window_can_pick_are_stored(
    #[case] history: &[(i32, i64)],
    #[case] stored: &[(i32, i64)],
) {
    let expected: Vec<Point> =
        stored.iter().map(|(replicas, second)| (*replicas, second * 1000)).collect();
    assert_eq!(snapshot(&history_with(history), 5, None).recommendations, expected);
}

#[rstest]
#[case::scale_up_window(json!({ "scaleUp": { "stabilizationWindowSeconds": 600 } }), 9_400)]
#[case::scale_down_window(json!({ "scaleDown": { "stabilizationWindowSeconds": 900 } }), 9_100)]
#[case::shorter_than_the_default(
    json!({ "scaleDown": { "stabilizationWindowSeconds": 60 } }),
    9_940
)]
#[case::default(Value::Null, 9_700)]
fn points_of_the_longest_window_are_stored(#[case] behavior: Value, #[case] cutoff: i64) {
    let (spec, status) = (spec(behavior), status(5, None));
    let history = history_with(&[(9, cutoff - 1), (8, cutoff), (5, 9_999)]);
    let snapshot = HistorySnapshot::new(
        String::new(),
        &spec,
        &status,
        &history,
        &Settings::default(),
        at(NOW),
    );
    assert_eq!(snapshot.recommendations, [(8, cutoff * 1000), (5, 9_999_000)]);
}

#[test]
fn stored_times_are_rounded_up_to_milliseconds() {
    let exact = at(9_990) + SignedDuration::from_nanos(1_000_001);
    let history = History {
        recommendations: vec![Recommendation { replicas: 5, at: exact }],
        ..History::default()
    };
    assert_eq!(snapshot(&history, 5, None).recommendations, [(5, 9_990_002)]);
}

#[test]
fn last_recommendation_holds_until_the_end_of_the_last_leader() {
    let stored = snapshot(&history_with(&[(8, 9_800), (5, 9_900)]), 8, None);
    assert_eq!(
        restore(&stored, &status(8, None), 10_050, 10_060),
        history_with(&[(8, 9_800), (5, 10_050)])
    );
    // The last recommendation holds even if everything else is too old.
    assert_eq!(restore(&stored, &status(8, None), 20_000, 20_010), history_with(&[(5, 20_000)]));
}

#[test]
fn history_of_a_leader_that_ended_long_ago_is_empty() {
    let mut history = history_with(&[(8, 9_800), (5, 9_900)]);
    history.scale_ups = vec![event(3, 9_800)];
    let stored = snapshot(&history, 8, None);
    assert_eq!(restore(&stored, &status(8, None), 10_000, 12_000), History::default());
}

#[test]
fn times_in_the_future_do_not_extend_a_window() {
    let mut history = history_with(&[(8, 9_800)]);
    history.scale_ups = vec![event(3, 9_990)];
    let restored = restore(&snapshot(&history, 8, None), &status(8, None), 9_999, 9_900);
    assert_eq!(restored.recommendations, history_with(&[(8, 9_900)]).recommendations);
    assert_eq!(restored.scale_ups, [event(3, 9_900)]);
}

#[test]
fn scaling_that_was_not_stored_is_restored_from_the_status() {
    let stored = snapshot(&history_with(&[(5, 9_900)]), 5, Some(9_000));
    let up = restore(&stored, &status(9, Some(9_950)), 9_960, 9_970);
    assert_eq!(up.recommendations, history_with(&[(5, 9_900), (9, 9_960)]).recommendations);
    assert_eq!((up.scale_ups, up.scale_downs), (vec![event(4, 9_950)], vec![]));
    let down = restore(&stored, &status(3, Some(9_950)), 9_960, 9_970);
    assert_eq!(down.recommendations, history_with(&[(5, 9_960)]).recommendations);
    assert_eq!((down.scale_ups, down.scale_downs), (vec![], vec![event(2, 9_950)]));
    let none = restore(&stored, &status(9, Some(9_000)), 9_960, 9_970);
    assert_eq!(none, history_with(&[(5, 9_960)]));
}

#[test]
fn snapshot_is_replaced_only_if_the_successor_needs_the_change() {
    let stored = snapshot(&history_with(&[(8, 9_800), (5, 9_900)]), 8, Some(9_000));
    let must_replace = |history: &[(i32, i64)], desired, scaled| {
        snapshot(&history_with(history), desired, Some(scaled)).must_replace(&stored)
    };
    assert!(!must_replace(&[(8, 9_800), (5, 9_900), (5, 9_915)], 8, 9_000), "renewed");
    assert!(!must_replace(&[(5, 9_915)], 8, 9_000), "an old point dropped out");
    assert!(must_replace(&[(8, 9_800), (5, 9_900), (6, 9_915)], 8, 9_000), "new recommendation");
    assert!(must_replace(&[(8, 9_800), (5, 9_900)], 7, 9_000), "other replicas");
    assert!(must_replace(&[(8, 9_800), (5, 9_900)], 8, 9_990), "scaled");
    let scaled =
        History { scale_downs: vec![event(1, 9_990)], ..history_with(&[(8, 9_800), (5, 9_900)]) };
    assert!(snapshot(&scaled, 8, Some(9_000)).must_replace(&stored), "a scale event");
}

fn failing_metric(metric_hash: u64) -> FailingMetric {
    let (fallback_since, recovering_since) = (Some(at(9_960)), None);
    FailingMetric { metric_hash, since: at(9_900), fallback_since, recovering_since }
}

fn with_failures(count: u64) -> History {
    let failing_metrics = (0..count).map(failing_metric).collect();
    History { failing_metrics, ..history_with(&[(5, 9_990)]) }
}

#[test]
fn failing_metrics_are_restored() {
    let stored = snapshot(&with_failures(2), 5, None);
    assert_eq!(
        restore(&stored, &status(5, None), 10_050, 10_060).failing_metrics,
        [0, 1].map(failing_metric)
    );
    let clock_is_behind = restore(&stored, &status(5, None), 9_950, 9_950).failing_metrics;
    assert_eq!(clock_is_behind[0].fallback_since, Some(at(9_950)));
    let hour = 3600;
    let after =
        |gap: i64| restore(&stored, &status(5, None), 10_000, 10_000 + gap).failing_metrics.len();
    assert_eq!((after(hour), after(hour + 1)), (2, 0), "unknown for too long");
}

#[test]
fn wait_for_zero_is_restored() {
    let history = History { zero_since: Some(at(9_900)), ..history_with(&[(0, 9_990)]) };
    let stored = snapshot(&history, 1, None);
    assert!(stored.must_replace(&snapshot(&history_with(&[(0, 9_990)]), 1, None)));
    let zero_since = |now| restore(&stored, &status(1, None), 10_000, now).zero_since;
    assert_eq!(zero_since(10_060), Some(at(9_900)));
    assert_eq!(zero_since(9_800), Some(at(9_800)), "the clock is behind");
    assert_eq!(zero_since(10_000 + 3601), None, "unknown for too long");
}

#[test]
fn failing_metrics_are_limited_and_a_change_is_stored() {
    let stored = snapshot(&with_failures(100), 5, None);
    assert_eq!(stored.failing_metrics.len(), 32);
    assert!(stored.is_valid());
    assert!(snapshot(&with_failures(1), 5, None).must_replace(&snapshot(
        &with_failures(0),
        5,
        None
    )));
    assert!(!stored.must_replace(&stored.clone()));
}

#[test]
fn snapshots_of_other_versions_are_readable() {
    let older: HistorySnapshot =
        serde_json::from_value(json!({ "hpa": "shop/web" })).expect("JSON");
    assert_eq!(older.failing_metrics, []);
    let newer = json!({ "hpa": "shop/web", "failing": [[1, 2, null, null]], "later": {} });
    assert_eq!(
        serde_json::from_value::<HistorySnapshot>(newer).expect("JSON").failing_metrics.len(),
        1
    );
    let without = serde_json::to_string(&snapshot(&with_failures(0), 5, None)).expect("JSON");
    assert!(!without.contains("failing"), "{without}");
}

#[test]
fn snapshot_has_a_maximum_size() {
    // Each recommendation is the largest of some window.
    let slope: Vec<(i32, i64)> = (0..290)
        .map(|second| (1000 - i32::try_from(second).expect("small"), 9_710 + second))
        .collect();
    let mut history = history_with(&slope);
    history.scale_downs = (0..500).map(|second| event(1, 9_400 + second)).collect();
    let stored = snapshot(&history, 500, None);
    assert!(stored.recommendations.len() <= 64 && stored.scale_downs.len() <= 32, "{stored:?}");
    assert_eq!(stored.scale_downs.iter().map(|(change, _)| change).sum::<i32>(), 500);
    assert!(serde_json::to_string(&stored).expect("JSON").len() < 4096);
}

fn extremes(history: &History, after: Timestamp) -> Option<(i32, i32)> {
    let recent =
        history.recommendations.iter().filter(|one| one.at > after).map(|one| one.replicas);
    Some((recent.clone().min()?, recent.max()?))
}

proptest! {
    /// Every window that ends now or later has the same extremes over the restored history. If
    /// points were merged, they are wider: the target is scaled later, not earlier.
    #[test]
    fn windows_have_the_same_extremes_after_a_restore(
        points in prop::collection::vec((0..50, 9_701..10_000_i64), 1..80),
        cutoff in 9_700..10_000_i64,
    ) {
        let history = history_with(&points);
        let stored = snapshot(&history, 5, None);
        let (_, last) = stored.recommendations.last().copied().expect("at least one");
        let restored = restore(&stored, &status(5, None), last / 1000, NOW);
        let (all, restored) = (extremes(&history, at(cutoff)), extremes(&restored, at(cutoff)));
        match (all, restored) {
            (Some(all), Some(restored)) if points.len() <= 32 => prop_assert_eq!(all, restored),
            (Some(all), Some(restored)) => {
                let is_wider = restored.0 <= all.0 && restored.1 >= all.1;
                prop_assert!(is_wider, "{:?} {:?}", all, restored);
            }
            (None, None) => {}
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
