//! A schedule of `minReplicas` and `maxReplicas`.
//!
//! Times are in the entry's time zone, by the tz database in jiff. If the clocks skip a start or an
//! end, that time moves later by the length of the gap. If the clocks show a start or an end twice,
//! the first time counts. If start and end coincide because of a gap, the entry doesn't hold on
//! that day.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jiff::{
    SignedDuration, Timestamp, ToSpan,
    civil::{Date, Weekday},
    tz::{TimeZone, TimeZoneDatabase},
};
use serde::{Deserialize, Serialize};

use super::{Settings, after};
use crate::{api::HorizontalPodAutoscalerSpec, plan::has_object_or_external_metric};

/// The tz database is compiled in, so that no file of the host can change a decision.
static TIME_ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
/// The maximum length of a time zone's name in bytes.
const MAX_ZONE_LEN: usize = 64;

/// The maximum number of entries of a schedule.
pub(super) const MAX_ENTRIES: usize = 50;

/// An entry of the schedule: bounds that hold at some times of the week.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduledBounds {
    /// The days of the week on which the entry starts. The default is every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// When the entry starts: hours and minutes in the time zone, such as `08:00`.
    pub start: TimeOfDay,
    /// When the entry ends. If it is not after `start`, the entry ends on the next day.
    pub end: TimeOfDay,
    /// The time zone, by its IANA name. The default is `UTC`.
    #[serde(default = "default_time_zone", with = "zone_name")]
    pub time_zone: TimeZone,
    /// `minReplicas` during the entry. If several entries hold, the highest wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// `maxReplicas` during the entry. If several entries hold, the highest wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
}

/// A schedule of bounds. It caches the current bounds until their next change, because finding the
/// change takes up to a millisecond. Clones share the cache.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    entries: Arc<[ScheduledBounds]>,
    cache: Arc<Mutex<Option<CachedBounds>>>,
}

/// The bounds of one spec in a range of time.
#[derive(Clone, Copy, Debug)]
struct CachedBounds {
    /// The bounds of the spec, and whether a schedule may set its minimum to zero.
    spec: (Bounds, bool),
    from: Timestamp,
    /// The end of the range, which is not part of it.
    until: Timestamp,
    bounds: Bounds,
    change: Option<BoundsChange>,
}

/// If the bounds have no next change, they are cached for this time.
const MAX_CACHE_AGE: SignedDuration = SignedDuration::from_hours(24);

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl std::ops::Deref for Schedule {
    type Target = [ScheduledBounds];

    fn deref(&self) -> &[ScheduledBounds] {
        &self.entries
    }
}

impl From<Vec<ScheduledBounds>> for Schedule {
    fn from(entries: Vec<ScheduledBounds>) -> Self {
        Self { entries: entries.into(), cache: Arc::default() }
    }
}

impl FromIterator<ScheduledBounds> for Schedule {
    fn from_iter<I: IntoIterator<Item = ScheduledBounds>>(entries: I) -> Self {
        entries.into_iter().collect::<Vec<_>>().into()
    }
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

/// A time of day in hours and minutes, written `HH:MM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay {
    /// Minutes since midnight.
    minutes: u16,
}

fn default_time_zone() -> TimeZone {
    TimeZone::UTC
}

/// Reads and writes a time zone as its IANA name.
mod zone_name {
    use std::borrow::Cow;

    use jiff::tz::TimeZone;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::{MAX_ZONE_LEN, TIME_ZONES};

    pub(super) fn serialize<S: Serializer>(
        zone: &TimeZone,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(zone.iana_name().unwrap_or("UTC"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<TimeZone, D::Error> {
        let name = Cow::<'_, str>::deserialize(deserializer)?;
        let zone = (name.len() <= MAX_ZONE_LEN).then(|| TIME_ZONES.get(&name).ok()).flatten();
        let zone = zone.filter(|zone| zone.iana_name().is_some() && !zone.is_unknown());
        zone.ok_or_else(|| D::Error::custom(format_args!("unknown time zone {name:?}")))
    }
}

/// `minReplicas` and `maxReplicas` at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Bounds {
    /// The effective `minReplicas`.
    pub min_replicas: i32,
    /// The effective `maxReplicas`.
    pub max_replicas: i32,
}

/// The next change of the bounds by the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BoundsChange {
    /// The time of the change.
    pub at: Timestamp,
    /// The bounds from then on.
    pub bounds: Bounds,
}

impl Bounds {
    /// The bounds of a spec, without a schedule.
    pub fn of_spec(spec: &HorizontalPodAutoscalerSpec) -> Self {
        let (min_replicas, max_replicas) = (spec.effective_min_replicas(), spec.max_replicas);
        Self { min_replicas, max_replicas }
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {} replicas", self.min_replicas, self.max_replicas)
    }
}

impl Settings {
    /// The effective bounds at a time: those of the entries of the schedule that hold, else those
    /// of the spec. Of several entries, the highest minimum and the highest maximum count. If the
    /// minimum is above the maximum, the maximum is raised. If the autoscaler may not scale to
    /// zero, or has no metric that can scale up from zero, the minimum of a schedule is at least 1.
    pub fn bounds_at(&self, spec: &HorizontalPodAutoscalerSpec, now: Timestamp) -> Bounds {
        match &self.bounds {
            None => Bounds::of_spec(spec),
            Some(entries) => {
                self.combine_entries(spec, entries.iter().filter(|entry| entry.holds(now)))
            }
        }
    }

