//! Compiles the entries of a schedule.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time, Weekday},
    tz::TimeZone,
};

use crate::schedules::{
    Compat, EntryProblem, Schedule, ScheduleDay, SchedulePeriod, ScheduleType, Settings, zone,
};

/// A period in which an entry has its full value. It doesn't include the ramps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Index of the entry in `spec.schedules`.
    pub entry: usize,
    /// The first instant.
    pub start: Timestamp,
    /// The first instant after the window. It is `start` if the window is empty.
    pub end: Timestamp,
    /// The value in the window.
    pub value: i64,
    /// With compatibility, the day of a repeating entry's window: its first instant, and that of
    /// the next day. Outside of the day, neither the window nor its ramps count.
    pub(crate) day: Option<(Timestamp, Timestamp)>,
}

impl Window {
    /// The first instant at which the entry doesn't have its full value any more: [`Self::end`], or
    /// with compatibility, the end of the day if that is earlier.
    pub fn effective_end(&self) -> Timestamp {
        self.day.map_or(self.end, |(_, day_end)| self.end.min(day_end))
    }
}

/// The windows of a repeating entry are computed for this many days before and after a time. As
/// windows repeat weekly, these days include the last window before that time and the first one
/// after it. Windows end in the order of their starts, so windows further away have no effect.
const DAYS_AROUND: i32 = 8;

/// A compiled entry of `spec.schedules`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    index: usize,
    pub(crate) value: i64,
    min_duration: SignedDuration,
    timing: Timing,
}

#[derive(Clone, Debug)]
enum Timing {
    Once(Timestamp, Timestamp),
    Repeating {
        zone: TimeZone,
        days: Vec<Weekday>,
        times: Result<(Time, Option<Time>), EntryProblem>,
    },
    Invalid(EntryProblem),
}

impl Entry {
    /// Compiles an entry, and adds its problems to `problems`.
    pub(crate) fn new(
        index: usize,
        schedule: &Schedule,
        default_zone: &TimeZone,
        settings: &Settings,
        problems: &mut Vec<EntryProblem>,
    ) -> Self {
        let timing = match (schedule.r#type, &schedule.period) {
            (ScheduleType::OneTime, _) => match parse_dates(index, schedule) {
                Ok((start, end)) => Timing::Once(start, end),
                Err(problem) => Timing::Invalid(problem),
            },
            (ScheduleType::Repeating, None) => {
                Timing::Invalid(EntryProblem::MissingPeriod { index })
            }
            (ScheduleType::Repeating, Some(period)) => {
                let zone = zone::find(&settings.time_zones, &period.timezone);
                if zone.is_none() && !period.timezone.is_empty() {
                    let text = period.timezone.clone();
                    let default_zone = settings.default_time_zone.clone();
                    problems.push(EntryProblem::UnknownTimeZone { index, text, default_zone });
                }
                Timing::Repeating {
                    zone: zone.unwrap_or_else(|| default_zone.clone()),
                    days: weekdays(&period.days),
                    times: parse_times(index, period),
                }
            }
        };
        if let Timing::Invalid(problem) | Timing::Repeating { times: Err(problem), .. } = &timing {
            problems.push(problem.clone());
        }
        // Limited to about 1900 years, so that the number of seconds can't overflow.
        let minutes = schedule.duration_minutes.clamp(0, 1_000_000_000);
        let min_duration = SignedDuration::from_mins(minutes);
        Self { index, value: schedule.value, min_duration, timing }
    }

    /// The time zone of a repeating entry. `None` for a one-time entry or without a period.
    pub(crate) fn time_zone(&self) -> Option<&TimeZone> {
        match &self.timing {
            Timing::Repeating { zone, .. } => Some(zone),
            Timing::Once(..) | Timing::Invalid(_) => None,
        }
    }

    /// Fails if the entry is invalid. A repeating entry with invalid times fails only on its days.
    pub(crate) fn validate_at(&self, now: Timestamp) -> Result<(), EntryProblem> {
        match &self.timing {
            Timing::Invalid(problem) => Err(problem.clone()),
            Timing::Once(..) => Ok(()),
            Timing::Repeating { zone, days, times } => {
                let today = zone.to_datetime(now).date().weekday();
                if days.contains(&today) { times.clone().map(|_| ()) } else { Ok(()) }
            }
        }
    }

    /// The end of the current day of a repeating entry with invalid times, after which
    /// [`Self::validate_at`] may have another result. `None` for other entries.
    pub(crate) fn end_of_validity(&self, now: Timestamp) -> Option<Timestamp> {
        let Timing::Repeating { zone, times: Err(_), .. } = &self.timing else { return None };
        Some(zone::day(zone.to_datetime(now).date(), zone).1)
    }

