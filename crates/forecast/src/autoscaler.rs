//! A horizontal autoscaler on a recorded load, minute by minute.

use std::collections::VecDeque;

use hpa_calc::{
    EffectiveBehavior, HorizontalPodAutoscaler, MilliValue, Settings,
    replicas::{ValueTarget, external_average_value},
    settings::{BoundsChange, Tolerances},
};
use jiff::SignedDuration;
use serde::Serialize;

use crate::trace::{MINUTES_PER_DAY, Trace};

/// The value of a pod's target in the engine. It is large, because the engine computes with
/// integers, and rounding errors must be small.
const MILLI_PER_POD: i64 = 1_000_000;
const MINUTES_PER_HOUR: f64 = 60.0;
/// The maximum of the durations of a [`Workload`], in minutes.
const MAX_DURATION_MINUTES: usize = MINUTES_PER_DAY;
/// The minutes before the measured ones in which a run reaches a steady state.
const WARM_UP_MINUTES: usize = MINUTES_PER_DAY;
/// The time between two decisions of a run.
const SYNC_PERIOD: SignedDuration = SignedDuration::from_mins(1);
/// Differences of the load below this multiple of a pod's target are rounding errors.
pub(crate) const EPSILON: f64 = 1e-6;

/// The workload and its autoscaler, which keeps the load per pod near a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The target load of a pod, in the unit of the load. Above 0.
    pub target: f64,
    /// The deviations from the target that cause no change, as fractions.
    pub tolerances: Tolerances,
    /// The lower bound of the replicas.
    pub min_replicas: u32,
    /// The upper bound of the replicas.
    pub max_replicas: u32,
    /// The changes of these bounds by a schedule, in order of time.
    pub bounds_changes: Vec<BoundsChange>,
    /// The time from a scale-up until its pods are ready.
    pub startup: SignedDuration,
    /// The age of a sample when the autoscaler decides on it: the age when it is read, plus half a
    /// sync period.
    pub delay: SignedDuration,
    /// The stabilization window for scaling down.
    pub stabilization: SignedDuration,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            target: 1.0,
            tolerances: Tolerances { up: 0.1, down: 0.1 },
            min_replicas: 1,
            max_replicas: u32::MAX,
            bounds_changes: Vec::new(),
            startup: SignedDuration::from_mins(2),
            delay: SignedDuration::from_secs(60),
            stabilization: SignedDuration::from_mins(5),
        }
    }
}

impl Workload {
    /// The workload of an autoscaler without scheduled bounds, with the default startup and delay.
    /// `target` is the target load per pod of one of its metrics, see
    /// [`hpa_calc::replicas::Load::per_replica`].
    pub fn for_hpa(hpa: &HorizontalPodAutoscaler, settings: &Settings, target: f64) -> Self {
        Self {
            target,
            tolerances: Tolerances::for_spec(&hpa.spec, settings),
            min_replicas: bound(hpa.spec.effective_min_replicas()),
            max_replicas: bound(hpa.spec.max_replicas),
            stabilization: EffectiveBehavior::new(&hpa.spec, settings)
                .down()
                .stabilization_window(),
            ..Self::default()
        }
    }

    /// The workload with the autoscaler's scheduled bounds during a trace.
    #[must_use]
    pub fn with_scheduled_bounds(
        mut self,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        trace: &Trace,
    ) -> Self {
        let (from, to) = (trace.time(0), trace.time(trace.len()));
        let bounds = settings.bounds_at(&hpa.spec, from);
        self.min_replicas = bound(bounds.min_replicas);
        self.max_replicas = bound(bounds.max_replicas);
        self.bounds_changes = settings.bounds_changes(&hpa.spec, from, to);
        self
    }

    /// The time from a reading until the pods of the next decision are ready. With this horizon,
    /// pods are ready when the forecast load arrives.
    pub fn horizon(&self) -> SignedDuration {
        self.startup.saturating_add(self.delay).saturating_add(SYNC_PERIOD)
    }
}

