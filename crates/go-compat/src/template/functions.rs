//! The functions that templates can call.

use std::{cmp::Ordering, fmt::Write as _};

use hpa_calc::go_text::{self, Quoted};

use super::Value;

/// The name of each function, the minimum number of its arguments, and whether that is also the
/// maximum.
const FUNCTIONS: [(&str, usize, bool); 19] = [
    ("and", 1, false),
    ("call", 1, false),
    ("eq", 1, false),
    ("ge", 2, true),
    ("gt", 2, true),
    ("html", 0, false),
    ("index", 1, false),
    ("js", 0, false),
    ("le", 2, true),
    ("len", 1, true),
    ("lt", 2, true),
    ("ne", 2, true),
    ("not", 1, true),
    ("or", 1, false),
    ("print", 0, false),
    ("printf", 1, false),
    ("println", 0, false),
    ("slice", 1, false),
    ("urlquery", 0, false),
];

pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|(function, ..)| *function == name)
}

/// Checks the number of arguments. `given` includes the piped argument, and `written` doesn't. As
/// in Go, the error about too few arguments has the latter.
pub(super) fn check_argument_count(name: &str, written: usize, given: usize) -> Result<(), String> {
    let Some((_, min, is_exact)) = FUNCTIONS.iter().find(|(function, ..)| *function == name) else {
        return Err(format!("{} is not a defined function", Quoted(name)));
    };
    let wrong = format!("wrong number of args for {name}: want");
    if *is_exact && given != *min {
        return Err(format!("{wrong} {min} got {given}"));
    }
    if given < *min {
        return Err(format!("{wrong} at least {min} got {written}"));
    }
    Ok(())
}

/// Calls a function, except `and` and `or`: these don't need all arguments, so the caller evaluates
/// them. `callee` is the first argument as the template has it.
pub(super) fn call(name: &str, values: &[Value], callee: Option<&str>) -> Result<Value, String> {
    let (first, rest) = values.split_first().unwrap_or((&Value::Missing, values));
    let second = rest.first().unwrap_or(&Value::Missing);
    match name {
        "call" if *first == Value::Missing => Err("call of nil".to_owned()),
        "call" => {
            let callee = callee.map_or_else(|| first.to_string(), str::to_owned);
            Err(format!("non-function {callee} of type {}", first.type_name()))
        }
        "eq" => eq(first, rest).map(Value::Bool),
        "ne" => eq(first, rest).map(|equal| Value::Bool(!equal)),
        "lt" => compare(first, second).map(|order| Value::Bool(order.is_lt())),
        "le" => compare(first, second).map(|order| Value::Bool(order.is_le())),
        "gt" => compare(first, second).map(|order| Value::Bool(order.is_gt())),
        "ge" => compare(first, second).map(|order| Value::Bool(order.is_ge())),
        "html" => Ok(escape_values(values, escape_html)),
        "js" => Ok(escape_values(values, escape_js)),
        "urlquery" => Ok(escape_values(values, escape_url)),
        "index" => index(first, rest),
        "slice" => slice(first, rest),
        "len" => len(first).map(Value::Int),
        "not" => Ok(Value::Bool(!first.is_true())),
        "print" => Ok(Value::text(&print(values))),
        "println" => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            Ok(Value::text(&format!("{}\n", values.join(" "))))
        }
        "printf" => match first {
            Value::Text(format) => printf(format, rest).map(|text| Value::text(&text)),
            _ => Err("the format is not a string".to_owned()),
        },
        _ => Err("not defined".to_owned()),
    }
}

fn incompatible(one: &Value, two: &Value) -> String {
    let (one, two) = (one.type_name(), two.type_name());
    format!("incompatible types for comparison: {one} and {two}")
}

