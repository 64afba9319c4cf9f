use jiff::{Timestamp, ToSpan};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

mod changes;

fn metric(spec: Value, compat: Compat) -> ScheduledMetric {
    let spec: ScalingScheduleSpec = serde_json::from_value(spec).expect("a spec");
    ScheduledMetric::new(&spec, &Settings { compat, ..Settings::default() }).expect("a metric")
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn repeating(start: &str, end: &str, days: &[&str], zone: &str) -> Value {
    let period = json!({"startTime": start, "endTime": end, "days": days, "timezone": zone});
    json!({"type": "Repeating", "value": 100, "period": period})
}

/// The first change after `from`, with the windows up to `to`.
fn next_change(metric: &ScheduledMetric, from: Timestamp, to: Timestamp) -> Option<Change> {
    let windows = metric.effective_windows(from, to);
    let at = metric.next_change_in(&windows, from)?;
    Some(Change { at, value: metric.value_in(&windows, at) })
}

fn nightly() -> Value {
    json!({
        "scalingWindowDurationMinutes": 30,
        "schedules": [repeating("22:00", "02:00", &["Fri"], "Europe/Berlin")],
    })
}

/// 2026-11-27 is a Friday; Berlin is one hour ahead of UTC.
#[rstest]
#[case("2026-11-27T20:29:59Z", 0, 0)]
#[case("2026-11-27T20:45:00Z", 50, 50)]
// In kube-metrics-adapter, the window is empty, but has both ramps.
#[case("2026-11-27T21:00:00Z", 100, 100)]
#[case("2026-11-27T21:15:00Z", 100, 50)]
#[case("2026-11-27T23:00:00Z", 100, 0)]
#[case("2026-11-28T00:59:59Z", 100, 0)]
#[case("2026-11-28T01:00:00Z", 100, 0)]
#[case("2026-11-28T01:15:00Z", 50, 0)]
#[case("2026-11-28T01:30:00Z", 0, 0)]
#[case("2026-11-28T21:00:00Z", 0, 0)]
fn window_continues_across_midnight_unless_compatible(
    #[case] time: &str,
    #[case] value: i64,
    #[case] reference: i64,
) {
    assert_eq!(metric(nightly(), Compat::Off).value_at(at(time)), Ok(value));
    let compatible = metric(nightly(), Compat::Reference);
    assert_eq!(compatible.value_at(at(time)), Ok(reference));
}

#[test]
fn ramp_starts_on_the_day_before() {
    let spec = json!({
        "scalingWindowDurationMinutes": 60,
        "schedules": [repeating("00:30", "08:00", &["Sat"], "UTC")],
    });
    let friday = at("2026-11-27T23:45:00Z");
    assert_eq!(metric(spec.clone(), Compat::Off).value_at(friday), Ok(20));
    assert_eq!(metric(spec, Compat::Reference).value_at(friday), Ok(0));
}

#[rstest]
#[case::equal_times_have_no_length("08:00", "08:00", "2026-11-27T08:00:00Z", 0)]
#[case::midnight_is_an_end("22:00", "00:00", "2026-11-27T23:59:59Z", 100)]
#[case::midnight_is_a_start("00:00", "06:00", "2026-11-27T00:00:00Z", 100)]
fn window_may_start_or_end_at_midnight_or_be_empty(
    #[case] start: &str,
    #[case] end: &str,
    #[case] time: &str,
    #[case] value: i64,
) {
    let spec = json!({
        "scalingWindowDurationMinutes": 0,
        "schedules": [repeating(start, end, &["Fri"], "UTC")],
    });
    assert_eq!(metric(spec, Compat::Off).value_at(at(time)), Ok(value));
}

#[test]
fn time_skipped_by_a_clock_change_is_resolved_like_in_go() {
    // New York skips 02:00 to 03:00 on 2026-03-08, and Go moves 02:30 back to 01:30.
    let spec = json!({
        "scalingWindowDurationMinutes": 0,
        "schedules": [repeating("02:30", "04:00", &["Sun"], "America/New_York")],
    });
    let metric = metric(spec, Compat::Off);
    assert_eq!(metric.value_at(at("2026-03-08T06:29:59Z")), Ok(0));
    assert_eq!(metric.value_at(at("2026-03-08T06:30:00Z")), Ok(100));
}

#[test]
fn window_of_a_weekly_entry_may_last_all_week() {
    let mut entry = repeating("08:00", "", &["Mon"], "UTC");
    entry["durationMinutes"] = json!(i64::MAX);
    let metric = metric(json!({"schedules": [entry]}), Compat::Off);
    for day in 0..14 {
        let time = at("2026-11-22T00:00:00Z") + (24 * day).hours();
        assert_eq!(metric.value_at(time), Ok(100), "{time}");
    }
}

#[test]
fn invalid_entry_is_always_reported_and_fails_on_its_days() {
    let schedules = json!({"schedules": [repeating("25:99", "", &["Fri"], "UTC")]});
    let metric = metric(schedules, Compat::Off);
    let error = metric.value_at(at("2026-11-27T12:00:00Z")).expect_err("a Friday");
    let text = r#"spec.schedules[0].period.startTime: "25:99" is not a time HH:MM"#;
    assert_eq!(error.to_string(), text);
    assert_eq!(metric.value_at(at("2026-11-28T12:00:00Z")), Ok(0));
    assert_eq!(metric.problems().iter().map(ToString::to_string).collect::<Vec<_>>(), [text]);
}

#[rstest]
#[case(json!({"type": "OneTime", "value": 1}), "spec.schedules[0].date: required")]
#[case(json!({"type": "Repeating", "value": 1}), "spec.schedules[0].period: required")]
#[case(json!({"type": "OneTime", "date": "yesterday", "value": 1}), "\"yesterday\" is not a date")]
#[case(
    json!({"type": "OneTime", "date": "2026-01-01T00:00:00Z", "endDate": "2026-01-01", "value": 1}),
    "spec.schedules[0].endDate: \"2026-01-01\" is not a date"
)]
#[case(repeating("8:00", "8:0", &["Fri"], "UTC"), "period.endTime: \"8:0\" is not a time")]
fn incomplete_entry_is_an_error_not_a_panic(#[case] entry: Value, #[case] expected: &str) {
    for compat in [Compat::Off, Compat::Reference] {
        let metric = metric(json!({"schedules": [entry]}), compat);
        let error = metric.value_at(at("2026-11-27T12:00:00Z")).expect_err("an error");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn unknown_time_zone_is_a_problem_and_replaced_by_the_default() {
    let spec = json!({"schedules": [repeating("08:00", "09:00", &["Fri"], "europe/berlin")]});
    let metric = metric(spec, Compat::Off);
    assert_eq!(metric.value_at(at("2026-11-27T07:00:00Z")), Ok(100));
    let problem = metric.problems().first().expect("a problem").to_string();
    assert!(problem.contains(r#"unknown time zone "europe/berlin", using Europe/Berlin"#));
    let settings = Settings { default_time_zone: "Mars".to_owned(), ..Settings::default() };
    let error = ScheduledMetric::new(&ScalingScheduleSpec::default(), &settings);
    assert_eq!(error.expect_err("Mars").to_string(), "unknown default time zone \"Mars\"");
}

#[rstest]
#[case("2026-01-31T08:00:00Z", Some("2026-01-31T08:00:00Z"))]
#[case("2026-01-31T08:00:00.5+02:00", Some("2026-01-31T06:00:00.5Z"))]
#[case("2026-01-31T08:00:00,5Z", Some("2026-01-31T08:00:00.5Z"))]
#[case("2026-01-31T08:00:00.1234567891Z", Some("2026-01-31T08:00:00.123456789Z"))]
#[case("2026-01-31T08:00:60Z", None)]
#[case("2026-01-31T08:00:00.Z", None)]
#[case("2026-01-31 08:00:00Z", None)]
#[case("2026-01-31T08:00:00", None)]
#[case("2026-01-31T08:00:00+0200", None)]
#[case("2026-01-31T08:00:00Z[UTC]", None)]
#[case("2026-02-30T08:00:00Z", None)]
#[case("", None)]
fn timestamp_has_the_format_of_rfc_3339(#[case] text: &str, #[case] expected: Option<&str>) {
    assert_eq!(zone::parse_timestamp(text), expected.map(at));
}

#[test]
fn negative_scaling_window_is_an_error() {
    let spec = json!({"scalingWindowDurationMinutes": -1, "schedules": []});
    let spec: ScalingScheduleSpec = serde_json::from_value(spec).expect("a spec");
    let error = ScheduledMetric::new(&spec, &Settings::default()).expect_err("negative");
    assert_eq!(error, ScheduleError::NegativeScalingWindow(-1));
}

#[test]
fn status_is_active_in_windows_and_ramps() {
    let metric = metric(nightly(), Compat::Off);
    for (time, is_active) in [
        ("2026-11-27T20:29:59Z", false),
        // Before the first step, the value is still 0.
        ("2026-11-27T20:30:00Z", true),
        ("2026-11-28T01:29:59Z", true),
        ("2026-11-28T01:30:00Z", false),
    ] {
        assert_eq!(metric.evaluate(at(time)).is_active, Some(is_active), "{time}");
    }
}

#[test]
fn next_change_finds_a_distant_date() {
    let entry = json!({
        "type": "OneTime", "date": "2030-01-01T00:00:00Z", "durationMinutes": 5, "value": 3,
    });
    let spec = json!({"scalingWindowDurationMinutes": 0, "schedules": [entry]});
    let metric = metric(spec, Compat::Off);
    let start = Change { at: at("2030-01-01T00:00:00Z"), value: 3 };
    let end = Change { at: at("2030-01-01T00:05:00Z"), value: 0 };
    let to = at("2031-01-01T00:00:00Z");
    assert_eq!(next_change(&metric, at("2026-11-22T00:00:00Z"), to), Some(start));
    assert_eq!(next_change(&metric, start.at, to), Some(end));
    assert_eq!(next_change(&metric, end.at, to), None);
}

fn one_time(from: &str, to: &str, value: i64) -> Value {
    json!({"type": "OneTime", "date": from, "endDate": to, "value": value})
}

/// A larger value hides the first distant entry, and the end of another entry with the same value
/// changes nothing.
#[test]
fn next_change_skips_distant_edges_that_change_nothing() {
    let year = one_time("2026-01-01T00:00:00Z", "2027-06-01T00:00:00Z", 9);
    let hidden = one_time("2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z", 5);
    let same = one_time("2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z", 9);
    let higher = one_time("2027-04-01T00:00:00Z", "2027-04-02T00:00:00Z", 20);
    let next = |entries: &[&Value]| {
        let spec = json!({"scalingWindowDurationMinutes": 0, "schedules": entries});
        let (from, to) = (at("2026-11-27T00:00:00Z"), at("2028-01-01T00:00:00Z"));
        next_change(&metric(spec, Compat::Off), from, to)
    };
    let end = Change { at: at("2027-06-01T00:00:00Z"), value: 0 };
    assert_eq!(next(&[&year, &hidden, &same]), Some(end));
    let rise = Change { at: at("2027-04-01T00:00:00Z"), value: 20 };
    assert_eq!(next(&[&year, &hidden, &same, &higher]), Some(rise));
}

/// Between the two distant entries, a repeating entry has their value.
#[test]
fn next_change_continues_where_a_repeating_entry_fills_a_gap() {
    let mut noon = repeating("12:00", "13:00", &["Mon", "Tue", "Wed", "Thu", "Fri"], "UTC");
    noon["value"] = json!(9);
    let first = one_time("2026-01-01T00:00:00Z", "2027-01-01T12:30:00Z", 9);
    let second = one_time("2027-01-01T12:45:00Z", "2027-02-01T00:00:00Z", 9);
    let spec = json!({"scalingWindowDurationMinutes": 0, "schedules": [noon, first, second]});
    let (from, to) = (at("2026-11-27T00:00:00Z"), at("2028-01-01T00:00:00Z"));
    let change = next_change(&metric(spec, Compat::Off), from, to);
    assert_eq!(change, Some(Change { at: at("2027-02-01T00:00:00Z"), value: 0 }));
}

/// As in kube-metrics-adapter, an entry without days is never active.
#[test]
fn null_is_an_empty_list() {
    let spec = r#"{"schedules": [{"type": "Repeating", "value": 5, "period": {
        "startTime": "00:00", "days": null, "timezone": "UTC"}}]}"#;
    for spec in [spec, r#"{"schedules": null}"#] {
        let spec: ScalingScheduleSpec = serde_json::from_str(spec).unwrap();
        let metric = ScheduledMetric::new(&spec, &Settings::default()).unwrap();
        assert_eq!(metric.value_at(Timestamp::UNIX_EPOCH), Ok(0));
    }
}

