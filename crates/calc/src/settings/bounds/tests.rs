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
