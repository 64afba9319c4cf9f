use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn bounds_are_computed_again_only_after_their_change() {
    let entry = |start: u32, min: Option<i32>, max: Option<i32>| {
        let (start, end) = (format!("{start:02}:00"), format!("{:02}:30", start + 1));
        let entry = json!({ "start": start, "end": end, "timeZone": "Europe/Berlin",
            "minReplicas": min, "maxReplicas": max });
        serde_json::from_value(entry).unwrap()
    };
    let changing = (0..6).map(|hour| entry(hour * 3, Some(5), None)).collect();
    let constant = (0..20).map(|hour| entry(hour, None, Some(10))).collect();
    let spec = HorizontalPodAutoscalerSpec {
        min_replicas: Some(2),
        max_replicas: 10,
        ..HorizontalPodAutoscalerSpec::default()
    };
    let start: Timestamp = "2026-03-28T10:07:00Z".parse().unwrap();
    let schedules: [(Vec<ScheduledBounds>, bool); 2] = [(changing, true), (constant, false)];
    for (entries, has_changes) in schedules {
        let schedule = Schedule::from(entries);
        let settings = Settings { bounds: Some(schedule.clone()), ..Settings::default() };
        let mut computed = 0;
        let mut last = None;
        for quarter in 0..200 {
            let now = start + SignedDuration::from_mins(quarter * 15);
            let fresh = Schedule::from(schedule.to_vec());
            let fresh = Settings { bounds: Some(fresh), ..Settings::default() };
            let found = settings.bounds_and_change_at(&spec, now);
            assert_eq!(found, fresh.bounds_and_change_at(&spec, now), "{now}");
            assert_eq!(found.1.is_some(), has_changes, "{now}");
            let from = schedule.cache.lock().unwrap().map(|found| found.from);
            computed += usize::from(from != last);
            last = from;
        }
        // 50 hours: once at first, then at each of 26 starts and ends, or once a day if the
        // bounds never change.
        assert_eq!(computed, if has_changes { 27 } else { 3 });
        let other = HorizontalPodAutoscalerSpec { max_replicas: 20, ..spec.clone() };
        assert_eq!(
            settings.bounds_and_change_at(&other, start).0,
            settings.bounds_at(&other, start)
        );
        assert_eq!(settings.bounds_and_change_at(&spec, start).0, settings.bounds_at(&spec, start));
    }
}

fn random_entry() -> impl Strategy<Value = ScheduledBounds> {
    let zones = vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"];
    let days = vec!["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let (zones, days) = (prop::sample::select(zones), prop::sample::subsequence(days, 0..=7));
    let quarters = (0..96_i32, 0..96_i32);
    let replicas = (prop::option::of(0..6_i32), prop::option::of(1..20_i32));
    (zones, days, quarters, replicas).prop_map(|(zone, days, (start, end), (min, max))| {
        let time = |quarter: i32| format!("{:02}:{:02}", quarter / 4, quarter % 4 * 15);
        let entry = json!({ "days": days, "start": time(start), "end": time(end),
            "timeZone": zone, "minReplicas": min, "maxReplicas": max });
        serde_json::from_value(entry).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The range includes changes of the clocks in three zones.
    #[test]
    fn changes_of_a_range_are_those_found_one_by_one(
        entries in prop::collection::vec(random_entry(), 1..5),
        minute in 0..20_000_i64,
    ) {
        let spec = HorizontalPodAutoscalerSpec {
            min_replicas: Some(2),
            max_replicas: 10,
            ..HorizontalPodAutoscalerSpec::default()
        };
        let settings = Settings { bounds: Some(entries.into()), ..Settings::default() };
        let start: Timestamp = "2026-03-22T00:00:00Z".parse().unwrap();
        let from = start + SignedDuration::from_mins(minute);
        let to = from + SignedDuration::from_hours(10 * 24);
        let next = |at| settings.next_bounds_change(&spec, at).filter(|change| change.at <= to);
        let expected: Vec<_> =
            std::iter::successors(next(from), |change| next(change.at)).collect();
        let found = settings.bounds_changes(&spec, from, to);
        prop_assert_eq!(&found, &expected);
        for BoundsChange { at, bounds } in found {
            prop_assert_eq!(settings.bounds_at(&spec, at), bounds);
        }
    }
}
