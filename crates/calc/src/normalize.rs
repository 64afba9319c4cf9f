//! From a proposal to the desired replicas: stabilization, then rate limits, then bounds.

use jiff::Timestamp;

use crate::{
    api::{ConditionReason, HorizontalPodAutoscalerSpec},
    behavior::{EffectiveBehavior, scale_up_limit},
    history::{Direction, History, Recommendation},
    messages,
    settings::{Bounds, Settings, before},
};

/// The reason and the message of a condition about a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitReason {
    pub(crate) reason: ConditionReason,
    pub(crate) message: &'static str,
}

/// A proposal after each step of the normalization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormalizedReplicas {
    /// After stabilization.
    pub(crate) stabilized: i32,
    /// The reason, if stabilization changed the proposal.
    pub(crate) stabilization: Option<LimitReason>,
    /// After rate limits and bounds.
    pub(crate) replicas: i32,
    /// The effect of rate limits and bounds.
    pub(crate) limit: LimitReason,
}

impl NormalizedReplicas {
    /// Whether a rate limit or a bound changed the stabilized proposal.
    pub(crate) fn is_limited(&self) -> bool {
        self.replicas != self.stabilized
    }
}

/// The inputs of a normalization, other than the proposal and the history. Normalizing a proposal
/// is to apply stabilization, rate limits and bounds.
pub(crate) struct NormalizeInput<'a> {
    pub(crate) spec: &'a HorizontalPodAutoscalerSpec,
    pub(crate) settings: &'a Settings,
    pub(crate) bounds: Bounds,
    pub(crate) current: i32,
    pub(crate) now: Timestamp,
}

/// The smallest and the largest replicas that stabilization allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StabilizationRange {
    min: i32,
    max: i32,
}

impl NormalizeInput<'_> {
    /// Normalizes a proposal, and records it as a recommendation.
    pub(crate) fn normalize(&self, proposed: i32, history: &mut History) -> NormalizedReplicas {
        let behavior = EffectiveBehavior::new(self.spec, self.settings);
        if behavior.is_set() {
            self.with_behavior(&behavior, proposed, history)
        } else {
            self.without_behavior(&behavior, proposed, history)
        }
    }

    fn without_behavior(
        &self,
        behavior: &EffectiveBehavior<'_>,
        proposed: i32,
        history: &mut History,
    ) -> NormalizedReplicas {
        let cutoff = before(self.now, behavior.down().stabilization_window());
        let recent = history.recommendations.iter().filter(|old| is_recent(old, cutoff, behavior));
        let stabilized = recent.map(|old| old.replicas).fold(proposed, i32::max);
        let recommendation = Recommendation { replicas: proposed, at: self.now };
        history.add_recommendation(recommendation, |old| old.at < cutoff);
        let stabilization = (stabilized != proposed).then_some(SCALE_DOWN_STABILIZED);
        let (max, max_reason) = self.max_replicas(scale_up_limit(self.current));
        let min = self.bounds.min_replicas;
        let (replicas, limit) = if stabilized < min {
            (min, TOO_FEW)
        } else if stabilized > max {
            (max, max_reason)
        } else {
            (stabilized, WITHIN_RANGE)
        };
        NormalizedReplicas { stabilized, stabilization, replicas, limit }
    }

    fn with_behavior(
        &self,
        behavior: &EffectiveBehavior<'_>,
        proposed: i32,
        history: &mut History,
    ) -> NormalizedReplicas {
        let range = self.stabilization_range(behavior, proposed, history);
        // If the range is empty, its maximum applies. `clamp` would panic.
        let stabilized = self.current.max(range.min).min(range.max);
        let reason =
            if proposed >= self.current { SCALE_UP_STABILIZED } else { SCALE_DOWN_STABILIZED };
        let stabilization = (stabilized != proposed).then_some(reason);
        let (replicas, limit) = self.limit_rate(behavior, stabilized, history);
        NormalizedReplicas { stabilized, stabilization, replicas, limit }
    }

    /// Records the proposal as a recommendation, and returns the range that the windows allow.
    fn stabilization_range(
        &self,
        behavior: &EffectiveBehavior<'_>,
        proposed: i32,
        history: &mut History,
    ) -> StabilizationRange {
        let up_cutoff = before(self.now, behavior.up().stabilization_window());
        let down_cutoff = before(self.now, behavior.down().stabilization_window());
        let (mut min, mut max) = (proposed, proposed);
        for recommendation in &history.recommendations {
            if is_recent(recommendation, up_cutoff, behavior) {
                min = min.min(recommendation.replicas);
            }
            if is_recent(recommendation, down_cutoff, behavior) {
                max = max.max(recommendation.replicas);
            }
        }
        let recommendation = Recommendation { replicas: proposed, at: self.now };
        history
            .add_recommendation(recommendation, |old| old.at < up_cutoff && old.at < down_cutoff);
        StabilizationRange { min, max }
    }

    /// The recommendations within the stabilization window of a direction.
    pub(crate) fn recent_recommendations(
        &self,
        direction: Direction,
        history: &History,
    ) -> impl Iterator<Item = Recommendation> {
        let behavior = EffectiveBehavior::new(self.spec, self.settings);
        let cutoff = before(self.now, behavior.rules(direction).stabilization_window());
        // Without behavior, nothing stabilizes a scale-up.
        let applies = behavior.is_set() || direction == Direction::Down;
        let recommendations = history.recommendations.iter().copied();
        recommendations.filter(move |old| applies && is_recent(old, cutoff, &behavior))
    }

    /// Applies the policies, and `minReplicas` or `maxReplicas`.
    fn limit_rate(
        &self,
        behavior: &EffectiveBehavior<'_>,
        stabilized: i32,
        history: &History,
    ) -> (i32, LimitReason) {
        if stabilized > self.current {
            let rate = behavior.up().limit(self.current, history, self.now).max(self.current);
            let (max, reason) = self.max_replicas(rate);
            if stabilized > max {
                return (max, reason);
            }
        } else if stabilized < self.current {
            let rate = behavior.down().limit(self.current, history, self.now).min(self.current);
            let bound = self.bounds.min_replicas;
            let (min, reason) =
                if bound < rate { (rate, SCALE_DOWN_LIMIT) } else { (bound, TOO_FEW) };
            if stabilized < min {
                return (min, reason);
            }
        }
        (stabilized, WITHIN_RANGE)
    }

    /// The smaller of `maxReplicas` and the rate limit, and the reason of the condition if it
    /// applies.
    fn max_replicas(&self, rate_limit: i32) -> (i32, LimitReason) {
        let bound = self.bounds.max_replicas;
        if bound > rate_limit { (rate_limit, SCALE_UP_LIMIT) } else { (bound, TOO_MANY) }
    }
}

