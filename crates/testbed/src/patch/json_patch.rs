//! JSON patch (RFC 6902).

use serde::Deserialize;
use serde_json::Value;

use super::rejected;
use crate::error::ApiError;

/// One operation.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Sets a member or inserts an element.
    Add {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Removes what is there.
    Remove {
        /// Where.
        path: String,
    },
    /// Sets what is there.
    Replace {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Moves.
    Move {
        /// From where.
        from: String,
        /// Where to.
        path: String,
    },
    /// Copies.
    Copy {
        /// From where.
        from: String,
        /// Where to.
        path: String,
    },
    /// Fails if something else is there.
    Test {
        /// Where.
        path: String,
        /// What should be there.
        #[serde(default)]
        value: Value,
    },
}

/// Applies the operations in turn; the first that fails fails all.
pub(super) fn apply(object: &mut Value, operations: &[Operation]) -> Result<(), ApiError> {
    operations.iter().try_for_each(|operation| one(object, operation))
}

fn one(object: &mut Value, operation: &Operation) -> Result<(), ApiError> {
    match operation {
        Operation::Add { path, value } => add(object, path, value.clone()),
        Operation::Remove { path } => remove(object, path).map(drop),
        Operation::Replace { path, value } => {
            let place = object.pointer_mut(path).ok_or_else(rejected)?;
            place.clone_from(value);
            Ok(())
        }
        Operation::Move { from, path } => {
            let value = remove(object, from)?;
            add(object, path, value)
        }
        Operation::Copy { from, path } => {
            let value = object.pointer(from).cloned().ok_or_else(rejected)?;
            add(object, path, value)
        }
        Operation::Test { path, value } => {
            if object.pointer(path).unwrap_or(&Value::Null) == value {
                return Ok(());
            }
            Err(rejected())
        }
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), ApiError> {
    let Some((parent, last)) = path.rsplit_once('/') else {
        *object = value;
        return Ok(());
    };
    match object.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.insert(unescaped(last), value);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let index = if last == "-" { Some(items.len()) } else { last.parse().ok() };
            let index = index.filter(|index| *index <= items.len()).ok_or_else(rejected)?;
            items.insert(index, value);
            Ok(())
        }
        _ => Err(rejected()),
    }
}

fn remove(object: &mut Value, path: &str) -> Result<Value, ApiError> {
    let (parent, last) = path.rsplit_once('/').unwrap_or_default();
    let removed = match object.pointer_mut(parent) {
        Some(Value::Object(members)) => members.remove(&unescaped(last)),
        Some(Value::Array(items)) => last
            .parse()
            .ok()
            .filter(|index| *index < items.len())
            .map(|index: usize| items.remove(index)),
        _ => None,
    };
    removed.ok_or_else(rejected)
}

fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}
