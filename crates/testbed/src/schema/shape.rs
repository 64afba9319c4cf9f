//! What the fields of a JSON value may be.

use serde_json::Value;

use super::message::{Field, Message, Type, message};

/// Keys of a CRD's schema that allow fields that it doesn't list.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// The only kind that is part of another one.
const CLAIM: &str = "core.PersistentVolumeClaim";

/// The form of a value, by a built-in message or by the schema of a CRD.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'a> {
    /// Anything.
    Any,
    /// A kind, which also has `apiVersion` and `kind`.
    Message(&'static Message),
    Type(&'static Type),
    /// The schema of a custom resource's field.
    Crd(&'a Value),
    /// The schema of a custom resource, which also has a type and metadata.
    CustomResource(&'a Value),
}

impl Shape<'_> {
    /// The shape of a field. `None` if there can't be a field with this name.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Any => Some(Self::Any),
            Self::Message(_) | Self::Type(Type::Message(CLAIM)) if is_type_field(name) => {
                Some(Self::Any)
            }
            Self::Message(message) => message.field(name).map(Self::from_field),
            Self::Type(Type::Map(value)) => Some(Self::from_type(value)),
            Self::Type(kind) => kind
                .message()
                .map_or(Some(Self::Any), |message| message.field(name).map(Self::from_field)),
            Self::Crd(schema) => crd_field(schema, name),
            Self::CustomResource(schema) => match name {
                name if is_type_field(name) => Some(Self::Any),
                "metadata" => Some(message("meta.ObjectMeta").map_or(Self::Any, Self::Message)),
                _ => crd_field(schema, name),
            },
        }
    }

    /// The shape of a list's elements.
    pub(super) fn element(self) -> Self {
        match self {
            Self::Type(Type::List(element)) => Self::from_type(element),
            Self::Crd(schema) => schema.get("items").map_or(Self::Any, Self::Crd),
            _ => Self::Any,
        }
    }

    /// The type of the value, if this is a built-in kind.
    pub(super) fn expected(self) -> Option<&'static Type> {
        match self {
            Self::Type(kind) => Some(kind),
            _ => None,
        }
    }

    /// The message whose fields the value has.
    pub(super) fn message(self) -> Option<&'static Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Type(kind) => kind.message(),
            _ => None,
        }
    }

    fn from_field(field: &'static Field) -> Self {
        Self::from_type(&field.kind)
    }

    fn from_type(kind: &'static Type) -> Self {
        match kind {
            Type::Json => Self::Any,
            kind => Self::Type(kind),
        }
    }
}

fn crd_field<'a>(schema: &'a Value, name: &str) -> Option<Shape<'a>> {
    if let Some(field) = schema.get("properties").and_then(|fields| fields.get(name)) {
        return Some(Shape::Crd(field));
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) | None => {}
        Some(Value::Bool(true)) => return Some(Shape::Any),
        Some(value) => return Some(Shape::Crd(value)),
    }
    let is_set = |key: &str| schema.get(key).and_then(Value::as_bool) == Some(true);
    let is_object_field = is_type_field(name) || name == "metadata";
    if is_set(PRESERVE) || (is_set(EMBEDDED) && is_object_field) { Some(Shape::Any) } else { None }
}

fn is_type_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}
