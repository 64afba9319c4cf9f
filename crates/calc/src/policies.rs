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
const DEFAULT_SCALE_DOWN: [Policy; 1] = [Policy { counts: Some(Counts::Percent), value: 100, period_seconds: 15 }];

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
            (Counts::Pods, Direction::Down) => Some(to_replicas(at_start - i64::from(policy.value))),
            (Counts::Percent, Direction::Up) => Some(ceil_to_replicas(at_start as f64 * (1.0 + percent))),
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
