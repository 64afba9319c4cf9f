//! The functions that templates can call.

use std::{cmp::Ordering, fmt::Write as _};

use hpa_calc::go_text;

use super::{print, value::Value};

/// The name, the least and the most arguments of each function.
const FUNCTIONS: [(&str, usize, Option<usize>); 19] = [
    ("and", 1, None),
    ("call", 1, None),
    ("eq", 1, None),
    ("ge", 2, Some(2)),
    ("gt", 2, Some(2)),
    ("html", 0, None),
    ("index", 1, None),
    ("js", 0, None),
    ("le", 2, Some(2)),
    ("len", 1, Some(1)),
    ("lt", 2, Some(2)),
    ("ne", 2, Some(2)),
    ("not", 1, Some(1)),
    ("or", 1, None),
    ("print", 0, None),
    ("printf", 1, None),
    ("println", 0, None),
    ("slice", 1, None),
    ("urlquery", 0, None),
];

pub(super) fn exists(name: &str) -> bool {
    FUNCTIONS.iter().any(|(function, ..)| *function == name)
}

/// Checks the number of arguments. `written` are those without the piped one.
pub(super) fn check_count(name: &str, written: usize, given: usize) -> Result<(), String> {
    let Some((_, least, most)) = FUNCTIONS.iter().find(|(function, ..)| *function == name) else {
        return Err(format!("{} is not a defined function", go_text::Quoted(name)));
    };
    let wrong = format!("wrong number of args for {name}: want");
    match most {
        Some(exactly) if given != *exactly => Err(format!("{wrong} {exactly} got {given}")),
        None if given < *least => Err(format!("{wrong} at least {least} got {written}")),
        _ => Ok(()),
    }
}

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Any,
    Text,
}

pub(super) fn expected(function: &str, index: usize) -> Expected {
    if function == "printf" && index == 0 { Expected::Text } else { Expected::Any }
}

pub(super) struct Arguments<'a> {
    pub(super) values: &'a [Value],
    /// How the template writes the first argument.
    pub(super) callee: Option<&'a str>,
}

/// Calls a function other than `and` and `or`, which don't evaluate all arguments.
pub(super) fn call(name: &str, arguments: &Arguments<'_>) -> Result<Value, String> {
    let values = arguments.values;
    let (first, rest) = match values.split_first() {
        Some((first, rest)) => (first, rest),
        None => (&Value::Missing, values),
    };
    let second = rest.first().unwrap_or(&Value::Missing);
    match name {
        "call" if *first == Value::Missing => Err("call of nil".to_owned()),
        "call" => {
            let callee = arguments.callee.map_or_else(|| print::plain(first), str::to_owned);
            Err(format!("non-function {callee} of type {}", first.type_name()))
        }
        "eq" => eq(first, rest).map(Value::Bool),
        "ne" => eq(first, rest).map(|equal| Value::Bool(!equal)),
        "lt" => is_less(first, second).map(Value::Bool),
        "le" => is_less_or_equal(first, second).map(Value::Bool),
        "gt" => is_less_or_equal(first, second).map(|less| Value::Bool(!less)),
        "ge" => is_less(first, second).map(|less| Value::Bool(!less)),
        "html" => Ok(Value::text(&escape_html(&joined(values)))),
        "js" => Ok(Value::text(&escape_js(&joined(values)))),
        "urlquery" => Ok(Value::text(&escape_url(&joined(values)))),
        "index" => index(first, rest),
        "slice" => slice(first, rest),
        "len" => len(first).map(Value::Int),
        "not" => Ok(Value::Bool(!first.is_true())),
        "print" => Ok(Value::text(&print::print(values))),
        "println" => Ok(Value::text(&print::println(values))),
        "printf" => match first {
            Value::Text(format) => Ok(Value::text(&print::printf(format, rest))),
            _ => Err("the format is not a string".to_owned()),
        },
        _ => Err("not defined".to_owned()),
    }
}

/// Types that can be compared.
#[derive(Clone, Copy, PartialEq)]
enum Basic<'a> {
    Bool(bool),
    Int(i64),
    Byte(u8),
    Float(f64),
    Text(&'a str),
}

impl<'a> Basic<'a> {
    fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            Value::Byte(value) => Some(Self::Byte(*value)),
            Value::Float(value) => Some(Self::Float(*value)),
            Value::Text(value) => Some(Self::Text(value)),
            Value::Missing | Value::List(_) | Value::Map(_) | Value::Struct(_) => None,
        }
    }

    /// The order of two values, or `None` if one is not a number. They must be of the same kind.
    fn order(self, other: Self) -> Result<Option<Ordering>, OtherKind> {
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => Ok(Some(one.cmp(&two))),
            (Self::Int(one), Self::Int(two)) => Ok(Some(one.cmp(&two))),
            (Self::Byte(one), Self::Byte(two)) => Ok(Some(one.cmp(&two))),
            (Self::Int(one), Self::Byte(two)) => Ok(Some(one.cmp(&two.into()))),
            (Self::Byte(one), Self::Int(two)) => Ok(Some(i64::from(one).cmp(&two))),
            (Self::Float(one), Self::Float(two)) => Ok(one.partial_cmp(&two)),
            (Self::Text(one), Self::Text(two)) => Ok(Some(one.cmp(two))),
            _ => Err(OtherKind),
        }
    }
}

/// The values are of different kinds.
struct OtherKind;

fn incompatible(one: &Value, two: &Value) -> String {
    let (one, two) = (one.type_name(), two.type_name());
    format!("incompatible types for comparison: {one} and {two}")
}

