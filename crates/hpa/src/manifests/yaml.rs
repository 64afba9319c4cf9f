//! Reads a YAML document as kubectl does: plain scalars are those of YAML 1.1, and the last of
//! several equal keys counts. Records the position of each field.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use hpa_crd::member_path;
use serde_json::{Map, Number, Value};

/// The maximum number of levels, those of aliases included.
const MAX_DEPTH: usize = 64;
/// The maximum number of values of a document, those of aliases included.
const MAX_VALUES: usize = 1_000_000;
/// Integers up to this one are exact as floating-point numbers.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A place in a file, from 1. An object of a cluster has line 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A key that a mapping has twice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Duplicate {
    pub(crate) field: String,
    /// The value that is lost, and the place of its key.
    pub(crate) lost: Value,
    pub(crate) position: Position,
    /// The place of the key that counts.
    pub(crate) kept: Position,
}

/// The positions of fields by their paths, such as `spec.metrics[0].type`, and the keys that occur
/// twice.
#[derive(Debug, Default)]
pub(super) struct Fields {
    positions: HashMap<String, Position>,
    pub(super) duplicates: Vec<Duplicate>,
}

impl Fields {
    /// The position of a field, or of the closest field around it that is in the document.
    pub(super) fn position(&self, field: &str) -> Option<Position> {
        let mut field = field;
        loop {
            if let Some(position) = self.positions.get(field) {
                return Some(*position);
            }
            let start = if field.ends_with(']') { field.rfind('[') } else { field.rfind('.') };
            field = field.get(..start?)?;
        }
    }
}

/// A document that can't be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Reads the first document of `text`, which begins in line `first_line` of its file.
pub(super) fn parse(text: &str, first_line: usize) -> Result<(Value, Fields), YamlError> {
    let mut builder = Builder { first_line, ..Builder::default() };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError {
            line: builder.position(*error.marker()).line,
            message: error.info(),
        })?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        let position = builder.position(span.start);
        builder
            .add(event, position)
            .map_err(|message| YamlError { line: position.line, message: message.to_owned() })?;
    }
    Ok((builder.root.map(|root| root.value).unwrap_or_default(), builder.fields))
}

/// A complete value.
#[derive(Clone, Default)]
struct Node {
    value: Value,
    /// The number of values in it, itself included.
    values: usize,
    depth: usize,
}

/// A sequence or a mapping that is not complete.
struct Collection {
    path: String,
    anchor: usize,
    node: Node,
    /// The key of the next value of a mapping.
    key: Option<Key>,
}

struct Key {
    name: String,
    is_merge: bool,
}

#[derive(Default)]
struct Builder {
    first_line: usize,
    fields: Fields,
    anchors: HashMap<usize, Node>,
    open: Vec<Collection>,
    root: Option<Node>,
}

impl Builder {
    fn position(&self, marker: Marker) -> Position {
        Position { line: marker.line() + self.first_line - 1, column: marker.col() + 1 }
    }

