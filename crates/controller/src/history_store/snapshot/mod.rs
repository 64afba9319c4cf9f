//! The part of a history that can still affect decisions, in a compact form.

#[cfg(test)]
mod tests;

use hpa_calc::{
    EffectiveBehavior,
    api::{HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus},
    behavior::MAX_POLICY_PERIOD,
    history::{FailingMetric, History, Recommendation, ScaleEvent},
    settings::Settings,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The maximum number of stored points of each kind: the largest and the smallest recommendations,
/// scale-ups, scale-downs. If there are more, those closest in time are merged. Also the maximum
/// number of stored failing metrics: further ones count as newly failing after a restore.
const MAX_POINTS: usize = 32;

/// Failures and a wait for zero are not restored if the last leader ended longer ago than this: the
/// metrics may have had other values since then.
const MAX_GAP: SignedDuration = SignedDuration::from_hours(1);

/// Larger than the replicas of any target, since Kubernetes supports at most 150,000 pods in a
/// cluster. A larger recommendation, from an absurd metric, is stored as this number.
const MAX_REPLICAS: i32 = 1_000_000;

/// A number of replicas, and a Unix time in milliseconds.
pub(super) type Point = (i32, i64);

/// A failing metric: its identity, and the Unix times in milliseconds since which it has failed,
/// has had an active fallback, and has been recovering.
pub(super) type Failure = (u64, i64, Option<i64>, Option<i64>);

/// The stored history of one autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HistorySnapshot {
    /// The autoscaler's key as text, for people who read the ConfigMap.
    pub(super) hpa: String,
    /// `status.desiredReplicas`.
    #[serde(rename = "desired")]
    pub(super) desired_replicas: i32,
    /// `status.lastScaleTime` as a Unix time in seconds. If the status has a later time, the
    /// snapshot lacks that scaling.
    #[serde(rename = "scaled")]
    pub(super) last_scale_time: Option<i64>,
    /// Oldest first. Only those that a stabilization window can still pick.
    pub(super) recommendations: Vec<Point>,
    #[serde(rename = "ups")]
    pub(super) scale_ups: Vec<Point>,
    #[serde(rename = "downs")]
    pub(super) scale_downs: Vec<Point>,
    #[serde(rename = "failing", skip_serializing_if = "Vec::is_empty")]
    pub(super) failing_metrics: Vec<Failure>,
    /// The time since which the metrics have asked for zero replicas, as a Unix time in
    /// milliseconds.
    #[serde(rename = "zero", skip_serializing_if = "Option::is_none")]
    pub(super) zero_since: Option<i64>,
}

impl HistorySnapshot {
    pub(super) fn new(
        hpa: String,
        spec: &HorizontalPodAutoscalerSpec,
        status: &HorizontalPodAutoscalerStatus,
        history: &History,
        settings: &Settings,
        now: Timestamp,
    ) -> Self {
        let cutoff = milliseconds_before(now, longest_window(spec, settings));
        let points = history
            .recommendations
            .iter()
            .map(|point| (point.replicas.clamp(0, MAX_REPLICAS), milliseconds(point.at)));
        let events = |events: &[ScaleEvent]| {
            let cutoff = milliseconds_before(now, MAX_POLICY_PERIOD);
            let change = |event: &ScaleEvent| event.change.clamp(1, MAX_REPLICAS);
            let points = events.iter().map(|event| (change(event), milliseconds(event.at)));
            let recent = sorted(points.filter(|(_, at)| *at >= cutoff).collect());
            merge_closest(recent, |older, newer| older.saturating_add(newer).min(MAX_REPLICAS))
        };
        let recent = sorted(points.filter(|(_, at)| *at >= cutoff).collect());
        Self {
            hpa,
            desired_replicas: status.desired_replicas,
            last_scale_time: status.last_scale_time.map(Timestamp::as_second),
            recommendations: window_extremes(&recent),
            scale_ups: events(&history.scale_ups),
            scale_downs: events(&history.scale_downs),
            failing_metrics: history.failing_metrics.iter().take(MAX_POINTS).map(failure).collect(),
            zero_since: history.zero_since.map(milliseconds),
        }
    }

