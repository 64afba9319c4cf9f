//! Checks whether the controller followed the load. Loads, backlogs and replicas are those of the
//! simulation, not of the controller's reports.

use hpa_calc::explain::{counted, minutes_and_seconds, number};

use super::autoscaler_record::{AutoscalerRecord, WorkloadSample};

/// Simulated seconds that an autoscaler may take to react: metrics are sampled, the autoscaler is
/// reconciled, pods start.
const REACTION_SECONDS: f64 = 180.0;
/// Share of the load that must be served, not counting losses during a reaction.
const SERVED_AFTER_REACTION: f64 = 0.95;
/// Share of the load that must be served overall.
const SERVED_OVERALL: f64 = 0.8;
/// Relative difference that is accepted between replicas and the number needed, in addition to one
/// replica.
const ACCEPTED_DEVIATION: f64 = 0.1;

/// The description of the rules, for the summary.
pub(super) const CRITERIA: &str = "\
To follow the load, each workload must
  - serve 80% of it, and 95% not counting the first 3 minutes of each shortage
  - end within bounds, and (without a queue) within 10% plus one replica of the pods needed
  - not end with a growing backlog
  - with minReplicas 0, be scaled to zero when idle, and up when work arrives
Times are simulated.";

/// Returns the rules that an autoscaler violates, as sentences.
pub(super) fn violations(record: &AutoscalerRecord) -> Vec<String> {
    if record.decision_count == 0 {
        return vec!["no decision was made".to_owned()];
    }
    let samples = &record.samples;
    let Some(last) = samples.last() else {
        return vec!["the target does not exist".to_owned()];
    };
    let checks = [
        check_service(samples),
        check_bounds(record, last),
        check_too_few(record, last),
        check_too_many(record, last),
        check_queue(record, last),
        check_scale_to_zero(record),
        check_scale_from_zero(record),
    ];
    checks.into_iter().flatten().collect()
}

/// The samples after the first, each with the seconds since the previous sample.
pub(super) fn intervals(
    samples: &[WorkloadSample],
) -> impl Iterator<Item = (&WorkloadSample, f64)> {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    pairs.map(|(previous, sample)| (sample, sample.second - previous.second))
}

/// The longest uninterrupted time for which a condition was true, in seconds.
fn longest_seconds(samples: &[WorkloadSample], condition: impl Fn(&WorkloadSample) -> bool) -> f64 {
    let (mut longest, mut current) = (0.0_f64, 0.0);
    for (sample, seconds) in intervals(samples) {
        current = if condition(sample) { current + seconds } else { 0.0 };
        longest = longest.max(current);
    }
    longest
}

fn check_service(samples: &[WorkloadSample]) -> Option<String> {
    let (mut offered, mut lost, mut lost_after_reaction, mut short_for) = (0.0, 0.0, 0.0, 0.0);
    for (sample, seconds) in intervals(samples) {
        let shortage = sample.offered - sample.served;
        offered += sample.offered * seconds;
        lost += shortage * seconds;
        // Sums of floats differ slightly even if everything is served.
        let is_short = shortage > sample.offered * 1e-6;
        short_for = if is_short { short_for + seconds } else { 0.0 };
        if short_for > REACTION_SECONDS {
            lost_after_reaction += shortage * seconds;
        }
    }
    let overall = 1.0 - lost / offered;
    let after_reaction = 1.0 - lost_after_reaction / offered;
    let is_served = after_reaction >= SERVED_AFTER_REACTION && overall >= SERVED_OVERALL;
    (offered > 0.0 && !is_served).then(|| {
        format!(
            "{}% of the load was served, {}% not counting the first {} of each shortage",
            number(overall * 100.0),
            number(after_reaction * 100.0),
            minutes_and_seconds(REACTION_SECONDS)
        )
    })
}

fn check_bounds(record: &AutoscalerRecord, last: &WorkloadSample) -> Option<String> {
    let (min, max) = (record.bounds.min_replicas, record.bounds.max_replicas);
    let desired = i64::from(last.desired);
    let is_within = i64::from(min) <= desired && desired <= i64::from(max);
    (!is_within)
        .then(|| format!("it ended with {}, outside {min}..{max}", counted(desired, "replica")))
}

