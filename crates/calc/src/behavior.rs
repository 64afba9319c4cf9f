//! The effective behavior of an autoscaler: `spec.behavior` with its defaults, and how it limits
//! the rate of scaling (KEP-853).

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{HorizontalPodAutoscalerSpec, PolicySelect, PolicyType, ScalingPolicy, ScalingRules},
    history::{Direction, History, Recommendation},
    replicas::ceil_to_replicas,
    settings::Settings,
    time::before,
};

/// The longest period that the API accepts for a policy, and so the longest time for which a scale
/// event can count.
pub const MAX_POLICY_PERIOD: SignedDuration = SignedDuration::from_mins(30);

/// The longest stabilization window that the API accepts, and so the longest time for which a
/// recommendation can count, unless the controller's own downscale stabilization is longer.
pub const MAX_STABILIZATION_WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// Without `behavior`, one step may raise the replicas to this number, even if that more than
/// doubles them.
const SCALE_UP_LIMIT_MINIMUM: i32 = 4;

/// A scaling policy: one of the spec, or a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy<'a> {
    pub(crate) unit: &'a PolicyType,
    pub(crate) value: i32,
    pub(crate) period_seconds: i32,
}

impl Policy<'_> {
    pub(crate) fn period(self) -> SignedDuration {
        SignedDuration::from_secs(self.period_seconds.into())
    }
}

/// The limit of a policy at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PolicyLimit<'a> {
    pub(crate) policy: Policy<'a>,
    /// The replicas at the start of the policy's period.
    pub(crate) replicas_at_start: i64,
    /// The maximum (up) or minimum (down) of the replicas.
    pub(crate) allowed: i32,
}

/// The policies for scaling up if `behavior` sets none: 4 pods or 100 % in 15 seconds.
pub(crate) const DEFAULT_SCALE_UP: [Policy<'static>; 2] = [
    Policy { unit: &PolicyType::Pods, value: 4, period_seconds: 15 },
    Policy { unit: &PolicyType::Percent, value: 100, period_seconds: 15 },
];
/// The policies for scaling down if `behavior` sets none: 100 % in 15 seconds.
pub(crate) const DEFAULT_SCALE_DOWN: [Policy<'static>; 1] =
    [Policy { unit: &PolicyType::Percent, value: 100, period_seconds: 15 }];

impl<'a> From<&'a ScalingPolicy> for Policy<'a> {
    fn from(policy: &'a ScalingPolicy) -> Self {
        let (value, period_seconds) = (policy.value, policy.period_seconds);
        Self { unit: &policy.policy_type, value, period_seconds }
    }
}

/// The most replicas that one step may reach without `behavior`.
pub(crate) fn scale_up_limit(current: i32) -> i32 {
    current.saturating_mul(2).max(SCALE_UP_LIMIT_MINIMUM)
}

/// The windows and policies that decisions use: an autoscaler's `behavior` with the defaults of the
/// API and of the controller's settings. For the tolerances, see [`Tolerances::for_spec`].
///
/// [`Tolerances::for_spec`]: crate::settings::Tolerances::for_spec
///
/// ```
/// use hpa_calc::{EffectiveBehavior, HorizontalPodAutoscaler, Settings};
/// use jiff::SignedDuration;
/// use serde_json::json;
///
/// let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
///     "spec": {
///         "maxReplicas": 5,
///         "behavior": { "scaleUp": { "stabilizationWindowSeconds": 30 } },
///     },
/// }))?;
/// let behavior = EffectiveBehavior::new(&hpa.spec, &Settings::default());
/// assert_eq!(behavior.up().stabilization_window(), SignedDuration::from_secs(30));
/// assert_eq!(behavior.down().stabilization_window(), SignedDuration::from_mins(5));
/// assert_eq!(behavior.longest_policy_period(), SignedDuration::from_secs(15));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EffectiveBehavior<'a> {
    up: EffectiveRules<'a>,
    down: EffectiveRules<'a>,
}

impl<'a> EffectiveBehavior<'a> {
    /// The effective behavior of a spec under a controller's settings.
    ///
    /// If the spec has no `behavior`, no policies apply: replicas may at most double in one step,
    /// or rise to 4, and scaling down is limited by the stabilization window alone. If it has one,
    /// the defaults of the API apply to every member that is unset, and the controller's downscale
    /// stabilization is truncated to whole seconds, as in the reference.
    pub fn new(spec: &'a HorizontalPodAutoscalerSpec, settings: &Settings) -> Self {
        let has_behavior = spec.behavior.is_some();
        let default_down = if has_behavior {
            SignedDuration::from_secs(settings.downscale_stabilization.as_secs())
        } else {
            settings.downscale_stabilization
        };
        let rules = |direction, default_window| EffectiveRules {
            direction,
            rules: spec.scaling_rules(direction),
            default_window,
            has_behavior,
        };
        Self {
            up: rules(Direction::Up, SignedDuration::ZERO),
            down: rules(Direction::Down, default_down),
        }
    }

    /// Whether the spec has a `behavior`.
    pub fn is_set(&self) -> bool {
        self.up.has_behavior
    }

