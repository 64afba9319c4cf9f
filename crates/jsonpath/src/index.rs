//! Indices of arrays.

use crate::{
    context::Budget, document::Document, error::EvalError, evaluate::evaluate, functions::integer,
    math::to_integer, path::Key, value::Value,
};

/// The index that a key stands for in an array. `None` if the key is empty.
pub(crate) fn index(
    array: &Value,
    key: &Key,
    document: &Document,
    budget: &Budget,
) -> Result<Option<i64>, EvalError> {
    let invalid = || EvalError::Index(String::from_utf8_lossy(&key.text).into_owned());
    match &key.expression {
        _ if key.text.is_empty() => Ok(None),
        Some(expression) if expression.is_length => {
            let length = i64::try_from(array.children(document).len());
            length.map(Some).map_err(|_| invalid())
        }
        Some(expression) => {
            let value = evaluate(expression, array, document, budget)?;
            integer("an index", &value, document).map(Some)
        }
        // The reference converts to a float and back, which changes numbers above 2^53.
        None => {
            let index = parse(&key.text).ok_or_else(invalid)?;
            Ok(Some(to_integer(index as f64)))
        }
    }
}

/// An integer with an optional sign.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Counts a negative index from the end.
pub(crate) fn from_start(index: i64, length: usize) -> i64 {
    if index < 0 { index.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) } else { index }
}

/// The elements of a slice.
pub(crate) fn slice(
    array: &Value,
    parts: &[Key],
    text: &str,
    document: &Document,
    budget: &Budget,
) -> Result<Vec<Value>, EvalError> {
    let children = array.children(document);
    let length = i64::try_from(children.len()).unwrap_or(i64::MAX);
    let part = |at: usize| match parts.get(at) {
        Some(key) => index(array, key, document, budget),
        None => Ok(None),
    };
    let error = |_| EvalError::Slice(text.to_owned());
    let (start, end) = (part(0).map_err(error)?, part(1).map_err(error)?);
    let step = part(2).map_err(error)?.unwrap_or(1);
    let bound = |bound: Option<i64>, default: i64| {
        bound.map_or(default, |bound| from_start(bound, children.len()))
    };
    let (mut at, end) = match step {
        0 => return Err(EvalError::Slice(text.to_owned())),
        1.. => (bound(start, 0).max(0), bound(end, length).min(length)),
        _ => (bound(start, length - 1).min(length), bound(end, -1).max(-1)),
    };
    let mut values = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        budget.spend(1)?;
        values.extend(usize::try_from(at).ok().and_then(|at| children.get(at)));
        let Some(next) = at.checked_add(step) else { break };
        at = next;
    }
    Ok(values)
}