/// Whether the value equals any of the others.
fn eq(value: &Value, others: &[Value]) -> Result<bool, String> {
    if others.is_empty() {
        return Err("missing argument for comparison".to_owned());
    }
    for other in others {
        let is_equal = match (value, other) {
            (Value::Missing, _)
            | (_, Value::Missing)
            | (Value::Bool(_), Value::Bool(_))
            | (Value::Int(_), Value::Int(_))
            | (Value::Text(_), Value::Text(_)) => value == other,
            (Value::Struct(one), Value::Struct(_)) if one.string.is_some() => value == other,
            (Value::Bool(_) | Value::Int(_) | Value::Text(_), _)
            | (_, Value::Bool(_) | Value::Int(_) | Value::Text(_)) => {
                return Err(incompatible(value, other));
            }
            _ => return Err(format!("non-comparable type {value}: {}", other.type_name())),
        };
        if is_equal {
            return Ok(true);
        }
    }
    Ok(false)
}

fn compare(one: &Value, two: &Value) -> Result<Ordering, String> {
    let has_order = |value: &Value| matches!(value, Value::Int(_) | Value::Text(_));
    match (one, two) {
        (Value::Int(left), Value::Int(right)) => Ok(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Ok(left.cmp(right)),
        _ if has_order(one) && has_order(two) => Err(incompatible(one, two)),
        _ => Err("invalid type for comparison".to_owned()),
    }
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

/// Converts an index of a template to a position, which may be at most `len`.
fn to_position(index: &Value, len: usize) -> Result<usize, String> {
    let number = match index {
        Value::Int(number) => *number,
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
                let byte = text.as_bytes().get(to_position(index, text.len())?);
                Value::Int((*byte.ok_or("reflect: string index out of range")?).into())
            }
            Value::List(items) => {
                let item = items.get(to_position(index, items.len())?);
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
    if indexes.len() > 2 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let len = match value {
        Value::Missing => return Err("slice of untyped nil".to_owned()),
        Value::Text(text) => text.len(),
        Value::List(items) => items.len(),
        _ => return Err(format!("can't slice item of type {}", value.type_name())),
    };
    let mut bounds = [0, len];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = to_position(index, len)?;
    }
    let [start, end] = bounds;
    if start > end {
        return Err(format!("invalid slice index: {start} > {end}"));
    }
    Ok(match value {
        Value::Text(text) => {
            let bytes = text.as_bytes().get(start..end).unwrap_or_default();
            Value::text(&String::from_utf8_lossy(bytes))
        }
        Value::List(items) => Value::list(items.get(start..end).unwrap_or_default()),
        _ => Value::Missing,
    })
}

/// Go's `fmt.Sprint`. It adds a space between two operands only if neither is a string.
fn print(values: &[Value]) -> String {
    let mut printed = String::new();
    let mut after_text = true;
    for value in values {
        let is_text = matches!(value, Value::Text(_));
        if !after_text && !is_text {
            printed.push(' ');
        }
        // Writing to a string can't fail.
        let _ = write!(printed, "{value}");
        after_text = is_text;
    }
    printed
}

/// A verb of `printf`, and the text before it.
struct Verb<'f> {
    text_before: &'f str,
    /// `None` at the end of the format.
    verb: Option<char>,
}

/// Splits a format of `printf` at its verbs.
fn split_format(format: &str) -> Result<Vec<Verb<'_>>, String> {
    let mut verbs = Vec::new();
    let mut rest = format;
    while let Some((text_before, after)) = rest.split_once('%') {
        let mut chars = after.chars();
        let verb = chars.next();
        if !matches!(verb, Some('s' | 'v' | 'q' | 'd' | '%')) {
            // The flags and the letter after them.
            let verb = after.split_inclusive(char::is_alphabetic).next().unwrap_or_default();
            return Err(format!("printf: %{verb} is not supported: use %s, %v, %q or %d"));
        }
        verbs.push(Verb { text_before, verb });
        rest = chars.as_str();
    }
    verbs.push(Verb { text_before: rest, verb: None });
    Ok(verbs)
}

/// Checks a format of `printf` when the template is parsed.
pub(super) fn check_format(format: &str) -> Result<(), String> {
    split_format(format).map(drop)
}

