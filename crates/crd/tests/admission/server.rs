//! The parts of an API server that the definition needs: defaults, bounds, enumerations and CEL
//! rules of a structural schema.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use cel::{Context, Program};
use regex::Regex;
use serde_json::{Map, Value};

/// Removes `null` and adds defaults, from the outside in.
pub(crate) fn complete(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => complete_members(members, schema),
        Value::Array(items) => items.iter_mut().for_each(|item| complete(item, &schema["items"])),
        _ => {}
    }
}

fn complete_members(members: &mut Map<String, Value>, schema: &Value) {
    members.retain(|_, member| !member.is_null());
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let (None, Some(default)) = (members.get(name), schema.get("default")) {
            members.insert(name.clone(), default.clone());
        }
        if let Some(member) = members.get_mut(name) {
            complete(member, schema);
        }
    }
}

/// Adds the violations of a value, each with its field.
pub(crate) fn errors(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    bounds(value, schema, path, found);
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if !holds(rule["rule"].as_str().expect("a rule"), value) {
            let member = rule["fieldPath"].as_str().unwrap_or_default();
            found.push(format!("{path}{member}: {}", rule["message"]));
        }
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                errors(member, &schema["properties"][name], &format!("{path}.{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                errors(item, &schema["items"], &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn bounds(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    let mut refuse = |is_violated: bool, bound: &str| {
        if is_violated {
            found.push(format!("{path}: {bound}"));
        }
    };
    let limit = |name: &str| schema[name].as_i64();
    if let Some(number) = value.as_i64() {
        refuse(limit("minimum").is_some_and(|minimum| number < minimum), "minimum");
        refuse(limit("maximum").is_some_and(|maximum| number > maximum), "maximum");
    }
    if let Some(text) = value.as_str() {
        let length = i64::try_from(text.chars().count()).expect("a length");
        refuse(limit("maxLength").is_some_and(|most| length > most), "maxLength");
        let pattern = schema["pattern"].as_str();
        refuse(pattern.is_some_and(|pattern| !matches(pattern, text)), "pattern");
        refuse(schema["enum"].as_array().is_some_and(|known| !known.contains(value)), "enum");
    }
    if let Some(items) = value.as_array() {
        let length = i64::try_from(items.len()).expect("a length");
        refuse(limit("minItems").is_some_and(|least| length < least), "minItems");
        refuse(limit("maxItems").is_some_and(|most| length > most), "maxItems");
    }
    if let Some(members) = value.as_object() {
        let required =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !members.contains_key(*name)) {
            refuse(true, &format!("{name} is required"));
        }
    }
}

thread_local! {
    /// Compiled rules and patterns.
    static PROGRAMS: RefCell<HashMap<String, Rc<Program>>> = RefCell::default();
    static PATTERNS: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// Whether a value satisfies a rule. A rule that can't be evaluated is violated, as in the API
/// server.
fn holds(rule: &str, value: &Value) -> bool {
    let compile =
        || Rc::new(Program::compile(rule).unwrap_or_else(|error| panic!("{rule}: {error}")));
    let program =
        PROGRAMS.with_borrow_mut(|all| all.entry(rule.to_owned()).or_insert_with(compile).clone());
    let mut context = Context::default();
    context.add_variable("self", value).expect("a value");
    program.execute(&context) == Ok(cel::Value::Bool(true))
}

fn matches(pattern: &str, text: &str) -> bool {
    let compile = || Regex::new(pattern).expect("a pattern");
    PATTERNS
        .with_borrow_mut(|all| all.entry(pattern.to_owned()).or_insert_with(compile).is_match(text))
}
