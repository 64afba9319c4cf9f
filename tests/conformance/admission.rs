//! `hpa_admission`: the spec that the API server stores, or its error.

use hpa_calc::{
    api::HorizontalPodAutoscalerSpec,
    defaults::apply_defaults,
    validation::{Cause, ValidationOptions, invalid_message, validate, validate_name},
};
use serde_json::Value;

use crate::compare::ensure_equal;

/// Name of every recorded object.
const NAME: &str = "web";
const KIND_AND_GROUP: &str = "HorizontalPodAutoscaler.autoscaling";

/// Applies defaults to a line's `input`, validates it, and compares with the recorded response.
pub(crate) fn check(line: &Value) -> Result<(), String> {
    let input = line.get("input").unwrap_or(&Value::Null);
    let mut spec: HorizontalPodAutoscalerSpec =
        serde_json::from_value(input.clone()).map_err(|error| format!("invalid input: {error}"))?;
    apply_defaults(&mut spec);
    let mut causes = validate_name(NAME);
    causes.extend(validate(&spec, &ValidationOptions::default()));
    match line.get("status").and_then(Value::as_u64) {
        Some(201) => check_accepted(line, &spec, &causes),
        Some(422) => check_rejected(line, causes),
        other => Err(format!("unknown status: {other:?}")),
    }
}

fn check_accepted(
    line: &Value,
    spec: &HorizontalPodAutoscalerSpec,
    causes: &[Cause],
) -> Result<(), String> {
    if !causes.is_empty() {
        return Err(format!(
            "expected to be accepted, got {}",
            invalid_message(KIND_AND_GROUP, NAME, causes)
        ));
    }
    let mut actual =
        serde_json::to_value(spec).map_err(|error| format!("not serializable: {error}"))?;
    let mut expected = line.get("spec").cloned().unwrap_or_default();
    remove_empty_fields(&mut actual);
    remove_empty_fields(&mut expected);
    ensure_equal("spec", &expected, &actual)
}

/// Removes fields that are `null`, an empty string or an empty list. Unlike
/// [`normalize`](crate::compare::normalize), keeps zeros: a stabilization window of 0 is a setting.
fn remove_empty_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(remove_empty_fields);
            fields.retain(|_, field| match field {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(remove_empty_fields),
        _ => {}
    }
}

fn check_rejected(line: &Value, mut causes: Vec<Cause>) -> Result<(), String> {
    let expected =
        line.get("causes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    order_as_recorded(&mut causes, expected);
    let actual: Vec<CauseFields<'_>> = causes.iter().map(cause_fields).collect();
    let expected: Vec<CauseFields<'_>> = expected.iter().map(recorded_cause_fields).collect();
    if actual != expected {
        let missing: Vec<_> = expected.iter().filter(|cause| !actual.contains(cause)).collect();
        let extra: Vec<_> = actual.iter().filter(|cause| !expected.contains(cause)).collect();
        return Err(format!(
            "causes: missing {missing:?}, extra {extra:?}; expected {expected:?}, got {actual:?}"
        ));
    }
    let message = line.get("message").and_then(Value::as_str).unwrap_or_default();
    let actual = invalid_message(KIND_AND_GROUP, NAME, &causes);
    if message == actual {
        Ok(())
    } else {
        Err(format!("message: expected {message}, got {actual}"))
    }
}

/// Field, reason and message of a cause.
type CauseFields<'a> = (&'a str, &'a str, &'a str);

fn cause_fields(cause: &Cause) -> CauseFields<'_> {
    (&cause.field, cause.reason.as_str(), &cause.message)
}

fn recorded_cause_fields(cause: &Value) -> CauseFields<'_> {
    let text = |name: &str| cause.get(name).and_then(Value::as_str).unwrap_or_default();
    (text("field"), text("reason"), text("message"))
}

/// Orders adjacent causes about superfluous fields of one metric as recorded, because the API
/// server emits them in random order.
fn order_as_recorded(causes: &mut [Cause], expected: &[Value]) {
    let is_about_superfluous_field =
        |cause: &Cause| cause.message == "Forbidden: must populate the given metric source only";
    let metric = |cause: &Cause| cause.field.rsplit_once('.').map(|(metric, _)| metric.to_owned());
    for group in causes.chunk_by_mut(|left, right| {
        is_about_superfluous_field(left)
            && is_about_superfluous_field(right)
            && metric(left) == metric(right)
    }) {
        group.sort_by_key(|cause| {
            expected
                .iter()
                .position(|recorded| recorded_cause_fields(recorded) == cause_fields(cause))
        });
    }
}
