//! A schedule of `minReplicas` and `maxReplicas`.

use serde::{Deserialize, Serialize};

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
    /// The IANA name of the time zone. The default is `UTC`.
    #[serde(default = "utc")]
    pub time_zone: String,
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
pub struct TimeOfDay {
    /// Minutes since midnight.
    minutes: u16,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl TimeOfDay {
    /// Hours, then minutes.
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

impl ScheduledBounds {
    /// Why the entry can't be used, if it can't.
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
