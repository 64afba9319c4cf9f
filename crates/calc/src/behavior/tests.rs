use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::history::ScaleEvent;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn effective(direction: Direction, rules: Option<&ScalingRules>) -> EffectiveRules<'_> {
    EffectiveRules { direction, rules, default_window: SignedDuration::ZERO, has_behavior: true }
}

fn limit(direction: Direction, rules: Value, current: i32, history: &History) -> i32 {
    let rules: Option<ScalingRules> = serde_json::from_value(rules).unwrap();
    effective(direction, rules.as_ref()).limit(current, history, at(1000))
}

fn policies(list: &[(&str, i32)], select: &str) -> Value {
    let policy = |(name, value): &(&str, i32)| {
        json!({
            "type": name,
            "value": value,
            "periodSeconds": 60,
        })
    };
    json!({ "selectPolicy": select, "policies": list.iter().map(policy).collect::<Vec<_>>() })
}

#[rstest]
#[case(0, 4)]
#[case(1, 4)]
#[case(2, 4)]
#[case(3, 6)]
#[case(i32::MAX, i32::MAX)]
fn limit_without_behavior_doubles_or_reaches_four(#[case] current: i32, #[case] expected: i32) {
    assert_eq!(scale_up_limit(current), expected);
}

#[rstest]
#[case::pods(&[("Pods", 4)], "Max", 10, 14)]
#[case::percent_is_float_arithmetic(&[("Percent", 10)], "Max", 100, 111)]
#[case::percent_rounds_up(&[("Percent", 50)], "Max", 3, 5)]
#[case::percent_of_zero(&[("Percent", 900)], "Max", 0, 0)]
#[case::max_takes_the_largest_limit(&[("Pods", 4), ("Percent", 100), ("Pods", 1)], "Max", 3, 7)]
#[case::min_takes_the_smallest_limit(
    &[("Pods", 4), ("Percent", 100), ("Pods", 1)],
    "Min",
    3,
    4
)]
#[case::unknown_select_policy_is_max(&[("Pods", 4), ("Pods", 1)], "Newest", 3, 7)]
#[case::disabled(&[("Pods", 4)], "Disabled", 3, 3)]
#[case::unknown_type_repeats_the_previous_limit(&[("Pods", 1), ("Nodes", 9)], "Max", 3, 4)]
#[case::unknown_type_first(&[("Nodes", 9)], "Max", 3, 0)]
#[case::no_policy_allows_nothing(&[], "Max", 3, i32::MIN)]
#[case::no_policy_with_min(&[], "Min", 3, i32::MAX)]
#[case::pods_saturate(&[("Pods", i32::MAX)], "Max", i32::MAX, i32::MAX)]
#[case::percent_saturates(&[("Percent", i32::MAX)], "Max", i32::MAX, i32::MAX)]
fn selected_policy_limits_scaling_up(
    #[case] list: &[(&str, i32)],
    #[case] select: &str,
    #[case] current: i32,
    #[case] expected: i32,
) {
    assert_eq!(
        limit(Direction::Up, policies(list, select), current, &History::default()),
        expected
    );
}

#[rstest]
#[case::pods(&[("Pods", 4)], "Max", 10, 6)]
#[case::percent_is_float_arithmetic(&[("Percent", 80)], "Max", 10, 1)]
#[case::percent_truncates(&[("Percent", 50)], "Max", 3, 1)]
#[case::max_takes_the_smallest_limit(&[("Pods", 4), ("Percent", 10)], "Max", 10, 6)]
#[case::min_takes_the_largest_limit(&[("Pods", 4), ("Percent", 10)], "Min", 10, 9)]
#[case::disabled(&[("Pods", 4)], "Disabled", 3, 3)]
#[case::unknown_type_repeats_the_previous_limit(&[("Pods", 1), ("Nodes", 9)], "Max", 3, 2)]
#[case::no_policy_with_max(&[], "Max", 3, i32::MAX)]
#[case::no_policy_with_min(&[], "Min", 3, i32::MIN)]
#[case::below_zero(&[("Pods", i32::MAX)], "Max", 1, 1 - i32::MAX)]
#[case::percent_saturates(&[("Percent", i32::MAX)], "Max", i32::MAX, i32::MIN)]
fn selected_policy_limits_scaling_down(
    #[case] list: &[(&str, i32)],
    #[case] select: &str,
    #[case] current: i32,
    #[case] expected: i32,
) {
    assert_eq!(
        limit(Direction::Down, policies(list, select), current, &History::default()),
        expected
    );
}

