//! Applies the defaults, bounds, enumerations and CEL rules of a structural schema, as an API
//! server does.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use cel::{Context, Program};
use regex::Regex;
use serde_json::{Map, Value};

/// Removes members that are `null` and adds defaults. Added defaults get the defaults of their own
/// members.
pub(crate) fn apply_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => apply_member_defaults(members, schema),
        Value::Array(items) => {
            for item in items {
                apply_defaults(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

fn apply_member_defaults(members: &mut Map<String, Value>, schema: &Value) {
    members.retain(|_, member| !member.is_null());
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let (None, Some(default)) = (members.get(name), schema.get("default")) {
            members.insert(name.clone(), default.clone());
        }
        if let Some(member) = members.get_mut(name) {
            apply_defaults(member, schema);
        }
    }
}

/// Adds the violations of `schema` by a value and its members to `found`, each with its path.
pub(crate) fn find_violations(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    find_bound_violations(value, schema, path, found);
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if !is_satisfied(rule["rule"].as_str().expect("a rule"), value) {
            let member = rule["fieldPath"].as_str().unwrap_or_default();
            found.push(format!("{path}{member}: {}", rule["message"]));
        }
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                find_violations(
                    member,
                    &schema["properties"][name],
                    &format!("{path}.{name}"),
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_violations(item, &schema["items"], &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn find_bound_violations(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    let mut report_if = |is_violated: bool, bound: &str| {
        if is_violated {
            found.push(format!("{path}: {bound}"));
        }
    };
    let limit = |name: &str| schema[name].as_i64();
    if let Some(number) = value.as_i64() {
        report_if(limit("minimum").is_some_and(|minimum| number < minimum), "minimum");
        report_if(limit("maximum").is_some_and(|maximum| number > maximum), "maximum");
    }
    if let Some(text) = value.as_str() {
        let length = i64::try_from(text.chars().count()).expect("a length");
        report_if(limit("maxLength").is_some_and(|most| length > most), "maxLength");
        let pattern = schema["pattern"].as_str();
        report_if(pattern.is_some_and(|pattern| !matches(pattern, text)), "pattern");
        report_if(schema["enum"].as_array().is_some_and(|known| !known.contains(value)), "enum");
    }
    if let Some(items) = value.as_array() {
        let length = i64::try_from(items.len()).expect("a length");
        report_if(limit("minItems").is_some_and(|least| length < least), "minItems");
        report_if(limit("maxItems").is_some_and(|most| length > most), "maxItems");
    }
    if let Some(members) = value.as_object() {
        let required =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !members.contains_key(*name)) {
            report_if(true, &format!("{name} is required"));
        }
    }
}

thread_local! {
    // Compiled rules and patterns, by their text.
    static PROGRAMS: RefCell<HashMap<String, Rc<Program>>> = RefCell::default();
    static PATTERNS: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// Whether a value satisfies a CEL rule. A rule that can't be evaluated counts as violated, as in
/// the API server.
fn is_satisfied(rule: &str, value: &Value) -> bool {
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
