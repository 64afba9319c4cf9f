//! Measures the time from a scale-up until its pods are ready.

use std::collections::VecDeque;

use hpa_calc::Pod;
use jiff::{SignedDuration, Timestamp};

/// The start-up time if nothing was measured.
const DEFAULT_STARTUP: SignedDuration = SignedDuration::from_mins(2);
/// A scale-up is not measured if its pods aren't ready after this time: they may never be ready.
const MAX_STARTUP: SignedDuration = SignedDuration::from_mins(30);
/// The maximum number of measurements in a median: the last scale-ups, or else the pods that became
/// ready last.
const MAX_MEASUREMENTS: usize = 9;

/// The start-up times of the last scale-ups.
#[derive(Clone, Debug, Default)]
pub(super) struct Startups {
    measured: VecDeque<SignedDuration>,
    in_progress: Option<ScaleUp>,
    /// The median of the pods that became ready last, for the time before the first scale-up is
    /// measured.
    pod_median: Option<SignedDuration>,
}

/// A scale-up whose pods are not ready yet.
#[derive(Clone, Copy, Debug)]
struct ScaleUp {
    at: Timestamp,
    to: usize,
}

/// The ready pods of a target.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyPods {
    /// The times when the pods became ready, ascending.
    since: Vec<Timestamp>,
    /// The time from start to readiness of the pods that became ready last.
    startups: Vec<SignedDuration>,
}

impl ReadyPods {
    pub(super) fn new<'a>(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let ready = pods.filter(|pod| !pod.terminating && pod.is_running_and_ready());
        let ready = ready.filter_map(|pod| Some((pod.ready?.last_transition_time, pod.start_time)));
        let mut ready: Vec<_> = ready.collect();
        ready.sort_unstable();
        let ready_last = ready.iter().rev().take(MAX_MEASUREMENTS);
        let startups =
            ready_last.filter_map(|(since, start)| Some(since.duration_since((*start)?)));
        // The last transition of a pod that became ready again isn't the end of its start-up.
        let startups =
            startups.filter(|startup| (SignedDuration::ZERO..=MAX_STARTUP).contains(startup));
        let startups = startups.collect();
        Self { since: ready.iter().map(|(since, _)| *since).collect(), startups }
    }
}

impl Startups {
    /// Records a scale-up. If the pods of the last scale-up are not ready yet, both count as
    /// one scale-up.
    pub(super) fn scaled_up(&mut self, to: i32, at: Timestamp) {
        let to = usize::try_from(to).unwrap_or(0);
        let at = self.in_progress.map_or(at, |scale_up| scale_up.at);
        self.in_progress = Some(ScaleUp { at, to });
    }

    /// Records a scale-down, which ends the measurement.
    pub(super) fn scaled_down(&mut self) {
        self.in_progress = None;
    }

    pub(super) fn observe(&mut self, pods: &ReadyPods, now: Timestamp) {
        self.pod_median = median(pods.startups.iter().copied()).or(self.pod_median);
        let Some(ScaleUp { at, to }) = self.in_progress else { return };
        let last_ready_at = to.checked_sub(1).and_then(|last| pods.since.get(last));
        if let Some(ready_at) = last_ready_at {
            let startup = ready_at.duration_since(at);
            if startup.is_positive() {
                self.measured.push_back(startup);
                self.measured.drain(..self.measured.len().saturating_sub(MAX_MEASUREMENTS));
            }
            self.in_progress = None;
        } else if now.duration_since(at) > MAX_STARTUP {
            self.in_progress = None;
        }
    }

    /// The median of the last scale-ups; else of the pods that became ready last; else a default.
    pub(super) fn median(&self) -> SignedDuration {
        median(self.measured.iter().copied()).or(self.pod_median).unwrap_or(DEFAULT_STARTUP)
    }
}

fn median(times: impl Iterator<Item = SignedDuration>) -> Option<SignedDuration> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn ready(since: &[i64]) -> ReadyPods {
        ReadyPods { since: since.iter().map(|second| at(*second)).collect(), startups: Vec::new() }
    }

    fn median_seconds(startups: &Startups) -> i64 {
        startups.median().as_secs()
    }

    #[test]
    fn scale_up_lasts_until_all_its_pods_are_ready() {
        let mut startups = Startups::default();
        assert_eq!(median_seconds(&startups), 120);
        startups.scaled_up(3, at(0));
        startups.observe(&ready(&[-500, 60]), at(75));
        assert_eq!(median_seconds(&startups), 120, "one pod is missing");
        startups.scaled_up(4, at(70));
        startups.observe(&ready(&[-500, 60, 80, 90]), at(95));
        assert_eq!(median_seconds(&startups), 90);
        startups.observe(&ready(&[-500, 60, 80, 200]), at(205));
        assert_eq!(median_seconds(&startups), 90, "measured once");
    }

    #[test]
    fn interrupted_or_too_long_scale_up_is_not_measured() {
        let mut startups = Startups::default();
        startups.scaled_up(3, at(0));
        startups.scaled_down();
        startups.observe(&ready(&[-500, 60, 80]), at(95));
        startups.scaled_up(4, at(100));
        startups.observe(&ready(&[-500, 60, 80]), at(100 + 31 * 60));
        startups.observe(&ready(&[-500, 60, 80, 3000]), at(3005));
        assert_eq!(median_seconds(&startups), 120);
    }

    #[test]
    fn median_of_the_last_scale_ups_counts() {
        let mut startups = Startups::default();
        for (index, startup) in [600, 10, 40, 30, 20, 30, 40, 30, 20, 30].into_iter().enumerate() {
            let start = i64::try_from(index).unwrap() * 1000;
            startups.scaled_up(2, at(start));
            startups.observe(&ready(&[-500, start + startup]), at(start + startup));
        }
        assert_eq!((median_seconds(&startups), startups.measured.len()), (30, MAX_MEASUREMENTS));
    }

    #[test]
    fn pods_give_the_median_before_the_first_scale_up() {
        let pod = |name: &str, start: &str, ready: &str| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": { "name": name },
                "status": { "phase": "Running", "startTime": start, "conditions": [
                    { "type": "Ready", "status": "True", "lastTransitionTime": ready }] },
            }))
            .unwrap()
        };
        let pods = [
            pod("a", "2026-01-01T00:00:00Z", "2026-01-01T00:00:45Z"),
            // It was unready for a while days later.
            pod("b", "2026-01-01T00:00:00Z", "2026-01-03T00:00:45Z"),
        ];
        let mut startups = Startups::default();
        startups.observe(&ReadyPods::new(pods.iter()), at(0));
        assert_eq!(median_seconds(&startups), 45);
    }
}
