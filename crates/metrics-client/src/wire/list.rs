//! The list around the items of an answer.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess},
};

use super::{ListItem, WireError};

/// Hardly an item is shorter: so many bytes of an answer stand for one where room is made for them all at once.
const BYTES_OF_AN_ITEM: usize = 160;

/// Reads the JSON of a list. A list without a `kind` is taken at its word.
pub fn decode_list<I: ListItem>(body: &[u8]) -> Result<Vec<I>, WireError> {
    let malformed = |source| WireError::Json { kind: I::LIST_KIND, source };
    // Once for all: of bytes each string would be checked for itself.
    let text =
        std::str::from_utf8(body).map_err(|error| malformed(serde_json::Error::custom(error)))?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // Memory that is not used in the end is not touched either.
    let room = Room { items: text.len() / BYTES_OF_AN_ITEM, item: PhantomData };
    let list: List<I> = room.deserialize(&mut deserializer).map_err(malformed)?;
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
enum Member {
    Kind,
    Message,
    Items,
    #[serde(other)]
    Other,
}

/// How many items there is to be room for; reads the list, and its items.
struct Room<I> {
    items: usize,
    item: PhantomData<I>,
}

impl<'de, I: ListItem> DeserializeSeed<'de> for Room<I> {
    type Value = List<I>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<List<I>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, I: ListItem> de::Visitor<'de> for Room<I> {
    type Value = List<I>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List<I>, A::Error> {
        let mut list = List { kind: None, message: None, items: Vec::new() };
        while let Some(member) = map.next_key()? {
            match member {
                Member::Kind => list.kind = map.next_value()?,
                Member::Message => list.message = map.next_value()?,
                Member::Items => list.items = map.next_value_seed(Items(&self))?,
                Member::Other => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(list)
    }
}

struct Items<'a, I>(&'a Room<I>);

impl<'de, I: ListItem> DeserializeSeed<'de> for Items<'_, I> {
    type Value = Vec<I>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<I>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, I: ListItem> de::Visitor<'de> for Items<'_, I> {
    type Value = Vec<I>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of items")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<I>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<I>, A::Error> {
        let Some(first) = seq.next_element()? else { return Ok(Vec::new()) };
        let mut items = Vec::with_capacity(self.0.items.max(1));
        items.push(first);
        while let Some(mut item) = seq.next_element::<I>()? {
            if let Some(before) = items.last() {
                item.share(before);
            }
            items.push(item);
        }
        Ok(items)
    }
}
