//! JSON values that keep the order of their fields.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// A JSON value that keeps the order of fields, unlike [`Value`].
pub(super) enum OrderedValue {
    String(String),
    Sequence(Vec<OrderedValue>),
    Map(Vec<(String, OrderedValue)>),
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

impl Serialize for OrderedValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::String(text) => serializer.serialize_str(text),
            Self::Sequence(items) => serializer.collect_seq(items),
            Self::Map(fields) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (key, value)))
            }
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OrderedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> Visitor<'de> for OrderedVisitor {
    type Value = OrderedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Other(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Other(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Other(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Other(value.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<OrderedValue, E> {
        Ok(OrderedValue::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OrderedValue, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(OrderedValue::Sequence(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<OrderedValue, A::Error> {
        let mut all = Vec::new();
        while let Some(field) = fields.next_entry()? {
            all.push(field);
        }
        Ok(OrderedValue::Map(all))
    }
}
