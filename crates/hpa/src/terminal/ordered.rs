//! JSON with ordered fields.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

/// A JSON value that keeps the order of fields, unlike [`Value`].
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum OrderedValue {
    String(String),
    Sequence(Vec<OrderedValue>),
    Map(
        #[serde(serialize_with = "serialize_fields", deserialize_with = "deserialize_fields")]
        Fields,
    ),
    /// Null, a boolean or a number.
    Other(Value),
}

impl OrderedValue {
    /// Calls `replace` with each string and key, in the order in which they are serialized.
    pub(super) fn replace_strings<E>(
        &mut self,
        replace: &mut impl FnMut(&mut String) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::String(text) => replace(text),
            Self::Sequence(items) => {
                items.iter_mut().try_for_each(|item| item.replace_strings(replace))
            }
            Self::Map(fields) => fields.iter_mut().try_for_each(|(key, value)| {
                replace(key)?;
                value.replace_strings(replace)
            }),
            Self::Other(_) => Ok(()),
        }
    }
}

type Fields = Vec<(String, OrderedValue)>;

fn serialize_fields<S: Serializer>(fields: &Fields, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|(key, value)| (key, value)))
}

fn deserialize_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
    deserializer.deserialize_map(FieldsVisitor)
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Fields, A::Error> {
        let mut all = Vec::new();
        while let Some(field) = fields.next_entry()? {
            all.push(field);
        }
        Ok(all)
    }
}
