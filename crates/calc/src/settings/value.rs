//! The allowed values of settings, and their forms in annotations and in fields.

use jiff::SignedDuration;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json, json};

use super::{
    bounds::{Day, MAX_ENTRIES, MAX_ZONE_LEN, Schedule, ScheduledBounds},
    fallback::{DEFAULT_FAILURE_SECONDS, Fallback, MAX_FAILURE_SECONDS, MIN_FAILURE_SECONDS},
};
use crate::{go_duration, quantity::Quantity};

/// The maximum length of an annotation in bytes. A schedule of bounds with all entries fits.
pub const MAX_ANNOTATION_LEN: usize = 8 * 1024;

/// The kind of the values of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueKind {
    /// `"true"` or `"false"`, a boolean as a field.
    Switch,
    /// One of these words, each with its name in the field of the custom API.
    Choice(&'static [(&'static str, &'static str)]),
    /// A duration within these bounds in seconds: `30s` in an annotation, whole seconds as a field.
    Duration { min: i64, max: i64 },
    /// A quantity from 0 to this number of units. `i64::MAX` stands for no maximum.
    Quantity { max: i64 },
    /// A [`Fallback`] as a JSON object.
    Fallback,
    /// [`ScheduledBounds`] as a JSON list.
    Bounds,
}

/// A valid value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SettingValue {
    Switch(bool),
    Choice(&'static str),
    Duration(SignedDuration),
    Quantity(Quantity),
    Fallback(Fallback),
    Bounds(Schedule),
}

