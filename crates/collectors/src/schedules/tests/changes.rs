//! Changes and values agree.

use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{at, metric, next_change, repeating};
use crate::schedules::{Change, Compat, MAX_ENTRIES, ScheduledMetric};

/// Zones that change to summer time at night, at midnight, and by half an hour.
const ZONES: [&str; 6] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Africa/Cairo",
    "America/Havana",
    "Australia/Lord_Howe",
];

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

fn time_of_day() -> impl Strategy<Value = String> {
    let any = (0..24u8, 0..60u8);
    let near_midnight = (prop::sample::select(vec![0u8, 23]), 0..60u8);
    let time = prop_oneof![Just((0u8, 0u8)), near_midnight, any];
    time.prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}"))
}

fn repeating_entry() -> impl Strategy<Value = Value> {
    let end = prop::option::of(time_of_day()).prop_map(Option::unwrap_or_default);
    let days = prop::sample::subsequence(DAYS.to_vec(), 1..=7);
    let zone = prop::sample::select(ZONES.to_vec());
    let minutes = prop_oneof![Just(0i64), 0..180i64, 0..3000i64];
    (time_of_day(), end, days, zone, minutes, -5..100i64).prop_map(
        |(start, end, days, zone, minutes, value)| {
            let mut entry = repeating(&start, &end, &days, zone);
            entry["durationMinutes"] = json!(minutes);
            entry["value"] = json!(value);
            entry
        },
    )
}

/// Compares the changes in two weeks with the value at each minute, and just before each change.
fn check_two_weeks(metric: &ScheduledMetric, from: Timestamp) {
    let changes = metric.changes(from, from + (14 * 24).hours());
    let value_at = |time| metric.value_at(time).expect("a value");
    let mut value = value_at(from);
    let mut coming = changes.iter().peekable();
    for minute in 1..=14 * 24 * 60_i64 {
        let now = from + minute.minutes();
        while let Some(change) = coming.next_if(|change| change.at <= now) {
            assert_eq!(value_at(change.at - 1.nanosecond()), value, "before {change:?}");
            assert_eq!(value_at(change.at), change.value, "{change:?}");
            assert_ne!(change.value, value, "{change:?}");
            value = change.value;
        }
        assert_eq!(value_at(now), value, "{now}");
        let week = SignedDuration::from_hours(7 * 24);
        if minute % 360 == 0
            && let Some(next) = coming.peek().filter(|next| next.at.duration_since(now) < week)
        {
            let until = now + (9 * 24).hours();
            assert_eq!(next_change(metric, now, until), Some(**next), "{now}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    #[test]
    fn changes_match_value_at_each_minute(
        day in 0..365i64,
        ramp in 0..100i64,
        mut entries in prop::collection::vec(repeating_entry(), 1..4),
        one_time in prop::option::of((-1440..20_000i64, 0..3000i64, 1..100i64)),
    ) {
        let from = at("2026-01-01T00:00:00Z") + (24 * day).hours();
        entries.extend(one_time.map(|(minute, duration, value)| json!({
            "type": "OneTime", "date": (from + minute.minutes()).to_string(),
            "durationMinutes": duration, "value": value,
        })));
        let spec = json!({ "scalingWindowDurationMinutes": ramp, "schedules": entries });
        for compat in [Compat::Off, Compat::Reference] {
            check_two_weeks(&metric(spec.clone(), compat), from);
        }
    }
}

#[test]
fn changes_across_the_end_of_summer_time_match_value_at_each_minute() {
    let spec = json!({
        "scalingWindowDurationMinutes": 7,
        "schedules": [
            repeating("23:50", "00:20", &["Sat", "Sun"], "Europe/Berlin"),
            repeating("02:10", "02:40", &["Sun"], "Europe/Berlin"),
            {"type": "OneTime", "date": "2026-10-25T03:00:00Z", "durationMinutes": 5, "value": 333},
        ],
    });
    check_two_weeks(&metric(spec, Compat::Off), at("2026-10-24T20:00:00Z"));
}

/// The window lasts until 00:30 and the ramp starts at 23:45. kube-metrics-adapter ignores a window
/// after the midnight of its day, and a ramp before it.
#[rstest]
#[case::window(0, repeating("23:30", "", &["Mon"], "UTC"), "2026-11-23T23:30:00Z", 100)]
// 75 %, rounded down to a tenth.
#[case::ramp(20, repeating("00:05", "", &["Tue"], "UTC"), "2026-11-24T00:00:00Z", 70)]
fn reference_cuts_windows_and_ramps_at_midnight(
    #[case] ramp: i64,
    #[case] entry: Value,
    #[case] start: &str,
    #[case] value: i64,
) {
    let mut entry = entry;
    entry["durationMinutes"] = json!(60);
    let spec = json!({ "scalingWindowDurationMinutes": ramp, "schedules": [entry] });
    let metric = metric(spec, Compat::Reference);
    let monday = at("2026-11-23T00:00:00Z");
    let changes = metric.changes(monday, monday + 48.hours());
    assert_eq!(changes.first(), Some(&Change { at: at(start), value }));
    assert_eq!(next_change(&metric, monday, monday + 48.hours()), changes.first().copied());
    let midnight = Change { at: at("2026-11-24T00:00:00Z"), value: 0 };
    assert_eq!(changes.contains(&midnight), ramp == 0, "{changes:?}");
}

/// The preview computes all changes of a week. They take a few seconds in a debug build, and would
/// take minutes if each one evaluated all windows.
#[test]
fn changes_of_a_schedule_with_maximum_entries_take_bounded_time() {
    let entry = |at: usize| {
        let start = format!("{:02}:{:02}", at / 60 % 24, at % 60);
        let mut entry = repeating(&start, "", &[DAYS[at % 7]], "Europe/Berlin");
        entry["value"] = json!(1 + at);
        entry["durationMinutes"] = json!(30);
        entry
    };
    let entries: Vec<_> = (0..MAX_ENTRIES).map(entry).collect();
    let metric = metric(json!({ "schedules": entries }), Compat::Off);
    let from = at("2026-11-23T00:00:00Z");
    let start = std::time::Instant::now();
    let changes = metric.changes(from, from + (7 * 24).hours());
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    assert!(changes.len() > 1000, "{}", changes.len());
    for change in changes.iter().step_by(500) {
        assert_eq!(metric.value_at(change.at), Ok(change.value), "{change:?}");
        assert_ne!(metric.value_at(change.at - 1.nanosecond()), Ok(change.value), "{change:?}");
    }
}