    /// The next change of the bounds after a time. `None` if no schedule changes them.
    pub fn next_bounds_change(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        now: Timestamp,
    ) -> Option<BoundsChange> {
        self.schedule_at(spec, now).1
    }

    /// [`Settings::bounds_at`] and [`Settings::next_bounds_change`] at once.
    pub(crate) fn schedule_at(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        now: Timestamp,
    ) -> (Bounds, Option<BoundsChange>) {
        let Some(schedule) = &self.bounds else { return (Bounds::of_spec(spec), None) };
        let key = (Bounds::of_spec(spec), self.may_scale_to_zero(spec));
        let lock = || schedule.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_valid = |it: &CachedBounds| it.spec == key && (it.from..it.until).contains(&now);
        if let Some(found) = lock().filter(is_valid) {
            return (found.bounds, found.change);
        }
        let (bounds, change) = self.find_change(spec, schedule, now);
        let until = change.map_or_else(|| after(now, MAX_CACHE_AGE), |change| change.at);
        *lock() = Some(CachedBounds { spec: key, from: now, until, bounds, change });
        (bounds, change)
    }

    fn find_change(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        entries: &[ScheduledBounds],
        now: Timestamp,
    ) -> (Bounds, Option<BoundsChange>) {
        let within = |days| self.schedule_within(days, spec, entries, now);
        // Most schedules change within a day. A weekly entry changes within a week, or within two
        // if the clocks skip one occurrence.
        let (bounds, change) = within(2);
        (bounds, change.or_else(|| within(8).1).or_else(|| within(15).1))
    }

    /// All changes of the bounds after `from`, until `to`.
    pub fn bounds_changes(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        from: Timestamp,
        to: Timestamp,
    ) -> Vec<BoundsChange> {
        let next = |at| self.next_bounds_change(spec, at).filter(|change| change.at <= to);
        std::iter::successors(next(from), |change| next(change.at)).collect()
    }

    fn combine_entries<'a>(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        entries: impl Iterator<Item = &'a ScheduledBounds> + Clone,
    ) -> Bounds {
        let of_spec = Bounds::of_spec(spec);
        let min = entries.clone().filter_map(|entry| entry.min_replicas).max();
        let max = entries.filter_map(|entry| entry.max_replicas).max();
        let min = min.map(|min| if self.may_scale_to_zero(spec) { min } else { min.max(1) });
        let min_replicas = min.unwrap_or(of_spec.min_replicas);
        let max_replicas = max.unwrap_or(of_spec.max_replicas).max(min_replicas);
        Bounds { min_replicas, max_replicas }
    }

    fn may_scale_to_zero(&self, spec: &HorizontalPodAutoscalerSpec) -> bool {
        self.scale_to_zero && has_object_or_external_metric(&spec.metrics)
    }

    fn schedule_within(
        &self,
        days: i32,
        spec: &HorizontalPodAutoscalerSpec,
        entries: &[ScheduledBounds],
        now: Timestamp,
    ) -> (Bounds, Option<BoundsChange>) {
        // The number of active occurrences of each entry. If the clocks skip the end of an entry,
        // it may start again before it ends.
        let mut active = vec![0_usize; entries.len()];
        // The starts (`true`) and ends of the occurrences, with the index of the entry.
        let mut edges: Vec<(Timestamp, usize, bool)> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            for (start, end) in entry.occurrences(now, days).filter(|(_, end)| *end > now) {
                if start > now {
                    edges.push((start, index, true));
                } else if let Some(count) = active.get_mut(index) {
                    *count += 1;
                }
                edges.push((end, index, false));
            }
        }
        edges.sort_unstable();
        let bounds_of = |active: &[usize]| {
            let entries = entries.iter().zip(active).filter(|(_, count)| **count > 0);
            self.combine_entries(spec, entries.map(|(entry, _)| entry))
        };
        let current = bounds_of(&active);
        // Later occurrences may be missing, because `occurrences` ends after these days.
        let limit = after(now, SignedDuration::from_hours(i64::from(days - 1) * 24));
        for edges in edges.chunk_by(|one, other| one.0 == other.0) {
            for (_, index, starts) in edges {
                if let Some(count) = active.get_mut(*index) {
                    *count = if *starts { *count + 1 } else { count.saturating_sub(1) };
                }
            }
            let Some((at, ..)) = edges.first().filter(|(at, ..)| *at <= limit) else { break };
            let bounds = bounds_of(&active);
            if bounds != current {
                return (current, Some(BoundsChange { at: *at, bounds }));
            }
        }
        (current, None)
    }
}