impl ValueKind {
    /// The allowed values, as the text after "must be".
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Switch => "\"true\" or \"false\"".to_owned(),
            Self::Choice(words) => {
                let quoted: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
                match quoted.split_last() {
                    Some((last, [])) => last.clone(),
                    Some((last, others)) => format!("{} or {last}", others.join(", ")),
                    None => String::new(),
                }
            }
            Self::Duration { min, max } => {
                let text = |seconds| duration_text(SignedDuration::from_secs(seconds));
                format!("a duration from {} to {}, such as \"{}\"", text(min), text(max), text(30))
            }
            Self::Quantity { max: i64::MAX } => "a quantity that is not negative".to_owned(),
            Self::Quantity { max } => format!("a quantity from 0 to {max}, such as 0.5 or 500m"),
            Self::Fallback => format!("a JSON object such as {}", Self::FALLBACK_EXAMPLE),
            Self::Bounds => format!("a JSON list such as {}", Self::BOUNDS_EXAMPLE),
        }
    }

    const FALLBACK_EXAMPLE: &'static str =
        r#"{"replicas": 5, "failureDurationSeconds": 180, "behavior": "currentReplicasIfHigher"}"#;
    const BOUNDS_EXAMPLE: &'static str = concat!(
        r#"[{"days": ["Mon", "Fri"], "start": "08:00", "end": "20:00", "#,
        r#""timeZone": "Europe/Berlin", "minReplicas": 10}]"#,
    );

    /// A value that a reader can copy.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Self::Switch => "true",
            Self::Choice(words) => words.last().map_or("", |(word, _)| word),
            Self::Duration { .. } => "30s",
            Self::Quantity { .. } => "50m",
            Self::Fallback => Self::FALLBACK_EXAMPLE,
            Self::Bounds => Self::BOUNDS_EXAMPLE,
        }
    }

    /// Parses the text of an annotation, if it is not too long.
    pub(super) fn parse_annotation(self, text: &str) -> Result<SettingValue, String> {
        if text.len() > MAX_ANNOTATION_LEN {
            return Err(format!("must have at most {MAX_ANNOTATION_LEN} bytes"));
        }
        self.parse(text)
    }

    /// The values by metric, if the annotation is a JSON object whose members are named after
    /// metrics. A fallback is a JSON object too, but its members are not objects, unlike fallbacks
    /// by metric.
    pub(super) fn values_by_metric(self, text: &str) -> Option<Map<String, Json>> {
        if text.len() > MAX_ANNOTATION_LEN || !text.trim_start().starts_with('{') {
            return None;
        }
        let object: Map<String, Json> = serde_json::from_str(text).ok()?;
        let is_value = matches!(self, Self::Fallback) && !object.values().all(Json::is_object);
        (!is_value && !object.is_empty()).then_some(object)
    }

    /// Parses one of the [`Self::values_by_metric`]: a text as in an annotation, or an object.
    pub(super) fn parse_metric_value(self, json: &Json) -> Result<SettingValue, String> {
        match json {
            Json::String(text) => self.parse_annotation(text),
            json => self.parse_field(json),
        }
    }

    /// Parses the text of an annotation of any length.
    pub(crate) fn parse(self, text: &str) -> Result<SettingValue, String> {
        let unexpected = || format!("must be {}", self.expected());
        match self {
            Self::Switch => text.parse().map(SettingValue::Switch).map_err(|_| unexpected()),
            Self::Choice(words) => {
                let word = words.iter().find(|(word, _)| *word == text);
                word.map(|(word, _)| SettingValue::Choice(word)).ok_or_else(unexpected)
            }
            Self::Duration { .. } => {
                let duration = go_duration::parse(text).map_err(|_| unexpected())?;
                self.duration_in_range(duration).ok_or_else(unexpected)
            }
            Self::Quantity { .. } => {
                let quantity = text.parse().map_err(|_| unexpected())?;
                self.quantity_in_range(quantity).ok_or_else(unexpected)
            }
            Self::Fallback | Self::Bounds => {
                let json = serde_json::from_str(text).map_err(|_| unexpected())?;
                self.parse_field(&json)
            }
        }
    }

    /// Parses a field of the custom API.
    pub(crate) fn parse_field(self, json: &Json) -> Result<SettingValue, String> {
        let unexpected = || format!("must be {}", self.expected_field());
        match self {
            Self::Switch => json.as_bool().map(SettingValue::Switch).ok_or_else(unexpected),
            Self::Choice(words) => {
                let word = words.iter().find(|(_, name)| json.as_str() == Some(name));
                word.map(|(word, _)| SettingValue::Choice(word)).ok_or_else(unexpected)
            }
            Self::Duration { .. } => {
                let duration = json.as_i64().map(SignedDuration::from_secs);
                duration
                    .and_then(|duration| self.duration_in_range(duration))
                    .ok_or_else(unexpected)
            }
            Self::Quantity { .. } => {
                let quantity = Quantity::deserialize(json).ok();
                quantity
                    .and_then(|quantity| self.quantity_in_range(quantity))
                    .ok_or_else(unexpected)
            }
            Self::Fallback => {
                let fallback: Fallback = deserialize(json).map_err(invalid_text)?;
                match fallback.problem() {
                    Some(problem) => Err(invalid_text(problem)),
                    None => Ok(SettingValue::Fallback(fallback)),
                }
            }
            Self::Bounds => {
                let entries: Vec<ScheduledBounds> = deserialize(json)
                    .map_err(|error| invalid_text(entry_error(json).unwrap_or(error)))?;
                if entries.is_empty() || entries.len() > MAX_ENTRIES {
                    return Err(format!("must have 1 to {MAX_ENTRIES} entries"));
                }
                for (index, entry) in entries.iter().enumerate() {
                    if let Some(problem) = entry.problem() {
                        return Err(invalid_text(format!("[{index}]: {problem}")));
                    }
                }
                Ok(SettingValue::Bounds(entries.into()))
            }
        }
    }

    fn expected_field(self) -> String {
        match self {
            Self::Switch => "true or false".to_owned(),
            Self::Choice(words) => {
                let quoted: Vec<_> = words.iter().map(|(_, name)| format!("{name:?}")).collect();
                format!("one of {}", quoted.join(", "))
            }
            Self::Duration { min, max } => format!("a number of seconds from {min} to {max}"),
            Self::Quantity { .. } | Self::Fallback | Self::Bounds => self.expected(),
        }
    }

    fn duration_in_range(self, duration: SignedDuration) -> Option<SettingValue> {
        let Self::Duration { min, max } = self else { return None };
        let range = SignedDuration::from_secs(min)..=SignedDuration::from_secs(max);
        range.contains(&duration).then_some(SettingValue::Duration(duration))
    }

    fn quantity_in_range(self, quantity: Quantity) -> Option<SettingValue> {
        let Self::Quantity { max } = self else { return None };
        let milli = quantity.milli_value().as_milli();
        (0..=max.saturating_mul(1000)).contains(&milli).then_some(SettingValue::Quantity(quantity))
    }

    /// The schema of the field (OpenAPI v3), without its description.
    pub(crate) fn schema(self) -> Json {
        match self {
            Self::Switch => json!({ "type": "boolean" }),
            Self::Choice(words) => {
                let names: Vec<_> = words.iter().map(|(_, name)| *name).collect();
                json!({ "type": "string", "enum": names })
            }
            Self::Duration { min, max } => {
                json!({ "type": "integer", "format": "int32", "minimum": min, "maximum": max })
            }
            Self::Quantity { .. } => json!({
                "x-kubernetes-int-or-string": true,
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "pattern": r"^\+?([0-9]{1,18}(\.[0-9]{0,18})?)([numkMGTPE]|[KMGTPE]i)?$",
            }),
            Self::Fallback => fallback_schema(),
            Self::Bounds => bounds_schema(),
        }
    }
}

/// An annotation's value or, if that is too long, a part that is still rejected for its length.
pub(super) fn limited_annotation(value: &str) -> &str {
    value.get(..value.ceil_char_boundary(MAX_ANNOTATION_LEN + 1)).unwrap_or_default()
}

/// A duration as in an annotation, such as `1h30m`.
pub(crate) fn duration_text(duration: SignedDuration) -> String {
    format!("{duration:#}").replace(' ', "")
}

