//! The traces: those of the folder `traces`, and random walks.

use std::{fs, path::Path};

use hpa_forecast::Trace;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// Traces are scaled to need at most this many pods for 99.9 % of the time.
const PEAK_PODS: f64 = 150.0;

pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) zone: TimeZone,
    pub(crate) trace: Trace,
    /// The expected result.
    pub(crate) kind: Kind,
}

impl Named {
    pub(crate) fn scaled(&self) -> Trace {
        let mut loads: Vec<f64> =
            (0..self.trace.len()).filter_map(|minute| self.trace.load(minute)).collect();
        loads.sort_by(f64::total_cmp);
        self.trace.scaled(PEAK_PODS / loads[loads.len() * 999 / 1000])
    }
}

/// The purpose of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has a season.
    Seasonal,
    /// It has none, or loses it in the week that is measured.
    Odd,
    /// It is only printed.
    Further,
}

/// The minutes of so many days.
pub(crate) fn day(count: usize) -> usize {
    count * 24 * 60
}

pub(crate) fn all() -> Vec<Named> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut traces = folder(&own, Kind::Seasonal);
    traces.push(different_week(&own.join("departures-spring.csv"), "other-hours", 9 * 60, 1.0));
    traces.push(different_week(&own.join("road-spring.csv"), "half-the-load", 0, 0.5));
    if let Some(further) = std::env::var_os("HPA_FORECAST_TRACES") {
        traces.extend(folder(Path::new(&further), Kind::Further));
    }
    traces.extend((1..=4).map(walk));
    traces
}

fn folder(path: &Path, kind: Kind) -> Vec<Named> {
    let files = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "csv"));
    files.sort();
    files.iter().map(|file| read(file, kind)).collect()
}

/// A comment, then start, seconds between values, and time zone, then a value a line. An empty line
/// is a missing value.
fn read(path: &Path, kind: Kind) -> Named {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().skip_while(|line| line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let (start, step): (Timestamp, i64) = (head[0].parse().unwrap(), head[1].parse().unwrap());
    let samples = lines.enumerate().filter(|(_, line)| !line.is_empty()).map(|(index, line)| {
        let at = start + SignedDuration::from_secs(step * i64::try_from(index).unwrap());
        (at, line.parse::<f64>().unwrap())
    });
    Named {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        zone: TimeZone::get(head[2]).unwrap(),
        trace: Trace::new(samples),
        kind,
    }
}

/// A trace whose last week suddenly differs: it comes so many minutes later, and multiplied.
fn different_week(path: &Path, name: &str, later: usize, factor: f64) -> Named {
    let Named { zone, trace, .. } = read(path, Kind::Odd);
    let change = trace.len() - day(7);
    let samples = (1..trace.len()).filter_map(|minute| {
        let is_changed = minute >= change;
        let (from, factor) = if is_changed { (minute - later, factor) } else { (minute, 1.0) };
        Some((trace.time(minute - 1), trace.load(from)? * factor))
    });
    Named { name: format!("week-of-{name}"), zone, trace: Trace::new(samples), kind: Kind::Odd }
}

/// Six weeks of a random walk, in steps of five minutes, between a lowest and ten times that.
fn walk(seed: u64) -> Named {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut level = 0.0;
    let steps: Vec<f64> = (0..42 * 288)
        .map(|_| {
            // The sum of twelve has a variance of one.
            level += (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            level
        })
        .collect();
    let low = steps.iter().copied().fold(f64::INFINITY, f64::min);
    let high = steps.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let start: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
    let samples = steps.iter().enumerate().map(|(index, step)| {
        let at = start + SignedDuration::from_mins(5 * i64::try_from(index).unwrap());
        (at, 1.0 + 9.0 * (step - low) / (high - low))
    });
    Named {
        name: format!("random-walk-{seed}"),
        zone: TimeZone::UTC,
        trace: Trace::new(samples),
        kind: Kind::Odd,
    }
}