    /// The windows near the period between two times, in the order of their starts. They include
    /// all windows that can affect the value in this period.
    pub(crate) fn windows(&self, from: Timestamp, to: Timestamp, compat: Compat) -> Vec<Window> {
        match &self.timing {
            Timing::Invalid(_) | Timing::Repeating { times: Err(_), .. } => Vec::new(),
            Timing::Once(start, end) => vec![self.window(*start, *end)],
            Timing::Repeating { zone, days, times: Ok((start, end)) } => {
                let day = |time: Timestamp, offset: i32| {
                    let date = zone.to_datetime(time).date();
                    date.saturating_add(jiff::Span::new().days(offset))
                };
                let around = if compat == Compat::Off { DAYS_AROUND } else { 0 };
                let last = day(to, around);
                let dates = day(from, -around).series(jiff::Span::new().days(1));
                dates
                    .take_while(|date| *date <= last)
                    .filter(|date| days.contains(&date.weekday()))
                    .map(|date| self.window_on(date, *start, *end, zone, compat))
                    .collect()
            }
        }
    }

    /// The windows that determine the value between two times. For a repeating entry without
    /// compatibility, they are fewer than those of [`Self::windows`]. The windows of such an entry
    /// start and end in the order of their dates: before `from`, only the last start can have an
    /// effect, and after `to`, only the first one.
    pub(crate) fn effective_windows(
        &self,
        from: Timestamp,
        to: Timestamp,
        compat: Compat,
    ) -> Vec<Window> {
        let Timing::Repeating { zone, days, times: Ok((start, end)) } = &self.timing else {
            return self.windows(from, to, compat);
        };
        if compat == Compat::Reference {
            return self.windows(from, to, compat);
        }
        let window = |date: Date| {
            let has_window = days.contains(&date.weekday());
            has_window.then(|| self.window_on(date, *start, *end, zone, compat))
        };
        let date = |time: Timestamp| zone.to_datetime(time).date();
        let span = |days: i32| jiff::Span::new().days(days);
        let (first, last) = (date(from), date(to).saturating_add(span(DAYS_AROUND)));
        let mut windows = Vec::new();
        let earlier = first
            .series(span(-1))
            .take_while(|date| *date >= first.saturating_sub(span(DAYS_AROUND)));
        for window in earlier.filter_map(window) {
            windows.push(window);
            if window.start <= from {
                break;
            }
        }
        let later = first.series(span(1)).skip(1).take_while(|date| *date <= last);
        for window in later.filter_map(window) {
            windows.push(window);
            if window.start > to {
                break;
            }
        }
        windows
    }

    fn window_on(
        &self,
        date: Date,
        start: Time,
        end: Option<Time>,
        zone: &TimeZone,
        compat: Compat,
    ) -> Window {
        let window_start = zone::instant(date, start, zone);
        let window_end = end.map_or(window_start, |end| {
            let is_next_day = compat == Compat::Off && end < start;
            let date = if is_next_day { date.tomorrow().unwrap_or(Date::MAX) } else { date };
            zone::instant(date, end, zone)
        });
        let day = (compat == Compat::Reference).then(|| zone::day(date, zone));
        Window { day, ..self.window(window_start, window_end) }
    }

    fn window(&self, start: Timestamp, end: Timestamp) -> Window {
        let min_end = start.saturating_add(self.min_duration).unwrap_or(Timestamp::MAX);
        Window { entry: self.index, start, end: end.max(min_end), value: self.value, day: None }
    }
}

fn parse_dates(index: usize, schedule: &Schedule) -> Result<(Timestamp, Timestamp), EntryProblem> {
    let parse = |field, text: &str| {
        let invalid = || EntryProblem::InvalidDate { index, field, text: text.to_owned() };
        zone::parse_timestamp(text).ok_or_else(invalid)
    };
    let date = schedule.date.as_deref().ok_or(EntryProblem::MissingDate { index })?;
    let start = parse("date", date)?;
    let end = schedule.end_date.as_deref().filter(|text| !text.is_empty());
    Ok((start, end.map_or(Ok(start), |text| parse("endDate", text))?))
}

fn parse_times(
    index: usize,
    period: &SchedulePeriod,
) -> Result<(Time, Option<Time>), EntryProblem> {
    let parse = |field, text: &str| {
        let invalid = || EntryProblem::InvalidTime { index, field, text: text.to_owned() };
        zone::parse_time(text).ok_or_else(invalid)
    };
    let start = parse("startTime", &period.start_time)?;
    let end = Some(&*period.end_time).filter(|text| !text.is_empty());
    Ok((start, end.map(|text| parse("endTime", text)).transpose()?))
}

/// The days without duplicates, which the API permits.
fn weekdays(days: &[ScheduleDay]) -> Vec<Weekday> {
    let week = Weekday::Sunday.cycle_forward().take(7);
    week.filter(|one| days.iter().any(|day| weekday(*day) == *one)).collect()
}

fn weekday(day: ScheduleDay) -> Weekday {
    match day {
        ScheduleDay::Sun => Weekday::Sunday,
        ScheduleDay::Mon => Weekday::Monday,
        ScheduleDay::Tue => Weekday::Tuesday,
        ScheduleDay::Wed => Weekday::Wednesday,
        ScheduleDay::Thu => Weekday::Thursday,
        ScheduleDay::Fri => Weekday::Friday,
        ScheduleDay::Sat => Weekday::Saturday,
    }
}