/// Whether the value equals one of the others.
fn eq(value: &Value, others: &[Value]) -> Result<bool, String> {
    if others.is_empty() {
        return Err("missing argument for comparison".to_owned());
    }
    for other in others {
        let is_equal = match (Basic::from_value(value), Basic::from_value(other)) {
            (Some(one), Some(two)) => {
                let order = one.order(two).map_err(|_| incompatible(value, other))?;
                order == Some(Ordering::Equal)
            }
            (None, None) => is_equal_composite(value, other)?,
            _ if *value == Value::Missing || *other == Value::Missing => false,
            _ => return Err(incompatible(value, other)),
        };
        if is_equal {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_equal_composite(one: &Value, two: &Value) -> Result<bool, String> {
    let is_nil = |value: &Value| *value == Value::Missing;
    if is_nil(one) || is_nil(two) {
        return Ok(is_nil(one) && is_nil(two));
    }
    match (one, two) {
        (Value::Struct(one), Value::Struct(two)) if one.string.is_some() => Ok(one == two),
        _ => Err(format!("non-comparable type {}: {}", print::plain(one), two.type_name())),
    }
}

fn is_less(one: &Value, two: &Value) -> Result<bool, String> {
    let (Some(left), Some(right)) = (Basic::from_value(one), Basic::from_value(two)) else {
        return Err("invalid type for comparison".to_owned());
    };
    let order = left.order(right).map_err(|_| incompatible(one, two))?;
    if matches!(left, Basic::Bool(_)) {
        return Err("invalid type for comparison".to_owned());
    }
    Ok(order == Some(Ordering::Less))
}

fn is_less_or_equal(one: &Value, two: &Value) -> Result<bool, String> {
    Ok(is_less(one, two)? || eq(one, std::slice::from_ref(two))?)
}

fn len(value: &Value) -> Result<i64, String> {
    let len = match value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.len(),
        Value::Map(entries) => entries.len(),
        Value::Missing => return Err("len of untyped nil".to_owned()),
        _ => return Err(format!("len of type {}", value.type_name())),
    };
    Ok(i64::try_from(len).unwrap_or(i64::MAX))
}

/// An index of at most `len`.
fn position(index: &Value, len: usize) -> Result<usize, String> {
    let number = match index {
        Value::Int(number) => *number,
        Value::Byte(number) => i64::from(*number),
        Value::Missing => return Err("cannot index slice/array with nil".to_owned()),
        _ => return Err(format!("cannot index slice/array with type {}", index.type_name())),
    };
    let position = usize::try_from(number).ok().filter(|position| *position <= len);
    position.ok_or_else(|| format!("index out of range: {number}"))
}

fn index(value: &Value, indexes: &[Value]) -> Result<Value, String> {
    if *value == Value::Missing {
        return Err("index of untyped nil".to_owned());
    }
    let mut value = value.clone();
    for index in indexes {
        value = match &value {
            Value::Text(text) => {
                let byte = text.as_bytes().get(position(index, text.len())?);
                Value::Byte(*byte.ok_or("reflect: string index out of range")?)
            }
            Value::List(items) => {
                let item = items.get(position(index, items.len())?);
                Value::Text(item.ok_or("reflect: slice index out of range")?.clone())
            }
            Value::Map(entries) => match index {
                Value::Text(key) => Value::text(entries.get(&**key).map_or("", String::as_str)),
                Value::Missing => return Err("value is nil; should be of type string".to_owned()),
                _ => return Err(format!("value has type {}; should be string", index.type_name())),
            },
            _ => return Err(format!("can't index item of type {}", value.type_name())),
        };
    }
    Ok(value)
}

fn slice(value: &Value, indexes: &[Value]) -> Result<Value, String> {
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let len = match value {
        Value::Missing => return Err("slice of untyped nil".to_owned()),
        Value::Text(_) if indexes.len() == 3 => {
            return Err("cannot 3-index slice a string".to_owned());
        }
        Value::Text(text) => text.len(),
        Value::List(items) => items.len(),
        _ => return Err(format!("can't slice item of type {}", value.type_name())),
    };
    let mut bounds = [0, len, len];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, len)?;
    }
    let [start, end, capacity] = bounds;
    if start > end {
        return Err(format!("invalid slice index: {start} > {end}"));
    }
    if end > capacity {
        return Err(format!("invalid slice index: {end} > {capacity}"));
    }
    match value {
        Value::Text(text) => {
            let bytes = text.as_bytes().get(start..end).unwrap_or_default();
            Ok(Value::text(&String::from_utf8_lossy(bytes)))
        }
        Value::List(items) => Ok(Value::list(items.get(start..end).unwrap_or_default())),
        _ => Ok(Value::Missing),
    }
}

/// Arguments as `html`, `js` and `urlquery` join them.
fn joined(values: &[Value]) -> String {
    let shown = |value: &Value| match value {
        Value::Missing => Value::text("<no value>"),
        value => value.clone(),
    };
    print::print(&values.iter().map(shown).collect::<Vec<_>>())
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\0' => escaped.push('\u{fffd}'),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            _ => escaped.push(char),
        }
    }
    escaped
}

fn escape_js(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        let is_escaped = matches!(char, '<' | '>' | '&' | '=' | '\0'..' ');
        if matches!(char, '\\' | '\'' | '"') {
            escaped.push('\\');
            escaped.push(char);
        } else if is_escaped || !char.is_ascii() && !go_text::is_printable(char) {
            // Writing to a string can't fail.
            let _ = write!(escaped, "\\u{:04X}", u32::from(char));
        } else {
            escaped.push(char);
        }
    }
    escaped
}

fn escape_url(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => escaped.push('+'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}
