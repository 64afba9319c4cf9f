//! Measures the CPU time of a forecast and of the gate. Run with
//! `cargo bench -p hpa-forecast --bench forecast`.

#![expect(clippy::expect_used, reason = "the inputs are fixed")]

use divan::{Bencher, black_box};
use hpa_forecast::{
    ForecastInput, GateSettings, History, LevelKind, Model, Season, Trace, Workload, decide,
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

const MINUTES_PER_DAY: i64 = 1440;

fn main() {
    divan::main();
}

fn samples(days: i64) -> impl Iterator<Item = (Timestamp, f64)> {
    let start = Timestamp::from_second(1_772_000_000).expect("a time");
    let mut random = fastrand::Rng::with_seed(1);
    (0..days * MINUTES_PER_DAY).map(move |minute| {
        let day = (minute as f64 / MINUTES_PER_DAY as f64 * std::f64::consts::TAU).sin();
        (start + SignedDuration::from_mins(minute), 100.0 + 80.0 * day + random.f64() * 10.0)
    })
}

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).expect("a time zone")
}

/// A full history, and the time of its last sample.
fn full_history() -> (History, Timestamp) {
    let mut history = History::new(15);
    let mut last = Timestamp::UNIX_EPOCH;
    for (at, load) in samples(15) {
        history.add(at, load);
        last = at;
    }
    (history, last)
}

/// A forecast of one metric from 15 days, as in a reconcile.
#[divan::bench(args = [LevelKind::Reading, LevelKind::Smoothed])]
fn forecast(bencher: Bencher, level_kind: LevelKind) {
    let (history, now) = full_history();
    let zone = zone("Europe/Berlin");
    let model = Model { season: Season::Daily, level_kind };
    let horizon = SignedDuration::from_mins(4);
    let input = ForecastInput { now, load: 100.0, horizon, zone: &zone, model };
    bencher.bench_local(|| history.forecast(black_box(&input)).map(|one| one.load(0.8)));
}

/// Adds a reading to a full history.
#[divan::bench]
fn add(bencher: Bencher) {
    let (mut history, mut now) = full_history();
    bencher.bench_local(|| {
        now += SignedDuration::from_secs(15);
        history.add(black_box(now), 100.0);
    });
}

/// The gate, which runs daily for each autoscaler.
#[divan::bench(sample_count = 20)]
fn gate_on_four_weeks(bencher: Bencher) {
    let trace = Trace::new(samples(28));
    let settings = GateSettings::new(Workload::default(), zone("Europe/Berlin"));
    bencher.bench_local(|| decide(black_box(&trace), &settings));
}
