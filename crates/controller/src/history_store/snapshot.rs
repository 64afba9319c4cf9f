//! The part of a history that can still matter, in few numbers.

use hpa_calc::{
    api::{HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus},
    history::{History, Recommendation, ScaleEvent},
    settings::Settings,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The longest period that the API takes for a policy.
const LONGEST_PERIOD: SignedDuration = SignedDuration::from_secs(1800);
/// How many steps up, steps down, and scale events of a direction are kept; if there are more, those that are closest
/// to each other become one.
const MOST: usize = 32;

/// A number of replicas, and a time in milliseconds since 1970.
pub(super) type Point = (i32, i64);

/// What is kept of one autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HistorySnapshot {
    /// `namespace/name`, for people.
    pub(super) hpa: String,
    /// `status.desiredReplicas`.
    pub(super) desired: i32,
    /// `status.lastScaleTime` in seconds since 1970: a later one in the status is of a scaling that is not kept here.
    pub(super) scaled: Option<i64>,
    /// Recommendations, the oldest first: none that a later one stands for in every window.
    pub(super) recommendations: Vec<Point>,
    /// Scale-ups.
    pub(super) ups: Vec<Point>,
    /// Scale-downs.
    pub(super) downs: Vec<Point>,
}

/// The longest window over which recommendations of an autoscaler count.
fn window(spec: &HorizontalPodAutoscalerSpec, settings: &Settings) -> SignedDuration {
    let behavior = spec.behavior.as_ref();
    let seconds = |rules: Option<&hpa_calc::api::ScalingRules>| {
        rules?.stabilization_window_seconds.map(|seconds| SignedDuration::from_secs(seconds.into()))
    };
    let up = seconds(behavior.and_then(|behavior| behavior.scale_up.as_ref()));
    let down = seconds(behavior.and_then(|behavior| behavior.scale_down.as_ref()));
    up.unwrap_or_default().max(down.unwrap_or(settings.downscale_stabilization))
}

/// The milliseconds of a time, rounded up: what is kept counts no shorter than it should.
fn milliseconds(time: Timestamp) -> i64 {
    let whole = time.as_millisecond();
    if Timestamp::from_millisecond(whole).is_ok_and(|cut| cut < time) {
        whole.saturating_add(1)
    } else {
        whole
    }
}

fn before(now: Timestamp, span: SignedDuration) -> i64 {
    let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    now.as_millisecond().saturating_sub(span)
}

impl HistorySnapshot {
    /// What is to be kept of an autoscaler at this moment.
    pub(super) fn of(
        hpa: String,
        spec: &HorizontalPodAutoscalerSpec,
        status: &HorizontalPodAutoscalerStatus,
        history: &History,
        settings: &Settings,
        now: Timestamp,
    ) -> Self {
        let cutoff = before(now, window(spec, settings));
        let points = history.recommendations.iter().map(|one| (one.replicas, milliseconds(one.at)));
        let events = |events: &[ScaleEvent]| {
            let cutoff = before(now, LONGEST_PERIOD);
            let points = events.iter().map(|event| (event.change, milliseconds(event.at)));
            fewer(sorted(points.filter(|(_, at)| *at >= cutoff).collect()), |old, new| {
                old.saturating_add(new)
            })
        };
        Self {
            hpa,
            desired: status.desired_replicas,
            scaled: status.last_scale_time.map(Timestamp::as_second),
            recommendations: steps(&sorted(points.filter(|(_, at)| *at >= cutoff).collect())),
            ups: events(&history.scale_ups),
            downs: events(&history.scale_downs),
        }
    }

    /// Whether this says what the other does not: anything but that the last recommendation still holds, which the
    /// leader's renewals say, and that older ones do not matter any more.
    pub(super) fn is_news_after(&self, other: &Self) -> bool {
        let last = |entry: &Self| entry.recommendations.last().map(|(replicas, _)| *replicas);
        let newest = |events: &[Point]| events.last().copied();
        last(self) != last(other)
            || (self.desired, self.scaled) != (other.desired, other.scaled)
            || newest(&self.ups) != newest(&other.ups)
            || newest(&self.downs) != newest(&other.downs)
    }

