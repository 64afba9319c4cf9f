//! Whether the controller followed the load.

use super::{
    board::{Sample, Track},
    text::{clock, number},
};

/// How long an autoscaler may take to react, in simulated seconds: a metric has to be measured, the autoscaler has its
/// turn, pods have to start.
const REACTION: f64 = 180.0;
/// Which part of the load has to be served, what a reaction costs left out.
const SERVED: f64 = 0.95;
/// Which part of the load has to be served in all.
const SERVED_IN_ALL: f64 = 0.8;
/// By which part replicas may differ from what is needed, besides one replica.
const TOLERANCE: f64 = 0.1;

/// What is asked of a controller, for people.
pub(crate) const CRITERIA: &str = "\
To follow is to serve 95 % of the load, not counting the first 3 minutes of each shortage, and 80 % in all; to end within
bounds, at most one step and 10 % from what was needed; to work off queues; and, where minReplicas is 0, to be at zero
when idle and to wake up for work. Times are simulated.";

/// What speaks against an autoscaler's controller, as sentences.
pub(crate) fn objections(track: &Track) -> Vec<String> {
    if track.decisions == 0 {
        return vec!["nothing was decided".to_owned()];
    }
    let samples = &track.samples;
    let Some(last) = samples.last() else { return vec!["there is no such workload".to_owned()] };
    let checks = [
        service(samples),
        bounds(track, last),
        too_few(track, last),
        too_many(track, last),
        queue(track),
        zero(track),
        wake(track),
    ];
    checks.into_iter().flatten().collect()
}

/// Pairs of neighbors: the state at the end of a span, and how many seconds it took.
fn spans(samples: &[Sample]) -> impl Iterator<Item = (&Sample, f64)> {
    samples
        .iter()
        .zip(samples.iter().skip(1))
        .map(|(before, now)| (now, now.second - before.second))
}

/// The longest time in which something was so without a break, in seconds.
fn longest(samples: &[Sample], is_so: impl Fn(&Sample) -> bool) -> f64 {
    let (mut longest, mut current) = (0.0_f64, 0.0);
    for (sample, span) in spans(samples) {
        current = if is_so(sample) { current + span } else { 0.0 };
        longest = longest.max(current);
    }
    longest
}

fn service(samples: &[Sample]) -> Option<String> {
    let (mut offered, mut lost, mut lost_late, mut short_for) = (0.0, 0.0, 0.0, 0.0);
    for (sample, span) in spans(samples) {
        let short = sample.offered - sample.served;
        offered += sample.offered * span;
        lost += short * span;
        short_for = if short > sample.offered * 1e-6 { short_for + span } else { 0.0 };
        if short_for > REACTION {
            lost_late += short * span;
        }
    }
    let (served, served_in_time) = (1.0 - lost / offered, 1.0 - lost_late / offered);
    if offered <= 0.0 || (served_in_time >= SERVED && served >= SERVED_IN_ALL) {
        return None;
    }
    Some(format!(
        "{}% of the load were served, {}% without the first minutes of each shortage",
        number(served * 100.0),
        number(served_in_time * 100.0)
    ))
}

fn bounds(track: &Track, last: &Sample) -> Option<String> {
    let (min, max) = track.bounds;
    let desired = i64::from(last.desired);
    let is_within = i64::from(min) <= desired && desired <= i64::from(max);
    (!is_within)
        .then(|| format!("it ended with {desired} replicas, which is not within {min}..{max}"))
}

/// What was needed in the last seconds, within bounds.
fn needed(track: &Track, seconds: f64) -> impl Iterator<Item = f64> {
    let since = track.samples.last().map_or(0.0, |last| last.second) - seconds;
    let (min, max) = (f64::from(track.bounds.0), f64::from(track.bounds.1));
    let samples = track.samples.iter().filter(move |sample| sample.second >= since);
    samples.map(move |sample| f64::from(sample.needed).min(max).max(min))
}

fn too_few(track: &Track, last: &Sample) -> Option<String> {
    if track.has_queue {
        return None;
    }
    let required = needed(track, REACTION).fold(f64::INFINITY, f64::min);
    let is_short = f64::from(last.desired) < required * (1.0 - TOLERANCE) - 1.0;
    is_short.then(|| format!("it ended with {} replicas, {required} were needed", last.desired))
}

fn too_many(track: &Track, last: &Sample) -> Option<String> {
    if track.has_queue || !track.has_target_load {
        return None;
    }
    let look_back = track.window + REACTION;
    let is_on_its_way =
        track.scaled_down_at.is_some_and(|second| second >= last.second - look_back);
    let most = needed(track, look_back).fold(0.0, f64::max);
    let is_superfluous = f64::from(last.desired) > most * (1.0 + TOLERANCE) + 1.0;
    (is_superfluous && !is_on_its_way).then(|| {
        format!(
            "it ended with {} replicas, of which {most} were needed in the last {}",
            last.desired,
            clock(look_back)
        )
    })
}

/// What waits at the end must have been waiting no longer than a reaction takes, or be on the decline.
fn queue(track: &Track) -> Option<String> {
    let last = track.samples.last()?;
    if !track.has_queue || last.waiting < 1.0 {
        return None;
    }
    let before = track.samples.iter().rfind(|sample| sample.second <= last.second - REACTION)?;
    let is_stuck = longest(&track.samples, |sample| sample.waiting >= 1.0) > REACTION;
    let grows = last.waiting > before.waiting && before.waiting >= 1.0;
    (is_stuck && grows).then(|| format!("the queue still grows: {} wait", number(last.waiting)))
}

