//! Recorded traces from the folder `traces`, and random walks.

use std::{fs, path::Path};

use hpa_forecast::Trace;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// Traces are scaled to this many pods at the 99.9th percentile of their load.
const PEAK_PODS: f64 = 150.0;

/// A trace that is not scaled yet.
pub(crate) struct NamedTrace {
    pub(crate) name: String,
    pub(crate) zone: TimeZone,
    pub(crate) trace: Trace,
    pub(crate) kind: TraceKind,
}

impl NamedTrace {
    pub(crate) fn scaled(&self) -> Trace {
        let mut loads: Vec<f64> =
            (0..self.trace.len()).filter_map(|minute| self.trace.load(minute)).collect();
        loads.sort_by(f64::total_cmp);
        self.trace.scaled(PEAK_PODS / loads[loads.len() * 999 / 1000])
    }
}

/// The kind of a trace, which determines the assertions about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceKind {
    /// A repeating pattern: forecasts must halve the overload.
    Seasonal,
    /// No pattern, or one that ends a week before the end of the trace: forecasts must not add
    /// overload at equal cost, or must cost at most 2 % more.
    Unpredictable,
    /// From `HPA_FORECAST_TRACES`: only the guarantee for all kinds holds. Forecasts with the gate
    /// must not add more than 2 % to the overload without them.
    Unknown,
}

/// The number of minutes in `count` days.
pub(crate) const fn days(count: usize) -> usize {
    count * 24 * 60
}

pub(crate) fn all() -> Vec<NamedTrace> {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut traces = read_folder(&recorded, TraceKind::Seasonal);
    traces.push(different_week(
        &recorded.join("departures-spring.csv"),
        "other-hours",
        9 * 60,
        1.0,
    ));
    traces.push(different_week(&recorded.join("road-spring.csv"), "half-the-load", 0, 0.5));
    if let Some(further) = std::env::var_os("HPA_FORECAST_TRACES") {
        traces.extend(read_folder(Path::new(&further), TraceKind::Unknown));
    }
    traces.extend((1..=4).map(random_walk));
    traces
}

fn read_folder(path: &Path, kind: TraceKind) -> Vec<NamedTrace> {
    let files = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "csv"));
    files.sort();
    files.iter().map(|file| read_trace(file, kind)).collect()
}

/// Reads a file. It has comments, then a line with the start, the seconds between values and the
/// time zone, then one value per line. An empty line is a missing value.
fn read_trace(path: &Path, kind: TraceKind) -> NamedTrace {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().skip_while(|line| line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let (start, step): (Timestamp, i64) = (head[0].parse().unwrap(), head[1].parse().unwrap());
    let samples = lines.enumerate().filter(|(_, line)| !line.is_empty()).map(|(index, line)| {
        let at = start + SignedDuration::from_secs(step * i64::try_from(index).unwrap());
        (at, line.parse::<f64>().unwrap())
    });
    NamedTrace {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        zone: TimeZone::get(head[2]).unwrap(),
        trace: Trace::new(samples),
        kind,
    }
}

/// A trace whose last week is shifted by some minutes and multiplied.
fn different_week(path: &Path, name: &str, shift: usize, factor: f64) -> NamedTrace {
    let NamedTrace { zone, trace, .. } = read_trace(path, TraceKind::Unpredictable);
    let change = trace.len() - days(7);
    let samples = (1..trace.len()).filter_map(|minute| {
        let is_changed = minute >= change;
        let (from, factor) = if is_changed { (minute - shift, factor) } else { (minute, 1.0) };
        Some((trace.time(minute - 1), trace.load(from)? * factor))
    });
    NamedTrace {
        name: format!("week-of-{name}"),
        zone,
        trace: Trace::new(samples),
        kind: TraceKind::Unpredictable,
    }
}

/// Six weeks of a random walk in steps of five minutes, scaled to loads from 1 to 10.
fn random_walk(seed: u64) -> NamedTrace {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut level = 0.0;
    let steps: Vec<f64> = (0..42 * 288)
        .map(|_| {
            // Twelve uniform numbers: the sum has mean 6 and variance 1.
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
    NamedTrace {
        name: format!("random-walk-{seed}"),
        zone: TimeZone::UTC,
        trace: Trace::new(samples),
        kind: TraceKind::Unpredictable,
    }
}