fn bound(replicas: i32) -> u32 {
    u32::try_from(replicas).unwrap_or_default()
}

/// The cost and the overload of a run. Minutes in gaps don't count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The sum of the pods' lifetimes.
    pub pod_hours: f64,
    /// The minutes in which the load was more than the ready pods could serve.
    pub overload_minutes: f64,
    /// The minutes that were measured.
    pub minutes: f64,
    /// The unserved load: the load beyond the capacity of the ready pods, as a share of the whole
    /// load.
    #[serde(rename = "excess")]
    pub unserved: f64,
}

impl Outcome {
    /// The share of the time with overload.
    pub fn overload(&self) -> f64 {
        if self.minutes > 0.0 { self.overload_minutes / self.minutes } else { 0.0 }
    }
}

/// Runs of an autoscaler on a trace.
pub(crate) struct Runner<'a> {
    trace: &'a Trace,
    workload: &'a Workload,
    /// The first minute that is measured. Earlier minutes bring the autoscaler to a steady state.
    first: usize,
    /// The load that a ready pod can serve, as a multiple of the target. Infinite until it is set.
    pub(crate) capacity: f64,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(trace: &'a Trace, workload: &'a Workload, first: usize) -> Self {
        Self { trace, workload, first, capacity: f64::INFINITY }
    }

    /// Runs the autoscaler with its target multiplied by `factor`. Each forecast load adds a
    /// proposal to the decision of its minute, unless it is NaN or there is no reading. Calls
    /// `on_minute` with each measured minute.
    pub(crate) fn run(
        &self,
        factor: f64,
        forecasts: Option<&[f32]>,
        mut on_minute: impl FnMut(MeasuredMinute),
    ) -> Outcome {
        let loads = self.trace.loads();
        let delay = minutes(self.workload.delay);
        let window = minutes(self.workload.stabilization).max(1);
        let mut recommended = VecDeque::with_capacity(window);
        let startup = minutes(self.workload.startup) + 1;
        let mut running = VecDeque::with_capacity(startup);
        let mut outcome = Outcome::default();
        let (mut unserved_load, mut total_load) = (0.0, 0.0);
        let mut replicas = 0;
        let (mut min, mut max) = (self.workload.min_replicas, self.workload.max_replicas);
        let mut bounds_changes = self.workload.bounds_changes.iter().peekable();
        for minute in self.first.saturating_sub(WARM_UP_MINUTES)..loads.len() {
            let is_due = |change: &&BoundsChange| change.at <= self.trace.time(minute);
            while let Some(BoundsChange { bounds, .. }) = bounds_changes.next_if(is_due) {
                (min, max) = (bound(bounds.min_replicas), bound(bounds.max_replicas));
            }
            let reading =
                minute.checked_sub(delay).and_then(|reading| self.in_pods(loads.get(reading)));
            let forecast = forecasts.and_then(|loads| self.in_pods(loads.get(minute)));
            let proposal = [reading, forecast].into_iter().flatten();
            let proposal = proposal.map(|load| self.propose(replicas, load, factor)).max();
            // Without a reading, the autoscaler doesn't change the replicas.
            if let Some(proposal) = proposal.filter(|_| reading.is_some()) {
                push_newest(&mut recommended, window, proposal);
                let highest = recommended.iter().copied().max().unwrap_or_default();
                let stable = if proposal < replicas { highest.min(replicas) } else { proposal };
                // The maximum wins if it is below the minimum.
                replicas = stable.max(min).min(max);
            }
            // A pod is ready if it has been running for the startup time.
            push_newest(&mut running, startup, replicas);
            let ready = running.iter().copied().min().unwrap_or_default();
            let Some(load) = self.in_pods(loads.get(minute)) else { continue };
            if minute < self.first {
                continue;
            }
            outcome.minutes += 1.0;
            outcome.pod_hours += f64::from(replicas);
            total_load += load;
            let excess = load - f64::from(ready) * self.capacity;
            if excess > EPSILON {
                outcome.overload_minutes += 1.0;
                unserved_load += excess;
            }
            on_minute(MeasuredMinute { minute, load, replicas, ready });
        }
        outcome.pod_hours /= MINUTES_PER_HOUR;
        outcome.unserved = if total_load > 0.0 { unserved_load / total_load } else { 0.0 };
        outcome
    }

    /// The load as a multiple of a pod's target.
    fn in_pods(&self, load: Option<&f32>) -> Option<f64> {
        load.filter(|load| !load.is_nan()).map(|load| f64::from(*load) / self.workload.target)
    }

    /// The replicas for a load (a multiple of a pod's target), by the engine's rule for
    /// `AverageValue` targets.
    fn propose(&self, replicas: u32, load: f64, factor: f64) -> u32 {
        let target = ValueTarget {
            replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
            target: milli(factor),
            tolerances: self.workload.tolerances,
        };
        u32::try_from(external_average_value(&target, &[milli(load)]).replicas).unwrap_or_default()
    }
}