fn zero(track: &Track) -> Option<String> {
    let is_idle_but_up =
        |sample: &Sample| sample.needed == 0 && sample.waiting < 1.0 && sample.desired > 0;
    let idle = longest(&track.samples, is_idle_but_up);
    (track.bounds.0 == 0 && idle > track.window + REACTION)
        .then(|| format!("it was idle for {} and not scaled to zero", clock(idle)))
}

fn wake(track: &Track) -> Option<String> {
    let asleep = longest(&track.samples, |sample| sample.waiting >= 1.0 && sample.desired == 0);
    (asleep > REACTION).then(|| format!("work waited for {} while it was at zero", clock(asleep)))
}

#[cfg(test)]
mod tests {
    use hpa_controller::key::HpaKey;
    use hpa_testbed::workload::WorkloadId;
    use rstest::rstest;

    use super::*;

    /// Twenty minutes in which 10 a second were served by 2 pods, the number needed.
    fn track() -> Track {
        let sample = |second: u32| Sample {
            second: f64::from(second),
            offered: 10.0,
            served: 10.0,
            waiting: 0.0,
            needed: 2,
            desired: 2,
            ready: 2,
        };
        Track {
            key: HpaKey::new("default", "web"),
            target: WorkloadId::new("default", "Deployment", "web"),
            bounds: (1, 5),
            window: 300.0,
            is_of_scenario: true,
            has_queue: false,
            has_target_load: true,
            decisions: 80,
            ups: 0,
            downs: 0,
            scaled_down_at: None,
            last: None,
            samples: (0..=1200).map(sample).collect(),
            queued: (0.0, 0.0),
            seen: None,
        }
    }

    /// As `track`, but so in those seconds.
    fn with(seconds: std::ops::Range<usize>, change: impl Fn(&mut Sample)) -> Track {
        let mut track = track();
        track.samples[seconds].iter_mut().for_each(change);
        track
    }

    fn queued(mut track: Track) -> Track {
        track.has_queue = true;
        track.bounds.0 = 0;
        track
    }

    fn idle(sample: &mut Sample) {
        *sample = Sample { offered: 0.0, served: 0.0, needed: 0, ..*sample };
    }

    #[rstest]
    #[case::all_is_well(track())]
    #[case::a_short_shortage(with(300..480, |one| one.served = 1.0))]
    #[case::a_small_shortage(with(0..1201, |one| one.served = 9.6))]
    #[case::one_more_than_needed(with(0..1201, |one| one.desired = 3))]
    #[case::needed_a_while_ago(with(0..800, |one| (one.needed, one.desired) = (5, 5)))]
    #[case::more_needed_since_a_minute(with(1140..1201, |one| one.needed = 5))]
    #[case::more_needed_than_there_may_be(with(0..1201, |one| (one.needed, one.desired) = (9, 5)))]
    #[case::asleep(queued(with(0..1201, |one| { idle(one); one.desired = 0; })))]
    #[case::not_idle_for_long(queued(with(800..1201, idle)))]
    #[case::work_since_a_minute(queued(with(1140..1201, |one| { idle(one); one.desired = 0; one.waiting = 9.0; })))]
    #[case::a_queue_in_balance(queued(with(0..1201, |one| one.waiting = 50.0)))]
    fn followed(#[case] track: Track) {
        assert_eq!(objections(&track), Vec::<String>::new());
    }

    #[rstest]
    #[case::a_long_shortage(with(300..900, |one| one.served = 5.0), "75% of the load were served, 82.5%")]
    #[case::very_many_short_ones(
        with(0..1201, |one| if one.second % 100.0 > 50.0 { one.served = 1.0; }),
        "of the load were served, 100%"
    )]
    #[case::out_of_bounds(with(1200..1201, |one| one.desired = 6), "ended with 6 replicas, which is not within 1..5")]
    #[case::too_few(with(900..1201, |one| one.needed = 4), "ended with 2 replicas, 4 were needed")]
    #[case::too_many(with(0..1201, |one| one.desired = 5), "ended with 5 replicas, of which 2 were needed")]
    #[case::sleepless(queued(with(700..1201, idle)), "idle for 8:21 and not scaled to zero")]
    #[case::asleep(
        queued(with(900..1201, |one| { idle(one); one.desired = 0; one.waiting = 9.0; })),
        "work waited for 5:01 while it was at zero"
    )]
    #[case::a_queue_that_grows(
        queued(with(0..1201, |one| one.waiting = one.second)),
        "the queue still grows: 1200 wait"
    )]
    fn did_not_follow(#[case] track: Track, #[case] expected: &str) {
        let objections = objections(&track);
        assert!(objections.iter().any(|one| one.contains(expected)), "{objections:?}");
    }

    #[test]
    fn nothing_done_is_not_followed() {
        let track = Track { decisions: 0, ..track() };
        assert_eq!(objections(&track), ["nothing was decided"]);
    }

    #[test]
    fn those_on_their_way_down_are_given_time() {
        let mut track = with(0..1201, |one| one.desired = 5);
        track.scaled_down_at = Some(1100.0);
        assert_eq!(objections(&track), Vec::<String>::new());
    }
}
