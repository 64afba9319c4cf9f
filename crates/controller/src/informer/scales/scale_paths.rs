//! Derives the scale of an object, with the paths of its kind.

use std::fmt;

use hpa_calc::{
    api::Scale,
    selector::{LabelSelector, MAX_TEXT_BYTES, Selector},
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::{
    k8s::{CowText, PartialObject},
    scale_target::ScaleObject,
};

/// The fields of a kind's objects that their scales are derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScalePaths {
    pub(super) spec_replicas: FieldPath,
    pub(super) status_replicas: FieldPath,
    pub(super) selector: SelectorField,
}

/// The names of the fields from the object to a value.
pub(super) type FieldPath = Vec<String>;

/// The field with the selector of an object's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SelectorField {
    /// The objects have no selector.
    None,
    /// A selector in text form.
    Text(FieldPath),
    LabelSelector(FieldPath),
}

/// Splits a path at its dots. Like the API server, ignores one dot at the start.
pub(super) fn split_path(path: &str) -> FieldPath {
    path.strip_prefix('.').unwrap_or(path).split('.').map(ToOwned::to_owned).collect()
}

impl ScalePaths {
    /// The paths of Deployments, `StatefulSets` and `ReplicaSets`.
    pub(super) fn of_workloads() -> Self {
        Self {
            spec_replicas: split_path("spec.replicas"),
            status_replicas: split_path("status.replicas"),
            selector: SelectorField::LabelSelector(split_path("spec.selector")),
        }
    }

    /// The scale that the API server would return for an object; `None` if it would return none, or
    /// if that is uncertain.
    pub(super) fn scale(&self, object: &PartialObject) -> Option<ScaleObject> {
        let scale = Scale {
            // Without spec replicas, the API server refuses to return a scale. For a workload, it
            // sets the default before it stores the object.
            spec_replicas: replicas(&value_at(object, &self.spec_replicas).ok()??)?,
            status_replicas: match value_at(object, &self.status_replicas).ok()? {
                Some(value) => replicas(&value)?,
                None => 0,
            },
            selector: self.selector.text(object)?,
        };
        let uid = object.uid().to_owned();
        let resource_version = object.resource_version().to_owned();
        Some(ScaleObject { scale, uid, resource_version })
    }
}

impl SelectorField {
    /// The selector of an object as text, empty without a selector. `None` if it is invalid.
    fn text(&self, object: &PartialObject) -> Option<String> {
        match self {
            Self::None => Some(String::new()),
            Self::Text(path) => match value_at(object, path).ok()? {
                // A longer text is not a selector: the reconcile reads the scale and reports that.
                Some(Value::String(text)) => (text.len() <= MAX_TEXT_BYTES).then_some(text),
                Some(_) => None,
                None => Some(String::new()),
            },
            Self::LabelSelector(path) => {
                let value = value_at(object, path).ok()?.unwrap_or_default();
                let selector = Option::<LabelSelector>::deserialize(&value).ok()?;
                Some(Selector::from_label_selector(selector.as_ref()).ok()?.to_string())
            }
        }
    }
}

fn replicas(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

/// The value at a path, or `None` if there is none. Fails if a value on the way is not an object:
/// the API server then returns no scale. Also fails if the value is nested too deeply for a
/// `Value`. Such a value can't be part of a scale.
///
/// Spec and status are text until here: a custom resource may be nested deeper than a `Value` can
/// be, and must not fail the list that contains it.
fn value_at(object: &PartialObject, path: &[String]) -> Result<Option<Value>, serde_json::Error> {
    let Some((first, rest)) = path.split_first() else { return Ok(None) };
    let mut value = match first.as_str() {
        "spec" => object.spec.as_deref(),
        "status" => object.status.as_deref(),
        _ => None,
    };
    for field in rest {
        let Some(object) = value else { return Ok(None) };
        value = member(object, field)?;
    }
    value.map(|value| serde_json::from_str(value.get())).transpose()
}

/// The member of a JSON object. `None` if there is none, or if the object is `null`. The last of
/// equal names counts, as in a Go map.
fn member<'a>(object: &'a RawValue, name: &str) -> Result<Option<&'a RawValue>, serde_json::Error> {
    struct Member<'a>(&'a str);

    impl<'de> Visitor<'de> for Member<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut member = None;
            while let Some(CowText(key)) = map.next_key::<CowText<'de>>()? {
                if key == self.0 {
                    member = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(member)
        }
    }

    serde_json::Deserializer::from_str(object.get()).deserialize_any(Member(name))
}