/// The controller evaluates a schedule whenever its value changes.
#[test]
fn schedule_with_maximum_entries_is_evaluated_in_bounded_time() {
    let all = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let entry = |at: i32| {
        let mut entry = repeating(&format!("{:02}:{:02}", at / 60 % 24, at % 60), "", &all, "UTC");
        entry["value"] = json!(at);
        entry["durationMinutes"] = json!(30);
        entry
    };
    let mut entries: Vec<Value> = (1..1000).map(entry).collect();
    let start = std::time::Instant::now();
    // An entry with a larger value hides the changes of all others.
    entries.push(json!({
        "type": "OneTime", "date": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z",
        "value": 9000,
    }));
    assert_eq!(entries.len(), MAX_ENTRIES);
    let hidden = metric(json!({"schedules": entries}), Compat::Off);
    let now = at("2026-11-27T20:29:59Z");
    let change = next_change(&hidden, now, at("2027-01-03T00:00:00Z")).unwrap();
    assert!(change.at > at("2027-01-01T00:00:00Z"), "{change:?}");
    entries.pop();
    let metric = metric(json!({"schedules": entries}), Compat::Off);
    for _ in 0..10 {
        metric.value_at(now).unwrap();
        metric.evaluate(now);
    }
    let change = next_change(&metric, now, now + 24.hours()).unwrap();
    assert_ne!(metric.value_at(change.at - 1.nanosecond()), metric.value_at(change.at));
    // It takes less than a second in a debug build. It would take hours if all changes of all
    // windows were evaluated.
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}