    /// Whether the numbers are within the limits of [`HistorySnapshot::new`]. Users can edit the
    /// ConfigMap, and a negative scale event, for example, would let a policy allow more than its
    /// value.
    pub(super) fn is_valid(&self) -> bool {
        let is_valid = |points: &[Point], max_points: usize, min: i32| {
            let mut numbers = points.iter().map(|(number, _)| *number);
            points.len() <= max_points
                && numbers.all(|number| (min..=MAX_REPLICAS).contains(&number))
        };
        self.desired_replicas >= 0
            && is_valid(&self.recommendations, 2 * MAX_POINTS, 0)
            && is_valid(&self.scale_ups, MAX_POINTS, 1)
            && is_valid(&self.scale_downs, MAX_POINTS, 1)
            && self.failing_metrics.len() <= MAX_POINTS
    }

    /// Whether this snapshot must replace `stored`. A later time of the last recommendation is no
    /// reason, because renewals of the lease imply it. Neither is the lack of old points.
    pub(super) fn must_replace(&self, stored: &Self) -> bool {
        let last = |snapshot: &Self| snapshot.recommendations.last().map(|(replicas, _)| *replicas);
        last(self) != last(stored)
            || self.desired_replicas != stored.desired_replicas
            || self.last_scale_time != stored.last_scale_time
            || self.scale_ups.last() != stored.scale_ups.last()
            || self.scale_downs.last() != stored.scale_downs.last()
            || self.failing_metrics != stored.failing_metrics
            || self.zero_since != stored.zero_since
    }

    /// The history at `now`, if the last recommendation held until `valid_until`. If the status
    /// records a later scaling, that is added. If every point is outside its window or period,
    /// stabilization and policies start as for a new autoscaler.
    pub(super) fn restore(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        status: &HorizontalPodAutoscalerStatus,
        settings: &Settings,
        valid_until: Timestamp,
        now: Timestamp,
    ) -> History {
        let mut snapshot = self.clone();
        snapshot.add_unsaved_scaling(spec, status);
        if let Some((_, at)) = snapshot.recommendations.last_mut() {
            *at = (*at).max(milliseconds(valid_until));
        }
        let points = |points: &[Point], span: SignedDuration| -> Vec<(i32, Timestamp)> {
            let cutoff = milliseconds_before(now, span);
            let recent = points.iter().filter(|(_, at)| *at >= cutoff);
            recent.filter_map(|(number, at)| Some((*number, restored_time(*at, now)?))).collect()
        };
        let events = |stored: &[Point]| {
            let points = points(stored, MAX_POLICY_PERIOD).into_iter();
            points.map(|(change, at)| ScaleEvent { change, at, outdated: false }).collect()
        };
        let window = longest_window(spec, settings);
        let recommendations = points(&snapshot.recommendations, window).into_iter();
        let is_recent = now.duration_since(valid_until) <= MAX_GAP;
        let failing = snapshot.failing_metrics.iter().filter(|_| is_recent);
        History {
            recommendations: recommendations
                .map(|(replicas, at)| Recommendation { replicas, at })
                .collect(),
            scale_ups: events(&snapshot.scale_ups),
            scale_downs: events(&snapshot.scale_downs),
            failing_metrics: failing
                .filter_map(|failure| restored_failure(*failure, now))
                .collect(),
            zero_since: snapshot
                .zero_since
                .filter(|_| is_recent)
                .and_then(|at| restored_time(at, now)),
            ..History::default()
        }
    }

    /// Adds the scaling in the status, if the last leader scaled after it stored this snapshot.
    fn add_unsaved_scaling(
        &mut self,
        spec: &HorizontalPodAutoscalerSpec,
        status: &HorizontalPodAutoscalerStatus,
    ) {
        let Some(scaled) = status.last_scale_time else { return };
        if self.last_scale_time.is_some_and(|stored| stored >= scaled.as_second()) {
            return;
        }
        let (at, desired) = (scaled.as_millisecond(), status.desired_replicas);
        let change = i32::try_from(desired.abs_diff(self.desired_replicas)).unwrap_or(i32::MAX);
        let is_up = desired > self.desired_replicas;
        if is_up {
            // A scale-up implies a recommendation of at least this many replicas.
            self.recommendations.push((desired, at));
        }
        if change > 0 && spec.behavior.is_some() {
            let events = if is_up { &mut self.scale_ups } else { &mut self.scale_downs };
            events.push((change, at));
        }
    }
}