#[rstest]
#[case::up_adds_four(Direction::Up, 3, 7)]
#[case::up_doubles(Direction::Up, 5, 10)]
#[case::down_removes_all(Direction::Down, 5, 0)]
fn default_policies_limit_each_direction(
    #[case] direction: Direction,
    #[case] current: i32,
    #[case] expected: i32,
    #[values(json!(null), json!({}), json!({ "selectPolicy": "Max" }))] rules: Value,
) {
    assert_eq!(limit(direction, rules, current, &History::default()), expected);
}

// At second 1000, a period of 60 seconds starts at second 940.
#[rstest]
#[case::outside(939, 12)]
#[case::at_the_edge(940, 12)]
#[case::just_inside(941, 9)]
fn period_excludes_its_start(#[case] second: i64, #[case] expected: i32) {
    let event = |change| vec![ScaleEvent { change, at: at(second), outdated: false }];
    let history = History { scale_ups: event(3), ..History::default() };
    assert_eq!(limit(Direction::Up, policies(&[("Pods", 2)], "Max"), 10, &history), expected);
    let history = History { scale_downs: event(3), ..History::default() };
    // Downward, the limit is 10 - 2 outside the period and 13 - 2 inside.
    assert_eq!(
        limit(Direction::Down, policies(&[("Pods", 2)], "Max"), 10, &history),
        20 - expected
    );
}

#[test]
fn replicas_at_period_start_saturate() {
    let event = ScaleEvent { change: i32::MAX, at: at(999), outdated: false };
    let history = History { scale_ups: vec![event; 3], ..History::default() };
    assert_eq!(limit(Direction::Up, policies(&[("Pods", 1)], "Max"), 1, &history), i32::MIN);
    assert_eq!(limit(Direction::Up, policies(&[("Percent", 100)], "Max"), 1, &history), i32::MIN);
    let history = History { scale_downs: vec![event; 3], ..History::default() };
    assert_eq!(limit(Direction::Down, policies(&[("Pods", 1)], "Max"), 1, &history), i32::MAX);
}

#[rstest]
#[case::defaults(json!({}), 15)]
#[case::longest(
    json!({ "policies": [{ "periodSeconds": 20 }, { "periodSeconds": 30 }, {}] }),
    30
)]
#[case::none(json!({ "policies": [] }), 0)]
#[case::negative(json!({ "policies": [{ "periodSeconds": -5 }] }), 0)]
fn longest_policy_period_is_the_maximum_or_zero(#[case] rules: Value, #[case] seconds: i64) {
    let rules: ScalingRules = serde_json::from_value(rules).unwrap();
    let rules = effective(Direction::Up, Some(&rules));
    assert_eq!(rules.longest_policy_period(), SignedDuration::from_secs(seconds));
}

fn spec(behavior: Value) -> HorizontalPodAutoscalerSpec {
    serde_json::from_value(json!({ "maxReplicas": 5, "behavior": behavior })).unwrap()
}

/// If `behavior` is set, the default window is truncated to whole seconds, as in the reference.
#[rstest]
#[case::none(json!(null), 0, 90_500, 0)]
#[case::empty(json!({}), 0, 90_000, 15)]
#[case::windows_and_periods(
    json!({
        "scaleUp": { "stabilizationWindowSeconds": 7 },
        "scaleDown": {
            "stabilizationWindowSeconds": 0,
            "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }],
        },
    }),
    7000,
    0,
    60,
)]
fn unset_members_of_behavior_get_their_defaults(
    #[case] behavior: Value,
    #[case] up_milliseconds: i64,
    #[case] down_milliseconds: i64,
    #[case] period_seconds: i64,
) {
    let window = SignedDuration::from_millis(90_500);
    let settings = Settings::default().with(|settings| settings.downscale_stabilization = window);
    let (spec, is_set) = (spec(behavior.clone()), !behavior.is_null());
    let behavior = EffectiveBehavior::new(&spec, &settings);
    let up = SignedDuration::from_millis(up_milliseconds);
    let down = SignedDuration::from_millis(down_milliseconds);
    assert_eq!(behavior.is_set(), is_set);
    assert_eq!(behavior.up().stabilization_window(), up);
    assert_eq!(behavior.down().stabilization_window(), down);
    assert_eq!(behavior.longest_stabilization_window(), up.max(down));
    let period = SignedDuration::from_secs(period_seconds);
    assert_eq!(behavior.longest_policy_period(), period);
}