/// Whether a recommendation is within the stabilization window that starts at `cutoff`. Without
/// behavior, the window includes its start, as in the reference.
fn is_recent(
    recommendation: &Recommendation,
    cutoff: Timestamp,
    behavior: &EffectiveBehavior<'_>,
) -> bool {
    recommendation.at > cutoff || (recommendation.at == cutoff && !behavior.is_set())
}

const SCALE_DOWN_STABILIZED: LimitReason = LimitReason {
    reason: ConditionReason::ScaleDownStabilized,
    message: messages::STABILIZED_DOWN,
};
const SCALE_UP_STABILIZED: LimitReason =
    LimitReason { reason: ConditionReason::ScaleUpStabilized, message: messages::STABILIZED_UP };
const WITHIN_RANGE: LimitReason =
    LimitReason { reason: ConditionReason::DesiredWithinRange, message: messages::WITHIN_RANGE };
const TOO_FEW: LimitReason =
    LimitReason { reason: ConditionReason::TooFewReplicas, message: messages::TOO_FEW };
const TOO_MANY: LimitReason =
    LimitReason { reason: ConditionReason::TooManyReplicas, message: messages::TOO_MANY };
const SCALE_UP_LIMIT: LimitReason =
    LimitReason { reason: ConditionReason::ScaleUpLimit, message: messages::TOO_FAST_UP };
const SCALE_DOWN_LIMIT: LimitReason =
    LimitReason { reason: ConditionReason::ScaleDownLimit, message: messages::TOO_FAST_DOWN };

#[cfg(test)]
mod tests {
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

    fn outcome(normalized: &NormalizedReplicas) -> (i32, i32, Option<&str>, &str) {
        let stabilization = normalized.stabilization.as_ref().map(|limit| limit.reason.as_str());
        (
            normalized.stabilized,
            normalized.replicas,
            stabilization,
            normalized.limit.reason.as_str(),
        )
    }

    fn downscale_stabilization(milliseconds: i64) -> Settings {
        let downscale_stabilization = SignedDuration::from_millis(milliseconds);
        Settings::default().with_downscale_stabilization(downscale_stabilization)
    }

    const DOWN: Option<&str> = Some("ScaleDownStabilized");
    const UP: Option<&str> = Some("ScaleUpStabilized");

    // Without behavior, the window includes its start.
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
    #[case::earlier_recommendation_does_not(1, 5, None)]
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
        let normalized =
            normalize(spec, Settings::default(), current, proposed, &mut recommended(&[]));
        assert_eq!(outcome(&normalized), (proposed, replicas, None, reason));
        assert_eq!(normalized.is_limited(), proposed != replicas);
    }

    // As in the reference, although all metrics are below target.
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
    fn recommendation_outside_both_windows_is_replaced(
        #[case] ago: i64,
        #[case] after: &[(i32, i64)],
    ) {
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
        let rules = json!({
            "stabilizationWindowSeconds": 0,
            "policies": [{ "type": "Pods", "value": 2, "periodSeconds": 15 }],
        });
        let behavior = json!({ "scaleUp": rules, "scaleDown": rules });
        let spec = json!({ "minReplicas": 3, "maxReplicas": 20, "behavior": behavior });
        let normalized =
            normalize(spec, Settings::default(), current, proposed, &mut recommended(&[]));
        assert_eq!(outcome(&normalized), (proposed, replicas, None, reason));
    }

    // An earlier scaling can exceed what the policies allow now. The policies don't reverse it.
    #[rstest]
    #[case::up(15, 10, "ScaleUpLimit")]
    #[case::down(5, 10, "ScaleDownLimit")]
    fn exceeded_policy_does_not_reverse_a_scaling(
        #[case] proposed: i32,
        #[case] replicas: i32,
        #[case] reason: &str,
    ) {
        let rules = json!({
            "stabilizationWindowSeconds": 0,
            "policies": [{ "type": "Pods", "value": 2, "periodSeconds": 15 }],
        });
        let behavior = json!({ "scaleUp": rules, "scaleDown": rules });
        let spec = json!({ "minReplicas": 3, "maxReplicas": 20, "behavior": behavior });
        let event = vec![crate::history::ScaleEvent { change: 5, at: at(1), outdated: false }];
        let mut history = History::default();
        if proposed > 10 {
            history.scale_ups = event;
        } else {
            history.scale_downs = event;
        }
        let normalized = normalize(spec, Settings::default(), 10, proposed, &mut history);
        assert_eq!(outcome(&normalized), (proposed, replicas, None, reason));
    }
}
