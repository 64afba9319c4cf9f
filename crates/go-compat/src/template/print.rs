//! Printing of values like Go's `fmt`.

use hpa_calc::go_text::Quoted;

use super::value::{Struct, Value};

mod format;

pub(super) use format::printf;

/// A value as an action prints it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Missing => "<no value>".to_owned(),
        value => default(value),
    }
}

/// `fmt.Sprint`: spaces only between operands of which neither is a string.
pub(super) fn print(values: &[Value]) -> String {
    let mut printed = String::new();
    let mut after_text = true;
    for value in values {
        let is_text = matches!(value, Value::Text(_));
        if !after_text && !is_text {
            printed.push(' ');
        }
        printed.push_str(&default(value));
        after_text = is_text;
    }
    printed
}

/// `fmt.Sprintln`: spaces between all operands, and a newline.
pub(super) fn println(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(default).collect();
    format!("{}\n", values.join(" "))
}

/// `%v`.
fn default(value: &Value) -> String {
    match value {
        Value::Missing => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Byte(value) => value.to_string(),
        Value::Float(value) => shortest_float(*value),
        Value::Text(value) => value.to_string(),
        Value::List(items) => bracketed(items.iter().map(ToString::to_string)),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key}:{value}"));
            format!("map{}", bracketed(entries))
        }
        Value::Struct(data) => match &data.string {
            Some(string) => string.to_string(),
            None => braced(data, |_, field| default(field)),
        },
    }
}

fn bracketed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(" "))
}

fn braced(data: &Struct, print: impl Fn(&str, &Value) -> String) -> String {
    let fields: Vec<String> = data.fields.iter().map(|(name, field)| print(name, field)).collect();
    format!("{{{}}}", fields.join(" "))
}

/// `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Missing => "<nil>".to_owned(),
        Value::Byte(value) => format!("{value:#x}"),
        Value::Text(text) => Quoted(text).to_string(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|item| Quoted(item).to_string()).collect();
            format!("[]string{{{}}}", items.join(", "))
        }
        Value::Map(entries) => {
            let entry =
                |(key, value): (&String, &String)| format!("{}:{}", Quoted(key), Quoted(value));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("map[string]string{{{}}}", entries.join(", "))
        }
        Value::Struct(data) => {
            let field = |(name, field): &(&str, Value)| format!("{name}:{}", go_syntax(field));
            let fields: Vec<String> = data.fields.iter().map(field).collect();
            format!("{}{{{}}}", data.type_name, fields.join(", "))
        }
        value => default(value),
    }
}

/// The exponent from which on a float without a precision is printed in the scientific form.
const MAX_EXPONENT: i32 = 6;

/// A float with the fewest digits that identify it (`%g`).
fn shortest_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let (digits, exponent) = scientific(&format!("{value:e}"));
    if (-4..MAX_EXPONENT).contains(&exponent) {
        return value.to_string();
    }
    with_exponent(&digits, exponent)
}

/// A positive float with a number of significant digits (`%.3g`).
fn float_with_digits(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let (significant, exponent) = scientific(&format!("{value:.0$e}", digits - 1));
    let significant = if significant.contains('.') {
        significant.trim_end_matches('0').trim_end_matches('.')
    } else {
        &significant
    };
    let max_exponent = i32::try_from(digits).unwrap_or(i32::MAX);
    if !(-4..max_exponent).contains(&exponent) {
        return with_exponent(significant, exponent);
    }
    let rounded: f64 = format!("{significant}e{exponent}").parse().unwrap_or(value);
    rounded.to_string()
}

/// The digits and the exponent of Rust's scientific form.
fn scientific(text: &str) -> (String, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits.to_owned(), exponent.parse().unwrap_or(0))
}

/// Go's scientific form.
fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
