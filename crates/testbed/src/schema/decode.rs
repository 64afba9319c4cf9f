//! Decodes JSON by its shape: drops unknown fields, and reports unknown and duplicate fields.

use std::{fmt, fmt::Write};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::message::{Message, Shape, Type};

/// A decoded value without its unknown fields.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedObject {
    pub(crate) value: Value,
    pub(crate) problems: Vec<FieldProblem>,
}

/// A field that validation reports, with its path: `unknown field "spec.minReplicaz"`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldProblem {
    #[error("unknown field \"{0}\"")]
    Unknown(String),
    #[error("duplicate field \"{0}\"")]
    Duplicate(String),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("the body is not JSON: {0}")]
    Syntax(serde_json::Error),
    /// A value has the wrong type, with the message of Go.
    #[error("{0}")]
    Type(String),
}

pub(crate) fn decode_json(text: &[u8], shape: Shape<'_>) -> Result<DecodedObject, DecodeError> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let decoded = decode_value(&mut deserializer, shape)?;
    deserializer.end().map_err(DecodeError::Syntax)?;
    Ok(decoded)
}

/// Decodes a value, such as a patched object, or the text of a deserializer.
pub(crate) fn decode_value<'de, D>(
    deserializer: D,
    shape: Shape<'_>,
) -> Result<DecodedObject, DecodeError>
where
    D: Deserializer<'de, Error = serde_json::Error>,
{
    let mut progress = Progress::default();
    let decoder = ValueDecoder { shape, owner: "", is_map_value: false, progress: &mut progress };
    match decoder.deserialize(deserializer) {
        Ok(value) => {
            let mut problems = progress.problems;
            if matches!(shape, Shape::CustomResource(_)) {
                // As in kube-apiserver, unknown fields of custom resources come last.
                problems.sort_by_key(|problem| matches!(problem, FieldProblem::Unknown(_)));
            }
            Ok(DecodedObject { value, problems })
        }
        Err(error) => {
            Err(progress.type_error.map_or(DecodeError::Syntax(error), DecodeError::Type))
        }
    }
}

/// A step of the path from the document to a value.
enum Step {
    Field(String),
    Index(usize),
}

/// The position in the document, and the problems so far.
#[derive(Default)]
struct Progress {
    path: Vec<Step>,
    problems: Vec<FieldProblem>,
    /// The error for a value of the wrong type. Stored here, because `serde_json` adds a position
    /// to errors.
    type_error: Option<String>,
}

impl Progress {
    fn report(&mut self, problem: fn(String) -> FieldProblem) {
        let mut path = String::new();
        for step in &self.path {
            let separator = if path.is_empty() { "" } else { "." };
            // Writing to a string can't fail.
            let _ = match step {
                Step::Field(name) => write!(path, "{separator}{name}"),
                Step::Index(index) => write!(path, "[{index}]"),
            };
        }
        self.problems.push(problem(path));
    }

    fn set_type_error(&mut self, owner: &str, is_map_value: bool, actual: &str, expected: &str) {
        let names = self.path.iter().filter_map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            Step::Index(_) => None,
        });
        let mut path: Vec<&str> = names.collect();
        if is_map_value {
            // Go names the map, not its key.
            path.pop();
        }
        self.type_error = Some(format!(
            "json: cannot unmarshal {actual} into Go struct field {owner}.{} of type {expected}",
            path.join(".")
        ));
    }
}

/// Decodes one value by its shape.
struct ValueDecoder<'a, 'p> {
    shape: Shape<'a>,
    /// The Go struct that has the field.
    owner: &'static str,
    /// Whether the value is in a map.
    is_map_value: bool,
    progress: &'p mut Progress,
}

impl ValueDecoder<'_, '_> {
    /// Fails if `accepts` is false for the required type. `actual` is Go's name for the type of the
    /// value.
    fn check_type<E: Error>(&mut self, accepts: fn(&Type) -> bool, actual: &str) -> Result<(), E> {
        let Some(expected) = self.shape.builtin_type().filter(|kind| !accepts(kind)) else {
            return Ok(());
        };
        self.progress.set_type_error(self.owner, self.is_map_value, actual, &expected.go_name());
        Err(E::custom("wrong type"))
    }

    fn integer<E: Error>(mut self, number: Number) -> Result<Value, E> {
        let is_small = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
        if is_small || !matches!(self.shape.builtin_type(), Some(Type::Int32)) {
            self.check_type(accepts_number, "number")?;
        } else {
            self.check_type(|_| false, &format!("number {number}"))?;
        }
        Ok(Value::Number(number))
    }
}

fn accepts_number(kind: &Type) -> bool {
    matches!(kind, Type::Int32 | Type::Int64 | Type::Quantity | Type::IntOrString | Type::Json)
}

fn accepts_string(kind: &Type) -> bool {
    matches!(
        kind,
        Type::String
            | Type::Bytes
            | Type::Quantity
            | Type::Time
            | Type::MicroTime
            | Type::IntOrString
            | Type::Json
    )
}

