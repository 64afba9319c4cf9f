//! `scaling_schedule`: the value of a schedule of kube-metrics-adapter at a time.

use hpa_collectors::schedules::{
    Compat, EntryProblem, ScalingScheduleSpec, ScheduleError, ScheduledMetric, Settings, Window,
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::compare;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    default_scaling_window_minutes: i64,
    default_time_zone: String,
    ramp_steps: u32,
    now: Timestamp,
    spec: ScalingScheduleSpec,
}

/// With [`Compat::Reference`], a line must have the recorded results. With [`Compat::Off`], the
/// value may differ only because of a window or ramp beyond midnight.
pub(crate) fn check(line: &Value) -> Result<(), String> {
    let case = Line::deserialize(line).map_err(|error| format!("line: {error}"))?;
    let settings = |compat| Settings {
        default_ramp_duration: SignedDuration::from_mins(case.default_scaling_window_minutes),
        default_time_zone: case.default_time_zone.clone(),
        ramp_steps: case.ramp_steps,
        compat,
        ..Settings::default()
    };
    let value = |compat| -> Result<(ScheduledMetric, i64), ScheduleError> {
        let metric = ScheduledMetric::new(&case.spec, &settings(compat))?;
        let value = metric.value_at(case.now)?;
        Ok((metric, value))
    };
    let compatible = value(Compat::Reference);
    let error = compatible.as_ref().err().map(reference_text);
    ensure_equal("error", line, &json!(error))?;
    let ((metric, compatible), (default_metric, default)) = match (compatible, value(Compat::Off)) {
        (Ok(compatible), Ok(default)) => (compatible, default),
        (Err(_), Err(_)) => return Ok(()),
        _ => return Err("only one of the two modes fails".to_owned()),
    };
    ensure_equal("value", line, &json!(compatible))?;
    let windows = metric.windows(case.now, case.now);
    let window_of_entry = |index| windows.iter().find(|window: &&Window| window.entry == index);
    let windows = (0..case.spec.schedules.len()).map(|index| window_of_entry(index).map(interval));
    ensure_equal("windows", line, &json!(windows.collect::<Vec<_>>()))?;

    if default == compatible || is_beyond_midnight(&default_metric, &case) {
        return Ok(());
    }
    Err(format!("default: {default} instead of {compatible}, although no window crosses midnight"))
}

/// The text of kube-metrics-adapter for an error.
fn reference_text(error: &ScheduleError) -> &'static str {
    match error {
        ScheduleError::NegativeScalingWindow(_) => "scaling window duration cannot be negative",
        // kube-metrics-adapter has no limit.
        ScheduleError::TooManyEntries(_) => "no error",
        ScheduleError::UnknownDefaultTimeZone(_) => "unexpected error loading default location",
        ScheduleError::Entry(EntryProblem::InvalidTime { field: "startTime", .. }) => {
            "could not parse the specified schedule period start time, format is not HH:MM"
        }
        ScheduleError::Entry(_) => {
            "could not parse the specified schedule date, format is not RFC3339"
        }
    }
}

/// Whether one of the windows that are active now, including its ramps, starts on another day than
/// now, or ends on another day than it starts. Days are those of the window's time zone.
fn is_beyond_midnight(metric: &ScheduledMetric, case: &Line) -> bool {
    metric.windows(case.now, case.now).iter().any(|window| {
        let schedule = &case.spec.schedules[window.entry];
        let Some(period) = &schedule.period else { return false };
        let zone = Settings::default().time_zones;
        let zone = zone.get(&period.timezone).or_else(|_| zone.get(&case.default_time_zone));
        let zone = zone.expect("a time zone");
        let date = |time: Timestamp| zone.to_datetime(time).date();
        let is_active = window.start.saturating_sub(metric.ramp_duration()).expect("a time")
            <= case.now
            && case.now < window.end.saturating_add(metric.ramp_duration()).expect("a time");
        is_active
            && (date(window.start) != date(case.now) || date(window.end) != date(window.start))
    })
}

fn interval(window: &Window) -> [Timestamp; 2] {
    [window.start, window.end]
}

fn ensure_equal(field: &str, line: &Value, got: &Value) -> Result<(), String> {
    let expected = line.get(field).unwrap_or(&Value::Null);
    compare::ensure_equal(field, expected, got)
}
