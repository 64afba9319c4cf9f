//! From what the metrics propose to what the spec permits: stabilization, then rate, then bounds.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{Behavior, ConditionReason, HorizontalPodAutoscalerSpec},
    history::{Direction, History, Recommendation},
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
pub(crate) struct Situation<'a> {
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

impl Situation<'_> {
    /// Normalizes a proposal, and adds it to the recommendations.
    pub(crate) fn normalize(&self, proposed: i32, history: &mut History) -> Normalized {
        match &self.spec.behavior {
            None => self.without_behavior(proposed, history),
            Some(behavior) => self.with_behavior(behavior, proposed, history),
        }
    }

    fn without_behavior(&self, proposed: i32, history: &mut History) -> Normalized {
        let cutoff = before(self.now, self.settings.downscale_stabilization);
        let recent = history.recommendations.iter().filter(|recommendation| recommendation.at >= cutoff);
        let stabilized = recent.map(|recommendation| recommendation.replicas).fold(proposed, i32::max);
        history.recommend(Recommendation { replicas: proposed, at: self.now }, |old| old.at < cutoff);
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

    fn with_behavior(&self, behavior: &Behavior, proposed: i32, history: &mut History) -> Normalized {
        let up = Rules::of(behavior, Direction::Up);
        let down = Rules::of(behavior, Direction::Down);
        let range = self.stabilization_range(up, down, proposed, history);
        // In this order: where the range is empty, its upper end holds.
        let stabilized = self.current.max(range.lowest).min(range.highest);
        let grounds = if proposed >= self.current { SCALE_UP_STABILIZED } else { SCALE_DOWN_STABILIZED };
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
        let default_down = SignedDuration::from_secs(self.settings.downscale_stabilization.as_secs());
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

    fn hold_to_rate(&self, up: Rules<'_>, down: Rules<'_>, wanted: i32, history: &History) -> (i32, Grounds) {
        if wanted > self.current {
            let rate = up.limit(self.current, history, self.now).max(self.current);
            let (most, grounds) = self.most(rate);
            if wanted > most {
                return (most, grounds);
            }
        } else if wanted < self.current {
            let rate = down.limit(self.current, history, self.now).min(self.current);
            let bound = self.spec.effective_min_replicas();
            let (fewest, grounds) = if bound < rate { (rate, SCALE_DOWN_LIMIT) } else { (bound, TOO_FEW) };
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

const SCALE_DOWN_STABILIZED: Grounds = Grounds {
    reason: ConditionReason::ScaleDownStabilized,
    message: "recent recommendations were higher than current one, applying the highest recent recommendation",
};
const SCALE_UP_STABILIZED: Grounds = Grounds {
    reason: ConditionReason::ScaleUpStabilized,
    message: "recent recommendations were lower than current one, applying the lowest recent recommendation",
};
const WITHIN_RANGE: Grounds = Grounds {
    reason: ConditionReason::DesiredWithinRange,
    message: "the desired count is within the acceptable range",
};
const TOO_FEW: Grounds = Grounds {
    reason: ConditionReason::TooFewReplicas,
    message: "the desired replica count is less than the minimum replica count",
};
const TOO_MANY: Grounds = Grounds {
    reason: ConditionReason::TooManyReplicas,
    message: "the desired replica count is more than the maximum replica count",
};
const SCALE_UP_LIMIT: Grounds = Grounds {
    reason: ConditionReason::ScaleUpLimit,
    message: "the desired replica count is increasing faster than the maximum scale rate",
};
const SCALE_DOWN_LIMIT: Grounds = Grounds {
    reason: ConditionReason::ScaleDownLimit,
    message: "the desired replica count is decreasing faster than the maximum scale rate",
};