/// Go's `fmt.Sprintf`. As in Go, wrong arguments are reported in the returned text.
fn printf(format: &str, arguments: &[Value]) -> Result<String, String> {
    let mut output = String::new();
    let mut arguments = arguments.iter();
    for Verb { text_before, verb } in split_format(format)? {
        output.push_str(text_before);
        match verb {
            Some('%') => output.push('%'),
            Some(verb) => match arguments.next() {
                Some(argument) => output.push_str(&format_value(verb, argument)),
                // Writing to a string can't fail.
                None => _ = write!(output, "%!{verb}(MISSING)"),
            },
            None => {}
        }
    }
    let extra: Vec<String> = arguments
        .map(|value| match value {
            Value::Missing => "<nil>".to_owned(),
            value => format!("{}={value}", value.type_name()),
        })
        .collect();
    if !extra.is_empty() {
        let _ = write!(output, "%!(EXTRA {})", extra.join(", "));
    }
    Ok(output)
}

/// Formats a value as a verb of `printf` does.
pub(super) fn format_value(verb: char, value: &Value) -> String {
    match (verb, value) {
        ('v', Value::Missing) => "<nil>".to_owned(),
        (_, Value::Missing) => format!("%!{verb}(<nil>)"),
        ('v', Value::Bool(value)) => value.to_string(),
        ('s' | 'v', Value::Text(text)) => text.to_string(),
        ('q', Value::Text(text)) => Quoted(text).to_string(),
        ('d' | 'v', Value::Int(value)) => value.to_string(),
        (_, Value::List(items)) => {
            let items = items.iter().map(|item| format_value(verb, &Value::Text(item.clone())));
            format!("[{}]", items.collect::<Vec<_>>().join(" "))
        }
        (_, Value::Map(entries)) => {
            let entries = entries.iter().map(|(key, value)| {
                let (key, value) = (Value::text(key), Value::text(value));
                format!("{}:{}", format_value(verb, &key), format_value(verb, &value))
            });
            format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
        }
        (_, Value::Struct(data)) => {
            if let Some(string) = &data.string {
                return format_value(verb, &Value::Text(string.clone()));
            }
            let fields = data.fields.iter().map(|(_, field)| format_value(verb, field));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(" "))
        }
        (verb, value) => format!("%!{verb}({}={value})", value.type_name()),
    }
}

/// Joins the arguments of `html`, `js` or `urlquery`, and escapes the result.
fn escape_values(values: &[Value], escape: impl Fn(&mut String, char)) -> Value {
    let displayed = |value: &Value| match value {
        Value::Missing => Value::text("<no value>"),
        value => value.clone(),
    };
    let text = print(&values.iter().map(displayed).collect::<Vec<_>>());
    let mut escaped = String::with_capacity(text.len());
    text.chars().for_each(|char| escape(&mut escaped, char));
    Value::text(&escaped)
}

fn escape_html(escaped: &mut String, char: char) {
    let entity = match char {
        '\0' => "\u{fffd}",
        '"' => "&#34;",
        '\'' => "&#39;",
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        _ => return escaped.push(char),
    };
    escaped.push_str(entity);
}

fn escape_js(escaped: &mut String, char: char) {
    let is_escaped = matches!(char, '<' | '>' | '&' | '=' | '\0'..' ');
    if matches!(char, '\\' | '\'' | '"') {
        escaped.extend(['\\', char]);
    } else if is_escaped || !char.is_ascii() && !go_text::is_printable(char) {
        // Writing to a string can't fail.
        let _ = write!(escaped, "\\u{:04X}", u32::from(char));
    } else {
        escaped.push(char);
    }
}

fn escape_url(escaped: &mut String, char: char) {
    match char {
        ' ' => escaped.push('+'),
        'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '_' | '.' | '~' => escaped.push(char),
        _ => char.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
            let _ = write!(escaped, "%{byte:02X}");
        }),
    }
}
