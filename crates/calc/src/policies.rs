//! How fast the replicas may change: scaling policies over their periods, and without `behavior` the fixed limit.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{Behavior, PolicySelect, PolicyType, ScalingPolicy, ScalingRules},
    history::{Direction, History},
    replicas::ceil_to_replicas,
};

/// Without `behavior` the replicas may at most double, or rise to this where that is more.
const SCALE_UP_LIMIT_MINIMUM: i32 = 4;

/// What a policy's value counts.
#[derive(Clone, Copy)]
enum Counts {
    Pods,
    Percent,
}

/// A scaling policy in force.
#[derive(Clone, Copy)]
struct Policy {
    /// `None` for a type that is not known.
    counts: Option<Counts>,
    value: i32,
    period_seconds: i32,
}

const DEFAULT_SCALE_UP: [Policy; 2] = [
    Policy { counts: Some(Counts::Pods), value: 4, period_seconds: 15 },
    Policy { counts: Some(Counts::Percent), value: 100, period_seconds: 15 },
];
const DEFAULT_SCALE_DOWN: [Policy; 1] =
    [Policy { counts: Some(Counts::Percent), value: 100, period_seconds: 15 }];

impl From<&ScalingPolicy> for Policy {
    fn from(policy: &ScalingPolicy) -> Self {
        let counts = match policy.policy_type {
            PolicyType::Pods => Some(Counts::Pods),
            PolicyType::Percent => Some(Counts::Percent),
            PolicyType::Other(_) => None,
        };
        Self { counts, value: policy.value, period_seconds: policy.period_seconds }
    }
}

/// The most replicas a step may reach without `behavior`.
pub(crate) fn scale_up_limit(current: i32) -> i32 {
    current.saturating_mul(2).max(SCALE_UP_LIMIT_MINIMUM)
}

/// The rules of one direction, with the API's defaults where a spec says nothing.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    direction: Direction,
    rules: Option<&'a ScalingRules>,
}

impl<'a> Rules<'a> {
    pub(crate) fn of(behavior: &'a Behavior, direction: Direction) -> Self {
        let rules = match direction {
            Direction::Up => behavior.scale_up.as_ref(),
            Direction::Down => behavior.scale_down.as_ref(),
        };
        Self { direction, rules }
    }

    /// The stabilization window; the default applies where the spec has none.
    pub(crate) fn stabilization_window(&self, default: SignedDuration) -> SignedDuration {
        let seconds = self.rules.and_then(|rules| rules.stabilization_window_seconds);
        seconds.map_or(default, |seconds| SignedDuration::from_secs(seconds.into()))
    }

