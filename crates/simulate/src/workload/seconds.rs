//! Durations of simulated time, as written in scenarios.

use std::{fmt, str::FromStr};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};

/// The seconds of a minute.
pub const MINUTE: f64 = 60.0;
/// The seconds of an hour.
pub const HOUR: f64 = 60.0 * MINUTE;
/// The seconds of a day.
pub const DAY: f64 = 24.0 * HOUR;

/// A duration of simulated time, never negative. Written as `20m`, `1h30m`, `2.5s`, `500ms`, or as
/// a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(f64);

/// A string that isn't a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a duration, such as 90, 90s, 1h30m or 500ms")]
pub struct SecondsError(String);

/// The time `second` seconds after `start`. Returns `start` if that time is out of range.
pub fn timestamp_at(start: Timestamp, second: f64) -> Timestamp {
    let span = SignedDuration::try_from_secs_f64(second).unwrap_or_default();
    start.checked_add(span).unwrap_or(start)
}

/// Removes the fraction of a second, as the API does.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", MINUTE), ("h", HOUR), ("d", DAY)];

impl Seconds {
    /// A number of seconds. A negative or non-finite number becomes 0.
    pub const fn new(seconds: f64) -> Self {
        Self(if seconds.is_finite() && seconds > 0.0 { seconds } else { 0.0 })
    }

    pub const fn get(self) -> f64 {
        self.0
    }

    fn checked(number: f64) -> Option<Self> {
        (number.is_finite() && number >= 0.0).then_some(Self(number))
    }

    /// The duration, saturating.
    pub(crate) fn to_duration(self) -> SignedDuration {
        SignedDuration::try_from_secs_f64(self.0).unwrap_or(SignedDuration::MAX)
    }
}

impl FromStr for Seconds {
    type Err = SecondsError;

    fn from_str(text: &str) -> Result<Self, SecondsError> {
        let error = || SecondsError(text.to_owned());
        if let Ok(number) = text.parse::<f64>() {
            return Self::checked(number).ok_or_else(error);
        }
        let (mut rest, mut total) = (text, 0.0);
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let (_, factor) =
                UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
            total += number.parse::<f64>().map_err(|_| error())? * factor;
            rest = tail;
        }
        Self::checked(total).filter(|_| !text.is_empty()).ok_or_else(error)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsVisitor)
    }
}

impl schemars::JsonSchema for Seconds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "number", "minimum": 0 }, { "type": "string" }],
            "pattern": r"^([0-9]+(\.[0-9]*)?|([0-9.]+(ms|s|m|h|d))+)$",
            "description": "A duration, such as 90, 90s, 1h30m or 500ms",
        })
    }
}

struct SecondsVisitor;

impl Visitor<'_> for SecondsVisitor {
    type Value = Seconds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration, such as 90, 90s, 1h30m or 500ms")
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Seconds, E> {
        Seconds::checked(number).ok_or_else(|| E::custom(SecondsError(number.to_string())))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Seconds, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Seconds, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Seconds, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Seconds;

    #[rstest]
    #[case("90", Some(90.0))]
    #[case("1h30m", Some(5400.0))]
    #[case("2.5s", Some(2.5))]
    #[case("500ms", Some(0.5))]
    #[case("1d", Some(86_400.0))]
    #[case("", None)]
    #[case("-5s", None)]
    #[case("5x", None)]
    #[case("m", None)]
    #[case("5m3", None)]
    #[case("inf", None)]
    fn durations_are_parsed(#[case] text: &str, #[case] expected: Option<f64>) {
        assert_eq!(text.parse().ok().map(Seconds::get), expected);
    }
}
