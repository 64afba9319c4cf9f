//! Deserializers of fields. They treat absent and `null` fields as the reference's decoder does.

use std::{borrow::Cow, collections::HashMap, fmt, marker::PhantomData, sync::Arc};

use hpa_calc::{MilliValue, Quantity, Selector, api::ResourceName, selector::Labels};
use jiff::{SignedDuration, Timestamp, civil, tz};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess},
};

pub(super) use crate::decode::null_as_default;

/// Reads an object that may be `null`.
pub(super) fn object_or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let object = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(object.map(|Object(value)| value).unwrap_or_default())
}

/// A JSON object. A derived `Deserialize` alone would also accept a list of the members' values.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(de::value::MapAccessDeserializer::new(map))
    }
}

/// Reads a list of objects that usually has one element. `null` is empty. The list has no spare
/// capacity, because a response can have tens of thousands of such lists.
pub(super) fn compact_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct CompactList<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for CompactList<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(Object(element)) = seq.next_element()? {
                // `push` would allocate room for four.
                list.reserve_exact(1);
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_any(CompactList(PhantomData))
}

/// Go's zero time, 0001-01-01T00:00:00Z, which is the value of an absent timestamp.
pub(super) const fn zero_time() -> Timestamp {
    Timestamp::constant(-62_135_596_800, 0)
}

/// Reads an RFC 3339 time, and the other forms that jiff accepts. `null` is Go's zero time.
pub(super) fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let Some(BorrowedStr(text)) = Option::deserialize(deserializer)? else {
        return Ok(zero_time());
    };
    if let Some(time) = parse_whole_seconds(&text) {
        return Ok(time);
    }
    text.parse().map_err(|error| de::Error::custom(format_args!("parsing time {text:?}: {error}")))
}

/// Parses a time in whole seconds as Go formats it, `2026-01-01T00:00:00Z`. Returns `None` for
/// other formats. The general parser takes twice as long, and every pod has a time.
pub(super) fn parse_whole_seconds(text: &str) -> Option<Timestamp> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let &[
        c1,
        c2,
        y1,
        y2,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
        b'Z',
    ] = bytes
    else {
        return None;
    };
    let two_digits = |tens: u8, ones: u8| -> Option<i8> {
        if !(tens.is_ascii_digit() && ones.is_ascii_digit()) {
            return None;
        }
        i8::try_from((tens - b'0') * 10 + (ones - b'0')).ok()
    };
    let year = i16::from(two_digits(c1, c2)?) * 100 + i16::from(two_digits(y1, y2)?);
    let date = civil::Date::new(year, two_digits(m1, m2)?, two_digits(d1, d2)?).ok()?;
    let time =
        civil::Time::new(two_digits(h1, h2)?, two_digits(n1, n2)?, two_digits(s1, s2)?, 0).ok()?;
    tz::Offset::UTC.to_timestamp(date.to_datetime(time)).ok()
}

/// Reads a Go duration. `null` is an error, because Go reads it as the empty text.
pub(super) fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SignedDuration, D::Error> {
    let text: Option<BorrowedStr<'_>> = Option::deserialize(deserializer)?;
    super::parse_duration(&text.unwrap_or_default().0).map_err(de::Error::custom)
}

/// Reads a quantity, as [`Milli`] does.
pub(super) fn milli<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MilliValue, D::Error> {
    Milli::deserialize(deserializer).map(|Milli(value)| value)
}

/// A quantity, rounded up to milli-units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Milli(pub(super) MilliValue);

impl<'de> Deserialize<'de> for Milli {
    /// Accepts the same input as [`Quantity`], without storing the text. `null` is zero.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MilliVisitor)
    }
}

struct MilliVisitor;