    fn policies(&self) -> impl Iterator<Item = Policy> + 'a {
        let given = self.rules.and_then(|rules| rules.policies.as_deref());
        let defaults: &[Policy] = match (given, self.direction) {
            (Some(_), _) => &[],
            (None, Direction::Up) => &DEFAULT_SCALE_UP,
            (None, Direction::Down) => &DEFAULT_SCALE_DOWN,
        };
        given.unwrap_or_default().iter().map(Policy::from).chain(defaults.iter().copied())
    }

    fn select_policy(&self) -> &'a PolicySelect {
        self.rules.and_then(|rules| rules.select_policy.as_ref()).unwrap_or(&PolicySelect::Max)
    }

    /// The longest period of the policies.
    pub(crate) fn longest_period(&self) -> SignedDuration {
        let longest = self.policies().map(|policy| policy.period_seconds).max().unwrap_or(0);
        SignedDuration::from_secs(longest.max(0).into())
    }

    /// The most (scaling up) or fewest (scaling down) replicas that the policies permit now.
    ///
    /// Each policy counts from the replicas at the start of its period, which is the current ones less the net
    /// change since. `Disabled` permits no change. Percentages are float arithmetic, rounded up when scaling up and
    /// truncated when scaling down. (KEP-853)
    pub(crate) fn limit(&self, current: i32, history: &History, now: Timestamp) -> i32 {
        let select = self.select_policy();
        if *select == PolicySelect::Disabled {
            return current;
        }
        // The largest change is the most replicas upward and the fewest downward.
        let take_largest = (self.direction == Direction::Up) != (*select == PolicySelect::Min);
        let mut limit = if take_largest { i32::MIN } else { i32::MAX };
        let mut permitted = 0;
        for policy in self.policies() {
            let period = SignedDuration::from_secs(policy.period_seconds.into());
            let at_start = i64::from(current) - history.net_change(period, now);
            // A policy of a type that is not known repeats the one before, as in the reference.
            permitted = self.permitted(policy, at_start).unwrap_or(permitted);
            limit = if take_largest { limit.max(permitted) } else { limit.min(permitted) };
        }
        limit
    }

    fn permitted(&self, policy: Policy, at_start: i64) -> Option<i32> {
        let percent = f64::from(policy.value) / 100.0;
        match (policy.counts?, self.direction) {
            (Counts::Pods, Direction::Up) => Some(to_replicas(at_start + i64::from(policy.value))),
            (Counts::Pods, Direction::Down) => {
                Some(to_replicas(at_start - i64::from(policy.value)))
            }
            (Counts::Percent, Direction::Up) => {
                Some(ceil_to_replicas(at_start as f64 * (1.0 + percent)))
            }
            (Counts::Percent, Direction::Down) => {
                Some(ceil_to_replicas((at_start as f64 * (1.0 - percent)).trunc()))
            }
        }
    }
}

