//! What one autoscaler's past decisions leave to the next: recommendations and scale events.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::settings::{after, before};

/// A recommendation: what the metrics asked for, before stabilization and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// The replicas.
    pub replicas: i32,
    /// When it was made.
    pub at: Timestamp,
}

/// A change of the scale by the autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleEvent {
    /// How many replicas were added, or removed.
    pub change: i32,
    /// When.
    pub at: Timestamp,
    /// Whether a later change of the same direction may take its place.
    pub outdated: bool,
}

/// The directions of scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Direction {
    /// To more replicas.
    Up,
    /// To fewer replicas.
    Down,
}

/// The past of one autoscaler, oldest entries reused. It belongs to the object's UID: a re-created autoscaler
/// starts afresh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Recommendations for stabilization.
    pub recommendations: Vec<Recommendation>,
    /// Scale-ups, for the policies.
    pub scale_ups: Vec<ScaleEvent>,
    /// Scale-downs, for the policies.
    pub scale_downs: Vec<ScaleEvent>,
}

impl History {
    /// Moves all times by a span: for a clock that was set.
    pub fn shift(&mut self, span: SignedDuration) {
        if span.is_zero() {
            return;
        }
        let recommended =
            self.recommendations.iter_mut().map(|recommendation| &mut recommendation.at);
        let scaled =
            self.scale_ups.iter_mut().chain(&mut self.scale_downs).map(|event| &mut event.at);
        for at in recommended.chain(scaled) {
            *at = after(*at, span);
        }
    }

    /// Makes the replicas found at first the first recommendation: after a start nothing is scaled down for a
    /// stabilization window.
    pub(crate) fn begin(&mut self, replicas: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Recommendation { replicas, at: now });
        }
    }

    /// Adds a recommendation, in place of the last one that `is_outdated`.
    pub(crate) fn recommend(
        &mut self,
        recommendation: Recommendation,
        is_outdated: impl Fn(&Recommendation) -> bool,
    ) {
        match self.recommendations.iter_mut().rfind(|candidate| is_outdated(candidate)) {
            Some(outdated) => *outdated = recommendation,
            None => self.recommendations.push(recommendation),
        }
    }

    /// Adds a scale event. It takes the place of the last one of its direction that is older than `longest_period`,
    /// the longest policy period of that direction, though the other direction's policies may look back further:
    /// so does the reference.
    pub(crate) fn scaled(
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

    /// The net replicas added within the period before `now`, its edge excluded.
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

    fn recommendations(of: &[(i32, i64)]) -> Vec<Recommendation> {
        of.iter()
            .map(|(replicas, second)| Recommendation { replicas: *replicas, at: at(*second) })
            .collect()
    }

    #[test]
    fn the_first_recommendation_is_what_was_found() {
        let mut history = History::default();
        history.begin(3, at(10));
        history.begin(4, at(20));
        assert_eq!(history.recommendations, recommendations(&[(3, 10)]));
    }

    #[rstest]
    #[case::none_outdated(&[(1, 50), (2, 60)], &[(1, 50), (2, 60), (9, 100)])]
    #[case::only_one(&[(1, 49), (2, 60)], &[(9, 100), (2, 60)])]
    #[case::the_last_of_several(&[(1, 10), (2, 20), (3, 60)], &[(1, 10), (9, 100), (3, 60)])]
    fn a_recommendation_replaces_the_last_outdated(
        #[case] before: &[(i32, i64)],
        #[case] after: &[(i32, i64)],
    ) {
        let mut history =
            History { recommendations: recommendations(before), ..History::default() };
        let new = Recommendation { replicas: 9, at: at(100) };
        history.recommend(new, |old| old.at < at(50));
        assert_eq!(history.recommendations, recommendations(after));
    }

    // Now is 100 and the longest period 60 seconds, so the cutoff is 40.
    #[rstest]
    #[case::first(&[], &[event(3, 100, false)])]
    #[case::inside(&[event(1, 41, false)], &[event(1, 41, false), event(3, 100, false)])]
    #[case::at_the_cutoff_is_kept(&[event(1, 40, false)], &[event(1, 40, false), event(3, 100, false)])]
    #[case::outside(&[event(1, 39, false)], &[event(3, 100, false)])]
    #[case::the_last_outdated_is_replaced_the_others_marked(
        &[event(1, 10, false), event(2, 20, false), event(4, 90, false)],
        &[event(1, 10, true), event(3, 100, false), event(4, 90, false)]
    )]
    #[case::a_mark_outlives_a_longer_period(&[event(1, 90, true)], &[event(3, 100, false)])]
    fn a_scale_event_replaces_the_last_outdated(
        #[case] before: &[ScaleEvent],
        #[case] after: &[ScaleEvent],
    ) {
        let period = SignedDuration::from_secs(60);
        let mut up = History { scale_ups: before.to_vec(), ..History::default() };
        up.scaled(2, 5, period, at(100));
        assert_eq!(up, History { scale_ups: after.to_vec(), ..History::default() });
        let mut down = History { scale_downs: before.to_vec(), ..History::default() };
        down.scaled(5, 2, period, at(100));
        assert_eq!(down, History { scale_downs: after.to_vec(), ..History::default() });
    }

    #[test]
    fn a_change_beyond_all_bounds_is_held() {
        let mut history = History::default();
        history.scaled(i32::MIN, i32::MAX, SignedDuration::ZERO, at(0));
        assert_eq!(history.scale_ups, [event(i32::MAX, 0, false)]);
    }

    #[rstest]
    #[case::edge_excluded(60, 0)]
    #[case::just_inside(61, 7)]
    #[case::both_directions(81, 7 - 20)]
    #[case::outdated_ones_count(200, 7 - 20 + 100)]
    fn net_change_within_a_period(#[case] period: i64, #[case] expected: i64) {
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
