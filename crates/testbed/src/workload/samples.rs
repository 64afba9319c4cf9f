//! Load that was recorded.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::seconds::Seconds;

/// A file is no larger than this, in bytes.
pub(crate) const LARGEST_FILE: u64 = 4 << 20;

/// Samples of a load over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Samples {
    /// A CSV file, relative to the scenario's: time and value in each line, with or without a header. The time is a span
    /// ([`Seconds`]), or a timestamp of which the first is the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Time and value, in order of time; what a file has comes here when the scenario is loaded.
    #[serde(default)]
    pub points: Vec<(Seconds, f64)>,
    /// What it is between two samples.
    #[serde(default)]
    pub interpolation: Interpolation,
}

/// What a load is between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Interpolation {
    /// On a straight line.
    #[default]
    Linear,
    /// As at the sample before.
    Step,
}

/// Why a text is no table of samples.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct SamplesError {
    line: usize,
    problem: String,
}

impl Samples {
    pub(crate) fn value(&self, second: f64) -> f64 {
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

    pub(crate) fn problem(&self) -> Option<String> {
        if self.points.is_empty() {
            return Some("samples: there is none".to_owned());
        }
        if self.points.iter().any(|(_, value)| !value.is_finite()) {
            return Some("samples: must be finite numbers".to_owned());
        }
        let in_order = self.points.is_sorted_by(|(one, _), (next, _)| one < next);
        (!in_order).then(|| "samples: must be in order of time, each time once".to_owned())
    }
}

/// Reads a CSV table of time and value. Empty lines and those that begin with `#` are skipped.
pub(crate) fn parse_csv(text: &str) -> Result<Vec<(Seconds, f64)>, SamplesError> {
    let mut points = Vec::new();
    let mut start = None;
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let is_header = |line: &str| line.chars().next().is_some_and(char::is_alphabetic);
    lines.next_if(|(_, line)| is_header(line));
    for (number, line) in lines {
        let error = |problem: String| SamplesError { line: number, problem };
        let (time, value) =
            line.split_once(',').ok_or_else(|| error("there is no time and value".to_owned()))?;
        let value = value
            .trim()
            .parse()
            .map_err(|_| error(format!("\"{}\" is no number", value.trim())))?;
        points.push((time_of(time.trim(), &mut start).map_err(error)?, value));
    }
    Ok(points)
}

fn time_of(text: &str, start: &mut Option<Timestamp>) -> Result<Seconds, String> {
    let Ok(time) = text.parse::<Timestamp>() else {
        return text.parse::<Seconds>().map_err(|error| error.to_string());
    };
    let start = *start.get_or_insert(time);
    Ok(Seconds::new(time.duration_since(start).as_secs_f64()))
}
