//! Reads a YAML document like kubectl: plain scalars have the meaning of YAML 1.1, and the last of
//! equal keys wins. Records the positions of fields.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ops::Bound};

use hpa_calc::crd::member_path;
pub(crate) use hpa_go_compat::yaml::Position;
use hpa_go_compat::yaml::{self, Content, Node, Positions, Scalar, ScalarType, YamlError};
use serde_json::{Map, Number, Value};

/// The maximum number of values in a document, including those of aliases.
const MAX_VALUES: usize = 1_000_000;
/// The maximum number of duplicate keys that are recorded in a document.
const MAX_DUPLICATES: usize = 1000;
/// 2^53: floating-point numbers represent all integers up to this one exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A key that a mapping has twice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DuplicateKey {
    pub(crate) field: String,
    /// The value of the earlier key, which is ignored.
    pub(crate) lost_value: Value,
    /// The position of the earlier key.
    pub(crate) position: Position,
    /// The position of the later key, whose value is used.
    pub(crate) last_position: Position,
}

/// The positions of fields by their paths, such as `spec.metrics[0].type`, and the keys that occur
/// twice.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) positions: Positions,
    pub(super) duplicates: Vec<DuplicateKey>,
}

/// Reads the first document of `text`, which begins in line `first_line` of its file.
pub(super) fn parse(text: &str, first_line: usize) -> Result<(Value, Fields), YamlError> {
    let mut reader = Reader { first_line, fields: Fields::default(), value_count: 0 };
    // Parse all documents, because text after the first one may be invalid.
    let documents = yaml::parse_all(text)
        .map_err(|error| YamlError { position: reader.in_file(error.position), ..error })?;
    let value = documents.first().map(|document| reader.value(document, Some(""))).transpose()?;
    Ok((value.unwrap_or_default(), reader.fields))
}

struct Reader {
    first_line: usize,
    fields: Fields,
    value_count: usize,
}

impl Reader {
    /// Converts a position in the document to one in the file.
    fn in_file(&self, position: Position) -> Position {
        Position { line: position.line + self.first_line - 1, ..position }
    }

    fn error(&self, node: &Node, message: &str) -> YamlError {
        YamlError { position: self.in_file(node.position), message: message.to_owned() }
    }

    /// Converts a node. `path` is `None` inside an alias, because its fields are elsewhere in the
    /// document.
    fn value(&mut self, node: &Node, path: Option<&str>) -> Result<Value, YamlError> {
        self.value_count += 1;
        if self.value_count > MAX_VALUES {
            return Err(self.error(node, "too many values"));
        }
        match &node.content {
            Content::Scalar(scalar) => Ok(scalar_value(scalar)),
            Content::Sequence(items) => {
                let items = items.iter().enumerate().map(|(index, item)| {
                    // An alias has the position of its anchor, which is before this sequence.
                    let path = path.filter(|_| item.position >= node.position);
                    let path = path.map(|path| format!("{path}[{index}]"));
                    if let Some(path) = &path {
                        self.fields.positions.0.insert(path.clone(), self.in_file(item.position));
                    }
                    self.value(item, path.as_deref())
                });
                items.collect()
            }
            Content::Mapping(members) => {
                let mut object = Map::new();
                for (key, value) in members {
                    self.add_member(&mut object, key, value, path)?;
                }
                Ok(Value::Object(object))
            }
        }
    }

    /// Converts a key and its value, and adds them to `object`.
    fn add_member(
        &mut self,
        object: &mut Map<String, Value>,
        key: &Node,
        value: &Node,
        path: Option<&str>,
    ) -> Result<(), YamlError> {
        let Content::Scalar(scalar) = &key.content else {
            return Err(self.error(key, "a key is not a text"));
        };
        let name = match scalar.scalar_type() {
            ScalarType::Null => return Err(self.error(key, "a key is null")),
            ScalarType::Bool(value) => value.to_string(),
            ScalarType::Text | ScalarType::Invalid => scalar.text.clone(),
        };
        let path = path.map(|path| member_path(path, &name));
        if let Some(path) = &path {
            self.record_key(path, self.in_file(key.position), object.get(&name));
        }
        let is_alias = value.position < key.position;
        let child = self.value(value, path.as_deref().filter(|_| !is_alias))?;
        if scalar.is_merge_key() {
            merge(object, child).map_err(|message| self.error(value, message))
        } else {
            object.insert(name, child);
            Ok(())
        }
    }

