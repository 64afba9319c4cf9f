use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::snapshot::*;
use hpa_calc::{
    api::{HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus},
    history::{History, Recommendation, ScaleEvent},
    settings::Settings,
};
use jiff::{SignedDuration, Timestamp};

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

fn recommended(points: &[(i32, i64)]) -> History {
    let recommendation =
        |(replicas, second): &(i32, i64)| Recommendation { replicas: *replicas, at: at(*second) };
    History { recommendations: points.iter().map(recommendation).collect(), ..History::default() }
}

fn event(change: i32, second: i64) -> ScaleEvent {
    ScaleEvent { change, at: at(second), outdated: false }
}

fn entry(history: &History, desired: i32, scaled: Option<i64>) -> HistorySnapshot {
    let (spec, status) = (spec(json!({})), status(desired, scaled));
    HistorySnapshot::of("shop/web".into(), &spec, &status, history, &Settings::default(), at(NOW))
}

fn restore(
    entry: &HistorySnapshot,
    status: &HorizontalPodAutoscalerStatus,
    held: i64,
    now: i64,
) -> History {
    entry.restore(&spec(json!({})), status, &Settings::default(), at(held), at(now))
}

// The window is 300 seconds.
#[rstest]
#[case::one(&[(5, 9_990)], &[(5, 9_990)])]
#[case::order_does_not_matter(&[(5, 9_990), (8, 9_900)], &[(8, 9_900), (5, 9_990)])]
#[case::the_later_of_equals(&[(5, 9_800), (5, 9_900), (5, 9_990)], &[(5, 9_990)])]
#[case::between_the_largest_and_the_smallest(&[(9, 9_800), (6, 9_810), (5, 9_820), (7, 9_990)],
    &[(9, 9_800), (5, 9_820), (7, 9_990)])]
#[case::overtaken_in_both_directions(&[(6, 9_800), (9, 9_900), (1, 9_990)], &[(9, 9_900), (1, 9_990)])]
#[case::at_the_edge_of_the_window(&[(9, 9_700), (5, 9_990)], &[(9, 9_700), (5, 9_990)])]
#[case::beyond_the_window(&[(9, 9_699), (5, 9_990)], &[(5, 9_990)])]
fn only_what_can_matter_is_kept(#[case] history: &[(i32, i64)], #[case] kept: &[(i32, i64)]) {
    let expected: Vec<Point> =
        kept.iter().map(|(replicas, second)| (*replicas, second * 1000)).collect();
    assert_eq!(entry(&recommended(history), 5, None).recommendations, expected);
}

#[rstest]
#[case::scale_up_window(json!({ "scaleUp": { "stabilizationWindowSeconds": 600 } }), 9_400)]
#[case::scale_down_window(json!({ "scaleDown": { "stabilizationWindowSeconds": 900 } }), 9_100)]
#[case::shorter_than_the_default(json!({ "scaleDown": { "stabilizationWindowSeconds": 60 } }), 9_940)]
#[case::default(Value::Null, 9_700)]
fn the_longest_window_counts(#[case] behavior: Value, #[case] cutoff: i64) {
    let (spec, status) = (spec(behavior), status(5, None));
    let history = recommended(&[(9, cutoff - 1), (8, cutoff), (5, 9_999)]);
    let entry =
        HistorySnapshot::of(String::new(), &spec, &status, &history, &Settings::default(), at(NOW));
    assert_eq!(entry.recommendations, [(8, cutoff * 1000), (5, 9_999_000)]);
}

#[test]
fn times_are_rounded_up() {
    let exact = at(9_990) + SignedDuration::from_nanos(1_000_001);
    let history = History {
        recommendations: vec![Recommendation { replicas: 5, at: exact }],
        ..History::default()
    };
    assert_eq!(entry(&history, 5, None).recommendations, [(5, 9_990_002)]);
}

#[test]
fn what_was_recommended_last_held_until_the_end_of_the_leader() {
    let kept = entry(&recommended(&[(8, 9_800), (5, 9_900)]), 8, None);
    assert_eq!(
        restore(&kept, &status(8, None), 10_050, 10_060),
        recommended(&[(8, 9_800), (5, 10_050)])
    );
    // That it held is known even if nothing else is young enough.
    assert_eq!(restore(&kept, &status(8, None), 20_000, 20_010), recommended(&[(5, 20_000)]));
}

#[test]
fn nothing_is_left_of_a_leader_that_ended_long_ago() {
    let mut history = recommended(&[(8, 9_800), (5, 9_900)]);
    history.scale_ups = vec![event(3, 9_800)];
    let kept = entry(&history, 8, None);
    assert_eq!(restore(&kept, &status(8, None), 10_000, 12_000), History::default());
}