fn failure(metric: &FailingMetric) -> Failure {
    let FailingMetric { metric_hash, since, fallback_since, recovering_since } = *metric;
    let optional = |time: Option<Timestamp>| time.map(milliseconds);
    (metric_hash, milliseconds(since), optional(fallback_since), optional(recovering_since))
}

/// A stored time, limited to `now`, because the clock of the last leader may have been ahead.
/// `None` if it is invalid.
fn restored_time(milliseconds: i64, now: Timestamp) -> Option<Timestamp> {
    Some(Timestamp::from_millisecond(milliseconds).ok()?.min(now))
}

/// A stored failure, with times limited to `now`. `None` if it has no valid start.
fn restored_failure(failure: Failure, now: Timestamp) -> Option<FailingMetric> {
    let time = |at| restored_time(at, now);
    let (metric_hash, since, fallback_since, recovering_since) = failure;
    Some(FailingMetric {
        metric_hash,
        since: time(since)?,
        fallback_since: fallback_since.and_then(time),
        recovering_since: recovering_since.and_then(time),
    })
}

/// The longest stabilization window of an autoscaler.
fn longest_window(spec: &HorizontalPodAutoscalerSpec, settings: &Settings) -> SignedDuration {
    EffectiveBehavior::new(spec, settings).longest_stabilization_window()
}

/// A time in milliseconds, rounded up so that a restored window does not end early.
fn milliseconds(time: Timestamp) -> i64 {
    let whole = time.as_millisecond();
    if Timestamp::from_millisecond(whole).is_ok_and(|truncated| truncated < time) {
        whole.saturating_add(1)
    } else {
        whole
    }
}

fn milliseconds_before(now: Timestamp, span: SignedDuration) -> i64 {
    let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    now.as_millisecond().saturating_sub(span)
}

fn sorted(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by_key(|(_, at)| *at);
    points
}

/// The points, oldest first, that are the largest or the smallest of some window that ends now. For
/// any other point, a later one is at least as large, and a later one is at least as small, so no
/// window picks it.
fn window_extremes(points: &[Point]) -> Vec<Point> {
    let (mut largest, mut smallest): (Vec<Point>, Vec<Point>) = (Vec::new(), Vec::new());
    for point in points.iter().rev() {
        if largest.last().is_none_or(|(replicas, _)| point.0 > *replicas) {
            largest.push(*point);
        }
        if smallest.last().is_none_or(|(replicas, _)| point.0 < *replicas) {
            smallest.push(*point);
        }
    }
    largest.reverse();
    smallest.reverse();
    // A merged point has the older replicas: the larger ones for a scale-down, the smaller ones for
    // a scale-up, so that the target is scaled later and not earlier.
    let mut all = merge_closest(largest, |older, _| older);
    all.extend(merge_closest(smallest, |older, _| older));
    let mut all = sorted(all);
    all.dedup();
    all
}

/// Merges pairs of points that are closest in time, until at most [`MAX_POINTS`] are left. A merged
/// point has the later time. The last point is not merged.
fn merge_closest(mut points: Vec<Point>, merge: impl Fn(i32, i32) -> i32) -> Vec<Point> {
    while points.len() > MAX_POINTS {
        let gaps = points.windows(2).take(points.len() - 2).map(|pair| match pair {
            [(_, older), (_, newer)] => newer.saturating_sub(*older),
            _ => i64::MAX,
        });
        let Some((index, _)) = gaps.enumerate().min_by_key(|(_, gap)| *gap) else { break };
        let older = points.remove(index);
        if let Some(newer) = points.get_mut(index) {
            newer.0 = merge(older.0, newer.0);
        }
    }
    points
}
