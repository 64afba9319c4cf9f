//! Recorded load.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::seconds::{Seconds, SecondsError};

/// The largest size of a file, in bytes.
pub const MAX_FILE_SIZE: u64 = 4 << 20;

/// Samples of a load over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Samples {
    /// A CSV file, relative to the scenario's file: one time and value per line, with an optional
    /// header. Times are durations ([`Seconds`]), or timestamps relative to the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Time and value, ordered by time. Read from `file` when the scenario is loaded.
    #[serde(default)]
    pub points: Vec<(Seconds, f64)>,
    #[serde(default)]
    pub interpolation: Interpolation,
}

/// The load between two samples.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Interpolation {
    /// On the line between them.
    #[default]
    Linear,
    /// As at the earlier sample.
    Step,
}

/// Why a CSV file can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}")]
pub struct SamplesError {
    line: usize,
    #[source]
    problem: LineError,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum LineError {
    #[error("expected a time and a value")]
    MissingValue,
    #[error("\"{0}\" is not a number")]
    InvalidValue(String),
    #[error(transparent)]
    InvalidTime(#[from] SecondsError),
}

impl Samples {
    pub(super) fn value(&self, second: f64) -> f64 {
        let after = self.points.partition_point(|(at, _)| at.get() <= second);
        let before = after.checked_sub(1).and_then(|index| self.points.get(index));
        match (before, self.points.get(after)) {
            (Some((from, low)), Some((to, high)))
                if self.interpolation == Interpolation::Linear =>
            {
                low + (high - low) * (second - from.get()) / (to.get() - from.get())
            }
            (Some((_, value)), _) | (None, Some((_, value))) => *value,
            (None, None) => 0.0,
        }
    }
}

/// Parses a CSV file of times and values. Empty lines and lines that start with `#` are skipped.
pub fn parse_csv(text: &str) -> Result<Vec<(Seconds, f64)>, SamplesError> {
    let mut points = Vec::new();
    let mut start = None;
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let is_header = |line: &str| line.chars().next().is_some_and(char::is_alphabetic);
    lines.next_if(|(_, line)| is_header(line));
    for (line, text) in lines {
        points
            .push(parse_line(text, &mut start).map_err(|problem| SamplesError { line, problem })?);
    }
    Ok(points)
}

fn parse_line(line: &str, start: &mut Option<Timestamp>) -> Result<(Seconds, f64), LineError> {
    let (time, value) = line.split_once(',').ok_or(LineError::MissingValue)?;
    let value = value.trim();
    let parsed = value.parse().map_err(|_| LineError::InvalidValue(value.to_owned()))?;
    Ok((parse_time(time.trim(), start)?, parsed))
}

fn parse_time(text: &str, start: &mut Option<Timestamp>) -> Result<Seconds, SecondsError> {
    let Ok(time) = text.parse::<Timestamp>() else { return text.parse() };
    let start = *start.get_or_insert(time);
    Ok(Seconds::new(time.duration_since(start).as_secs_f64()))
}
