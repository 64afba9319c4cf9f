//! The messages of the built-in kinds, parsed from `messages.txt`.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

const DEFINITIONS: &str = include_str!("messages.txt");

/// A struct of the Kubernetes API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Package and name: `apps.DeploymentSpec`, `autoscaling/v2.MetricSpec`.
    pub(super) name: &'static str,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Number in protobuf. `None` if it is unknown.
    pub(super) number: Option<u64>,
    /// Name in JSON. `None` for an embedded message, whose fields belong to the outer object.
    pub(super) name: Option<&'static str>,
    pub(super) kind: Type,
    /// Whether JSON leaves the field out if it is zero or empty.
    pub(super) omits_zero: bool,
}

/// The type of a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Type {
    String,
    Bool,
    Int32,
    Int64,
    /// Base64 in JSON.
    Bytes,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// Any JSON value. In protobuf, a message with its text.
    Json,
    List(Box<Type>),
    /// A map with strings as keys.
    Map(Box<Type>),
    /// The name of a message.
    Message(&'static str),
}

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let mut messages = HashMap::new();
    let mut name = "";
    for line in DEFINITIONS.lines().filter(|line| !line.starts_with('#')) {
        if !line.starts_with(' ') {
            name = line;
            messages.insert(name, Message { name, fields: Vec::new() });
        } else if let (Some(message), Some(field)) = (messages.get_mut(name), parse_field(line)) {
            message.fields.push(field);
        }
    }
    messages
});

/// Parses ` 1 replicas int32?`.
fn parse_field(line: &'static str) -> Option<Field> {
    let mut words = line.trim_start().splitn(3, ' ');
    let (number, name, kind) = (words.next()?, words.next()?, words.next()?);
    let (kind, omits_zero) = match kind.strip_suffix('?') {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    Some(Field {
        number: number.parse().ok(),
        name: (name != "+").then_some(name),
        kind: parse_type(kind),
        omits_zero,
    })
}

fn parse_type(text: &'static str) -> Type {
    if let Some(element) = text.strip_prefix("list ") {
        return Type::List(Box::new(parse_type(element)));
    }
    if let Some(value) = text.strip_prefix("map ") {
        return Type::Map(Box::new(parse_type(value)));
    }
    match text {
        "string" => Type::String,
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "bytes" => Type::Bytes,
        "quantity" => Type::Quantity,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "intOrString" => Type::IntOrString,
        "json" => Type::Json,
        name => Type::Message(name),
    }
}

/// The message with this package and name.
pub(super) fn message(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name)
}

/// The message of a built-in kind. `None` if the kind is unknown, or is `CustomResourceDefinition`.
pub(crate) fn message_for_kind(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    let package = match group {
        "" => "core".to_owned(),
        "autoscaling" => format!("autoscaling/{version}"),
        "networking.k8s.io" => "networking".to_owned(),
        "coordination.k8s.io" => "coordination".to_owned(),
        group => group.to_owned(),
    };
    message(&format!("{package}.{kind}"))
}

impl Message {
    /// The name of the struct in Go, without its package.
    pub(super) fn struct_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// The field with this JSON name, in this message or an embedded one.
    pub(super) fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == Some(name)).or_else(|| {
            let embedded = self.fields.iter().filter(|field| field.name.is_none());
            embedded.filter_map(|field| field.kind.message()).find_map(|inner| inner.field(name))
        })
    }
}

impl Type {
    pub(super) fn message(&self) -> Option<&'static Message> {
        match self {
            Self::Message(name) => message(name),
            _ => None,
        }
    }

    /// The type in error messages, as in Go: `int32`, `[]v1.Container`.
    pub(super) fn go_name(&self) -> String {
        match self {
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::List(element) => format!("[]{}", element.go_name()),
            Self::Map(value) => format!("map[string]{}", value.go_name()),
            Self::Message(name) => {
                let (package, name) = name.rsplit_once('.').unwrap_or_default();
                let version = package.rsplit_once('/').map_or("v1", |(_, version)| version);
                format!("{version}.{name}")
            }
            _ => "string".to_owned(),
        }
    }
}

/// A CRD's schema with this key allows all fields.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// A CRD's schema with this key allows `apiVersion`, `kind` and `metadata`.
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// The only message that has `apiVersion` and `kind` even as a field of another one.
const CLAIM: &str = "core.PersistentVolumeClaim";

/// The fields of a value, from a built-in message or the schema of a CRD.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'a> {
    Any,
    /// An object, which also has `apiVersion` and `kind`.
    Message(&'static Message),
    /// A field of a built-in message.
    Type(&'static Type),
    /// A field of a custom resource, with its schema.
    Crd(&'a Value),
    /// A custom resource, with its schema. It also has `apiVersion`, `kind` and `metadata`.
    CustomResource(&'a Value),
}

impl Shape<'_> {
    /// The shape of a field. `None` if the field is unknown.
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

    /// The required type of the value. `None` for whole objects, for fields in a CRD's schema, and
    /// where any value is allowed.
    pub(super) fn builtin_type(self) -> Option<&'static Type> {
        match self {
            Self::Type(kind) => Some(kind),
            _ => None,
        }
    }

    /// The message of the value.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check_type(kind: &Type) {
        match kind {
            Type::List(inner) | Type::Map(inner) => check_type(inner),
            Type::Message(name) => assert!(message(name).is_some(), "no message {name}"),
            _ => {}
        }
    }

    #[test]
    fn every_field_in_the_file_is_parsed_and_has_a_known_type() {
        for field in MESSAGES.values().flat_map(|message| &message.fields) {
            check_type(&field.kind);
        }
        let fields = DEFINITIONS.lines().filter(|line| line.starts_with(' ')).count();
        assert_eq!(MESSAGES.values().map(|message| message.fields.len()).sum::<usize>(), fields);
        assert!(MESSAGES.len() > 200, "{}", MESSAGES.len());
    }

    #[test]
    fn fields_are_found_in_embedded_messages() {
        let volume = message("core.Volume").unwrap();
        assert_eq!(volume.field("emptyDir").unwrap().number, Some(2));
        assert_eq!(volume.field("name").unwrap().kind, Type::String);
        assert_eq!(volume.field("volumeSource"), None);
    }

    #[test]
    fn kinds_are_found_by_group_and_version() {
        let has_metrics = |version| {
            let hpa = message_for_kind("autoscaling", version, "HorizontalPodAutoscaler").unwrap();
            hpa.field("spec").unwrap().kind.message().unwrap().field("metrics").is_some()
        };
        assert_eq!((has_metrics("v1"), has_metrics("v2")), (false, true));
        assert!(message_for_kind("networking.k8s.io", "v1", "Ingress").is_some());
    }
}
