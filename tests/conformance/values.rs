//! `quantity`, `milli_format`, `selector` and `label_selector`.

use std::collections::BTreeMap;

use hpa_calc::{
    quantity::{Format, MilliValue, Quantity},
    selector::{self, LabelSelector, Selector},
};
use serde_json::Value;

use crate::compare::ensure_equal;

/// Compares all fields of a line of `quantity`.
pub(crate) fn quantity(line: &Value) -> Result<(), String> {
    let input = text(line, "input")?;
    let parsed = input.parse::<Quantity>();
    if let Some(expected) = line.get("error") {
        let got = parsed.err().map(|error| error.to_string());
        let milli_error = input.parse::<MilliValue>().err().map(|error| error.to_string());
        ensure_equal("error", expected, &got.into())?;
        return ensure_equal("error of MilliValue", expected, &milli_error.into());
    }
    let quantity = parsed.map_err(|error| format!("error: expected none, got {error:?}"))?;
    if let Some(expected) = line.get("canonical") {
        ensure_equal("canonical", expected, &quantity.to_string().into())?;
    }
    if let Some(expected) = line.get("milliValue") {
        ensure_equal("milliValue", expected, &quantity.milli_value().as_milli().into())?;
        ensure_equal(
            "MilliValue",
            expected,
            &input.parse::<MilliValue>().ok().map(MilliValue::as_milli).into(),
        )?;
    }
    if let Some(expected) = line.get("value") {
        ensure_equal("value", expected, &quantity.value().into())?;
    }
    if let Some(expected) = line.get("float") {
        let expected = expected.as_f64().ok_or("float: not a number")?;
        let got = quantity.as_f64();
        // The JSON parser may be off by one unit in the last place.
        if got.to_bits().abs_diff(expected.to_bits()) > 1 {
            return Err(format!("float: expected {expected:?}, got {got:?}"));
        }
    }
    Ok(())
}

/// Compares a line of `milli_format`.
pub(crate) fn milli_format(line: &Value) -> Result<(), String> {
    let milli = line.get("milli").and_then(Value::as_i64).ok_or("milli: not an integer")?;
    for (field, format) in [("decimalSI", Format::DecimalSI), ("binarySI", Format::BinarySI)] {
        let got = Quantity::from_milli(MilliValue::from_milli(milli), format).to_string();
        ensure_equal(field, line.get(field).unwrap_or(&Value::Null), &got.into())?;
    }
    Ok(())
}

/// Compares a line of `selector`; `header` is the first line of the file.
pub(crate) fn selector(line: &Value, header: &Value) -> Result<(), String> {
    compare_selector(Selector::parse(text(line, "input")?), line, header)
}

/// Compares a line of `label_selector`; `header` is the first line of the file.
pub(crate) fn label_selector(line: &Value, header: &Value) -> Result<(), String> {
    let object = line.get("selector").unwrap_or(&Value::Null);
    let object: Option<LabelSelector> =
        serde_json::from_value(object.clone()).map_err(|error| format!("selector: {error}"))?;
    if let Some(expected) = line.get("goString") {
        ensure_equal("goString", expected, &selector::go_string(object.as_ref()).into())?;
    }
    compare_selector(Selector::from_label_selector(object.as_ref()), line, header)
}

fn compare_selector(
    selector: Result<Selector, selector::SelectorError>,
    line: &Value,
    header: &Value,
) -> Result<(), String> {
    if let Some(expected) = line.get("error") {
        return ensure_equal(
            "error",
            expected,
            &selector.err().map(|error| error.to_string()).into(),
        );
    }
    let selector = selector.map_err(|error| format!("error: expected none, got {error:?}"))?;
    ensure_equal(
        "canonical",
        line.get("canonical").unwrap_or(&Value::Null),
        &selector.to_string().into(),
    )?;
    let label_sets = header.get("labelSets").cloned().unwrap_or_default();
    let label_sets: Vec<BTreeMap<String, String>> =
        serde_json::from_value(label_sets).map_err(|error| format!("labelSets: {error}"))?;
    let got: Vec<bool> = label_sets.iter().map(|labels| selector.matches(labels)).collect();
    ensure_equal("matches", line.get("matches").unwrap_or(&Value::Null), &got.into())
}

fn text<'a>(line: &'a Value, field: &str) -> Result<&'a str, String> {
    line.get(field).and_then(Value::as_str).ok_or_else(|| format!("{field}: not a string"))
}
