//! What one autoscaler's past decisions leave to the next: recommendations and scale events.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::settings::before;

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
    /// Makes the replicas found at first the first recommendation: after a start nothing is scaled down for a
    /// stabilization window.
    pub(crate) fn begin(&mut self, replicas: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Recommendation { replicas, at: now });
        }
    }

    /// Adds a recommendation, in place of the last one that `is_outdated`.
    pub(crate) fn recommend(&mut self, recommendation: Recommendation, is_outdated: impl Fn(&Recommendation) -> bool) {
        match self.recommendations.iter_mut().rfind(|candidate| is_outdated(candidate)) {
            Some(outdated) => *outdated = recommendation,
            None => self.recommendations.push(recommendation),
        }
    }

    /// Adds a scale event. It takes the place of the last one of its direction that is older than `longest_period`,
    /// the longest policy period of that direction, though the other direction's policies may look back further:
    /// so does the reference.
    pub(crate) fn scaled(&mut self, from: i32, to: i32, longest_period: SignedDuration, now: Timestamp) {
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
            events.iter().filter(|event| event.at > cutoff).map(|event| i64::from(event.change)).sum()
        };
        sum(&self.scale_ups) - sum(&self.scale_downs)
    }
}