/// The pods needed at each sample of the last `seconds`, clamped to the bounds.
fn needed_pods(record: &AutoscalerRecord, seconds: f64) -> impl Iterator<Item = f64> {
    let since = record.samples.last().map_or(0.0, |last| last.second) - seconds;
    let (min, max) = (f64::from(record.bounds.min_replicas), f64::from(record.bounds.max_replicas));
    let samples = record.samples.iter().filter(move |sample| sample.second >= since);
    samples.map(move |sample| f64::from(sample.needed).min(max).max(min))
}

fn check_too_few(record: &AutoscalerRecord, last: &WorkloadSample) -> Option<String> {
    if record.has_queue {
        return None;
    }
    let needed = needed_pods(record, REACTION_SECONDS).fold(f64::INFINITY, f64::min);
    let is_too_few = f64::from(last.desired) < needed * (1.0 - ACCEPTED_DEVIATION) - 1.0;
    is_too_few.then(|| {
        format!("it ended with {}, but {needed} were needed", counted(last.desired, "replica"))
    })
}

/// Replicas may be as many as were needed within the stabilization window and [`REACTION_SECONDS`]
/// before it. A recent scale-down passes, because policies may allow further ones only later.
fn check_too_many(record: &AutoscalerRecord, last: &WorkloadSample) -> Option<String> {
    if record.has_queue || !record.has_target_load {
        return None;
    }
    let window = record.downscale_window + REACTION_SECONDS;
    let is_scaling_down =
        record.last_scale_down.is_some_and(|second| second >= last.second - window);
    let most_needed = needed_pods(record, window).fold(0.0, f64::max);
    let is_too_many = f64::from(last.desired) > most_needed * (1.0 + ACCEPTED_DEVIATION) + 1.0;
    (is_too_many && !is_scaling_down).then(|| {
        format!(
            "it ended with {}, but at most {most_needed} were needed in the last {}",
            counted(last.desired, "replica"),
            minutes_and_seconds(window)
        )
    })
}

/// If the queue was never empty in the last [`REACTION_SECONDS`], the backlog must not have grown
/// in that time.
fn check_queue(record: &AutoscalerRecord, last: &WorkloadSample) -> Option<String> {
    if !record.has_queue || last.backlog < 1.0 {
        return None;
    }
    let first =
        record.samples.iter().rfind(|sample| sample.second <= last.second - REACTION_SECONDS)?;
    let mut since = record.samples.iter().filter(|sample| sample.second >= first.second);
    let was_never_empty = since.all(|sample| sample.backlog >= 1.0);
    let has_grown = last.backlog > first.backlog;
    (was_never_empty && has_grown)
        .then(|| format!("its backlog still grows and is {}", number(last.backlog)))
}

fn check_scale_to_zero(record: &AutoscalerRecord) -> Option<String> {
    let is_idle_above_zero =
        |sample: &WorkloadSample| sample.needed == 0 && sample.backlog < 1.0 && sample.desired > 0;
    let idle = longest_seconds(&record.samples, is_idle_above_zero);
    (record.bounds.min_replicas == 0 && idle > record.downscale_window + REACTION_SECONDS)
        .then(|| format!("it was idle for {} but not scaled to zero", minutes_and_seconds(idle)))
}

fn check_scale_from_zero(record: &AutoscalerRecord) -> Option<String> {
    let waited =
        longest_seconds(&record.samples, |sample| sample.backlog >= 1.0 && sample.desired == 0);
    (waited > REACTION_SECONDS)
        .then(|| format!("work waited for {} at zero replicas", minutes_and_seconds(waited)))
}

#[cfg(test)]
mod tests {
    use hpa_controller::HpaKey;
    use hpa_testbed::workload::WorkloadId;
    use rstest::rstest;

    use super::*;
    use crate::demo::model::bounds;

    /// Twenty minutes with a load of 10/s, which needs 2 pods and is served by 2.
    fn record() -> AutoscalerRecord {
        let sample = |second: u32| WorkloadSample {
            second: f64::from(second),
            offered: 10.0,
            served: 10.0,
            backlog: 0.0,
            needed: 2,
            desired: 2,
            ready: 2,
        };
        let target = WorkloadId::new("default", "Deployment", "web");
        AutoscalerRecord {
            downscale_window: 300.0,
            has_target_load: true,
            decision_count: 80,
            samples: (0..=1200).map(sample).collect(),
            ..AutoscalerRecord::new(HpaKey::new("default", "web"), target, bounds(1, 5))
        }
    }

