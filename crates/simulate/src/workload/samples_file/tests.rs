#![allow(clippy::float_cmp, clippy::unwrap_used, reason = "values are exact")]

use rstest::rstest;

use super::*;

fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

fn offsets(text: &str, column: Option<&str>) -> Vec<(f64, f64)> {
    let samples = parse_offsets(text, column).unwrap();
    samples.into_iter().map(|(at, value)| (at.get(), value)).collect()
}

#[rstest]
#[case::durations("time,rps\n0,1\n# pause\n\n1m, 2.5\n")]
#[case::exported("\u{feff}\"Time\",\"Value\"\r\n\"0\",\"1\"\r\n\"1m\",\"2.5\"\r\n")]
#[case::separator_line("\u{feff}sep=,\r\n\"Time\",\"Value\"\r\n0,1\r\n1m,2.5\r\n")]
#[case::timestamps("2026-01-01T00:00:00Z,1\n2026-01-01T00:01:00Z,2.5")]
#[case::local("2026-10-31 00:00;1;\n2026-10-31 00:01;2.5;")]
#[case::tabs("time\tload\n0\t1\n30\t\n60\t2.5")]
#[case::seconds("1767571200,1\n1767571260,2.5")]
#[case::milliseconds("1767571200000,1\n1767571260000,2.5")]
#[case::separator_in_quotes("\"Time\",\"load, in rps\"\n0,1\n60,2.5")]
fn times_become_relative_to_the_first(#[case] text: &str) {
    assert_eq!(offsets(text, None), [(0.0, 1.0), (60.0, 2.5)]);
}

#[test]
fn duration_of_the_first_sample_counts_from_the_start() {
    assert_eq!(offsets("1h,-1\n2h,2", None), [(3600.0, -1.0), (7200.0, 2.0)]);
}

#[rstest]
#[case::utc("time,load\n2026-01-05T00:00:00Z,1\n2026-01-05T00:01:00Z,2.5\n", &[0, 60])]
#[case::local("2026-01-05 01:00, 1\n\n# lunch\n2026-01-05 01:01:30, 2.5", &[0, 90])]
#[case::milliseconds("1767571200000;1\n1767571260000;2.5", &[0, 60])]
#[case::byte_order_mark_without_header("\u{feff}1767571200,1\n1767571260.5,2.5", &[0, 60])]
#[case::missing("1767571200,1\n1767571230,\n1767571260,2.5", &[0, 60])]
fn formats_of_timestamps_are_accepted(#[case] text: &str, #[case] seconds: &[i64]) {
    let samples = parse_timestamps(text, None, "--column", &berlin()).unwrap();
    let times: Vec<i64> = samples.iter().map(|(at, _)| at.as_second() - 1_767_571_200).collect();
    assert_eq!(times, seconds);
    let loads: Vec<f64> = samples.iter().map(|(_, load)| *load).collect();
    assert_eq!(loads, [1.0, 2.5]);
}

#[test]
fn repeated_hour_is_read_twice() {
    let text = "2026-10-25 02:00,1\n2026-10-25 02:30,2\n2026-10-25 02:00,3\n2026-10-25 \
                02:30,4\n2026-10-25 03:00,5\n";
    let samples = parse_timestamps(text, None, "--column", &berlin()).unwrap();
    let steps: Vec<i64> =
        samples.windows(2).map(|pair| pair[1].0.as_second() - pair[0].0.as_second()).collect();
    assert_eq!(steps, [1800; 4]);
}

#[test]
fn repeated_hour_is_read_twice_without_values_in_the_first_one() {
    let text = "2026-10-25 01:30,1\n2026-10-25 02:00,\n2026-10-25 02:30,\n2026-10-25 02:00,3\n";
    let samples = parse_timestamps(text, None, "--column", &berlin()).unwrap();
    let times: Vec<String> = samples.iter().map(|(at, _)| at.to_string()).collect();
    assert_eq!(times, ["2026-10-24T23:30:00Z", "2026-10-25T01:00:00Z"]);
}

