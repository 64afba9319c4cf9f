//! Previews the values of schedules.

use std::fmt::Write;

use hpa_collectors::schedules::{
    Change, Problem, ScalingScheduleSpec, Schedule, ScheduledMetric, Settings, Window,
};
use jiff::{Timestamp, tz::TimeZone};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::chart;
use crate::{
    autoscaler_name::describe,
    manifests::{Manifest, combined_error, string_at},
};

const KINDS: [&str; 2] = ["ScalingSchedule", "ClusterScalingSchedule"];
pub(super) const API_VERSION: &str = "zalando.org/v1";

/// The values of one schedule from `from` to `to`.
pub(super) struct Preview {
    pub(super) name: String,
    pub(super) zone: TimeZone,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// The value at `from`.
    pub(super) initial_value: i64,
    pub(super) changes: Vec<Change>,
    /// The windows of the entries that overlap the previewed time, with their ramps.
    pub(super) windows: Vec<Window>,
    pub(super) ramp_seconds: i64,
    pub(super) problems: Vec<Problem>,
}

/// Previews the schedules among manifests. The error has a line for each invalid entry.
pub(super) fn preview_schedules(
    manifests: &[Manifest],
    settings: &Settings,
    from: Timestamp,
    to: Timestamp,
) -> anyhow::Result<Vec<Preview>> {
    let (mut previews, mut errors) = (Vec::new(), Vec::new());
    for Manifest { object, .. } in manifests {
        if string_at(object, "/apiVersion") != API_VERSION
            || !KINDS.contains(&string_at(object, "/kind"))
        {
            continue;
        }
        let name = describe(object);
        let preview = parse(object.get("spec").cloned().unwrap_or_default()).and_then(|spec| {
            let metric =
                ScheduledMetric::new(&spec, settings).map_err(|error| vec![error.to_string()])?;
            Preview::new(name.clone(), &metric, settings, from, to)
                .map_err(|error| vec![error.to_string()])
        });
        match preview {
            Ok(preview) => previews.push(preview),
            Err(messages) => {
                errors.extend(messages.into_iter().map(|message| format!("{name}: {message}")));
            }
        }
    }
    if !errors.is_empty() {
        return Err(combined_error(&errors));
    }
    Ok(previews)
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
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        let dot = if field == "." { "" } else { "." };
        format!("{path}{dot}{}: {}", field.trim_start_matches('.'), error.inner())
    })
}

/// A time in a time zone, such as `Fri 2026-11-27 22:00 +00:00`.
pub(super) fn format_local(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M %:z").to_string()
}

impl Preview {
    fn new(
        name: String,
        metric: &ScheduledMetric,
        settings: &Settings,
        from: Timestamp,
        to: Timestamp,
    ) -> anyhow::Result<Self> {
        let default = || settings.time_zones.get(&settings.default_time_zone);
        let zone = metric.time_zone().cloned().map_or_else(default, Ok)?;
        let is_visible = |window: &Window| {
            let (rise, fall) = metric.extent(window);
            window.start < window.end && rise < to && fall > from
        };
        let mut windows = metric.windows(from, to);
        windows.retain(is_visible);
        windows.sort_by_key(|window| (window.start, window.entry));
        // The values ignore invalid entries, which `problems` lists.
        let (initial_value, changes) = (metric.valid_value_at(from), metric.changes(from, to));
        let problems = metric.problems().to_vec();
        let ramp_seconds = metric.ramp_duration().as_secs();
        Ok(Self { name, zone, from, to, initial_value, changes, windows, ramp_seconds, problems })
    }

    /// Whether all entries can be evaluated. An unknown time zone is replaced by the default one.
    pub(super) fn is_valid(&self) -> bool {
        self.problems.iter().all(|problem| matches!(problem, Problem::UnknownTimeZone { .. }))
    }

    pub(super) fn max_value(&self) -> i64 {
        self.changes.iter().map(|change| change.value).fold(self.initial_value, i64::max)
    }

    pub(super) fn json(&self) -> Value {
        let windows = self.windows.iter().map(|window| {
            let Window { entry, start, value, .. } = window;
            let end = window.effective_end();
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
            "problems": self.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self, has_color: bool) -> String {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        let mut text = format!("{}, times in {zone}\n", self.name);
        // Writing to a string can't fail.
        for problem in &self.problems {
            let label = match problem {
                Problem::UnknownTimeZone { .. } => "warning",
                _ => "error",
            };
            let _ = writeln!(text, "{label}: {problem}");
        }
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
            let _ = writeln!(text, "{times}  {:>8}  {entry}", window.value);
        }
        let next = self.changes.first().map(|change| (self.local(change.at), change.value));
        let next = next.map_or_else(
            || "no change in this time".to_owned(),
            |(at, value)| format!("next {value} at {at}"),
        );
        let minutes = self.ramp_seconds / 60;
        let now = self.local(self.from);
        let _ =
            writeln!(text, "{now}: value {}, {next}; ramps of {minutes} min", self.initial_value);
        text
    }

    fn local(&self, time: Timestamp) -> String {
        format_local(time, &self.zone)
    }
}