    fn add(&mut self, event: Event<'_>, position: Position) -> Result<(), &'static str> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                if self.awaits_key() {
                    return self.add_key(&text, is_plain && tag.is_none(), position);
                }
                self.enter(position);
                let value = scalar(&text, is_plain, tag.as_deref());
                self.finish(Node { value, values: 1, depth: 1 }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.start(Value::Array(vec![]), anchor, position)
            }
            Event::MappingStart(_, anchor, _) => {
                self.start(Value::Object(Map::new()), anchor, position)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(collection) => {
                    let anchor = collection.anchor;
                    self.finish(collection.node, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or("an anchor contains itself")?;
                if self.awaits_key() {
                    let key = node.value.as_str().ok_or("a key is not a text")?;
                    return self.add_key(key, false, position);
                }
                self.enter(position);
                self.finish(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn awaits_key(&self) -> bool {
        let open = self.open.last();
        open.is_some_and(|open| open.node.value.is_object() && open.key.is_none())
    }

    fn add_key(
        &mut self,
        text: &str,
        is_plain: bool,
        position: Position,
    ) -> Result<(), &'static str> {
        let Some(mapping) = self.open.last_mut() else { return Ok(()) };
        let name = match if is_plain { plain(text) } else { text.into() } {
            Value::Bool(value) => value.to_string(),
            Value::Null => return Err("a key is null"),
            _ => text.to_owned(),
        };
        let is_merge = is_plain && text == "<<";
        let path = member_path(&mapping.path, &name);
        // Members that `<<` has added have no position.
        if let (Some(lost), Some(first)) =
            (mapping.node.value.get(&name), self.fields.positions.get(&path).copied())
        {
            let lost = lost.clone();
            let is_inside = |other: &str| {
                let rest = other.strip_prefix(path.as_str());
                rest.is_some_and(|rest| rest.starts_with(['.', '[']))
            };
            self.fields.positions.retain(|other, _| !is_inside(other));
            let field = path.clone();
            self.fields.duplicates.push(Duplicate { field, lost, position: first, kept: position });
        }
        self.fields.positions.insert(path, position);
        mapping.key = Some(Key { name, is_merge });
        Ok(())
    }

    /// The path of the next value. Records the position of an item; that of a member is its key's.
    fn enter(&mut self, position: Position) -> String {
        let Some(parent) = self.open.last() else { return String::new() };
        if let Value::Array(items) = &parent.node.value {
            let path = format!("{}[{}]", parent.path, items.len());
            self.fields.positions.insert(path.clone(), position);
            return path;
        }
        let name = parent.key.as_ref().map_or("", |key| &key.name);
        member_path(&parent.path, name)
    }

    fn start(
        &mut self,
        value: Value,
        anchor: usize,
        position: Position,
    ) -> Result<(), &'static str> {
        if self.awaits_key() {
            return Err("a key is not a text");
        }
        if self.open.len() == MAX_DEPTH {
            return Err("nested too deeply");
        }
        let path = self.enter(position);
        let node = Node { value, values: 1, depth: 1 };
        self.open.push(Collection { path, anchor, node, key: None });
        Ok(())
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), &'static str> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(parent) => parent.add(node)?,
            None => self.root = Some(node),
        }
        Ok(())
    }
}

impl Collection {
    fn add(&mut self, child: Node) -> Result<(), &'static str> {
        self.node.values += child.values;
        self.node.depth = self.node.depth.max(child.depth + 1);
        if self.node.values > MAX_VALUES {
            return Err("too many values");
        }
        if self.node.depth > MAX_DEPTH {
            return Err("nested too deeply");
        }
        match (&mut self.node.value, self.key.take()) {
            (Value::Array(items), _) => items.push(child.value),
            (Value::Object(members), Some(key)) if key.is_merge => merge(members, child.value)?,
            (Value::Object(members), Some(key)) => {
                members.insert(key.name, child.value);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Adds the members of a mapping, or of several, of which the first has precedence.
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

fn scalar(text: &str, is_plain: bool, tag: Option<&Tag>) -> Value {
    let suffix = tag.and_then(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:"));
    match suffix.as_deref() {
        Some("null" | "bool" | "int" | "float") => plain(text),
        None if is_plain && tag.is_none() => plain(text),
        _ => text.into(),
    }
}

/// The value of a text without quotes and tag.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            true.into()
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            false.into()
        }
        _ => number(text).unwrap_or_else(|| text.into()),
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
    if float.fract() == 0.0 && float.abs() < MAX_EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number of at most 53 bits")]
        return Some((float as i64).into());
    }
    Number::from_f64(float).map(Value::Number)
}

/// An integer in Go's notation: `0x1f`, `0o17`, `017` and `0b1` have other bases.
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_positions() {
        let text = "a:\n  b: [1, {c: 2}]\nmetadata:\n  annotations:\n    x.y/z: on\n";
        let (value, fields) = parse(text, 11).unwrap();
        assert_eq!(value["metadata"]["annotations"]["x.y/z"], true);
        let at = |field: &str| fields.position(field).map(|at| (at.line, at.column));
        assert_eq!(at("a.b"), Some((12, 3)));
        assert_eq!(at("a.b[1].c"), Some((12, 11)));
        assert_eq!(at("a.b[1].missing[0].member"), Some((12, 10)));
        assert_eq!(at("metadata.annotations[x.y/z]"), Some((15, 5)));
        assert_eq!(at("missing"), None);
    }

