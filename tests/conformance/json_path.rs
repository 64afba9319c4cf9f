//! `json_path`: numbers that kube-metrics-adapter extracts from JSON documents.

use hpa_collectors::jsonpath::{Aggregator, Compat, ExtractError, Extractor, Query};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    document: String,
    #[serde(default)]
    json_key: String,
    #[serde(default)]
    json_eval: String,
    #[serde(default)]
    aggregator: String,
    #[serde(default)]
    value: Value,
    error: Option<String>,
}

/// The tolerated relative difference between the math functions of Go and of the platform.
const TOLERANCE: f64 = 1e-12;

pub(crate) fn check(line: &Value) -> Result<(), String> {
    let case = Line::deserialize(line).map_err(|error| format!("line: {error}"))?;
    let aggregator = match case.aggregator.as_str() {
        "" => None,
        name => Some(Aggregator::new(name).ok_or_else(|| format!("unknown aggregator {name}"))?),
    };
    let query = if case.json_key.is_empty() {
        Ok(Query::expression(&case.json_eval))
    } else {
        Query::key(&case.json_key)
    };
    let result = query.and_then(|query| {
        let extractor = Extractor::new(query, aggregator);
        extractor.with_compat(Compat::Reference).extract(case.document.as_bytes())
    });
    match (&case.error, result) {
        (None, Ok(value)) => ensure_equal(parse_number(&case.value)?, value, &case.json_eval),
        (Some(expected), Err(error))
            if recorded_kinds(&error, &case).contains(&expected.as_str()) =>
        {
            Ok(())
        }
        (Some(expected), result) => Err(format!("expected the error {expected}, got {result:?}")),
        (None, Err(error)) => Err(format!("expected {}, got the error {error}", case.value)),
    }
}

fn parse_number(value: &Value) -> Result<f64, String> {
    match value.as_str() {
        Some("NaN") => Ok(f64::NAN),
        Some("+Inf") => Ok(f64::INFINITY),
        Some("-Inf") => Ok(f64::NEG_INFINITY),
        _ => value.as_f64().ok_or_else(|| format!("not a number: {value}")),
    }
}

#[expect(clippy::float_cmp, reason = "exact unless a function rounds")]
fn ensure_equal(expected: f64, value: f64, expression: &str) -> Result<(), String> {
    let can_round = ["(", "**"].iter().any(|part| expression.contains(part));
    let tolerance = if can_round { TOLERANCE * expected.abs() } else { 0.0 };
    let is_same = expected == value
        || expected.is_nan() && value.is_nan()
        || (expected - value).abs() <= tolerance;
    if is_same { Ok(()) } else { Err(format!("expected {expected}, got {value}")) }
}

/// The kinds that the recording may have for an error.
fn recorded_kinds(error: &ExtractError, case: &Line) -> &'static [&'static str] {
    match error {
        ExtractError::Empty => &["empty"],
        ExtractError::NoAggregator => &["no-aggregator"],
        ExtractError::NotNumeric => &["not-numeric"],
        ExtractError::Type("null") => &["type-null"],
        ExtractError::Type("a boolean") => &["type-bool"],
        ExtractError::Type("a string") => &["type-string"],
        ExtractError::Type("an object") => &["type-object"],
        ExtractError::Path { .. } => &["parse"],
        ExtractError::Document { .. } => &["document"],
        // In an expression, an error of a path may be recorded as one of the evaluation.
        ExtractError::Evaluation(_) if case.json_key.is_empty() => &["eval", "path", "panic"],
        ExtractError::Evaluation(_) => &["path", "panic"],
        ExtractError::Type(_) | ExtractError::TooLarge => &[],
    }
}
