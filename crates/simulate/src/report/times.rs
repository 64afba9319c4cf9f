//! Times and durations in reports.

use jiff::{Timestamp, Zoned, tz::TimeZone};

use crate::workload::seconds::{DAY, HOUR, MINUTE, timestamp_at};

/// A duration with its two largest units: `45s`, `3m20s`, `2h5m`, `1d3h`.
pub fn format_duration(seconds: f64) -> String {
    let seconds = seconds.round();
    let (large, unit, small, small_unit) = match seconds {
        _ if seconds < MINUTE => return format!("{seconds}s"),
        _ if seconds < HOUR => (MINUTE, "m", 1.0, "s"),
        _ if seconds < DAY => (HOUR, "h", MINUTE, "m"),
        _ => (DAY, "d", HOUR, "h"),
    };
    let rest = (seconds % large / small).floor();
    let rest = if rest > 0.0 { format!("{rest}{small_unit}") } else { String::new() };
    format!("{}{unit}{rest}", (seconds / large).floor())
}

/// The format of times: calendar times from this start on, or durations since the start.
pub(super) struct TimeFormat(Option<Zoned>);

/// The local time at a second.
fn local_time(start: &Zoned, second: f64) -> Zoned {
    timestamp_at(start.timestamp(), second).to_zoned(start.time_zone().clone())
}

/// The seconds that local times are ahead of UTC at a second.
fn utc_offset(start: &Zoned, second: f64) -> f64 {
    f64::from(local_time(start, second).offset().seconds())
}

impl TimeFormat {
    /// The format of a run's times: calendar times in UTC if there is a `start`, as in a replay,
    /// and otherwise durations.
    pub(super) fn of_run(start: Option<Timestamp>) -> Self {
        Self(start.map(|start| start.to_zoned(TimeZone::UTC)))
    }

    /// Calendar times in the time zone of the start.
    pub(super) fn since(start: &Zoned) -> Self {
        Self(Some(start.clone()))
    }

    /// The time at a second: `2026-11-22 17:05:00`, or `0:05:00`, with days from the second day on.
    pub(super) fn text(&self, second: f64) -> String {
        if let Some(start) = &self.0 {
            return local_time(start, second).strftime("%Y-%m-%d %H:%M:%S").to_string();
        }
        let (days, rest) = ((second / DAY).floor(), second % DAY);
        let (hours, minutes) = ((rest / HOUR).floor(), (rest % HOUR / MINUTE).floor());
        let seconds = (rest % MINUTE).floor();
        let day = if days > 0.0 { format!("{days}d ") } else { String::new() };
        format!("{day}{hours}:{minutes:02}:{seconds:02}")
    }

    /// Round times for an axis of `end` seconds, at most about eight, with their labels.
    pub(super) fn ticks(&self, end: f64) -> Vec<(f64, String)> {
        const STEPS: [f64; 15] = [
            60.0,
            120.0,
            300.0,
            600.0,
            900.0,
            1800.0,
            3600.0,
            7200.0,
            10_800.0,
            21_600.0,
            43_200.0,
            86_400.0,
            172_800.0,
            604_800.0,
            2_592_000.0,
        ];
        let step = STEPS.into_iter().find(|step| step * 8.0 >= end).unwrap_or(60.0 * DAY);
        let Some(start) = &self.0 else {
            let label = |tick: f64| if tick > 0.0 { format_duration(tick) } else { "0".to_owned() };
            return multiples(step, end).into_iter().map(|tick| (tick, label(tick))).collect();
        };
        let offset = utc_offset(start, 0.0);
        let first = (-(start.timestamp().as_second() as f64 + offset)).rem_euclid(step);
        // Summer time shifts local times by an hour, so ticks need a shift only if their step is
        // longer.
        let shift = |tick: f64| if step > HOUR { offset - utc_offset(start, tick) } else { 0.0 };
        let ticks = multiples(step, end - first).into_iter().map(|tick| first + tick);
        let ticks = ticks.map(|tick| tick + shift(tick)).filter(|tick| (0.0..=end).contains(tick));
        let label = |(index, tick): (usize, f64)| {
            let format = match index {
                _ if step >= DAY => "%b %-d",
                0 => "%b %-d %H:%M %Z",
                _ => "%H:%M",
            };
            (tick, local_time(start, tick).strftime(format).to_string())
        };
        ticks.enumerate().map(label).collect()
    }
}

/// The multiples of `step` from 0 up to `max`, at most 200 of them.
pub(super) fn multiples(step: f64, max: f64) -> Vec<f64> {
    let values = (0_u32..200).map(|index| f64::from(index) * step);
    values.take_while(|value| *value <= max * (1.0 + 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, "0s")]
    #[case(59.6, "1m")]
    #[case(200.0, "3m20s")]
    #[case(7500.0, "2h5m")]
    #[case(97_200.0, "1d3h")]
    fn duration_has_its_two_largest_units(#[case] seconds: f64, #[case] text: &str) {
        assert_eq!(format_duration(seconds), text);
    }

    #[test]
    fn times_have_days_if_needed() {
        assert_eq!(TimeFormat::of_run(None).text(3661.4), "1:01:01");
        assert_eq!(TimeFormat::of_run(None).text(90_000.0), "1d 1:00:00");
    }

    #[test]
    fn replay_has_calendar_times() {
        let times = TimeFormat::of_run(Some("2026-11-22T16:55:00Z".parse().unwrap()));
        assert_eq!(times.text(330.0), "2026-11-22 17:00:30");
        let expected = [
            (300.0, "Nov 22 17:00 UTC"),
            (900.0, "17:10"),
            (1500.0, "17:20"),
            (2100.0, "17:30"),
            (2700.0, "17:40"),
            (3300.0, "17:50"),
        ];
        assert_eq!(times.ticks(3600.0), expected.map(|(at, label)| (at, label.to_owned())));
        let days: Vec<_> = times.ticks(7.0 * DAY).into_iter().map(|(_, label)| label).collect();
        assert_eq!(days.first().map(String::as_str), Some("Nov 23"));
    }

    #[test]
    fn axis_has_local_times() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let local = |text: &str| text.parse::<Timestamp>().unwrap().to_zoned(zone.clone());
        let start = local("2026-11-22T16:55:00Z");
        let first = TimeFormat::since(&start).ticks(3600.0).into_iter().next();
        assert_eq!(first, Some((300.0, "Nov 22 18:00 CET".to_owned())));
        // The day on which summer time ends has 25 hours.
        let start = local("2026-10-24T22:00:00Z");
        let days: Vec<_> = TimeFormat::since(&start).ticks(7.0 * DAY).into_iter().take(3).collect();
        let expected = [(0.0, "Oct 25"), (25.0 * HOUR, "Oct 26"), (49.0 * HOUR, "Oct 27")];
        assert_eq!(days, expected.map(|(at, label)| (at, label.to_owned())));
    }

    #[test]
    fn axis_of_a_year_has_at_most_eight_times() {
        assert_eq!(TimeFormat::of_run(None).ticks(366.0 * DAY).len(), 7);
    }

    #[test]
    fn times_of_a_simulation_start_at_zero() {
        let labels: Vec<_> =
            TimeFormat::of_run(None).ticks(3600.0).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "10m", "20m", "30m", "40m", "50m", "1h"]);
    }
}
