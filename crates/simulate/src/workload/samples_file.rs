//! Files of recorded samples (CSV).
//!
//! A line has a time and one or more values, separated by `,`, `;` or a tab, as in the first line.
//! Cells may be in quotes; in them, two quotes are one. A header names the columns; without one,
//! they are numbered from 1. A byte order mark, a first line `sep=,` (of Grafana, for Excel), empty
//! lines, lines that start with `#`, and times whose value is empty are skipped.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

use super::seconds::Seconds;

/// The largest number of seconds after the start in [`parse_offsets`] (31 years). A larger number
/// is a time since 1970.
const MAX_OFFSET: f64 = 1e9;
/// The largest time since 1970 that is in seconds. A larger one is in milliseconds.
const MAX_UNIX_SECONDS: f64 = 1e11;
const BYTE_ORDER_MARK: char = '\u{feff}';
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// The line of a file that can't be read, and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct SamplesError {
    line: usize,
    problem: String,
}

/// Parses samples with durations ([`Seconds`]), or with times as in [`parse_timestamps`], which
/// become durations since the first one. Local times are in UTC. `column` is required if the file
/// has several columns of values.
pub fn parse_offsets(
    text: &str,
    column: Option<&str>,
) -> Result<Vec<(Seconds, f64)>, SamplesError> {
    let mut start: Option<Timestamp> = None;
    let rules = CellRules {
        times: "a duration or time such as 90s, 1h30m or 2026-11-23T08:00:00Z",
        // A part of a sum may be negative.
        min_value: f64::MIN,
        column_setting: "\"column\"",
    };
    parse(text, column, rules, |cell: &str, previous: Option<Seconds>| {
        let offset = cell.parse().ok().filter(|offset: &Seconds| offset.get() <= MAX_OFFSET);
        // The first line decides whether the file has durations or times.
        if start.is_none() && (offset.is_some() || previous.is_some()) {
            return offset;
        }
        let at = parse_timestamp(cell, &TimeZone::UTC, None)?;
        let start = *start.get_or_insert(at);
        Some(Seconds::new(at.duration_since(start).as_secs_f64()))
    })
}

/// Parses samples with timestamps, local times in `zone`, or seconds or milliseconds since 1970.
/// Values are at least 0. `column` is required if the file has several columns of values; errors
/// name it `column_setting`.
pub fn parse_timestamps(
    text: &str,
    column: Option<&str>,
    column_setting: &'static str,
    zone: &TimeZone,
) -> Result<Vec<(Timestamp, f64)>, SamplesError> {
    let times = "a time such as 2026-11-23T08:00:00Z";
    let rules = CellRules { times, min_value: 0.0, column_setting };
    parse(text, column, rules, |cell: &str, previous: Option<Timestamp>| {
        parse_timestamp(cell, zone, previous)
    })
}

/// The rules for the cells of a file.
#[derive(Clone, Copy)]
struct CellRules {
    /// For errors.
    times: &'static str,
    min_value: f64,
    /// The setting that chooses the column with the values, for errors.
    column_setting: &'static str,
}

/// Parses samples in order of time. `parse_time` parses the time of a line, given that of the line
/// before.
fn parse<T: Copy + PartialOrd>(
    text: &str,
    column: Option<&str>,
    rules: CellRules,
    mut parse_time: impl FnMut(&str, Option<T>) -> Option<T>,
) -> Result<Vec<(T, f64)>, SamplesError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let is_skipped = |number: usize, line: &str| {
        line.is_empty() || line.starts_with('#') || (number == 1 && line.starts_with("sep="))
    };
    let lines = lines.filter(|(number, line)| !is_skipped(*number, line.trim_start()));
    let mut lines = lines.peekable();
    let Some((line, first)) = lines.peek().copied() else { return Ok(Vec::new()) };
    let columns = Columns::new(first, column, rules.column_setting)
        .map_err(|problem| SamplesError { line, problem })?;
    lines.next_if(|_| columns.has_header);
    let mut samples = Vec::new();
    // Also the time of a line without a value.
    let mut previous = None;
    for (line, text) in lines {
        let (at, value) = columns
            .parse_line(text, rules, previous, &mut parse_time)
            .map_err(|problem| SamplesError { line, problem })?;
        previous = Some(at);
        samples.extend(value.map(|value| (at, value)));
    }
    Ok(samples)
}

/// The columns of a file. The first one has the times.
struct Columns {
    separator: char,
    has_header: bool,
    names: Vec<String>,
    /// The index of the column with the values.
    value: usize,
}