impl<'de> DeserializeSeed<'de> for ValueDecoder<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueDecoder<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<Value, E> {
        self.check_type(|kind| matches!(kind, Type::Bool | Type::Json), "bool")?;
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.integer(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.integer(value.into())
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<Value, E> {
        let accepts_fraction =
            |kind: &Type| accepts_number(kind) && !matches!(kind, Type::Int32 | Type::Int64);
        self.check_type(accepts_fraction, &format!("number {value}"))?;
        Ok(value.into())
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<Value, E> {
        self.check_type(accepts_string, "string")?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Value, A::Error> {
        self.check_type(|kind| matches!(kind, Type::List(_) | Type::Json), "array")?;
        let Self { shape, owner, progress, .. } = self;
        let shape = shape.element();
        let mut elements = Vec::new();
        loop {
            progress.path.push(Step::Index(elements.len()));
            let decoder =
                ValueDecoder { shape, owner, is_map_value: false, progress: &mut *progress };
            let element = list.next_element_seed(decoder)?;
            progress.path.pop();
            match element {
                Some(element) => elements.push(element),
                None => return Ok(elements.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let accepts_object =
            |kind: &Type| matches!(kind, Type::Map(_) | Type::Message(_) | Type::Json);
        self.check_type(accepts_object, "object")?;
        let Self { shape, owner, progress, .. } = self;
        let is_map_value = matches!(shape.builtin_type(), Some(Type::Map(_)));
        let owner = shape.message().map_or(owner, Message::struct_name);
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            progress.path.push(Step::Field(name.clone()));
            match shape.field(&name) {
                None => {
                    progress.report(FieldProblem::Unknown);
                    map.next_value::<IgnoredAny>()?;
                }
                Some(shape) => {
                    if object.contains_key(&name) {
                        progress.report(FieldProblem::Duplicate);
                    }
                    let decoder =
                        ValueDecoder { shape, owner, is_map_value, progress: &mut *progress };
                    object.insert(name, map.next_value_seed(decoder)?);
                }
            }
            progress.path.pop();
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::message_for_kind, *};

    fn deployment(text: &str) -> Result<DecodedObject, DecodeError> {
        let message = message_for_kind("apps", "v1", "Deployment").unwrap();
        decode_json(text.as_bytes(), Shape::Message(message))
    }

    fn texts(problems: &[FieldProblem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unknown_and_duplicate_fields_are_dropped_and_reported_in_order() {
        let text = r#"{"kind":"Deployment","spek":{},"spec":{"replicas":1,"template":{"spec":
            {"containers":[{"name":"a"},{"Image":"b"}],"volumes":[{"emptyDir":{"x":1}}]}},
            "replicas":2}}"#;
        let DecodedObject { value, problems } = deployment(text).unwrap();
        let expected = [
            "unknown field \"spek\"",
            "unknown field \"spec.template.spec.containers[1].Image\"",
            "unknown field \"spec.template.spec.volumes[0].emptyDir.x\"",
            "duplicate field \"spec.replicas\"",
        ];
        assert_eq!(texts(&problems), expected);
        assert_eq!(value["spec"]["replicas"], 2);
        assert_eq!(value["spec"]["template"]["spec"]["containers"], json!([{ "name": "a" }, {}]));
    }

    #[test]
    fn type_errors_have_the_messages_of_go() {
        let replicas = "DeploymentSpec.spec.replicas of type int32";
        for (text, given, field) in [
            (r#"{"spec":{"replicas":"two"}}"#, "string", replicas),
            (r#"{"spec":{"replicas":1.5}}"#, "number 1.5", replicas),
            (r#"{"spec":{"replicas":5000000000}}"#, "number 5000000000", replicas),
            (r#"{"metadata":{"name":1}}"#, "number", "ObjectMeta.metadata.name of type string"),
            (
                r#"{"metadata":{"labels":{"a":1}}}"#,
                "number",
                "ObjectMeta.metadata.labels of type string",
            ),
            (
                r#"{"spec":{"template":{"spec":"x"}}}"#,
                "string",
                "PodTemplateSpec.spec.template.spec of type v1.PodSpec",
            ),
            (
                r#"{"spec":{"template":{"spec":{"containers":{}}}}}"#,
                "object",
                "PodSpec.spec.template.spec.containers of type []v1.Container",
            ),
            (
                r#"{"spec":{"template":{"spec":{"containers":[{"ports":[
                    {"containerPort":"80"}]}]}}}}"#,
                "string",
                "ContainerPort.spec.template.spec.containers.ports.containerPort of type int32",
            ),
        ] {
            let expected = format!("json: cannot unmarshal {given} into Go struct field {field}");
            assert_eq!(deployment(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn values_with_several_forms_are_accepted() {
        let container = json!({
            "resources": { "requests": { "cpu": 1, "memory": "1Gi" } },
            "livenessProbe": { "httpGet": { "port": 80 } },
        });
        let managed = json!([{ "fieldsV1": { "f:a": {} } }]);
        let value = json!({
            "metadata": { "creationTimestamp": null, "managedFields": managed },
            "spec": { "template": { "spec": { "containers": [container] } } },
        });
        let decoded = deployment(&value.to_string()).unwrap();
        assert_eq!(decoded, DecodedObject { value, problems: Vec::new() });
    }

    #[test]
    fn fields_of_custom_resources_are_those_of_the_schema() {
        let schema = json!({ "type": "object", "properties": { "spec": {
            "type": "object",
            "properties": {
                "limits": { "additionalProperties": { "type": "string" } },
                "free": { "x-kubernetes-preserve-unknown-fields": true },
            },
        } } });
        let text = r#"{"metadata":{"name":"a","nam":1},"spec":{"limits":{"a":"b"},"free":{"c":1},
            "d":2,"free":{"e":1}}}"#;
        let decoded = decode_json(text.as_bytes(), Shape::CustomResource(&schema)).unwrap();
        let expected = [
            "duplicate field \"spec.free\"",
            "unknown field \"metadata.nam\"",
            "unknown field \"spec.d\"",
        ];
        assert_eq!(texts(&decoded.problems), expected);
    }
}