/// Replicas held within `i32`.
fn to_replicas(replicas: i64) -> i32 {
    i32::try_from(replicas).unwrap_or(if replicas < 0 { i32::MIN } else { i32::MAX })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::history::ScaleEvent;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn limit(direction: Direction, rules: Value, current: i32, history: &History) -> i32 {
        let rules: Option<ScalingRules> = serde_json::from_value(rules).unwrap();
        Rules { direction, rules: rules.as_ref() }.limit(current, history, at(1000))
    }

    fn policies(list: &[(&str, i32)], select: &str) -> Value {
        let policy = |(name, value): &(&str, i32)| json!({ "type": name, "value": value, "periodSeconds": 60 });
        json!({ "selectPolicy": select, "policies": list.iter().map(policy).collect::<Vec<_>>() })
    }

    #[rstest]
    #[case(0, 4)]
    #[case(1, 4)]
    #[case(2, 4)]
    #[case(3, 6)]
    #[case(i32::MAX, i32::MAX)]
    fn the_fixed_limit(#[case] current: i32, #[case] expected: i32) {
        assert_eq!(scale_up_limit(current), expected);
    }

    #[rstest]
    #[case::pods(&[("Pods", 4)], "Max", 10, 14)]
    #[case::percent_is_float_arithmetic(&[("Percent", 10)], "Max", 100, 111)]
    #[case::percent_rounds_up(&[("Percent", 50)], "Max", 3, 5)]
    #[case::percent_of_zero(&[("Percent", 900)], "Max", 0, 0)]
    #[case::max_takes_the_most(&[("Pods", 4), ("Percent", 100), ("Pods", 1)], "Max", 3, 7)]
    #[case::min_takes_the_fewest(&[("Pods", 4), ("Percent", 100), ("Pods", 1)], "Min", 3, 4)]
    #[case::an_unknown_selection_is_max(&[("Pods", 4), ("Pods", 1)], "Newest", 3, 7)]
    #[case::disabled(&[("Pods", 4)], "Disabled", 3, 3)]
    #[case::an_unknown_type_repeats_the_one_before(&[("Pods", 1), ("Nodes", 9)], "Max", 3, 4)]
    #[case::an_unknown_type_first(&[("Nodes", 9)], "Max", 3, 0)]
    #[case::none_is_no_limit_to_rise_to(&[], "Max", 3, i32::MIN)]
    #[case::none_for_min(&[], "Min", 3, i32::MAX)]
    #[case::pods_are_held(&[("Pods", i32::MAX)], "Max", i32::MAX, i32::MAX)]
    #[case::percent_is_held(&[("Percent", i32::MAX)], "Max", i32::MAX, i32::MAX)]
    fn up(
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
    #[case::max_takes_the_fewest(&[("Pods", 4), ("Percent", 10)], "Max", 10, 6)]
    #[case::min_takes_the_most(&[("Pods", 4), ("Percent", 10)], "Min", 10, 9)]
    #[case::disabled(&[("Pods", 4)], "Disabled", 3, 3)]
    #[case::an_unknown_type_repeats_the_one_before(&[("Pods", 1), ("Nodes", 9)], "Max", 3, 2)]
    #[case::none_for_max(&[], "Max", 3, i32::MAX)]
    #[case::none_for_min(&[], "Min", 3, i32::MIN)]
    #[case::below_zero(&[("Pods", i32::MAX)], "Max", 1, 1 - i32::MAX)]
    #[case::percent_is_held(&[("Percent", i32::MAX)], "Max", i32::MAX, i32::MIN)]
    fn down(
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
    fn defaults(
        #[case] direction: Direction,
        #[case] current: i32,
        #[case] expected: i32,
        #[values(json!(null), json!({}), json!({ "selectPolicy": "Max" }))] rules: Value,
    ) {
        assert_eq!(limit(direction, rules, current, &History::default()), expected);
    }

    // The period is 60 seconds and now is 1000: the edge is 940.
    #[rstest]
    #[case::outside(939, 12)]
    #[case::at_the_edge(940, 12)]
    #[case::just_inside(941, 9)]
    fn a_period_counts_from_its_start(#[case] second: i64, #[case] expected: i32) {
        let event = |change| vec![ScaleEvent { change, at: at(second), outdated: false }];
        let history = History { scale_ups: event(3), ..History::default() };
        assert_eq!(limit(Direction::Up, policies(&[("Pods", 2)], "Max"), 10, &history), expected);
        let history = History { scale_downs: event(3), ..History::default() };
        // Down the signs turn: 10 - 2, or 13 - 2.
        assert_eq!(
            limit(Direction::Down, policies(&[("Pods", 2)], "Max"), 10, &history),
            20 - expected
        );
    }

    #[test]
    fn the_start_of_a_period_may_be_beyond_all_replicas() {
        let event = ScaleEvent { change: i32::MAX, at: at(999), outdated: false };
        let history = History { scale_ups: vec![event; 3], ..History::default() };
        assert_eq!(limit(Direction::Up, policies(&[("Pods", 1)], "Max"), 1, &history), i32::MIN);
        assert_eq!(
            limit(Direction::Up, policies(&[("Percent", 100)], "Max"), 1, &history),
            i32::MIN
        );
        let history = History { scale_downs: vec![event; 3], ..History::default() };
        assert_eq!(limit(Direction::Down, policies(&[("Pods", 1)], "Max"), 1, &history), i32::MAX);
    }

    #[rstest]
    #[case::defaults(json!({}), 15)]
    #[case::longest(json!({ "policies": [{ "periodSeconds": 20 }, { "periodSeconds": 30 }, {}] }), 30)]
    #[case::none(json!({ "policies": [] }), 0)]
    #[case::negative(json!({ "policies": [{ "periodSeconds": -5 }] }), 0)]
    fn longest_period(#[case] rules: Value, #[case] seconds: i64) {
        let rules: ScalingRules = serde_json::from_value(rules).unwrap();
        let rules = Rules { direction: Direction::Up, rules: Some(&rules) };
        assert_eq!(rules.longest_period(), SignedDuration::from_secs(seconds));
    }
}