    /// Records a key. `earlier` is the value of an equal key before it.
    fn record_key(&mut self, path: &str, last_position: Position, earlier: Option<&Value>) {
        let positions = &mut self.fields.positions.0;
        let first = positions.insert(path.to_owned(), last_position);
        // Members that `<<` added have no position.
        if let (Some(lost_value), Some(position)) = (earlier, first) {
            remove_inside(positions, path);
            if self.fields.duplicates.len() >= MAX_DUPLICATES {
                return;
            }
            let (field, lost_value) = (path.to_owned(), lost_value.clone());
            self.fields.duplicates.push(DuplicateKey {
                field,
                lost_value,
                position,
                last_position,
            });
        }
    }
}

/// Removes the positions of the fields inside `path`. The time doesn't depend on the other fields.
fn remove_inside(positions: &mut BTreeMap<String, Position>, path: &str) {
    for separator in ['.', '['] {
        let prefix = format!("{path}{separator}");
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let fields = positions.range::<str, _>(from).map(|(field, _)| field);
        let inside: Vec<String> =
            fields.take_while(|field| field.starts_with(&prefix)).cloned().collect();
        for field in inside {
            positions.remove(&field);
        }
    }
}

/// Adds the members of the mapping or mappings of `<<`. Of several, the first has precedence.
fn merge(members: &mut Map<String, Value>, value: Value) -> Result<(), &'static str> {
    match value {
        Value::Object(added) => {
            members.extend(added);
            Ok(())
        }
        Value::Array(items) => items.into_iter().rev().try_for_each(|item| merge(members, item)),
        _ => Err("<< needs a mapping"),
    }
}

fn scalar_value(scalar: &Scalar) -> Value {
    let text = scalar.text.as_str();
    match scalar.tag.as_deref() {
        Some("null" | "bool" | "int" | "float") => {}
        None if scalar.is_plain => {}
        _ => return text.into(),
    }
    match scalar.plain_type() {
        ScalarType::Null => Value::Null,
        ScalarType::Bool(value) => value.into(),
        ScalarType::Text | ScalarType::Invalid => number(text).unwrap_or_else(|| text.into()),
    }
}

fn number(text: &str) -> Option<Value> {
    let is_numeric = |first: u8| first.is_ascii_digit() || b"+-.".contains(&first);
    text.bytes().next().filter(|first| is_numeric(*first))?;
    let digits = text.replace('_', "");
    if let Some(integer) = integer(&digits) {
        return Some(integer);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
        return None;
    }
    let float: f64 = digits.parse().ok()?;
    if float.fract() == 0.0 && float.abs() < MAX_EXACT_INTEGER {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number of at most 53 bits")]
        return Some((float as i64).into());
    }
    Number::from_f64(float).map(Value::Number)
}

/// Parses an integer in Go's notation, in which `0x1f`, `0o17`, `017` and `0b1` have other bases.
fn integer(text: &str) -> Option<Value> {
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) if text.starts_with('-') => ("-", digits),
        Some(digits) => ("", digits),
        None => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)?),
        Some("0o") => (8, lower.get(2..)?),
        Some("0b") => (2, lower.get(2..)?),
        Some(_) if lower.starts_with('0') => (8, lower.get(1..)?),
        _ => (10, lower.as_str()),
    };
    digits.bytes().next().filter(u8::is_ascii_alphanumeric)?;
    let signed = i64::from_str_radix(&format!("{sign}{digits}"), base).map(Value::from);
    let unsigned = || u64::from_str_radix(digits, base).map(Value::from);
    signed.or_else(|error| if sign.is_empty() { unsigned() } else { Err(error) }).ok()
}