    /// [`record`] with some of its samples changed.
    fn record_with(
        seconds: std::ops::Range<usize>,
        change: impl Fn(&mut WorkloadSample),
    ) -> AutoscalerRecord {
        let mut record = record();
        record.samples[seconds].iter_mut().for_each(change);
        record
    }

    fn with_queue(mut record: AutoscalerRecord) -> AutoscalerRecord {
        record.has_queue = true;
        record.bounds.min_replicas = 0;
        record
    }

    fn idle(sample: &mut WorkloadSample) {
        *sample = WorkloadSample { offered: 0.0, served: 0.0, needed: 0, ..*sample };
    }

    fn at_zero(sample: &mut WorkloadSample) {
        idle(sample);
        sample.desired = 0;
    }

    fn backlog_at_zero(sample: &mut WorkloadSample) {
        at_zero(sample);
        sample.backlog = 9.0;
    }

    /// A long backlog, which ends two minutes before the end, and a larger one in the last minute.
    fn two_backlogs(sample: &mut WorkloadSample) {
        sample.backlog = if sample.second < 1080.0 {
            5.0
        } else if sample.second < 1140.0 {
            0.0
        } else {
            9.0
        };
    }

    #[rstest]
    #[case::exact(record())]
    #[case::shortage_within_reaction_time(record_with(300..480, |one| one.served = 1.0))]
    #[case::small_shortage(record_with(0..1201, |one| one.served = 9.6))]
    #[case::one_more_than_needed(record_with(0..1201, |one| one.desired = 3))]
    #[case::needed_within_window(record_with(0..800, |one| (one.needed, one.desired) = (5, 5)))]
    #[case::needed_for_a_minute(record_with(1140..1201, |one| one.needed = 5))]
    #[case::needed_above_bounds(record_with(0..1201, |one| (one.needed, one.desired) = (9, 5)))]
    #[case::idle_at_zero(with_queue(record_with(0..1201, at_zero)))]
    #[case::idle_within_window(with_queue(record_with(800..1201, idle)))]
    #[case::backlog_for_a_minute(with_queue(record_with(1140..1201, backlog_at_zero)))]
    #[case::constant_backlog(with_queue(record_with(0..1201, |one| one.backlog = 50.0)))]
    #[case::larger_backlog_after_a_drained_one(with_queue(record_with(0..1201, two_backlogs)))]
    fn followed_load_has_no_violations(#[case] record: AutoscalerRecord) {
        assert_eq!(violations(&record), Vec::<String>::new());
    }

    #[rstest]
    #[case::long_shortage(
        record_with(300..900, |one| one.served = 5.0),
        "75% of the load was served, 82.5% not counting the first 3:00 of each shortage"
    )]
    #[case::many_short_shortages(
        record_with(0..1201, |one| if one.second % 100.0 > 50.0 { one.served = 1.0; }),
        "of the load was served, 100%"
    )]
    #[case::out_of_bounds(
        record_with(1200..1201, |one| one.desired = 6),
        "ended with 6 replicas, outside 1..5"
    )]
    #[case::too_few(
        record_with(900..1201, |one| one.needed = 4),
        "ended with 2 replicas, but 4 were needed"
    )]
    #[case::too_many(
        record_with(0..1201, |one| one.desired = 5),
        "ended with 5 replicas, but at most 2 were needed in the last 8:00"
    )]
    #[case::never_at_zero(
        with_queue(record_with(700..1201, idle)),
        "idle for 8:21 but not scaled to zero"
    )]
    #[case::stuck_at_zero(
        with_queue(record_with(900..1201, backlog_at_zero)),
        "work waited for 5:01 at zero replicas"
    )]
    #[case::growing_backlog(
        with_queue(record_with(0..1201, |one| one.backlog = one.second)),
        "its backlog still grows and is 1200"
    )]
    fn violation_is_reported(#[case] record: AutoscalerRecord, #[case] expected: &str) {
        let violations = violations(&record);
        assert!(violations.iter().any(|one| one.contains(expected)), "{violations:?}");
    }

    #[test]
    fn autoscaler_without_decisions_is_a_violation() {
        let record = AutoscalerRecord { decision_count: 0, ..record() };
        assert_eq!(violations(&record), ["no decision was made"]);
    }

    #[test]
    fn recent_scale_down_excuses_too_many_replicas() {
        let mut record = record_with(0..1201, |one| one.desired = 5);
        record.last_scale_down = Some(1100.0);
        assert_eq!(violations(&record), Vec::<String>::new());
    }
}
