//! Labels of an object, dropped while they are decoded if they exceed the limits.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use hpa_calc::selector::{MAX_LABEL_BYTES, MAX_LABELS};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

/// A text that is copied only if it has escape sequences.
#[derive(Deserialize)]
pub(crate) struct CowText<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Labels that are stored only within the limits of
/// [`exceed_label_limits`](hpa_calc::selector::exceed_label_limits). A list can have many objects
/// with a megabyte of labels each, and takes several times as much memory once decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitedLabels {
    pub(super) labels: BTreeMap<String, String>,
    /// The length of all keys and values.
    bytes: usize,
    /// Whether the labels exceeded the limits. Then none are stored.
    pub(super) exceed_limits: bool,
}

impl LimitedLabels {
    fn add(&mut self, key: Cow<'_, str>, value: Cow<'_, str>) {
        if self.exceed_limits {
            return;
        }
        // The last of equal keys counts, as in a Go map.
        if let Some(replaced) = self.labels.get(&*key) {
            self.bytes -= key.len() + replaced.len();
        }
        self.bytes += key.len() + value.len();
        self.labels.insert(key.into_owned(), value.into_owned());
        if self.labels.len() > MAX_LABELS || self.bytes > MAX_LABEL_BYTES {
            *self = Self { exceed_limits: true, ..Self::default() };
        }
    }
}

impl<'de> Deserialize<'de> for LimitedLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LabelsVisitor;

        impl<'de> Visitor<'de> for LabelsVisitor {
            type Value = LimitedLabels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels = LimitedLabels::default();
                while let Some((CowText(key), CowText(value))) =
                    map.next_entry::<CowText<'de>, CowText<'de>>()?
                {
                    labels.add(key, value);
                }
                Ok(labels)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(LimitedLabels::default())
            }
        }

        deserializer.deserialize_any(LabelsVisitor)
    }
}
