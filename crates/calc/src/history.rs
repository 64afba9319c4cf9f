//! The history of one autoscaler: the recommendations and scale events that its next decision
//! needs.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::time::{after, before};

/// The replicas that the metrics asked for at one time, before stabilization and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// The recommended replicas.
    pub replicas: i32,
    /// The time of the decision.
    pub at: Timestamp,
}

/// A scaling by the autoscaler, which the policies of later decisions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleEvent {
    /// The number of replicas that were added or removed, as a positive number.
    pub change: i32,
    /// The time of the scaling.
    pub at: Timestamp,
    /// Whether the next scale event of the same direction may replace this one, because it was
    /// older than the longest policy period when another event was added.
    pub outdated: bool,
}

/// A direction of scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// To more replicas.
    Up,
    /// To fewer replicas.
    Down,
}

impl Direction {
    /// The direction of a change from `current` to `to` replicas.
    pub fn of_change(current: i32, to: i32) -> Self {
        if to > current { Self::Up } else { Self::Down }
    }
}

/// The failure of a metric that has a fallback. It is kept until the metric has been readable for a
/// while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingMetric {
    /// The hash of the metric without its target, so that another metric doesn't inherit the
    /// failure.
    #[serde(rename = "metric")]
    pub metric_hash: u64,
    /// The time of the first failure.
    pub since: Timestamp,
    /// The time at which the fallback became active, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_since: Option<Timestamp>,
    /// The time since which the metric has been read without a failure, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovering_since: Option<Timestamp>,
}

/// The history of one autoscaler.
///
/// Keep it from one reconcile to the next: take it from [`Conclusion::history`], pass it to
/// [`Plan::decide`]. It belongs to the object's UID; a re-created autoscaler starts with an empty
/// history. New entries replace outdated ones, so its size is limited by the number of decisions in
/// a stabilization window or policy period, and by the number of metrics.
///
/// [`Conclusion::history`]: crate::conclude::Conclusion::history
/// [`Plan::decide`]: crate::plan::Plan::decide
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Recommendations, for the stabilization windows, in no particular order.
    pub recommendations: Vec<Recommendation>,
    /// Scale events upward, for the policies, in no particular order.
    pub scale_ups: Vec<ScaleEvent>,
    /// Scale events downward, for the policies, in no particular order.
    pub scale_downs: Vec<ScaleEvent>,
    /// The time since which the selector has matched more pods than the target has, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_pods_since: Option<Timestamp>,
    /// The failures of metrics that have a fallback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing_metrics: Vec<FailingMetric>,
    /// The time since which the metrics have asked for zero replicas, if `zero-after` delays
    /// scaling to zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_since: Option<Timestamp>,
}

impl History {
    /// Moves all times by `span`, to correct them after a clock step.
    pub fn shift(&mut self, span: SignedDuration) {
        if span.is_zero() {
            return;
        }
        let recommended =
            self.recommendations.iter_mut().map(|recommendation| &mut recommendation.at);
        let scaled =
            self.scale_ups.iter_mut().chain(&mut self.scale_downs).map(|event| &mut event.at);
        let failing = self.failing_metrics.iter_mut().flat_map(|metric| {
            let FailingMetric { since, fallback_since, recovering_since, .. } = metric;
            [Some(since), fallback_since.as_mut(), recovering_since.as_mut()]
        });
        let since = self.extra_pods_since.iter_mut().chain(&mut self.zero_since);
        for at in recommended.chain(scaled).chain(failing.flatten()).chain(since) {
            *at = after(*at, span);
        }
    }