    #[test]
    fn last_of_equal_keys_counts_and_the_lost_value_is_recorded() {
        let (value, fields) = parse("a: {b: 1, c: 2}\nd: 3\na: {c: 4}\n", 1).unwrap();
        assert_eq!(value, json!({ "a": { "c": 4 }, "d": 3 }));
        let at = |line, column| Position { line, column };
        assert_eq!(
            fields.duplicates,
            [Duplicate {
                field: "a".to_owned(),
                lost: json!({ "b": 1, "c": 2 }),
                position: at(1, 1),
                kept: at(3, 1),
            }]
        );
        assert_eq!(fields.position("a.b"), Some(at(3, 1)));
    }

    /// The values are those of `kubectl label --local -o json`.
    #[rstest]
    #[case("yes", json!(true))]
    #[case("'yes'", json!("yes"))]
    #[case("0x1f", json!(31))]
    #[case("017", json!(15))]
    #[case("08", json!(8))]
    #[case("-0", json!(0))]
    #[case("1_000", json!(1000))]
    #[case("1e3", json!(1000))]
    #[case("5.0", json!(5))]
    #[case("0.5", json!(0.5))]
    #[case("18446744073709551615", json!(18_446_744_073_709_551_615_u64))]
    #[case("12:30", json!("12:30"))]
    #[case("0x", json!("0x"))]
    #[case("500m", json!("500m"))]
    #[case("2026-01-01", json!("2026-01-01"))]
    #[case("!!str 5", json!("5"))]
    #[case("~", Value::Null)]
    fn scalars_are_those_of_kubectl(#[case] text: &str, #[case] expected: Value) {
        assert_eq!(parse(&format!("a: {text}"), 1).unwrap().0["a"], expected);
    }

    #[test]
    fn document_is_read_to_its_end() {
        assert!(parse("I---\nkind: Pod\n", 1).is_err());
        assert!(parse("{a: 1}\n}\n", 1).is_err());
    }

    #[test]
    fn merged_members_replace_those_before_them() {
        let text = "a: &a {p: 1, q: 2}\nb: {<<: *a, q: 3}\nc: {q: 3, <<: [{q: 4}, *a]}\n";
        let (value, fields) = parse(text, 1).unwrap();
        assert_eq!(value["b"], json!({ "p": 1, "q": 3 }));
        assert_eq!(value["c"], json!({ "p": 1, "q": 4 }));
        assert_eq!(fields.duplicates, []);
    }

    #[test]
    fn json_with_tabs_is_read() {
        let (value, fields) =
            parse("{\n\t\"a\": [\n\t\t{\"b\": \"\\u00e9\"}\n\t]\n}\n", 1).unwrap();
        assert_eq!(value, json!({ "a": [{ "b": "é" }] }));
        assert_eq!(fields.position("a[0].b").map(|at| at.line), Some(3));
    }

    #[test]
    fn aliases_cannot_multiply_without_limit() {
        use std::fmt::Write;

        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let alias = format!("*a{}", level - 1);
            let aliases = [alias.as_str(); 10].join(", ");
            let _ = writeln!(text, "a{level}: &a{level} [{aliases}]");
        }
        assert_eq!(parse(&text, 1).unwrap_err().message, "too many values");
        let deep = "[".repeat(100_000);
        assert!(parse(&deep, 1).is_err());
        let mut text = "a0: &a0 [x]\n".to_owned();
        for level in 1..MAX_DEPTH {
            let _ = writeln!(text, "a{level}: &a{level} [*a{}]", level - 1);
        }
        assert_eq!(parse(&text, 1).unwrap_err().message, "nested too deeply");
    }
}