impl Columns {
    /// Reads the columns from the first line. `chosen` is the name of the column with the values.
    /// Errors name `setting` as the way to choose it.
    fn new(first: &str, chosen: Option<&str>, setting: &str) -> Result<Self, String> {
        let mut is_quoted = false;
        let separator = first.chars().find(|c| {
            is_quoted ^= *c == '"';
            !is_quoted && SEPARATORS.contains(c)
        });
        let separator = separator
            .ok_or("expected a time and a value, separated by a comma, semicolon or tab")?;
        let cells = split(first, separator);
        let has_header = cells.first().is_some_and(|cell| cell.starts_with(char::is_alphabetic));
        let count = cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
        let cells = cells.into_iter().take(count.max(2));
        let names: Vec<String> = if has_header {
            cells.map(Cow::into_owned).collect()
        } else {
            (1..=cells.len()).map(|number| number.to_string()).collect()
        };
        let values = names.iter().enumerate().skip(1);
        let mut matching = values.filter(|(_, name)| chosen.is_none_or(|chosen| chosen == *name));
        if let (Some((value, _)), None) = (matching.next(), matching.next()) {
            return Ok(Self { separator, has_header, names, value });
        }
        let listed: Vec<String> = names.iter().skip(1).map(|name| format!("{name:?}")).collect();
        let listed = listed.join(", ");
        Err(match chosen {
            Some(chosen) if names.iter().skip(1).any(|name| name == chosen) => {
                format!("several columns {chosen:?}: rename one of them")
            }
            Some(chosen) => format!("no column {chosen:?}: the columns of values are {listed}"),
            None => format!("several columns of values: set {setting} to one of {listed}"),
        })
    }

    /// Parses a line after the header. The value is `None` if its cell is empty.
    fn parse_line<T: Copy + PartialOrd>(
        &self,
        line: &str,
        rules: CellRules,
        previous: Option<T>,
        parse_time: &mut impl FnMut(&str, Option<T>) -> Option<T>,
    ) -> Result<(T, Option<f64>), String> {
        let mut cells = split(line, self.separator);
        let count = self.names.len();
        while cells.len() > count && cells.last().is_some_and(|cell| cell.is_empty()) {
            cells.pop();
        }
        let cell = |index: usize| cells.get(index).map(|cell| &**cell);
        let (Some(time), Some(value), true) = (cell(0), cell(self.value), cells.len() == count)
        else {
            return Err(format!(
                "expected {count} cells as in the first line, found {}",
                cells.len()
            ));
        };
        let error = |column: usize, cell: &str, expected: &str| {
            let name = self.names.get(column).map_or("", String::as_str);
            format!("column {name:?}: {cell:?} is not {expected}")
        };
        let at = parse_time(time, previous).ok_or_else(|| error(0, time, rules.times))?;
        if previous.is_some_and(|previous| at <= previous) {
            return Err(error(0, time, "after the time of the line before"));
        }
        if value.is_empty() {
            return Ok((at, None));
        }
        let number = value.parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite() && *number >= rules.min_value);
        let numbers = if rules.min_value < 0.0 { "a number" } else { "a number of at least 0" };
        let comma = if value.contains(',') { ": use a decimal point, and no commas" } else { "" };
        number
            .map(|number| (at, Some(number)))
            .ok_or_else(|| error(self.value, value, &format!("{numbers}{comma}")))
    }
}

/// The cells of a line, without their quotes.
fn split(line: &str, separator: char) -> Vec<Cow<'_, str>> {
    let mut is_quoted = false;
    let cells = line.split(|c: char| {
        is_quoted ^= c == '"';
        !is_quoted && c == separator
    });
    cells.map(|cell| unquote(cell.trim())).collect()
}

/// A cell without the quotes around it, if there are any.
fn unquote(cell: &str) -> Cow<'_, str> {
    let Some(quoted) = cell.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return cell.into();
    };
    let text = quoted.trim();
    if text.contains("\"\"") { text.replace("\"\"", "\"").into() } else { text.into() }
}

/// Parses a time. A local time occurs twice if the clock is set back. The result is the first
/// occurrence if it is after `previous`, the time of the previous line, else the second one.
fn parse_timestamp(text: &str, zone: &TimeZone, previous: Option<Timestamp>) -> Option<Timestamp> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    if let Ok(number) = text.parse::<f64>() {
        let seconds = if number > MAX_UNIX_SECONDS { number / 1000.0 } else { number };
        let since = SignedDuration::try_from_secs_f64(seconds).ok()?;
        return Timestamp::UNIX_EPOCH.checked_add(since).ok();
    }
    let local = zone.to_ambiguous_timestamp(text.parse::<DateTime>().ok()?);
    let at = local.compatible().ok()?;
    if previous.is_some_and(|previous| at <= previous) { local.later().ok() } else { Some(at) }
}