/// The load and the pods in a minute that a run measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredMinute {
    /// The minute of the trace.
    pub minute: usize,
    /// The load. A run passes it as a multiple of a pod's target, and
    /// [`Backtest::measured_minutes`](crate::Backtest::measured_minutes) returns it in the unit of
    /// the trace.
    pub load: f64,
    /// `spec.replicas`.
    pub replicas: u32,
    /// The ready pods.
    pub ready: u32,
}

#[allow(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn milli(pods: f64) -> MilliValue {
    MilliValue::from_milli((pods * MILLI_PER_POD as f64).round() as i64)
}

/// A duration in whole minutes, rounded up, at most [`MAX_DURATION_MINUTES`].
pub(crate) fn minutes(time: SignedDuration) -> usize {
    let seconds = usize::try_from(time.as_secs()).unwrap_or_default();
    seconds.div_ceil(60).min(MAX_DURATION_MINUTES)
}

/// Adds a number to the newest ones, and drops the oldest if there are more than `max_len`.
fn push_newest(newest: &mut VecDeque<u32>, max_len: usize, value: u32) {
    if newest.len() == max_len {
        newest.pop_front();
    }
    newest.push_back(value);
}

#[cfg(test)]
mod tests {
    use hpa_calc::settings::SettingPolicy;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn scheduled_bounds_hold_at_their_times() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let trace = Trace::new((0..600).map(|minute| (at(minute), 4.0)));
        let bounds = r#"[{"start": "05:00", "end": "06:00", "timeZone": "UTC", "minReplicas": 9}]"#;
        let mut hpa = HorizontalPodAutoscaler::default();
        let annotation = "autoscaling.hpa-rs.dev/bounds".to_owned();
        hpa.metadata.annotations.insert(annotation, bounds.to_owned());
        (hpa.spec.min_replicas, hpa.spec.max_replicas) = (Some(1), 20);
        let settings = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default()).settings;
        let workload = Workload::for_hpa(&hpa, &settings, 1.0);
        let workload = workload.with_scheduled_bounds(&hpa, &settings, &trace);
        let mut replicas = Vec::new();
        Runner::new(&trace, &workload, 10).run(1.0, None, |measured| {
            replicas.push((measured.minute, measured.replicas));
        });
        let at_minute = |minute: usize| replicas.iter().find(|(at, _)| *at == minute).unwrap().1;
        assert_eq!([290, 310, 350, 400].map(at_minute), [4, 9, 9, 4]);
    }

    #[test]
    fn maximum_wins_if_it_is_below_the_minimum() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let trace = Trace::new((0..60).map(|minute| (at(minute), 4.0)));
        let workload = Workload { min_replicas: 5, max_replicas: 3, ..Workload::default() };
        let outcome = Runner::new(&trace, &workload, 10).run(1.0, None, |_| {});
        assert!((outcome.pod_hours * 60.0 / outcome.minutes - 3.0).abs() < 0.01, "{outcome:?}");
    }
}