    /// The history that this is of, as it was when the last recommendation was `held` last. A scaling that only the
    /// status has a record of is added. Empty if nothing of it matters any more: then the autoscaler is begun with like
    /// a new one.
    pub(super) fn restore(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        status: &HorizontalPodAutoscalerStatus,
        settings: &Settings,
        held: Timestamp,
        now: Timestamp,
    ) -> History {
        let mut kept = self.clone();
        kept.add_unkept_scaling(spec, status);
        // A clock that was ahead is not to make a window longer.
        let latest = milliseconds(now);
        if let Some((_, at)) = kept.recommendations.last_mut() {
            *at = (*at).max(milliseconds(held));
        }
        let cutoff = before(now, window(spec, settings));
        let points = |points: &[Point], cutoff: i64| -> Vec<(i32, Timestamp)> {
            let points = points.iter().map(|(number, at)| (*number, (*at).min(latest)));
            let recent = points.filter(|(_, at)| *at >= cutoff);
            recent
                .filter_map(|(number, at)| Some((number, Timestamp::from_millisecond(at).ok()?)))
                .collect()
        };
        let events = |of: &[Point]| {
            let points = points(of, before(now, LONGEST_PERIOD)).into_iter();
            points.map(|(change, at)| ScaleEvent { change, at, outdated: false }).collect()
        };
        let recommendations = points(&kept.recommendations, cutoff).into_iter();
        History {
            recommendations: recommendations
                .map(|(replicas, at)| Recommendation { replicas, at })
                .collect(),
            scale_ups: events(&kept.ups),
            scale_downs: events(&kept.downs),
        }
    }

    /// Adds what the last leader did between its last write here and its end, as far as the status tells.
    fn add_unkept_scaling(
        &mut self,
        spec: &HorizontalPodAutoscalerSpec,
        status: &HorizontalPodAutoscalerStatus,
    ) {
        let Some(scaled) = status.last_scale_time else { return };
        if self.scaled.is_some_and(|kept| kept >= scaled.as_second()) {
            return;
        }
        let (at, desired) = (scaled.as_millisecond(), status.desired_replicas);
        let change = i32::try_from(desired.abs_diff(self.desired)).unwrap_or(i32::MAX);
        let is_up = desired > self.desired;
        if is_up {
            // No less was recommended.
            self.recommendations.push((desired, at));
        }
        if change > 0 && spec.behavior.is_some() {
            let events = if is_up { &mut self.ups } else { &mut self.downs };
            events.push((change, at));
        }
    }
}

fn sorted(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by_key(|(_, at)| *at);
    points
}

/// Of points in order of time those that are the largest or the smallest of a window that ends now: every other has a
/// later one that is as large, and one that is as small.
fn steps(points: &[Point]) -> Vec<Point> {
    let (mut up, mut down): (Vec<Point>, Vec<Point>) = (Vec::new(), Vec::new());
    for point in points.iter().rev() {
        if up.last().is_none_or(|(largest, _)| point.0 > *largest) {
            up.push(*point);
        }
        if down.last().is_none_or(|(smallest, _)| point.0 < *smallest) {
            down.push(*point);
        }
    }
    up.reverse();
    down.reverse();
    // The older of two counts for longer: of the larger for a scale-down, of the smaller for a scale-up.
    let mut all = fewer(up, |old, _| old);
    all.extend(fewer(down, |old, _| old));
    let mut all = sorted(all);
    all.dedup();
    all
}

/// Merges points, those that are closest in time first, until they are not too many. What becomes of two has the time
/// of the later. The last stays as it is.
fn fewer(mut points: Vec<Point>, merge: impl Fn(i32, i32) -> i32) -> Vec<Point> {
    while points.len() > MOST {
        let but_last = points.split_last().map_or(&[] as &[Point], |(_, others)| others);
        let gaps = but_last.windows(2).map(|pair| match pair {
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