/// Each outcome, also an error, is cached until it may change.
#[test]
fn evaluation_is_valid_until_the_outcome_changes() {
    let mut entries = vec![repeating("22:00", "02:00", &["Fri"], "Europe/Berlin")];
    let assert_same_until_expiry = |entries: &[Value], from: &str| {
        let spec = json!({"scalingWindowDurationMinutes": 30, "schedules": entries});
        let metric = metric(spec, Compat::Off);
        let (mut now, end) = (at(from), at(from) + 8.hours());
        let mut evaluation = metric.evaluate(now);
        let mut count = 1;
        while now < end {
            if !evaluation.is_valid_at(now) {
                evaluation = metric.evaluate(now);
                count += 1;
            }
            assert_eq!(evaluation.value, metric.value_at(now), "{now}");
            assert_eq!(evaluation.is_active, metric.evaluate(now).is_active, "{now}");
            now += 20.seconds();
        }
        assert!(count < 50, "{count}");
    };
    assert_same_until_expiry(&entries, "2026-11-27T20:00:00Z");
    entries.push(repeating("08:00", "", &["Sat"], "Nowhere/X"));
    assert_same_until_expiry(&entries, "2026-11-27T20:00:00Z");
    // An error from midnight on, and until midnight.
    entries.push(repeating("25:99", "", &["Sat"], "America/New_York"));
    assert_same_until_expiry(&entries, "2026-11-28T01:00:00Z");
    assert_same_until_expiry(&entries, "2026-11-29T01:00:00Z");
}
