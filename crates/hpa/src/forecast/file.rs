//! A load from a CSV file.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::manifests::{file_name, read_text};

/// The largest size of a file in bytes: four weeks of a sample each second.
const MAX_SIZE: u64 = 128 << 20;
/// A larger time is in milliseconds since 1970, a smaller one in seconds.
const MAX_SECONDS: f64 = 1e11;

/// The samples of a file, in order of time.
pub(super) fn read(path: &Path, zone: &TimeZone) -> anyhow::Result<Vec<(Timestamp, f64)>> {
    let name = file_name(path);
    let text = read_text(path, MAX_SIZE).with_context(|| format!("unable to read {name}"))?;
    parse(&text, zone).map_err(|error| anyhow!("{name}:{error}"))
}

/// Parses lines of a time and a value. Skips a byte order mark, empty lines, lines that start with
/// `#`, a header, and times whose value is empty. The error is `line:column: problem`.
fn parse(text: &str, zone: &TimeZone) -> anyhow::Result<Vec<(Timestamp, f64)>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut samples: Vec<(Timestamp, f64)> = Vec::new();
    // Also the time of a line without a value.
    let mut previous: Option<Timestamp> = None;
    let lines = text.lines().enumerate();
    let mut lines =
        lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')).peekable();
    let is_header = |line: &str| {
        let start = line.trim_start_matches(|c: char| c.is_whitespace() || c == '"');
        start.starts_with(char::is_alphabetic)
    };
    lines.next_if(|(_, line)| is_header(line));
    for (index, line) in lines {
        let error = |at: usize, problem: String| {
            let column = line.get(..at).unwrap_or(line).chars().count() + 1;
            anyhow!("{}:{column}: {problem}", index + 1)
        };
        let Some((time, value)) = line.split_once([',', ';', '\t']) else {
            let problem = "expected a time and a load, such as 2026-11-23T08:00:00Z,120";
            return Err(error(line.len(), problem.to_owned()));
        };
        let at = parse_time(time.trim().trim_matches('"'), zone, previous)
            .ok_or_else(|| error(0, format!("{time:?} is no time such as 2026-11-23T08:00:00Z")))?;
        if previous.is_some_and(|previous| at <= previous) {
            return Err(error(0, format!("{time:?} is not after the time before it")));
        }
        previous = Some(at);
        let start = time.len() + 1;
        let cell = value.split([',', ';', '\t']).next().unwrap_or(value);
        let cell = cell.trim().trim_matches('"');
        if cell.is_empty() {
            // A missing value.
            continue;
        }
        let load = cell.parse::<f64>().ok().filter(|load| load.is_finite() && *load >= 0.0);
        let Some(load) = load else {
            return Err(error(start, format!("{cell:?} is no load: expected a number from 0 on")));
        };
        samples.push((at, load));
    }
    if samples.len() < 2 {
        bail!("{}:1: the file has fewer than two samples", text.lines().count().max(1));
    }
    Ok(samples)
}

/// Parses a time. If the clock is set back, a local time occurs twice. It counts as the second one
/// if the first one is not after `previous`, the time of the previous line.
fn parse_time(text: &str, zone: &TimeZone, previous: Option<Timestamp>) -> Option<Timestamp> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    if let Ok(seconds) = text.parse::<f64>() {
        let seconds = if seconds > MAX_SECONDS { seconds / 1000.0 } else { seconds };
        let since = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
        return Timestamp::UNIX_EPOCH.checked_add(since).ok();
    }
    let local = zone.to_ambiguous_timestamp(text.parse::<DateTime>().ok()?);
    let at = local.compatible().ok()?;
    if previous.is_some_and(|previous| at <= previous) { local.later().ok() } else { Some(at) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn berlin() -> TimeZone {
        TimeZone::get("Europe/Berlin").unwrap()
    }

    #[rstest]
    #[case::utc("time,load\n2026-01-05T00:00:00Z,1\n2026-01-05T00:01:00Z,2.5\n", &[0, 60])]
    #[case::local("2026-01-05 01:00, 1\n\n# lunch\n2026-01-05 01:01:30, 2.5", &[0, 90])]
    #[case::seconds("1767571200,1\n1767571260.5,2.5,more", &[0, 60])]
    #[case::milliseconds("1767571200000;1\n1767571260000;2.5", &[0, 60])]
    #[case::quoted_header("\"Time\",\"Value\"\n\"1767571200\",\"1\"\n1767571260,2.5", &[0, 60])]
    #[case::byte_order_mark("\u{feff}Time,Value\n1767571200,1\n1767571260,2.5", &[0, 60])]
    #[case::byte_order_mark_without_header("\u{feff}1767571200,1\n1767571260,2.5", &[0, 60])]
    #[case::missing("1767571200,1\n1767571230,\n1767571260,2.5", &[0, 60])]
    fn formats_of_times_are_accepted(#[case] text: &str, #[case] seconds: &[i64]) {
        let samples = parse(text, &berlin()).unwrap();
        let times: Vec<i64> =
            samples.iter().map(|(at, _)| at.as_second() - 1_767_571_200).collect();
        assert_eq!(times, seconds);
        let loads: Vec<f64> = samples.iter().map(|(_, load)| *load).collect();
        assert_eq!(loads, [1.0, 2.5]);
    }

    #[test]
    fn repeated_hour_is_read_twice() {
        let text = "2026-10-25 02:00,1\n2026-10-25 02:30,2\n2026-10-25 02:00,3\n\
                    2026-10-25 02:30,4\n2026-10-25 03:00,5\n";
        let samples = parse(text, &berlin()).unwrap();
        let steps: Vec<i64> =
            samples.windows(2).map(|pair| pair[1].0.as_second() - pair[0].0.as_second()).collect();
        assert_eq!(steps, [1800; 4]);
    }

    #[test]
    fn repeated_hour_is_read_twice_without_values_in_the_first_one() {
        let text = "2026-10-25 01:30,1\n2026-10-25 02:00,\n2026-10-25 02:30,\n\
                    2026-10-25 02:00,3\n";
        let samples = parse(text, &berlin()).unwrap();
        let times: Vec<String> = samples.iter().map(|(at, _)| at.to_string()).collect();
        assert_eq!(times, ["2026-10-24T23:30:00Z", "2026-10-25T01:00:00Z"]);
    }

    #[rstest]
    #[case::no_value(
        "time,load\n2026-01-05T00:00:00Z",
        "2:21: expected a time and a load, such as 2026-11-23T08:00:00Z,120"
    )]
    #[case::no_time_and_value(
        "# per hour\n2011-05-02T00:00:00Z,3600,UTC\n177",
        "3:4: expected a time and a load, such as 2026-11-23T08:00:00Z,120"
    )]
    #[case::no_time(
        "1,1\nyesterday,2",
        "2:1: \"yesterday\" is no time such as 2026-11-23T08:00:00Z"
    )]
    #[case::no_number("1,1\n2, many", "2:3: \"many\" is no load: expected a number from 0 on")]
    #[case::negative("1,1\n2,-1", "2:3: \"-1\" is no load: expected a number from 0 on")]
    #[case::infinite("1,inf\n2,1", "1:3: \"inf\" is no load: expected a number from 0 on")]
    #[case::order("5,1\n5,2", "2:1: \"5\" is not after the time before it")]
    #[case::order_without_value("5,1\n7,\n6,2", "3:1: \"6\" is not after the time before it")]
    #[case::empty("", "1:1: the file has fewer than two samples")]
    fn error_names_line_and_column(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(parse(text, &berlin()).unwrap_err().to_string(), expected);
    }
}
