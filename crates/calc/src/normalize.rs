//! From what the metrics propose to what the spec permits: stabilization, then rate, then bounds.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{Behavior, ConditionReason, HorizontalPodAutoscalerSpec},
    history::{Direction, History, Recommendation},
    messages,
    policies::{Rules, scale_up_limit},
    settings::{Settings, before},
};

/// Why a number was replaced by another, for a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grounds {
    pub(crate) reason: ConditionReason,
    pub(crate) message: &'static str,
}

/// What normalization made of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Normalized {
    /// After stabilization.
    pub(crate) stabilized: i32,
    /// Why stabilization changed the proposal; `None` where it did not.
    pub(crate) stabilization: Option<Grounds>,
    /// After rate and bounds.
    pub(crate) replicas: i32,
    /// What rate and bounds did.
    pub(crate) limit: Grounds,
}

impl Normalized {
    /// Whether rate or bounds held the stabilized proposal back.
    pub(crate) fn is_limited(&self) -> bool {
        self.replicas != self.stabilized
    }
}

/// What a proposal is normalized against.
pub(crate) struct NormalizeInput<'a> {
    pub(crate) spec: &'a HorizontalPodAutoscalerSpec,
    pub(crate) settings: &'a Settings,
    pub(crate) current: i32,
    pub(crate) now: Timestamp,
}

/// The smallest and the largest replicas that stabilization permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StabilizationRange {
    lowest: i32,
    highest: i32,
}

impl NormalizeInput<'_> {
    /// Normalizes a proposal, and adds it to the recommendations.
    pub(crate) fn normalize(&self, proposed: i32, history: &mut History) -> Normalized {
        match &self.spec.behavior {
            None => self.without_behavior(proposed, history),
            Some(behavior) => self.with_behavior(behavior, proposed, history),
        }
    }

    fn without_behavior(&self, proposed: i32, history: &mut History) -> Normalized {
        let cutoff = before(self.now, self.settings.downscale_stabilization);
        let recent =
            history.recommendations.iter().filter(|recommendation| recommendation.at >= cutoff);
        let stabilized =
            recent.map(|recommendation| recommendation.replicas).fold(proposed, i32::max);
        history
            .recommend(Recommendation { replicas: proposed, at: self.now }, |old| old.at < cutoff);
        let stabilization = (stabilized != proposed).then_some(SCALE_DOWN_STABILIZED);
        let rate = scale_up_limit(self.current);
        let (most, limit) = self.most(rate);
        let fewest = self.spec.effective_min_replicas();
        let (replicas, limit) = if stabilized < fewest {
            (fewest, TOO_FEW)
        } else if stabilized > most {
            (most, limit)
        } else {
            (stabilized, WITHIN_RANGE)
        };
        Normalized { stabilized, stabilization, replicas, limit }
    }

    fn with_behavior(
        &self,
        behavior: &Behavior,
        proposed: i32,
        history: &mut History,
    ) -> Normalized {
        let up = Rules::of(behavior, Direction::Up);
        let down = Rules::of(behavior, Direction::Down);
        let range = self.stabilization_range(up, down, proposed, history);
        // In this order: where the range is empty, its upper end holds.
        let stabilized = self.current.max(range.lowest).min(range.highest);
        let grounds =
            if proposed >= self.current { SCALE_UP_STABILIZED } else { SCALE_DOWN_STABILIZED };
        let stabilization = (stabilized != proposed).then_some(grounds);
        let (replicas, limit) = self.hold_to_rate(up, down, stabilized, history);
        Normalized { stabilized, stabilization, replicas, limit }
    }

    fn stabilization_range(
        &self,
        up: Rules<'_>,
        down: Rules<'_>,
        proposed: i32,
        history: &mut History,
    ) -> StabilizationRange {
        // The reference keeps the default window in whole seconds.
        let default_down =
            SignedDuration::from_secs(self.settings.downscale_stabilization.as_secs());
        let up_cutoff = before(self.now, up.stabilization_window(SignedDuration::ZERO));
        let down_cutoff = before(self.now, down.stabilization_window(default_down));
        let (mut lowest, mut highest) = (proposed, proposed);
        for recommendation in &history.recommendations {
            if recommendation.at > up_cutoff {
                lowest = lowest.min(recommendation.replicas);
            }
            if recommendation.at > down_cutoff {
                highest = highest.max(recommendation.replicas);
            }
        }
        let recommendation = Recommendation { replicas: proposed, at: self.now };
        history.recommend(recommendation, |old| old.at < up_cutoff && old.at < down_cutoff);
        StabilizationRange { lowest, highest }
    }

    fn hold_to_rate(
        &self,
        up: Rules<'_>,
        down: Rules<'_>,
        wanted: i32,
        history: &History,
    ) -> (i32, Grounds) {
        if wanted > self.current {
            let rate = up.limit(self.current, history, self.now).max(self.current);
            let (most, grounds) = self.most(rate);
            if wanted > most {
                return (most, grounds);
            }
        } else if wanted < self.current {
            let rate = down.limit(self.current, history, self.now).min(self.current);
            let bound = self.spec.effective_min_replicas();
            let (fewest, grounds) =
                if bound < rate { (rate, SCALE_DOWN_LIMIT) } else { (bound, TOO_FEW) };
            if wanted < fewest {
                return (fewest, grounds);
            }
        }
        (wanted, WITHIN_RANGE)
    }

    fn most(&self, rate: i32) -> (i32, Grounds) {
        let bound = self.spec.max_replicas;
        if bound > rate { (rate, SCALE_UP_LIMIT) } else { (bound, TOO_MANY) }
    }
}