    /// Records the current replicas as the first recommendation, if there is none. The target is
    /// then not scaled down within a stabilization window after a start.
    pub(crate) fn record_initial(&mut self, replicas: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Recommendation { replicas, at: now });
        }
    }

    /// Adds a recommendation, or replaces the last one that `is_outdated`.
    pub(crate) fn add_recommendation(
        &mut self,
        recommendation: Recommendation,
        is_outdated: impl Fn(&Recommendation) -> bool,
    ) {
        match self.recommendations.iter_mut().rfind(|candidate| is_outdated(candidate)) {
            Some(outdated) => *outdated = recommendation,
            None => self.recommendations.push(recommendation),
        }
    }

    /// Adds a scale event, or replaces the last one of its direction that is outdated.
    ///
    /// An event is outdated if it is older than `longest_period`, the longest policy period of its
    /// own direction. The policies of the other direction may look back further and then miss it,
    /// as in the reference.
    pub(crate) fn add_scale_event(
        &mut self,
        from: i32,
        to: i32,
        longest_period: SignedDuration,
        now: Timestamp,
    ) {
        let change = i32::try_from(to.abs_diff(from)).unwrap_or(i32::MAX);
        let events = if to > from { &mut self.scale_ups } else { &mut self.scale_downs };
        let cutoff = before(now, longest_period);
        for event in events.iter_mut().filter(|event| event.at < cutoff) {
            event.outdated = true;
        }
        let event = ScaleEvent { change, at: now, outdated: false };
        match events.iter_mut().rfind(|event| event.outdated) {
            Some(outdated) => *outdated = event,
            None => events.push(event),
        }
    }

    /// The replicas added minus those removed within `period` before `now`. An event exactly at the
    /// start of the period doesn't count.
    pub(crate) fn net_change(&self, period: SignedDuration, now: Timestamp) -> i64 {
        let cutoff = before(now, period);
        let sum = |events: &[ScaleEvent]| -> i64 {
            events
                .iter()
                .filter(|event| event.at > cutoff)
                .map(|event| i64::from(event.change))
                .sum()
        };
        sum(&self.scale_ups) - sum(&self.scale_downs)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn event(change: i32, second: i64, outdated: bool) -> ScaleEvent {
        ScaleEvent { change, at: at(second), outdated }
    }

    fn recommendations(points: &[(i32, i64)]) -> Vec<Recommendation> {
        points
            .iter()
            .map(|(replicas, second)| Recommendation { replicas: *replicas, at: at(*second) })
            .collect()
    }

    #[test]
    fn first_recommendation_is_the_current_replicas() {
        let mut history = History::default();
        history.record_initial(3, at(10));
        history.record_initial(4, at(20));
        assert_eq!(history.recommendations, recommendations(&[(3, 10)]));
    }

    #[rstest]
    #[case::none_outdated(&[(1, 50), (2, 60)], &[(1, 50), (2, 60), (9, 100)])]
    #[case::only_one(&[(1, 49), (2, 60)], &[(9, 100), (2, 60)])]
    #[case::the_last_of_several(&[(1, 10), (2, 20), (3, 60)], &[(1, 10), (9, 100), (3, 60)])]
    fn recommendation_replaces_the_last_outdated_one(
        #[case] before: &[(i32, i64)],
        #[case] after: &[(i32, i64)],
    ) {
        let mut history =
            History { recommendations: recommendations(before), ..History::default() };
        let new = Recommendation { replicas: 9, at: at(100) };
        history.add_recommendation(new, |old| old.at < at(50));
        assert_eq!(history.recommendations, recommendations(after));
    }

    // The time is 100 and the longest period 60 seconds, so the cutoff is 40.
    #[rstest]
    #[case::first(&[], &[event(3, 100, false)])]
    #[case::inside(&[event(1, 41, false)], &[event(1, 41, false), event(3, 100, false)])]
    #[case::at_the_cutoff_is_kept(
        &[event(1, 40, false)],
        &[event(1, 40, false), event(3, 100, false)]
    )]
    #[case::outside(&[event(1, 39, false)], &[event(3, 100, false)])]
    #[case::last_outdated_is_replaced_others_are_marked(
        &[event(1, 10, false), event(2, 20, false), event(4, 90, false)],
        &[event(1, 10, true), event(3, 100, false), event(4, 90, false)]
    )]
    #[case::mark_stays_if_the_period_grows(&[event(1, 90, true)], &[event(3, 100, false)])]
    fn scale_event_replaces_the_last_outdated_one(
        #[case] before: &[ScaleEvent],
        #[case] after: &[ScaleEvent],
    ) {
        let period = SignedDuration::from_secs(60);
        let mut up = History { scale_ups: before.to_vec(), ..History::default() };
        up.add_scale_event(2, 5, period, at(100));
        assert_eq!(up, History { scale_ups: after.to_vec(), ..History::default() });
        let mut down = History { scale_downs: before.to_vec(), ..History::default() };
        down.add_scale_event(5, 2, period, at(100));
        assert_eq!(down, History { scale_downs: after.to_vec(), ..History::default() });
    }

    #[test]
    fn size_of_a_scale_event_saturates() {
        let mut history = History::default();
        history.add_scale_event(i32::MIN, i32::MAX, SignedDuration::ZERO, at(0));
        assert_eq!(history.scale_ups, [event(i32::MAX, 0, false)]);
    }

    #[rstest]
    #[case::start_is_excluded(60, 0)]
    #[case::just_inside(61, 7)]
    #[case::both_directions(81, 7 - 20)]
    #[case::outdated_events_count(200, 7 - 20 + 100)]
    fn net_change_counts_events_within_the_period(#[case] period: i64, #[case] expected: i64) {
        let history = History {
            scale_ups: vec![event(7, 40, false), event(100, 10, true)],
            scale_downs: vec![event(20, 20, false)],
            ..History::default()
        };
        assert_eq!(history.net_change(SignedDuration::from_secs(period), at(100)), expected);
    }

    #[test]
    fn net_change_does_not_overflow() {
        let many = vec![event(i32::MAX, 99, false); 4];
        let history = History { scale_ups: many, ..History::default() };
        assert_eq!(
            history.net_change(SignedDuration::from_secs(60), at(100)),
            4 * i64::from(i32::MAX)
        );
    }
}