#[rstest]
#[case::header("Time,web,api\n0,1,2\n1m,3,", "api", &[(0.0, 2.0)])]
#[case::first("Time,web,api\n0,1,2\n1m,3,", "web", &[(0.0, 1.0), (60.0, 3.0)])]
#[case::number("0,1,2\n1m,3,4", "3", &[(0.0, 2.0), (60.0, 4.0)])]
#[case::quotes_in_quotes(
    "\"Time\",\"{pod=\"\"web-0\"\"}\",\"a, \"\"b\"\"\"\n0,1,2\n1m,3,",
    r#"{pod="web-0"}"#,
    &[(0.0, 1.0), (60.0, 3.0)]
)]
#[case::quotes_at_the_end("Time,web,\"a, \"\"b\"\"\"\n0,1,2", r#"a, "b""#, &[(0.0, 2.0)])]
fn column_is_chosen(#[case] text: &str, #[case] column: &str, #[case] expected: &[(f64, f64)]) {
    assert_eq!(offsets(text, Some(column)), expected);
}

#[rstest]
#[case::several(
    "Time,web,api\n0,1,2",
    None,
    r#"line 1: several columns of values: set "column" to one of "web", "api""#
)]
#[case::several_without_header(
    "# a\n0,2,056.1",
    None,
    r#"line 2: several columns of values: set "column" to one of "2", "3""#
)]
#[case::unknown(
    "Time,web\n0,1",
    Some("api"),
    r#"line 1: no column "api": the columns of values are "web""#
)]
#[case::same_name(
    "Time,web,web\n0,1,2",
    Some("web"),
    r#"line 1: several columns "web": rename one of them"#
)]
#[case::decimal_comma(
    "t;v\n0;0,208",
    None,
    r#"line 2: column "v": "0,208" is not a number: use a decimal point, and no commas"#
)]
#[case::thousands(
    "t,v\n0,\"2,056.1\"",
    None,
    r#"line 2: column "v": "2,056.1" is not a number: use a decimal point, and no commas"#
)]
#[case::more_cells("t,v\n0,0,208", None, "line 2: expected 2 cells as in the first line, found 3")]
#[case::other_separator("t,v\n0;5", None, "line 2: expected 2 cells as in the first line, found 1")]
#[case::open_quote("t,v\n\"0,5", None, "line 2: expected 2 cells as in the first line, found 1")]
#[case::mixed_times(
    "0,1\n1767571200,2",
    None,
    "line 2: column \"1\": \"1767571200\" is not a duration or time such as 90s, 1h30m or \
     2026-11-23T08:00:00Z"
)]
#[case::earlier_time(
    "1767571200,1\n1767571100,2",
    None,
    r#"line 2: column "1": "1767571100" is not after the time of the line before"#
)]
fn invalid_offsets_are_rejected(
    #[case] text: &str,
    #[case] column: Option<&str>,
    #[case] expected: &str,
) {
    assert_eq!(parse_offsets(text, column).unwrap_err().to_string(), expected);
}

#[rstest]
#[case::no_value(
    "load\n2026-01-05T00:00:00Z",
    "line 1: expected a time and a value, separated by a comma, semicolon or tab"
)]
#[case::no_time(
    "1,1\nyesterday,2",
    r#"line 2: column "1": "yesterday" is not a time such as 2026-11-23T08:00:00Z"#
)]
#[case::no_number("1,1\n2, many", r#"line 2: column "2": "many" is not a number of at least 0"#)]
#[case::negative("1,1\n2,-1", r#"line 2: column "2": "-1" is not a number of at least 0"#)]
#[case::infinite("1,inf\n2,1", r#"line 1: column "2": "inf" is not a number of at least 0"#)]
#[case::several_columns(
    "Time,web,api\n0,1,2",
    r#"line 1: several columns of values: set --column to one of "web", "api""#
)]
#[case::order("5,1\n5,2", r#"line 2: column "1": "5" is not after the time of the line before"#)]
#[case::order_without_value(
    "5,1\n7,\n6,2",
    r#"line 3: column "1": "6" is not after the time of the line before"#
)]
fn invalid_timestamps_are_rejected(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(
        parse_timestamps(text, None, "--column", &berlin()).unwrap_err().to_string(),
        expected
    );
}
