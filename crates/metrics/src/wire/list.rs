//! Decodes lists of items.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess},
};

use super::{ListItem, WireError, field::Object};

/// Most items have at least this size as JSON. It determines the capacity that is reserved for a
/// list.
const TYPICAL_ITEM_BYTES: usize = 160;

/// Lower limit for the average JSON size of items. Decoded, a list of smaller items, such as `{}`,
/// would take many times its size.
const MIN_AVERAGE_BYTES: usize = 32;
/// A list may have this many items, whatever their size.
const MIN_ITEM_LIMIT: usize = 64;

/// Decodes the JSON of a list. If it has a `kind`, that must be [`ListItem::LIST_KIND`].
///
/// ```
/// use hpa_metrics::wire::{ExternalMetricValue, decode_list, external_values};
///
/// let body = br#"{ "kind": "ExternalMetricValueList", "items": [{ "value": "404m" }] }"#;
/// let items = decode_list::<ExternalMetricValue>(body)?;
/// assert_eq!(external_values(&items).map(|values| values.value[0].as_milli()), Ok(404));
/// # Ok::<(), hpa_metrics::wire::WireError>(())
/// ```
pub fn decode_list<I: ListItem>(body: &[u8]) -> Result<Vec<I>, WireError> {
    let malformed = |source| WireError::Json { kind: I::LIST_KIND, source };
    // UTF-8 is validated once here, because serde_json would validate each string of a byte slice.
    let text =
        std::str::from_utf8(body).map_err(|error| malformed(serde_json::Error::custom(error)))?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // Unused capacity of a large list costs no physical memory: its pages are never touched.
    let seed = ListSeed {
        capacity: text.len() / TYPICAL_ITEM_BYTES,
        max_items: (text.len() / MIN_AVERAGE_BYTES).max(MIN_ITEM_LIMIT),
        item: PhantomData,
    };
    let list: List<I> = seed.deserialize(&mut deserializer).map_err(malformed)?;
    deserializer.end().map_err(malformed)?;
    match list.kind.filter(|kind| !kind.is_empty()) {
        None => Ok(list.items),
        Some(kind) if *kind == *I::LIST_KIND => Ok(list.items),
        Some(kind) if *kind == *"Status" => {
            Err(WireError::Failure(list.message.unwrap_or_default()))
        }
        Some(found) => Err(WireError::Kind { expected: I::LIST_KIND, found }),
    }
}

struct List<I> {
    kind: Option<Box<str>>,
    message: Option<Box<str>>,
    items: Vec<I>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Field {
    Kind,
    Message,
    Items,
    #[serde(other)]
    Other,
}

/// Deserializes a list, with the capacity to reserve for its items, and their maximum number.
struct ListSeed<I> {
    capacity: usize,
    max_items: usize,
    item: PhantomData<I>,
}

impl<'de, I: ListItem> DeserializeSeed<'de> for ListSeed<I> {
    type Value = List<I>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<List<I>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, I: ListItem> de::Visitor<'de> for ListSeed<I> {
    type Value = List<I>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List<I>, A::Error> {
        let (mut kind, mut message, mut items) = (None, None, None);
        while let Some(field) = map.next_key()? {
            match field {
                Field::Kind if kind.is_some() => return Err(A::Error::duplicate_field("kind")),
                Field::Kind => kind = Some(map.next_value()?),
                Field::Message if message.is_some() => {
                    return Err(A::Error::duplicate_field("message"));
                }
                Field::Message => message = Some(map.next_value()?),
                Field::Items if items.is_some() => return Err(A::Error::duplicate_field("items")),
                Field::Items => items = Some(map.next_value_seed(ItemsSeed(&self))?),
                Field::Other => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(List {
            kind: kind.unwrap_or_default(),
            message: message.unwrap_or_default(),
            items: items.unwrap_or_default(),
        })
    }
}

struct ItemsSeed<'a, I>(&'a ListSeed<I>);

impl<'de, I: ListItem> DeserializeSeed<'de> for ItemsSeed<'_, I> {
    type Value = Vec<I>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<I>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, I: ListItem> de::Visitor<'de> for ItemsSeed<'_, I> {
    type Value = Vec<I>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of items")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<I>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<I>, A::Error> {
        let Some(Object(first)) = seq.next_element()? else { return Ok(Vec::new()) };
        let mut items = Vec::with_capacity(self.0.capacity.max(1));
        items.push(first);
        while let Some(Object(mut item)) = seq.next_element::<Object<I>>()? {
            if items.len() >= self.0.max_items {
                return Err(A::Error::custom(format_args!(
                    "the items have fewer than {MIN_AVERAGE_BYTES} bytes on average"
                )));
            }
            if let Some(previous) = items.last() {
                item.share_memory_with(previous);
            }
            items.push(item);
        }
        Ok(items)
    }
}