/// A problem inside a fallback or a schedule, as the rest of a sentence that starts with the
/// setting.
fn invalid_text(problem: String) -> String {
    format!("is invalid: {problem}")
}

/// The value as it is written in an annotation.
impl std::fmt::Display for SettingValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Switch(on) => write!(f, "{on}"),
            Self::Choice(word) => f.write_str(word),
            Self::Duration(duration) => f.write_str(&duration_text(*duration)),
            Self::Quantity(quantity) => write!(f, "{quantity}"),
            Self::Fallback(fallback) => f.write_str(&json!(fallback).to_string()),
            Self::Bounds(bounds) => f.write_str(&json!(**bounds).to_string()),
        }
    }
}

impl SettingValue {
    /// The duration of a value of the kind [`ValueKind::Duration`]. Zero for other kinds.
    pub(super) fn duration(&self) -> SignedDuration {
        match self {
            Self::Duration(duration) => *duration,
            _ => SignedDuration::ZERO,
        }
    }

    /// The quantity of a value of the kind [`ValueKind::Quantity`]. Zero for other kinds.
    pub(super) fn quantity(&self) -> Quantity {
        match self {
            Self::Quantity(quantity) => quantity.clone(),
            _ => Quantity::default(),
        }
    }

    /// The value as a field.
    pub(crate) fn to_field(&self, kind: ValueKind) -> Json {
        match (self, kind) {
            (Self::Choice(word), ValueKind::Choice(words)) => {
                let name = words.iter().find(|(candidate, _)| candidate == word);
                json!(name.map_or(*word, |(_, name)| name))
            }
            (Self::Switch(on), _) => json!(on),
            (Self::Choice(word), _) => json!(word),
            (Self::Duration(duration), _) => json!(duration.as_secs()),
            (Self::Quantity(quantity), _) => json!(quantity.to_string()),
            (Self::Fallback(fallback), _) => json!(fallback),
            (Self::Bounds(bounds), _) => json!(**bounds),
        }
    }
}

fn deserialize<T: DeserializeOwned>(json: &Json) -> Result<T, String> {
    T::deserialize(json).map_err(|error| error.to_string())
}

/// The first entry of a schedule of bounds that can't be decoded, and its error.
fn entry_error(json: &Json) -> Option<String> {
    json.as_array()?.iter().enumerate().find_map(|(index, entry)| {
        let days = entry.get("days").and_then(|days| deserialize::<Vec<Day>>(days).err());
        let days = days.map(|error| format!("[{index}].days: {error}"));
        days.or_else(|| {
            let error = deserialize::<ScheduledBounds>(entry).err()?;
            Some(format!("[{index}]: {error}"))
        })
    })
}

fn fallback_schema() -> Json {
    json!({
        "type": "object",
        "required": ["replicas"],
        "properties": {
            "replicas": {
                "type": "integer", "format": "int32", "minimum": 0,
                "description": "The proposed replicas.",
            },
            "failureDurationSeconds": {
                "type": "integer", "format": "int32",
                "minimum": MIN_FAILURE_SECONDS, "maximum": MAX_FAILURE_SECONDS,
                "default": DEFAULT_FAILURE_SECONDS,
                "description": "How long the metric must have failed, in seconds.",
            },
            "behavior": {
                "type": "string", "default": "static",
                "enum": [
                    "static", "currentReplicas",
                    "currentReplicasIfHigher", "currentReplicasIfLower",
                ],
                "description": "Whether the current replicas count.",
            },
        },
    })
}

fn bounds_schema() -> Json {
    let time = |description| {
        json!({
            "type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "maxLength": 5,
            "description": description,
        })
    };
    let replicas = |minimum, field| {
        let description =
            format!("{field} during the entry. If several entries hold, the highest wins.");
        json!({
            "type": "integer", "format": "int32", "minimum": minimum, "description": description,
        })
    };
    json!({
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_ENTRIES,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["start", "end"],
            "properties": {
                "days": {
                    "type": "array", "maxItems": 7, "x-kubernetes-list-type": "set",
                    "items": { "type": "string", "maxLength": 3,
                        "enum": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] },
                    "description":
                        "The days of the week on which the entry starts. The default is every day.",
                },
                "start": time("When the entry starts, in hours and minutes."),
                "end": time(
                    "When the entry ends. If it is not after the start, the entry ends on the next \
                     day."
                ),
                "timeZone": {
                    "type": "string", "maxLength": MAX_ZONE_LEN, "default": "UTC",
                    "description": "The IANA name of the time zone.",
                },
                "minReplicas": replicas(0, "minReplicas"),
                "maxReplicas": replicas(1, "maxReplicas"),
            },
            "x-kubernetes-validations": [
                { "rule": "has(self.minReplicas) || has(self.maxReplicas)",
                    "message": "minReplicas or maxReplicas must be set" },
                { "rule": "!has(self.minReplicas) || !has(self.maxReplicas) || \
                        self.minReplicas <= self.maxReplicas",
                    "message": "minReplicas must not be above maxReplicas" },
            ],
        },
    })
}