const SCALE_DOWN_STABILIZED: Grounds =
    Grounds { reason: ConditionReason::ScaleDownStabilized, message: messages::STABILIZED_DOWN };
const SCALE_UP_STABILIZED: Grounds =
    Grounds { reason: ConditionReason::ScaleUpStabilized, message: messages::STABILIZED_UP };
const WITHIN_RANGE: Grounds =
    Grounds { reason: ConditionReason::DesiredWithinRange, message: messages::WITHIN_RANGE };
const TOO_FEW: Grounds =
    Grounds { reason: ConditionReason::TooFewReplicas, message: messages::TOO_FEW };
const TOO_MANY: Grounds =
    Grounds { reason: ConditionReason::TooManyReplicas, message: messages::TOO_MANY };
const SCALE_UP_LIMIT: Grounds =
    Grounds { reason: ConditionReason::ScaleUpLimit, message: messages::TOO_FAST_UP };
const SCALE_DOWN_LIMIT: Grounds =
    Grounds { reason: ConditionReason::ScaleDownLimit, message: messages::TOO_FAST_DOWN };

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 10_000;

    fn at(milliseconds_ago: i64) -> Timestamp {
        Timestamp::from_millisecond(NOW * 1000 - milliseconds_ago).unwrap()
    }

    fn past(recommendations: &[(i32, i64)]) -> History {
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
    ) -> Normalized {
        let spec = serde_json::from_value(spec).unwrap();
        NormalizeInput { spec: &spec, settings: &settings, current, now: at(0) }
            .normalize(proposed, history)
    }

    fn outcome(normalized: &Normalized) -> (i32, i32, Option<&str>, &str) {
        let stabilization =
            normalized.stabilization.as_ref().map(|grounds| grounds.reason.as_str());
        (
            normalized.stabilized,
            normalized.replicas,
            stabilization,
            normalized.limit.reason.as_str(),
        )
    }

    fn downscale_stabilization(milliseconds: i64) -> Settings {
        let downscale_stabilization = SignedDuration::from_millis(milliseconds);
        Settings { downscale_stabilization, ..Settings::default() }
    }

    const DOWN: Option<&str> = Some("ScaleDownStabilized");
    const UP: Option<&str> = Some("ScaleUpStabilized");

    // Without behavior the window includes its edge.
    #[rstest]
    #[case::inside(299_999, 8, DOWN, &[(8, 299_999), (5, 0)])]
    #[case::at_the_cutoff(300_000, 8, DOWN, &[(8, 300_000), (5, 0)])]
    #[case::outside(300_001, 5, None, &[(5, 0)])]
    fn window_without_behavior(
        #[case] ago: i64,
        #[case] replicas: i32,
        #[case] stabilization: Option<&str>,
        #[case] after: &[(i32, i64)],
    ) {
        let mut history = past(&[(8, ago)]);
        let spec = json!({ "minReplicas": 1, "maxReplicas": 20 });
        let normalized = normalize(spec, Settings::default(), 10, 5, &mut history);
        assert_eq!(outcome(&normalized), (replicas, replicas, stabilization, "DesiredWithinRange"));
        assert_eq!(history, past(after));
    }

    #[rstest]
    #[case::the_initial_record_blocks(0, 10, DOWN)]
    #[case::an_earlier_one_does_not(1, 5, None)]
    fn a_window_of_zero_without_behavior(
        #[case] ago: i64,
        #[case] replicas: i32,
        #[case] stabilization: Option<&str>,
    ) {
        let spec = json!({ "minReplicas": 1, "maxReplicas": 20 });
        let normalized =
            normalize(spec, downscale_stabilization(0), 10, 5, &mut past(&[(10, ago)]));
        assert_eq!(outcome(&normalized), (replicas, replicas, stabilization, "DesiredWithinRange"));
    }

    #[rstest]
    #[case::within(5, 3, 8, 8, "DesiredWithinRange")]
    #[case::at_the_rate(5, 3, 10, 10, "DesiredWithinRange")]
    #[case::beyond_the_rate(5, 3, 11, 10, "ScaleUpLimit")]
    #[case::four_at_least(1, 1, 9, 4, "ScaleUpLimit")]
    #[case::beyond_the_bound(15, 3, 21, 20, "TooManyReplicas")]
    #[case::rate_and_bound_equal(10, 3, 21, 20, "TooManyReplicas")]
    #[case::at_the_minimum(5, 3, 3, 3, "DesiredWithinRange")]
    #[case::below_the_minimum(5, 3, 2, 3, "TooFewReplicas")]
    #[case::all_there_are(20, 3, i32::MAX, 20, "TooManyReplicas")]
    fn limits_without_behavior(
        #[case] current: i32,
        #[case] min: i32,
        #[case] proposed: i32,
        #[case] replicas: i32,
        #[case] reason: &str,
    ) {
        let spec = json!({ "minReplicas": min, "maxReplicas": 20 });
        let normalized = normalize(spec, Settings::default(), current, proposed, &mut past(&[]));
        assert_eq!(outcome(&normalized), (proposed, replicas, None, reason));
        assert_eq!(normalized.is_limited(), proposed != replicas);
    }

    /// As the reference does, for all that it scales up when all metrics are below target.
    #[test]
    fn without_behavior_a_recommendation_above_current_scales_up() {
        let spec = json!({ "minReplicas": 1, "maxReplicas": 20 });
        let normalized = normalize(spec, Settings::default(), 5, 3, &mut past(&[(8, 1)]));
        assert_eq!(outcome(&normalized), (8, 8, DOWN, "DesiredWithinRange"));
    }

    // With behavior no window includes its edge.
    #[rstest]
    #[case::down_inside(json!({ "scaleDown": { "stabilizationWindowSeconds": 60 } }), 10, 5, (8, 59_999), 8, DOWN)]
    #[case::down_at_the_cutoff(json!({ "scaleDown": { "stabilizationWindowSeconds": 60 } }), 10, 5, (8, 60_000), 5, None)]
    #[case::down_held_at_current(json!({}), 10, 5, (12, 1), 10, DOWN)]
    #[case::down_default_inside(json!({}), 10, 5, (8, 299_999), 8, DOWN)]
    #[case::down_default_at_the_cutoff(json!({}), 10, 5, (8, 300_000), 5, None)]
    #[case::down_zero_ignores_even_now(json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } }), 10, 5, (8, 0), 5, None)]
    #[case::up_inside(json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } }), 10, 15, (12, 59_999), 12, UP)]
    #[case::up_at_the_cutoff(json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } }), 10, 15, (12, 60_000), 15, None)]
    #[case::up_held_at_current(json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } }), 10, 15, (7, 1), 10, UP)]
    #[case::up_default_is_none(json!({}), 10, 15, (12, 1), 15, None)]
    fn windows_with_behavior(
        #[case] behavior: Value,
        #[case] current: i32,
        #[case] proposed: i32,
        #[case] recommendation: (i32, i64),
        #[case] replicas: i32,
        #[case] stabilization: Option<&str>,
    ) {
        let spec = json!({ "minReplicas": 1, "maxReplicas": 20, "behavior": behavior });
        let normalized =
            normalize(spec, Settings::default(), current, proposed, &mut past(&[recommendation]));
        assert_eq!(outcome(&normalized), (replicas, replicas, stabilization, "DesiredWithinRange"));
    }

    #[rstest]
    #[case::inside(999, 8)]
    #[case::the_part_of_a_second_is_cut(1000, 5)]
    #[case::between(1500, 5)]
    fn the_default_window_is_in_whole_seconds(#[case] ago: i64, #[case] replicas: i32) {
        let spec = json!({ "minReplicas": 1, "maxReplicas": 20, "behavior": {} });
        let normalized =
            normalize(spec, downscale_stabilization(1999), 10, 5, &mut past(&[(8, ago)]));
        assert_eq!(normalized.replicas, replicas);
    }

    #[rstest]
    #[case::out_of_both(301_000, &[(5, 0)])]
    #[case::at_the_longer_cutoff(300_000, &[(8, 300_000), (5, 0)])]
    #[case::out_of_one(61_000, &[(8, 61_000), (5, 0)])]
    fn only_what_both_windows_have_left_is_replaced(
        #[case] ago: i64,
        #[case] after: &[(i32, i64)],
    ) {
        let behavior = json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } });
        let spec = json!({ "minReplicas": 1, "maxReplicas": 20, "behavior": behavior });
        let mut history = past(&[(8, ago)]);
        normalize(spec, Settings::default(), 10, 5, &mut history);
        assert_eq!(history, past(after));
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
    fn rates_with_behavior(
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
        let normalized = normalize(spec, Settings::default(), current, proposed, &mut past(&[]));
        assert_eq!(outcome(&normalized), (proposed, replicas, None, reason));
    }

    /// The policies may be overdrawn by an earlier scaling: then there is no change, and never one back.
    #[rstest]
    #[case::up(15, 10, "ScaleUpLimit")]
    #[case::down(5, 10, "ScaleDownLimit")]
    fn an_overdrawn_rate_keeps(#[case] proposed: i32, #[case] replicas: i32, #[case] reason: &str) {
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
