//! Previews the values of schedules.

use std::{
    collections::BTreeSet,
    fmt::{Display, Write},
};

use anyhow::{anyhow, bail};
use hpa_collectors::schedules::{
    Change, EntryProblem, ScalingScheduleSpec, Schedule, ScheduledMetric, Settings, Window,
};
use hpa_metrics::decode_value;
use jiff::{
    SignedDuration, Timestamp,
    tz::{AmbiguousOffset, TimeZone},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::chart;
use crate::{
    autoscaler_name::describe,
    manifests::{Manifest, combined_error, string_at},
};

const KINDS: [&str; 2] = ["ScalingSchedule", "ClusterScalingSchedule"];
pub(super) const API_VERSION: &str = "zalando.org/v1";

/// The maximum number of steps of the ramps of all schedules in the previewed time. The value may
/// change at each of them. Computing a million takes a few seconds.
const MAX_STEPS: u64 = 1_000_000;

/// The values of one schedule from `from` to `to`.
pub(super) struct Preview {
    pub(super) name: String,
    pub(super) zone: TimeZone,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// The value at `from`.
    pub(super) initial_value: i64,
    pub(super) changes: Vec<Change>,
    /// The windows that, including their ramps, overlap the previewed time. Empty ones are left
    /// out.
    pub(super) windows: Vec<Window>,
    /// A window of each entry that has none in `windows`.
    pub(super) unlisted_windows: Vec<Window>,
    pub(super) ramp_seconds: i64,
    /// Each with its file and line.
    pub(super) problems: Vec<(String, EntryProblem)>,
}

/// Previews the schedules among manifests. The error has a line for each invalid entry.
pub(super) fn preview_schedules(
    manifests: &[Manifest],
    settings: &Settings,
    from: Timestamp,
    to: Timestamp,
) -> anyhow::Result<Vec<Preview>> {
    let (mut previews, mut errors, mut steps) = (Vec::new(), Vec::new(), 0_u64);
    for manifest in manifests.iter().filter(|manifest| is_schedule(&manifest.object)) {
        let name = describe(&manifest.object);
        let spec = manifest.object.get("spec").cloned().unwrap_or_default();
        let metric = match compile(spec, settings) {
            Ok(metric) => metric,
            Err(messages) => {
                let error =
                    |message: String| format!("{}: {name}: {message}", place(manifest, &message));
                errors.extend(messages.into_iter().map(error));
                continue;
            }
        };
        let windows = overlapping_windows(&metric, from, to);
        let window_steps = windows.iter().map(|window| steps_of(window, settings));
        steps = window_steps.fold(steps, u64::saturating_add);
        if steps > MAX_STEPS {
            bail!(
                "{name}: spec.schedules: with this schedule, the ramps in the previewed time have \
                 {steps} steps, at most {MAX_STEPS} are allowed: preview fewer schedules at once, \
                 or reduce --scaling-schedule-ramp-steps"
            );
        }
        let preview = Preview::new(manifest, &metric, windows, settings, from, to)
            .map_err(|error| anyhow!("{name}: {error}"))?;
        previews.push(preview);
    }
    if !errors.is_empty() {
        return Err(combined_error(&errors));
    }
    Ok(previews)
}

/// Whether an object is a schedule that can be previewed.
pub(super) fn is_schedule(object: &Value) -> bool {
    string_at(object, "/apiVersion") == API_VERSION && KINDS.contains(&string_at(object, "/kind"))
}

/// The place of the field whose path `message` starts with.
fn place(manifest: &Manifest, message: &str) -> String {
    manifest.place(message.split(": ").next().unwrap_or_default())
}

fn compile(spec: Value, settings: &Settings) -> Result<ScheduledMetric, Vec<String>> {
    let spec = parse(spec)?;
    ScheduledMetric::new(&spec, settings).map_err(|error| vec![error.to_string()])
}

/// The windows that, including their ramps, overlap the previewed time, in the order of time.
fn overlapping_windows(metric: &ScheduledMetric, from: Timestamp, to: Timestamp) -> Vec<Window> {
    let mut windows = metric.windows(from, to);
    windows.retain(|window| {
        let (rise, fall) = metric.extent(window);
        rise < to && fall > from
    });
    windows.sort_by_key(|window| (window.start, window.entry));
    windows
}

/// The maximum number of steps of a window's ramps. Values are integers, so a ramp has at most as
/// many steps as the value of its window.
fn steps_of(window: &Window, settings: &Settings) -> u64 {
    let value = u64::try_from(window.value).unwrap_or_default();
    2 * value.min(settings.ramp_steps.into()).max(1)
}

/// Decodes the spec of a schedule. Fails with the first error of each invalid entry.
fn parse(spec: Value) -> Result<ScalingScheduleSpec, Vec<String>> {
    let entries = spec.get("schedules").and_then(Value::as_array).cloned().unwrap_or_default();
    deserialize("spec", spec).map_err(|error| {
        let invalid = |(index, entry)| {
            deserialize::<Schedule>(&format!("spec.schedules[{index}]"), entry).err()
        };
        let invalid: Vec<_> = entries.into_iter().enumerate().filter_map(invalid).collect();
        if invalid.is_empty() { vec![error] } else { invalid }
    })
}

/// Decodes a value. The error names the field, prefixed with `path`.
fn deserialize<T: DeserializeOwned>(path: &str, value: Value) -> Result<T, String> {
    decode_value(value).map_err(|error| error.in_member(path).to_string())
}

/// A time in a time zone, such as `Fri 2026-11-27 22:00 +00:00`.
pub(super) fn format_local(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M %:z").to_string()
}

/// The name of the previewed object, the time zone of its times, and a line for each problem.
pub(super) fn heading<P: Display>(
    name: &str,
    zone: &TimeZone,
    problems: &[(String, P)],
    is_warning: impl Fn(&P) -> bool,
) -> String {
    let zone = zone.iana_name().unwrap_or("UTC");
    let mut text = format!("{name}, times in {zone}\n");
    for (place, problem) in problems {
        let label = if is_warning(problem) { "warning" } else { "error" };
        // Writing to a string can't fail.
        let _ = writeln!(text, "{place}: {label}: {problem}");
    }
    text
}

/// Whether the entry can be evaluated: an unknown time zone is replaced by the default one.
fn is_harmless(problem: &EntryProblem) -> bool {
    matches!(problem, EntryProblem::UnknownTimeZone { .. })
}

impl Preview {
    fn new(
        manifest: &Manifest,
        metric: &ScheduledMetric,
        windows: Vec<Window>,
        settings: &Settings,
        from: Timestamp,
        to: Timestamp,
    ) -> anyhow::Result<Self> {
        let default = || settings.time_zones.get(&settings.default_time_zone);
        let zone = metric.time_zone().cloned().map_or_else(default, Ok)?;
        // An empty window has ramps, but isn't listed.
        let (windows, empty_windows): (Vec<_>, Vec<_>) =
            windows.into_iter().partition(|window| window.start < window.end);
        let listed: BTreeSet<usize> = windows.iter().map(|window| window.entry).collect();
        // Windows in the previewed time come before those outside of it.
        let mut unlisted_windows = empty_windows;
        unlisted_windows.extend(metric.windows(from, to));
        unlisted_windows.retain(|window| !listed.contains(&window.entry));
        unlisted_windows.sort_by_key(|window| window.entry);
        unlisted_windows.dedup_by_key(|window| window.entry);
        let with_place =
            |problem: &EntryProblem| (place(manifest, &problem.to_string()), problem.clone());
        Ok(Self {
            name: describe(&manifest.object),
            zone,
            from,
            to,
            // The values ignore invalid entries, which `problems` lists.
            initial_value: metric.valid_value_at(from),
            changes: metric.changes(from, to),
            windows,
            unlisted_windows,
            ramp_seconds: metric.ramp_duration().as_secs(),
            problems: metric.problems().iter().map(with_place).collect(),
        })
    }

    /// Whether all entries can be evaluated.
    pub(super) fn is_valid(&self) -> bool {
        self.problems.iter().all(|(_, problem)| is_harmless(problem))
    }

    pub(super) fn max_value(&self) -> i64 {
        self.changes.iter().map(|change| change.value).fold(self.initial_value, i64::max)
    }

    pub(super) fn json(&self) -> Value {
        let windows = self.windows.iter().map(|window| {
            let Window { entry, start, .. } = window;
            // A schedule's value is at least 0.
            let (end, value) = (window.effective_end(), window.value.max(0));
            json!({ "schedule": entry, "start": start, "end": end, "value": value })
        });
        let changes = self.changes.iter();
        let changes = changes.map(|change| json!({ "at": change.at, "value": change.value }));
        json!({
            "name": self.name,
            "timeZone": self.zone.iana_name(),
            "from": self.from,
            "to": self.to,
            "value": self.initial_value,
            "rampSeconds": self.ramp_seconds,
            "windows": windows.collect::<Vec<_>>(),
            "changes": changes.collect::<Vec<_>>(),
            "problems": self.problems.iter().map(|(_, one)| one.to_string()).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self, has_color: bool) -> String {
        let mut text = heading(&self.name, &self.zone, &self.problems, is_harmless);
        if !self.is_valid() {
            // A schedule with an invalid entry has no values, because the metric fails.
            return text;
        }
        text.push('\n');
        text.push_str(&chart::draw(self, has_color));
        text.push('\n');
        for window in &self.windows {
            let entry = format!("spec.schedules[{}]", window.entry);
            let end = self.local(window.effective_end());
            let times = format!("{} to {end}", self.local(window.start));
            // A schedule's value is at least 0.
            let note = if window.value < 0 { " (negative, so it counts as 0)" } else { "" };
            let _ = writeln!(text, "{times}  {:>8}  {entry}{note}", window.value.max(0));
        }
        for window in &self.unlisted_windows {
            let (start, end) = (self.local(window.start), self.local(window.effective_end()));
            let note = if window.start < window.end {
                format!("is outside of the drawn time: {start} to {end} (see --from)")
            } else {
                let cause = if self.is_skipped(window.start) {
                    ", because the clocks go forward"
                } else {
                    ""
                };
                format!("has an empty window: its end is not after its start, {start}{cause}")
            };
            let _ = writeln!(text, "note: spec.schedules[{}] {note}", window.entry);
        }
        let next = match self.changes.first() {
            Some(next) => format!("next {} at {}", next.value, self.local(next.at)),
            None => "no change in this time".to_owned(),
        };
        let minutes = self.ramp_seconds / 60;
        let now = self.local(self.from);
        let _ =
            writeln!(text, "{now}: value {}, {next}; ramps of {minutes} min", self.initial_value);
        text
    }

    /// Whether a window has this start because the clocks skip the local time of its entry. The
    /// window starts later then, possibly at or after its end.
    fn is_skipped(&self, start: Timestamp) -> bool {
        // Clocks go forward by an hour or two at most.
        let before = start.saturating_sub(SignedDuration::from_hours(3)).unwrap_or(start);
        let local = self.zone.to_offset(before).to_datetime(start);
        matches!(self.zone.to_ambiguous_timestamp(local).offset(), AmbiguousOffset::Gap { .. })
    }

    fn local(&self, time: Timestamp) -> String {
        format_local(time, &self.zone)
    }
}
