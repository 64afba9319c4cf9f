//! From a proposal to the desired replicas: stabilization, then rate limits, then bounds.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::{
    api::{ConditionReason, HorizontalPodAutoscalerSpec},
    behavior::{EffectiveBehavior, scale_up_limit},
    history::{Direction, History, Recommendation},
    messages,
    settings::{Bounds, Settings},
    time::before,
};

/// A proposal after each step of the normalization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormalizedReplicas {
    /// After stabilization.
    pub(crate) stabilized: i32,
    /// The reason, if stabilization changed the proposal.
    pub(crate) stabilization: Option<ConditionReason>,
    /// After rate limits and bounds.
    pub(crate) replicas: i32,
    /// The reason of the condition `ScalingLimited`: the rate limit or bound that changed the
    /// replicas, or `DesiredWithinRange` if none did.
    pub(crate) limit: ConditionReason,
}

impl NormalizedReplicas {
    /// Whether a rate limit or a bound changed the stabilized proposal.
    pub(crate) fn is_limited(&self) -> bool {
        self.replicas != self.stabilized
    }
}

/// The inputs of a normalization, other than the proposal and the history.
pub(crate) struct NormalizeInput<'a> {
    pub(crate) spec: &'a HorizontalPodAutoscalerSpec,
    pub(crate) settings: &'a Settings,
    pub(crate) bounds: Bounds,
    pub(crate) current: i32,
    pub(crate) now: Timestamp,
}

impl NormalizeInput<'_> {
    /// Normalizes a proposal, and records it as a recommendation.
    pub(crate) fn normalize(&self, proposed: i32, history: &mut History) -> NormalizedReplicas {
        let behavior = EffectiveBehavior::new(self.spec, self.settings);
        // The windows allow a range that includes the proposal, so it is never empty.
        let recent = |direction| behavior.recent_recommendations(direction, history, self.now);
        let min = recent(Direction::Up).map(|old| old.replicas).fold(proposed, i32::min);
        let max = recent(Direction::Down).map(|old| old.replicas).fold(proposed, i32::max);
        let cutoff = before(self.now, behavior.longest_stabilization_window());
        let recommendation = Recommendation { replicas: proposed, at: self.now };
        history.add_recommendation(recommendation, |old| old.at < cutoff);
        // Like `clamp`, but can't panic.
        let in_range = self.current.max(min).min(max);
        let (stabilized, reason) = if !behavior.is_set() {
            (max, ConditionReason::ScaleDownStabilized)
        } else if proposed >= self.current {
            (in_range, ConditionReason::ScaleUpStabilized)
        } else {
            (in_range, ConditionReason::ScaleDownStabilized)
        };
        let stabilization = (stabilized != proposed).then_some(reason);
        let (replicas, limit) = if behavior.is_set() {
            self.limit_rate(&behavior, stabilized, history)
        } else {
            self.limit_without_behavior(stabilized)
        };
        NormalizedReplicas { stabilized, stabilization, replicas, limit }
    }

    fn limit_without_behavior(&self, stabilized: i32) -> (i32, ConditionReason) {
        let (max, max_reason) = self.upper_limit(scale_up_limit(self.current));
        let min = self.bounds.min_replicas;
        if stabilized < min {
            (min, ConditionReason::TooFewReplicas)
        } else if stabilized > max {
            (max, max_reason)
        } else {
            (stabilized, ConditionReason::DesiredWithinRange)
        }
    }

    /// Applies the policies and the bound in the direction of the change.
    fn limit_rate(
        &self,
        behavior: &EffectiveBehavior<'_>,
        stabilized: i32,
        history: &History,
    ) -> (i32, ConditionReason) {
        if stabilized > self.current {
            let rate = behavior.up().limit(self.current, history, self.now).max(self.current);
            let (max, reason) = self.upper_limit(rate);
            if stabilized > max {
                return (max, reason);
            }
        } else if stabilized < self.current {
            let rate = behavior.down().limit(self.current, history, self.now).min(self.current);
            let bound = self.bounds.min_replicas;
            let (min, reason) = if bound < rate {
                (rate, ConditionReason::ScaleDownLimit)
            } else {
                (bound, ConditionReason::TooFewReplicas)
            };
            if stabilized < min {
                return (min, reason);
            }
        }
        (stabilized, ConditionReason::DesiredWithinRange)
    }

    /// The smaller of `maxReplicas` and the rate limit, and the reason of the condition if it
    /// applies.
    fn upper_limit(&self, rate_limit: i32) -> (i32, ConditionReason) {
        let bound = self.bounds.max_replicas;
        if bound > rate_limit {
            (rate_limit, ConditionReason::ScaleUpLimit)
        } else {
            (bound, ConditionReason::TooManyReplicas)
        }
    }
}

/// The message of a condition about stabilization, a rate limit or a bound. Empty for any other
/// reason.
pub(crate) fn limit_message(reason: &ConditionReason) -> &'static str {
    match reason {
        ConditionReason::DesiredWithinRange => messages::WITHIN_RANGE,
        ConditionReason::ReadyForNewScale => messages::SIZE_MATCHES,
        ConditionReason::ScaleDownLimit => messages::TOO_FAST_DOWN,
        ConditionReason::ScaleDownStabilized => messages::STABILIZED_DOWN,
        ConditionReason::ScaleUpLimit => messages::TOO_FAST_UP,
        ConditionReason::ScaleUpStabilized => messages::STABILIZED_UP,
        ConditionReason::TooFewReplicas => messages::TOO_FEW,
        ConditionReason::TooManyReplicas => messages::TOO_MANY,
        _ => "",
    }
}