impl TimeOfDay {
    /// The hours and minutes.
    pub(crate) fn parts(self) -> (u16, u16) {
        (self.minutes / 60, self.minutes % 60)
    }
}

impl std::str::FromStr for TimeOfDay {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a time must be hours and minutes, such as 08:00";
        let two_digits = |text: &str| {
            let is_valid = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_valid.then(|| text.parse::<u16>().ok()).flatten()
        };
        let (hours, minutes) = text.split_once(':').ok_or(EXPECTED)?;
        let hours = two_digits(hours).filter(|hours| *hours < 24).ok_or(EXPECTED)?;
        let minutes = two_digits(minutes).filter(|minutes| *minutes < 60).ok_or(EXPECTED)?;
        Ok(Self { minutes: hours * 60 + minutes })
    }
}

impl std::fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hours, minutes) = self.parts();
        write!(f, "{hours:02}:{minutes:02}")
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Day {
    fn weekday(self) -> Weekday {
        match self {
            Self::Mon => Weekday::Monday,
            Self::Tue => Weekday::Tuesday,
            Self::Wed => Weekday::Wednesday,
            Self::Thu => Weekday::Thursday,
            Self::Fri => Weekday::Friday,
            Self::Sat => Weekday::Saturday,
            Self::Sun => Weekday::Sunday,
        }
    }
}

impl ScheduledBounds {
    fn holds(&self, now: Timestamp) -> bool {
        self.occurrences(now, 0).any(|(start, end)| (start..end).contains(&now))
    }

    /// The start and end of each occurrence of the entry, ordered by start: from the ones that may
    /// include `now` to the ones that start within `days` days.
    fn occurrences(
        &self,
        now: Timestamp,
        days: i32,
    ) -> impl Iterator<Item = (Timestamp, Timestamp)> + '_ {
        let today = self.time_zone.to_datetime(now).date();
        // From two days ago, because time zones have skipped whole days.
        (-2..=days).filter_map(move |day| {
            let date = today.checked_add(day.days()).ok()?;
            let is_start =
                self.days.is_empty() || self.days.iter().any(|day| day.weekday() == date.weekday());
            let end_date = if self.end > self.start { date } else { date.tomorrow().ok()? };
            let start = self.timestamp(date, self.start).filter(|_| is_start)?;
            let end = self.timestamp(end_date, self.end)?;
            (start < end).then_some((start, end))
        })
    }

    fn timestamp(&self, date: Date, time: TimeOfDay) -> Option<Timestamp> {
        let (hours, minutes) = time.parts();
        let time = date.at(i8::try_from(hours).ok()?, i8::try_from(minutes).ok()?, 0, 0);
        self.time_zone.to_timestamp(time).ok()
    }

    /// The reason why an entry is invalid.
    pub(crate) fn problem(&self) -> Option<String> {
        match (self.min_replicas, self.max_replicas) {
            (None, None) => Some("minReplicas or maxReplicas must be set".to_owned()),
            (Some(min), _) if min < 0 => Some("minReplicas must not be negative".to_owned()),
            (_, Some(max)) if max < 1 => Some("maxReplicas must be at least 1".to_owned()),
            (Some(min), Some(max)) if min > max => {
                Some("minReplicas must not be above maxReplicas".to_owned())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
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
        let changing: Schedule = (0..6).map(|hour| entry(hour * 3, Some(5), None)).collect();
        let constant: Schedule = (0..20).map(|hour| entry(hour, None, Some(10))).collect();
        let spec = HorizontalPodAutoscalerSpec {
            min_replicas: Some(2),
            max_replicas: 10,
            ..HorizontalPodAutoscalerSpec::default()
        };
        let start: Timestamp = "2026-03-28T10:07:00Z".parse().unwrap();
        for (schedule, has_changes) in [(changing, true), (constant, false)] {
            let settings = Settings { bounds: Some(schedule.clone()), ..Settings::default() };
            let mut computed = 0;
            let mut last = None;
            for quarter in 0..200 {
                let now = start + SignedDuration::from_mins(quarter * 15);
                let fresh = Schedule::from(schedule.to_vec());
                let fresh = Settings { bounds: Some(fresh), ..Settings::default() };
                let found = settings.schedule_at(&spec, now);
                assert_eq!(found, fresh.schedule_at(&spec, now), "{now}");
                assert_eq!(found.1.is_some(), has_changes, "{now}");
                let from = schedule.cache.lock().unwrap().map(|found| found.from);
                computed += usize::from(from != last);
                last = from;
            }
            // 50 hours: once at first, then at each of 26 starts and ends, or once a day if the
            // bounds never change.
            assert_eq!(computed, if has_changes { 27 } else { 3 });
            let other = HorizontalPodAutoscalerSpec { max_replicas: 20, ..spec.clone() };
            assert_eq!(settings.schedule_at(&other, start).0, settings.bounds_at(&other, start));
            assert_eq!(settings.schedule_at(&spec, start).0, settings.bounds_at(&spec, start));
        }
    }
}
