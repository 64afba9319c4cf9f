use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 10_000;

fn at(milliseconds_ago: i64) -> Timestamp {
    Timestamp::from_millisecond(NOW * 1000 - milliseconds_ago).unwrap()
}

fn recommended(recommendations: &[(i32, i64)]) -> History {
    let recommendation =
        |(replicas, ago): &(i32, i64)| Recommendation { replicas: *replicas, at: at(*ago) };
    History {
        recommendations: recommendations.iter().map(recommendation).collect(),
        ..History::default()
    }
}

fn normalize(
    spec: Value,
    settings: Settings,
    current: i32,
    proposed: i32,
    history: &mut History,
) -> NormalizedReplicas {
    let spec = serde_json::from_value(spec).unwrap();
    let bounds = Bounds::of_spec(&spec);
    NormalizeInput { spec: &spec, settings: &settings, bounds, current, now: at(0) }
        .normalize(proposed, history)
}

/// A spec without stabilization, and with the policy of two pods in both directions.
fn spec_with_policies() -> Value {
    let rules = json!({
        "stabilizationWindowSeconds": 0,
        "policies": [{ "type": "Pods", "value": 2, "periodSeconds": 15 }],
    });
    let behavior = json!({ "scaleUp": rules, "scaleDown": rules });
    json!({ "minReplicas": 3, "maxReplicas": 20, "behavior": behavior })
}

fn outcome(normalized: &NormalizedReplicas) -> (i32, i32, Option<&str>, &str) {
    let stabilization = normalized.stabilization.as_ref().map(ConditionReason::as_str);
    (normalized.stabilized, normalized.replicas, stabilization, normalized.limit.as_str())
}

fn downscale_stabilization(milliseconds: i64) -> Settings {
    let downscale_stabilization = SignedDuration::from_millis(milliseconds);
    Settings::default().with(|settings| settings.downscale_stabilization = downscale_stabilization)
}

const DOWN: Option<&str> = Some("ScaleDownStabilized");
const UP: Option<&str> = Some("ScaleUpStabilized");

// Without behavior, the window of 5 minutes includes its start.
#[rstest]
#[case::inside(299_999, 8, DOWN, &[(8, 299_999), (5, 0)])]
#[case::at_the_cutoff(300_000, 8, DOWN, &[(8, 300_000), (5, 0)])]
#[case::outside(300_001, 5, None, &[(5, 0)])]
fn scale_down_is_stabilized_without_behavior(
    #[case] ago: i64,
    #[case] replicas: i32,
    #[case] stabilization: Option<&str>,
    #[case] after: &[(i32, i64)],
) {
    let mut history = recommended(&[(8, ago)]);
    let spec = json!({ "minReplicas": 1, "maxReplicas": 20 });
    let normalized = normalize(spec, Settings::default(), 10, 5, &mut history);
    assert_eq!(outcome(&normalized), (replicas, replicas, stabilization, "DesiredWithinRange"));
    assert_eq!(history, recommended(after));
}

#[rstest]
#[case::recommendation_of_now_blocks(0, 10, DOWN)]
#[case::earlier_recommendation_does_not_block(1, 5, None)]
fn zero_window_without_behavior_covers_now(
    #[case] ago: i64,
    #[case] replicas: i32,
    #[case] stabilization: Option<&str>,
) {
    let spec = json!({ "minReplicas": 1, "maxReplicas": 20 });
    let normalized =
        normalize(spec, downscale_stabilization(0), 10, 5, &mut recommended(&[(10, ago)]));
    assert_eq!(outcome(&normalized), (replicas, replicas, stabilization, "DesiredWithinRange"));
}

#[rstest]
#[case::within(5, 3, 8, 8, "DesiredWithinRange")]
#[case::at_the_rate(5, 3, 10, 10, "DesiredWithinRange")]
#[case::beyond_the_rate(5, 3, 11, 10, "ScaleUpLimit")]
#[case::rate_of_at_least_four(1, 1, 9, 4, "ScaleUpLimit")]
#[case::beyond_the_bound(15, 3, 21, 20, "TooManyReplicas")]
#[case::rate_and_bound_equal(10, 3, 21, 20, "TooManyReplicas")]
#[case::at_the_minimum(5, 3, 3, 3, "DesiredWithinRange")]
#[case::below_the_minimum(5, 3, 2, 3, "TooFewReplicas")]
#[case::largest_proposal(20, 3, i32::MAX, 20, "TooManyReplicas")]
fn rate_and_bounds_limit_without_behavior(
    #[case] current: i32,
    #[case] min: i32,
    #[case] proposed: i32,
    #[case] replicas: i32,
    #[case] reason: &str,
) {
    let spec = json!({ "minReplicas": min, "maxReplicas": 20 });
    let normalized = normalize(spec, Settings::default(), current, proposed, &mut recommended(&[]));
    assert_eq!(outcome(&normalized), (proposed, replicas, None, reason));
    assert_eq!(normalized.is_limited(), proposed != replicas);
}

// All metrics are below target, but the recent recommendation wins, as in the reference.
#[test]
fn recommendation_above_current_scales_up_without_behavior() {
    let spec = json!({ "minReplicas": 1, "maxReplicas": 20 });
    let normalized = normalize(spec, Settings::default(), 5, 3, &mut recommended(&[(8, 1)]));
    assert_eq!(outcome(&normalized), (8, 8, DOWN, "DesiredWithinRange"));
}

