//! An entry of a schedule of bounds.
//!
//! Times are in the entry's time zone, by the tz database in jiff. If the clocks skip a start or an
//! end, that time moves later by the length of the gap. If this moves the start to the end or
//! beyond it, the entry doesn't hold on that day. If the clocks show a start or an end twice, the
//! first time counts.

use std::sync::LazyLock;

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, Time, Weekday},
    tz::{TimeZone, TimeZoneDatabase},
};
use serde::{Deserialize, Serialize};

/// The tz database is compiled in, so that no file of the host can change a decision.
static TIME_ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
/// The maximum length of a time zone's name in bytes.
pub const MAX_ZONE_LEN: usize = 64;

/// An entry of the schedule: bounds that hold at some times of the week.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduledBounds {
    /// The days of the week on which the entry starts. The default is every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// The start of the entry: hours and minutes in the time zone, such as `08:00`.
    pub start: TimeOfDay,
    /// The end of the entry. If it is not after `start`, the entry ends on the next day.
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
pub struct TimeOfDay(Time);

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

impl std::str::FromStr for TimeOfDay {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a time must be hours and minutes, such as 08:00";
        const MIDNIGHT: &str =
            "a time must be hours and minutes before 24:00, and the end of the day is 00:00";
        if text == "24:00" {
            return Err(MIDNIGHT);
        }
        let two_digits = |text: &str| {
            let is_valid = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_valid.then(|| text.parse::<i8>().ok()).flatten()
        };
        let (hours, minutes) = text.split_once(':').ok_or(EXPECTED)?;
        let hours = two_digits(hours).ok_or(EXPECTED)?;
        let minutes = two_digits(minutes).ok_or(EXPECTED)?;
        Time::new(hours, minutes, 0, 0).map(Self).map_err(|_| EXPECTED)
    }
}

impl std::fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())
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
    pub(super) fn holds(&self, now: Timestamp) -> bool {
        self.occurrences(now, 0).any(|(start, end)| (start..end).contains(&now))
    }

    /// The start and end of each occurrence of the entry, ordered by start: from the ones that may
    /// include `now` to the ones that start within `days` days.
    pub(super) fn occurrences(
        &self,
        now: Timestamp,
        days: i32,
    ) -> impl Iterator<Item = (Timestamp, Timestamp)> + '_ {
        let today = self.time_zone.to_datetime(now).date();
        // From two days ago, because time zones have skipped whole days.
        (-2..=days).filter_map(move |offset| {
            let date = today.checked_add(offset.days()).ok()?;
            let is_start =
                self.days.is_empty() || self.days.iter().any(|day| day.weekday() == date.weekday());
            let end_date = if self.end > self.start { date } else { date.tomorrow().ok()? };
            let start = self.timestamp(date, self.start).filter(|_| is_start)?;
            let end = self.timestamp(end_date, self.end)?;
            (start < end).then_some((start, end))
        })
    }

    fn timestamp(&self, date: Date, time: TimeOfDay) -> Option<Timestamp> {
        self.time_zone.to_timestamp(date.to_datetime(time.0)).ok()
    }

    /// The reason why the entry is invalid, if it is.
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
