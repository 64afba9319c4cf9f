//! Indices of arrays.

use crate::jsonpath::{context::Budget, document::Document, error::EvalError, value::Value};

/// Parses an integer with an optional sign.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Converts a negative index, which counts from the end.
pub(crate) fn from_start(index: i64, length: usize) -> i64 {
    if index < 0 { index.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) } else { index }
}

/// The indices of a slice. The step must not be 0.
pub(crate) fn slice(
    array: &Value,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
    document: &Document,
    budget: &Budget,
) -> Result<Vec<Value>, EvalError> {
    let children = array.children(document);
    let length = i64::try_from(children.len()).unwrap_or(i64::MAX);
    let bound = |bound: Option<i64>, default: i64| {
        bound.map_or(default, |bound| from_start(bound, children.len()))
    };
    let (mut at, end) = if step > 0 {
        (bound(start, 0).max(0), bound(end, length).min(length))
    } else {
        (bound(start, length - 1).min(length), bound(end, -1).max(-1))
    };
    let mut values = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        budget.spend_values(1)?;
        values.extend(usize::try_from(at).ok().and_then(|at| children.get(at)));
        let Some(next) = at.checked_add(step) else { break };
        at = next;
    }
    Ok(values)
}
