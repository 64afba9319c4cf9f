//! The plain decoder: it checks the syntax of the whole JSON first, then decodes single values.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The result of decoding with a [`Document`].
pub type DocumentResult<T> = Result<T, serde_json::Error>;

/// A JSON value. Only parts that a caller reads are decoded; the syntax of the others is checked,
/// as for unknown fields of a derived `Deserialize`.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a>(&'a RawValue);

impl<'a> Document<'a> {
    /// Checks the syntax of a document.
    pub fn parse(body: &'a [u8]) -> DocumentResult<Self> {
        let text = std::str::from_utf8(body).map_err(serde_json::Error::custom)?;
        serde_json::from_str(text).map(Self)
    }

    /// The value's JSON.
    pub fn text(self) -> &'a str {
        self.0.get()
    }

    pub fn is_null(self) -> bool {
        self.text() == "null"
    }

    pub fn is_object(self) -> bool {
        self.text().starts_with('{')
    }

    pub fn is_list(self) -> bool {
        self.text().starts_with('[')
    }

    /// Decodes a value with serde: a number, a string, or a collection of these.
    pub fn decode<T: Deserialize<'a>>(self) -> DocumentResult<T> {
        serde_json::from_str(self.text())
    }

    /// The elements of a list.
    pub fn elements(self) -> DocumentResult<Vec<Self>> {
        let elements: Vec<&RawValue> = self.decode()?;
        Ok(elements.into_iter().map(Self).collect())
    }

    /// The members of an object in their order. Names may repeat.
    pub fn members(self) -> DocumentResult<Vec<(String, Self)>> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(String, Document<'de>)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((name, Document(value)));
                }
                Ok(members)
            }
        }

        serde_json::Deserializer::from_str(self.text()).deserialize_map(Members)
    }

    /// The members with these names. Fails if one of them repeats, or if the value isn't an object.
    pub fn fields<const N: usize>(self, names: [&str; N]) -> DocumentResult<[Option<Self>; N]> {
        let mut fields = [None; N];
        for (name, value) in self.members()? {
            let Some(index) = names.iter().position(|known| *known == name) else { continue };
            if fields[index].replace(value).is_some() {
                return Err(serde_json::Error::custom(format!("duplicate field {name}")));
            }
        }
        Ok(fields)
    }

    /// Like [`Document::fields`], but also accepts a list of the members' values, like a derived
    /// `Deserialize` of a struct with `#[serde(default)]`: trailing values may be missing.
    pub fn struct_fields<const N: usize>(
        self,
        names: [&str; N],
    ) -> DocumentResult<[Option<Self>; N]> {
        if !self.is_list() {
            return self.fields(names);
        }
        let elements = self.elements()?;
        if elements.len() > N {
            return Err(serde_json::Error::custom("more elements than fields"));
        }
        let mut fields = [None; N];
        for (field, element) in fields.iter_mut().zip(elements) {
            *field = Some(element);
        }
        Ok(fields)
    }
}
