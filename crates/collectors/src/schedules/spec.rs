//! The API types. Their descriptions are part of the `CustomResourceDefinitions`.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

/// The spec of a ScalingSchedule or ClusterScalingSchedule.
#[expect(clippy::doc_markdown, reason = "a description in the API")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingScheduleSpec {
    /// Minutes over which the value rises before each window and falls after it. Without it, the
    /// default of the controller applies. 0 means at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling_window_duration_minutes: Option<i64>,
    /// The entries. The value of the metric is the largest one of them.
    #[serde(deserialize_with = "null_or_list")]
    #[schemars(with = "Vec<Schedule>")]
    pub schedules: Vec<Schedule>,
}

/// Go decodes `null` as an empty list.
fn null_or_list<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// One entry of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// OneTime needs a date, Repeating a period.
    #[expect(clippy::doc_markdown, reason = "a description in the API")]
    pub r#type: ScheduleType,
    /// When a Repeating entry applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<SchedulePeriod>,
    /// Start of a OneTime entry, in the format of RFC 3339.
    #[expect(clippy::doc_markdown, reason = "a description in the API")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub date: Option<String>,
    /// End of a OneTime entry, in the format of RFC 3339.
    #[expect(clippy::doc_markdown, reason = "a description in the API")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub end_date: Option<String>,
    /// Least number of minutes that a window lasts. The window ends at its end or after this time,
    /// whichever is later.
    #[serde(default)]
    pub duration_minutes: i64,
    /// The value in the window.
    pub value: i64,
}

/// Whether an entry has one window, or one on each of some days of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
pub enum ScheduleType {
    // Without descriptions, which would make the schema a list of alternatives.
    OneTime,
    Repeating,
}

/// When a Repeating entry applies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePeriod {
    /// Start of the window, HH:MM.
    #[schemars(extend("pattern" = TIME_PATTERN))]
    pub start_time: String,
    /// End of the window, HH:MM. An end before the start is on the next day.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = TIME_PATTERN))]
    pub end_time: String,
    /// Days on which a window starts.
    #[serde(deserialize_with = "null_or_list")]
    #[schemars(with = "Vec<ScheduleDay>")]
    pub days: Vec<ScheduleDay>,
    /// Time zone of the IANA database, such as Europe/Berlin.
    pub timezone: String,
}

const TIME_PATTERN: &str = "(([0-1][0-9])|([2][0-3])):([0-5][0-9])";

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
pub enum ScheduleDay {
    Sun,
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
}

/// The status of a ScalingSchedule or ClusterScalingSchedule.
#[expect(clippy::doc_markdown, reason = "a description in the API")]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema,
)]
pub struct ScalingScheduleStatus {
    /// Whether an entry is in its window or in one of its ramps.
    #[serde(default)]
    pub active: bool,
}