#[test]
fn clock_that_was_ahead_makes_no_window_longer() {
    let mut history = recommended(&[(8, 9_800)]);
    history.scale_ups = vec![event(3, 9_990)];
    let restored = restore(&entry(&history, 8, None), &status(8, None), 9_999, 9_900);
    assert_eq!(restored.recommendations, recommended(&[(8, 9_900)]).recommendations);
    assert_eq!(restored.scale_ups, [event(3, 9_900)]);
}

#[test]
fn scaling_that_was_not_kept_is_told_by_the_status() {
    let kept = entry(&recommended(&[(5, 9_900)]), 5, Some(9_000));
    let up = restore(&kept, &status(9, Some(9_950)), 9_960, 9_970);
    assert_eq!(up.recommendations, recommended(&[(5, 9_900), (9, 9_960)]).recommendations);
    assert_eq!((up.scale_ups, up.scale_downs), (vec![event(4, 9_950)], vec![]));
    let down = restore(&kept, &status(3, Some(9_950)), 9_960, 9_970);
    assert_eq!(down.recommendations, recommended(&[(5, 9_960)]).recommendations);
    assert_eq!((down.scale_ups, down.scale_downs), (vec![], vec![event(2, 9_950)]));
    let none = restore(&kept, &status(9, Some(9_000)), 9_960, 9_970);
    assert_eq!(none, recommended(&[(5, 9_960)]));
}

#[test]
fn news_is_what_a_successor_could_not_know() {
    let kept = entry(&recommended(&[(8, 9_800), (5, 9_900)]), 8, Some(9_000));
    let news = |history: &[(i32, i64)], desired, scaled| {
        entry(&recommended(history), desired, Some(scaled)).is_news_after(&kept)
    };
    assert!(!news(&[(8, 9_800), (5, 9_900), (5, 9_915)], 8, 9_000), "it holds still");
    assert!(!news(&[(5, 9_915)], 8, 9_000), "the window went by");
    assert!(news(&[(8, 9_800), (5, 9_900), (6, 9_915)], 8, 9_000), "another recommendation");
    assert!(news(&[(8, 9_800), (5, 9_900)], 7, 9_000), "other replicas");
    assert!(news(&[(8, 9_800), (5, 9_900)], 8, 9_990), "scaled");
    let scaled =
        History { scale_downs: vec![event(1, 9_990)], ..recommended(&[(8, 9_800), (5, 9_900)]) };
    assert!(entry(&scaled, 8, Some(9_000)).is_news_after(&kept), "a scale event");
}

#[test]
fn kept_entry_is_bounded() {
    // A slope downwards, one upwards: each recommendation is the largest or the smallest of some window.
    let slope: Vec<(i32, i64)> = (0..290)
        .map(|second| (1000 - i32::try_from(second).expect("small"), 9_710 + second))
        .collect();
    let mut history = recommended(&slope);
    history.scale_downs = (0..500).map(|second| event(1, 9_400 + second)).collect();
    let kept = entry(&history, 500, None);
    assert!(kept.recommendations.len() <= 64 && kept.downs.len() <= 32, "{kept:?}");
    assert_eq!(kept.downs.iter().map(|(change, _)| change).sum::<i32>(), 500);
    assert!(serde_json::to_string(&kept).expect("JSON").len() < 4096);
}

fn extremes(history: &History, after: Timestamp) -> Option<(i32, i32)> {
    let recent =
        history.recommendations.iter().filter(|one| one.at > after).map(|one| one.replicas);
    Some((recent.clone().min()?, recent.max()?))
}

proptest! {
    /// Every window that ends now or later has the same extremes over what is kept; where steps had to be merged, wider
    /// ones: then it is scaled later, not earlier.
    #[test]
    fn windows_over_what_is_kept_are_those_over_all(
        points in prop::collection::vec((0..50, 9_701..10_000_i64), 1..80),
        cutoff in 9_700..10_000_i64,
    ) {
        let history = recommended(&points);
        let kept = entry(&history, 5, None);
        let (_, last) = kept.recommendations.last().copied().expect("one at least");
        let restored = restore(&kept, &status(5, None), last / 1000, NOW);
        let (all, kept) = (extremes(&history, at(cutoff)), extremes(&restored, at(cutoff)));
        match (all, kept) {
            (Some(all), Some(kept)) if points.len() <= 32 => prop_assert_eq!(all, kept),
            (Some(all), Some(kept)) => prop_assert!(kept.0 <= all.0 && kept.1 >= all.1, "{:?} {:?}", all, kept),
            (None, None) => {}
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