    /// The rules for scaling up.
    pub fn up(&self) -> EffectiveRules<'a> {
        self.up
    }

    /// The rules for scaling down.
    pub fn down(&self) -> EffectiveRules<'a> {
        self.down
    }

    /// The rules of one direction.
    pub fn rules(&self, direction: Direction) -> EffectiveRules<'a> {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }

    /// The longer of the two stabilization windows: older recommendations don't count.
    pub fn longest_stabilization_window(&self) -> SignedDuration {
        self.up.stabilization_window().max(self.down.stabilization_window())
    }

    /// The recommendations within the stabilization window of a direction. Without `behavior`, the
    /// window includes its start, and scaling up has no window, as in the reference.
    pub(crate) fn recent_recommendations(
        &self,
        direction: Direction,
        history: &History,
        now: Timestamp,
    ) -> impl Iterator<Item = Recommendation> {
        let cutoff = before(now, self.rules(direction).stabilization_window());
        let is_set = self.is_set();
        let applies = is_set || direction == Direction::Down;
        let recommendations = history.recommendations.iter().copied();
        recommendations
            .filter(move |old| applies && (old.at > cutoff || old.at == cutoff && !is_set))
    }

    /// The longest period of all policies: older scale events don't count. Zero without policies.
    pub fn longest_policy_period(&self) -> SignedDuration {
        self.up.longest_policy_period().max(self.down.longest_policy_period())
    }
}

/// The effective rules of one direction: a stabilization window and policies.
#[derive(Clone, Copy, Debug)]
pub struct EffectiveRules<'a> {
    direction: Direction,
    rules: Option<&'a ScalingRules>,
    default_window: SignedDuration,
    /// Whether the spec has a `behavior`. Without it, no policies apply.
    has_behavior: bool,
}

impl<'a> EffectiveRules<'a> {
    /// The stabilization window: the time for which past recommendations count.
    pub fn stabilization_window(&self) -> SignedDuration {
        let seconds = self.rules.and_then(|rules| rules.stabilization_window_seconds);
        seconds.map_or(self.default_window, |seconds| SignedDuration::from_secs(seconds.into()))
    }

    /// The rule that selects among several policies. The default is `Max`, the largest change.
    pub fn select_policy(&self) -> &'a PolicySelect {
        self.rules.and_then(|rules| rules.select_policy.as_ref()).unwrap_or(&PolicySelect::Max)
    }

    pub(crate) fn periods(&self) -> impl Iterator<Item = SignedDuration> + use<'a> {
        self.policies().map(Policy::period)
    }

    /// The longest period of the policies. Zero without policies.
    pub fn longest_policy_period(&self) -> SignedDuration {
        let longest = self.policies().map(|policy| policy.period_seconds).max().unwrap_or(0);
        SignedDuration::from_secs(longest.max(0).into())
    }

    fn policies(&self) -> impl Iterator<Item = Policy<'a>> + use<'a> {
        let policies_of_spec = self.rules.and_then(|rules| rules.policies.as_deref());
        let defaults: &[Policy<'_>] = match (self.has_behavior, policies_of_spec, self.direction) {
            (false, ..) | (true, Some(_), _) => &[],
            (true, None, Direction::Up) => &DEFAULT_SCALE_UP,
            (true, None, Direction::Down) => &DEFAULT_SCALE_DOWN,
        };
        policies_of_spec
            .unwrap_or_default()
            .iter()
            .map(Policy::from)
            .chain(defaults.iter().copied())
    }

    /// The most (up) or fewest (down) replicas that the policies allow at `now`.
    ///
    /// Each policy counts from the replicas at the start of its period: the current ones minus the
    /// net change since. `Disabled` allows no change. Percentages are float arithmetic, rounded up
    /// when scaling up and truncated when scaling down. Without policies, the result is `i32::MIN`
    /// or `i32::MAX`, as in the reference: `Max` then allows no change, and `Min` any change.
    pub fn limit(&self, current: i32, history: &History, now: Timestamp) -> i32 {
        let select = self.select_policy();
        if *select == PolicySelect::Disabled {
            return current;
        }
        // The largest change is the maximum of the limits upward, and the minimum downward.
        let take_maximum = (self.direction == Direction::Up) != (*select == PolicySelect::Min);
        let mut limit = if take_maximum { i32::MIN } else { i32::MAX };
        for PolicyLimit { allowed, .. } in self.policy_limits(current, history, now) {
            limit = if take_maximum { limit.max(allowed) } else { limit.min(allowed) };
        }
        limit
    }

    /// The limit of each policy at `now`.
    pub(crate) fn policy_limits(
        self,
        current: i32,
        history: &History,
        now: Timestamp,
    ) -> impl Iterator<Item = PolicyLimit<'a>> {
        let mut allowed = 0;
        self.policies().map(move |policy| {
            let replicas_at_start = i64::from(current) - history.net_change(policy.period(), now);
            // A policy of an unknown type repeats the previous one's limit, or 0 if it is the
            // first, as in the reference.
            allowed = self.allowed_by(policy, replicas_at_start).unwrap_or(allowed);
            PolicyLimit { policy, replicas_at_start, allowed }
        })
    }

    fn allowed_by(&self, policy: Policy<'_>, replicas_at_start: i64) -> Option<i32> {
        let (value, fraction) = (i64::from(policy.value), f64::from(policy.value) / 100.0);
        Some(match (policy.unit, self.direction) {
            (PolicyType::Other(_), _) => return None,
            (PolicyType::Pods, Direction::Up) => saturate_replicas(replicas_at_start + value),
            (PolicyType::Pods, Direction::Down) => saturate_replicas(replicas_at_start - value),
            (PolicyType::Percent, Direction::Up) => {
                ceil_to_replicas(replicas_at_start as f64 * (1.0 + fraction))
            }
            (PolicyType::Percent, Direction::Down) => {
                ceil_to_replicas((replicas_at_start as f64 * (1.0 - fraction)).trunc())
            }
        })
    }
}

/// Replicas, limited to the range of `i32`.
fn saturate_replicas(replicas: i64) -> i32 {
    i32::try_from(replicas).unwrap_or(if replicas < 0 { i32::MIN } else { i32::MAX })
}
