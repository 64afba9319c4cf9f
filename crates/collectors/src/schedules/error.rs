//! Errors of schedules and of their entries.

use super::metric::MAX_ENTRIES;

/// An invalid schedule, or a schedule that has no value at a certain time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The duration of the ramps is negative.
    #[error("spec.scalingWindowDurationMinutes: {0} is negative")]
    NegativeScalingWindow(i64),
    /// The schedule has too many entries.
    #[error("spec.schedules: {0} entries, at most {MAX_ENTRIES} are allowed")]
    TooManyEntries(usize),
    #[error("unknown default time zone {0:?}")]
    UnknownDefaultTimeZone(String),
    /// An entry is invalid.
    #[error(transparent)]
    Entry(#[from] EntryProblem),
}

/// A problem of an entry. `index` is its index in `spec.schedules`. All problems except an unknown
/// time zone are errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryProblem {
    /// A `OneTime` entry has no date.
    #[error("spec.schedules[{index}].date: required, because the type is OneTime")]
    MissingDate { index: usize },
    /// A `Repeating` entry has no period.
    #[error("spec.schedules[{index}].period: required, because the type is Repeating")]
    MissingPeriod { index: usize },
    /// A date is not in the format of RFC 3339.
    #[error("spec.schedules[{index}].{field}: {text:?} is not a date such as 2026-01-31T08:00:00Z")]
    InvalidDate {
        index: usize,
        /// `date` or `endDate`.
        field: &'static str,
        text: String,
    },
    /// The start or the end of a period is not a time of day.
    #[error("spec.schedules[{index}].period.{field}: {text:?} is not a time HH:MM")]
    InvalidTime {
        index: usize,
        /// `startTime` or `endTime`.
        field: &'static str,
        text: String,
    },
    /// The time zone is unknown. The entry uses the default time zone.
    #[error(
        "spec.schedules[{index}].period.timezone: unknown time zone {text:?}, using {default_zone}"
    )]
    UnknownTimeZone { index: usize, text: String, default_zone: String },
}