// With behavior, windows exclude their start.
#[rstest]
#[case::down_inside(
    json!({ "scaleDown": { "stabilizationWindowSeconds": 60 } }),
    10,
    5,
    (8, 59_999),
    8,
    DOWN
)]
#[case::down_at_the_cutoff(
    json!({ "scaleDown": { "stabilizationWindowSeconds": 60 } }),
    10,
    5,
    (8, 60_000),
    5,
    None
)]
#[case::down_limited_to_current(json!({}), 10, 5, (12, 1), 10, DOWN)]
#[case::down_default_inside(json!({}), 10, 5, (8, 299_999), 8, DOWN)]
#[case::down_default_at_the_cutoff(json!({}), 10, 5, (8, 300_000), 5, None)]
#[case::down_zero_excludes_now(
    json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } }),
    10,
    5,
    (8, 0),
    5,
    None
)]
#[case::up_inside(
    json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } }),
    10,
    15,
    (12, 59_999),
    12,
    UP
)]
#[case::up_at_the_cutoff(
    json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } }),
    10,
    15,
    (12, 60_000),
    15,
    None
)]
#[case::up_limited_to_current(
    json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } }),
    10,
    15,
    (7, 1),
    10,
    UP
)]
#[case::up_default_is_zero(json!({}), 10, 15, (12, 1), 15, None)]
fn windows_stabilize_with_behavior(
    #[case] behavior: Value,
    #[case] current: i32,
    #[case] proposed: i32,
    #[case] recommendation: (i32, i64),
    #[case] replicas: i32,
    #[case] stabilization: Option<&str>,
) {
    let spec = json!({ "minReplicas": 1, "maxReplicas": 20, "behavior": behavior });
    let normalized = normalize(
        spec,
        Settings::default(),
        current,
        proposed,
        &mut recommended(&[recommendation]),
    );
    assert_eq!(outcome(&normalized), (replicas, replicas, stabilization, "DesiredWithinRange"));
}

#[rstest]
#[case::inside(999, 8)]
#[case::fraction_is_truncated(1000, 5)]
#[case::between(1500, 5)]
fn default_window_is_in_whole_seconds_with_behavior(#[case] ago: i64, #[case] replicas: i32) {
    let spec = json!({ "minReplicas": 1, "maxReplicas": 20, "behavior": {} });
    let normalized =
        normalize(spec, downscale_stabilization(1999), 10, 5, &mut recommended(&[(8, ago)]));
    assert_eq!(normalized.replicas, replicas);
}

#[rstest]
#[case::outside_both(301_000, &[(5, 0)])]
#[case::at_the_longer_cutoff(300_000, &[(8, 300_000), (5, 0)])]
#[case::outside_one(61_000, &[(8, 61_000), (5, 0)])]
fn recommendation_outside_both_windows_is_replaced(#[case] ago: i64, #[case] after: &[(i32, i64)]) {
    let behavior = json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } });
    let spec = json!({ "minReplicas": 1, "maxReplicas": 20, "behavior": behavior });
    let mut history = recommended(&[(8, ago)]);
    normalize(spec, Settings::default(), 10, 5, &mut history);
    assert_eq!(history, recommended(after));
}

#[rstest]
#[case::up_at_the_rate(10, 12, 12, "DesiredWithinRange")]
#[case::up_beyond_the_rate(10, 13, 12, "ScaleUpLimit")]
#[case::up_rate_and_bound_equal(18, 21, 20, "TooManyReplicas")]
#[case::up_beyond_the_bound(19, 21, 20, "TooManyReplicas")]
#[case::stay(10, 10, 10, "DesiredWithinRange")]
#[case::down_at_the_rate(10, 8, 8, "DesiredWithinRange")]
#[case::down_beyond_the_rate(10, 7, 8, "ScaleDownLimit")]
#[case::down_rate_and_bound_equal(5, 2, 3, "TooFewReplicas")]
#[case::down_beyond_the_bound(4, 2, 3, "TooFewReplicas")]
fn rate_and_bounds_limit_with_behavior(
    #[case] current: i32,
    #[case] proposed: i32,
    #[case] replicas: i32,
    #[case] reason: &str,
) {
    let (spec, mut history) = (spec_with_policies(), History::default());
    let normalized = normalize(spec, Settings::default(), current, proposed, &mut history);
    assert_eq!(outcome(&normalized), (proposed, replicas, None, reason));
}

// An earlier scaling can exceed what the policies allow now. The policies don't reverse it.
#[rstest]
#[case::up(15, "ScaleUpLimit")]
#[case::down(5, "ScaleDownLimit")]
fn exceeded_policy_does_not_reverse_a_scaling(#[case] proposed: i32, #[case] reason: &str) {
    let event = vec![crate::history::ScaleEvent { change: 5, at: at(1), outdated: false }];
    let mut history = History::default();
    if proposed > 10 {
        history.scale_ups = event;
    } else {
        history.scale_downs = event;
    }
    let spec = spec_with_policies();
    let normalized = normalize(spec, Settings::default(), 10, proposed, &mut history);
    assert_eq!(outcome(&normalized), (proposed, 10, None, reason));
}