impl de::Visitor<'_> for MilliVisitor {
    type Value = Milli;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a string or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Milli, E> {
        let trimmed = text.trim();
        match trimmed.parse() {
            Ok(milli) => Ok(Milli(milli)),
            Err(error) => {
                let excerpt: String = trimmed.chars().take(64).collect();
                Err(E::custom(format_args!("{excerpt:?}: {error}")))
            }
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Milli, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Milli, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Milli, E> {
        let quantity = Quantity::deserialize(de::value::F64Deserializer::new(number))?;
        Ok(Milli(quantity.milli_value()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Milli, E> {
        Ok(Milli(MilliValue::ZERO))
    }
}

/// Usage of a container or node by resource. An absent or `null` map is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage(Box<[(ResourceName, MilliValue)]>);

impl Usage {
    /// The usage of a resource, or `None` if it is not reported.
    pub fn get(&self, resource: &ResourceName) -> Option<MilliValue> {
        // The last of equal keys counts, as in a Go map.
        self.0.iter().rev().find(|(name, _)| name == resource).map(|(_, milli)| *milli)
    }
}

impl FromIterator<(ResourceName, MilliValue)> for Usage {
    fn from_iter<I: IntoIterator<Item = (ResourceName, MilliValue)>>(usage: I) -> Self {
        Self(usage.into_iter().collect())
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UsageVisitor)
    }
}

struct UsageVisitor;

impl<'de> de::Visitor<'de> for UsageVisitor {
    type Value = Usage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of resource names to quantities")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Usage, E> {
        Ok(Usage::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Usage, A::Error> {
        // Servers usually report CPU and memory.
        let mut usage = Vec::with_capacity(2);
        while let Some(BorrowedStr(name)) = map.next_key()? {
            let resource = ResourceName::from(name.as_ref());
            let Milli(milli) = map
                .next_value()
                .map_err(|error| de::Error::custom(format_args!("usage of {name}: {error}")))?;
            usage.push((resource, milli));
        }
        Ok(Usage(usage.into_boxed_slice()))
    }
}

/// The labels of an object or an item. They are rarely matched, so they are stored as
/// `key\0value\0...` in one allocation. In a list of pods, consecutive pods with equal labels share
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ItemLabels(Arc<str>);

impl ItemLabels {
    /// Whether both use the same allocation, and are therefore equal.
    pub fn shares_memory_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a selector matches the labels. Each look-up of a label reads the whole text, so for
    /// many requirements, the labels are indexed first.
    pub fn are_selected_by(&self, selector: &Selector) -> bool {
        const MAX_LOOK_UPS: usize = 4;
        if selector.requirements().len() <= MAX_LOOK_UPS {
            return selector.matches(self);
        }
        let values: HashMap<&str, &str> = self.pairs().collect();
        selector.matches_by(|key| values.get(key).copied())
    }

    /// Iterates over keys and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }
}

impl Labels for ItemLabels {
    fn label(&self, key: &str) -> Option<&str> {
        // The last of equal keys counts, as in a Go map.
        self.pairs().filter(|(name, _)| *name == key).last().map(|(_, value)| value)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for ItemLabels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut text = String::new();
        for (key, value) in pairs {
            push_label(&mut text, key.as_ref(), value.as_ref());
        }
        Self(text.into())
    }
}

/// Appends a label. NUL separates the parts, so a label with one is skipped. Labels of objects
/// can't have it; labels of series could.
fn push_label(text: &mut String, key: &str, value: &str) {
    if key.contains('\0') || value.contains('\0') {
        return;
    }
    for part in [key, value] {
        text.push_str(part);
        text.push('\0');
    }
}

impl<'de> Deserialize<'de> for ItemLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LabelsVisitor)
    }
}

/// Serializes as a map, in the order in which the labels were read.
impl Serialize for ItemLabels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.pairs())
    }
}

struct LabelsVisitor;

impl<'de> de::Visitor<'de> for LabelsVisitor {
    type Value = ItemLabels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_unit<E: de::Error>(self) -> Result<ItemLabels, E> {
        Ok(ItemLabels::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ItemLabels, A::Error> {
        // The usual size of the labels of a pod.
        let mut text = String::with_capacity(96);
        while let Some(BorrowedStr(key)) = map.next_key()? {
            let value: Option<BorrowedStr<'_>> = map.next_value()?;
            push_label(&mut text, &key, &value.unwrap_or_default().0);
        }
        Ok(ItemLabels(text.into()))
    }
}

/// A string that is borrowed from the input unless it has escapes.
#[derive(Default, Deserialize)]
struct BorrowedStr<'a>(#[serde(borrow)] Cow<'a, str>);
