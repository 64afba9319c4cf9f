//! Evaluates paths and expressions.

use crate::jsonpath::{
    context::Budget,
    document::Document,
    error::{EvalError, abbreviated},
    functions::{integer, is_true, length, number},
    math::{format_shortest, to_integer},
    quote::unquote,
    syntax::{Constant, Expression, Instruction, Key, Path, Step},
    value::{Type, Value},
};

/// Applies a path to the current value. Returns the selected values.
pub(crate) fn apply(
    path: &Path,
    current: &Value,
    document: &Document,
    budget: &Budget,
) -> Result<Vec<Value>, EvalError> {
    let mut selection = Selection { values: Vec::new(), left_over: None, document, budget };
    for (index, step) in path.steps.iter().enumerate() {
        budget.spend(1)?;
        match step {
            Step::Root if index == 0 => selection.values.push(current.root()),
            Step::Current if index == 0 => selection.values.push(current.clone()),
            Step::Root | Step::Current => {}
            Step::Descend => selection.descend()?,
            Step::Children => selection.children()?,
            Step::Slice { parts, text } => selection.slice(parts, text)?,
            Step::Filter(condition) => selection.filter(condition)?,
            Step::Script(expression) => selection.script(expression)?,
            Step::Keys { keys, text } => selection.keys(keys, text)?,
            Step::Invalid(error) => return Err(error.clone()),
        }
    }
    Ok(selection.values)
}

struct Selection<'e> {
    values: Vec<Value>,
    /// The last true result of a filter or script. As in the reference, a name step after it
    /// selects this result from the first value, if that value is neither an array nor an object.
    left_over: Option<Value>,
    document: &'e Document,
    budget: &'e Budget,
}

impl Selection<'_> {
    fn descend(&mut self) -> Result<(), EvalError> {
        let mut below = Vec::new();
        for value in &self.values {
            if value.is_missing() {
                return Err(EvalError::Missing);
            }
            containers(value, self.document, self.budget, &mut below)?;
        }
        self.values.append(&mut below);
        Ok(())
    }

    fn children(&mut self) -> Result<(), EvalError> {
        let mut children = Vec::new();
        for value in &self.values {
            let found = value.children(self.document);
            self.budget.spend_values(found.len())?;
            children.extend(found.iter());
        }
        self.values = children;
        Ok(())
    }

    fn slice(&mut self, parts: &[Key], text: &str) -> Result<(), EvalError> {
        let mut elements = Vec::new();
        for value in &self.values {
            let is_array = value.kind(self.document) == Type::Array;
            if is_array && value.children(self.document).len() > 0 {
                elements.append(&mut self.slice_of(value, parts, text)?);
            }
        }
        self.values = elements;
        Ok(())
    }

    fn slice_of(&self, array: &Value, parts: &[Key], text: &str) -> Result<Vec<Value>, EvalError> {
        let part = |at: usize| match parts.get(at) {
            Some(key) => index(array, key, self.document, self.budget),
            None => Ok(None),
        };
        let error = || EvalError::Slice(text.to_owned());
        let (start, end) = (part(0).map_err(|_| error())?, part(1).map_err(|_| error())?);
        match part(2)?.unwrap_or(1) {
            0 => Err(error()),
            step => slice(array, start, end, step, self.document, self.budget),
        }
    }

    fn filter(&mut self, condition: &Expression) -> Result<(), EvalError> {
        let mut accepted = Vec::new();
        for value in std::mem::take(&mut self.values) {
            if value.is_missing() {
                return Err(EvalError::Missing);
            }
            for child in value.children(self.document).iter() {
                self.budget.spend(1)?;
                let result = evaluate(condition, &child, self.document, self.budget)?;
                // A condition that is neither true nor false doesn't select.
                let is_accepted = is_true(&result, self.document).unwrap_or_default();
                self.left_over = is_accepted.then_some(result);
                if is_accepted {
                    self.budget.spend_values(1)?;
                    accepted.push(child);
                }
            }
        }
        self.values = accepted;
        Ok(())
    }

    fn script(&mut self, expression: &Expression) -> Result<(), EvalError> {
        let mut found = Vec::new();
        for value in std::mem::take(&mut self.values) {
            if value.is_missing() {
                return Err(EvalError::Missing);
            }
            if !value.is_container(self.document) {
                continue;
            }
            let result = evaluate(expression, &value, self.document, self.budget)?;
            if let Some(is_true) = result.as_bool(self.document) {
                self.left_over = is_true.then_some(Value::Missing);
                if is_true {
                    let children = value.children(self.document);
                    self.budget.spend_values(children.len())?;
                    found.extend(children.iter());
                }
                continue;
            }
            if self.left_over.is_some() {
                // The reference resets the value, but not the flag for its presence.
                self.left_over = Some(Value::Missing);
            }
            let Some(key) = self.key_of(&result, &value)? else { continue };
            let child = value.child(&key, self.document);
            self.budget.spend_values(child.iter().count())?;
            if let (Some(left_over), Some(child)) = (&mut self.left_over, &child) {
                *left_over = child.clone();
            }
            found.extend(child);
        }
        self.values = found;
        Ok(())
    }

    /// Converts the result of a script to a key. `None` if it has another type.
    fn key_of(&self, result: &Value, container: &Value) -> Result<Option<Vec<u8>>, EvalError> {
        if let Some(text) = result.as_text(self.document) {
            self.budget.spend_key(text)?;
            return Ok(Some(text.to_vec()));
        }
        if result.kind(self.document) != Type::Number {
            return Ok(None);
        }
        let key = match integer("a script", result, self.document) {
            // As in the reference, which subtracts the negative index instead of adding it.
            Ok(index) if index < 0 => {
                let size = i64::try_from(container.children(self.document).len());
                size.unwrap_or(i64::MAX).wrapping_sub(index).to_string()
            }
            Ok(index) => index.to_string(),
            Err(_) => format_shortest(number("a script", result, self.document)?),
        };
        Ok(Some(key.into_bytes()))
    }

    fn keys(&mut self, keys: &[Key], text: &str) -> Result<(), EvalError> {
        let mut found = Vec::new();
        for key in keys {
            // Pays for the copy and for unquoting.
            self.budget.spend(key.text.len() / 8)?;
            // In the reference, a negative index is resolved once, by the first array.
            let mut key = key.clone();
            for value in &self.values {
                self.budget.spend_key(&key.text)?;
                let child = match value.kind(self.document) {
                    Type::Array => self.element(value, &mut key, text)?,
                    Type::Object => {
                        key = unquoted(key);
                        value.child(&key.text, self.document)
                    }
                    _ => self.left_over.take(),
                };
                if matches!(value.kind(self.document), Type::Array | Type::Object) {
                    self.left_over = None;
                }
                self.budget.spend_values(child.iter().count())?;
                found.extend(child);
            }
        }
        self.values = found;
        Ok(())
    }

    fn element(
        &self,
        array: &Value,
        key: &mut Key,
        text: &str,
    ) -> Result<Option<Value>, EvalError> {
        if [b"length".as_slice(), b"'length'", b"\"length\""].contains(&key.text.as_slice()) {
            return Ok(Some(length(array, self.document)));
        }
        let size = array.children(self.document).len();
        let number = if key.expression.is_some() {
            let number = index(array, key, self.document, self.budget)?;
            number.ok_or_else(|| EvalError::Index(text.to_owned()))?
        } else {
            *key = unquoted(key.clone());
            let Some(number) = parse(&key.text) else { return Ok(None) };
            number
        };
        if size == 0 {
            return Ok(None);
        }
        let number = from_start(number, size);
        *key = Key::new(number.to_string().into_bytes(), 0);
        Ok(array.child(&key.text, self.document))
    }
}

/// Removes the quotes of a key. Invalid quoted keys become empty.
fn unquoted(key: Key) -> Key {
    match key.text.as_slice() {
        [quote @ (b'"' | b'\''), .., last] if quote == last => {
            Key::new(unquote(&key.text, *quote).unwrap_or_default(), 0)
        }
        _ => key,
    }
}

/// Adds the containers below a value: first its children, then those below each child. The depth of
/// the document limits the recursion.
fn containers(
    value: &Value,
    document: &Document,
    budget: &Budget,
    found: &mut Vec<Value>,
) -> Result<(), EvalError> {
    let children = value.children(document);
    budget.spend_values(children.len())?;
    let start = found.len();
    found.extend(children.iter().filter(|child| child.is_container(document)));
    for at in start..found.len() {
        let Some(child) = found.get(at).cloned() else { break };
        containers(&child, document, budget, found)?;
    }
    Ok(())
}

/// The index of a key in an array. `None` if the key is empty.
fn index(
    array: &Value,
    key: &Key,
    document: &Document,
    budget: &Budget,
) -> Result<Option<i64>, EvalError> {
    let invalid = || EvalError::Index(abbreviated(&key.text));
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
        // The reference converts to a float and back, which rounds numbers above 2^53.
        None => {
            let index = parse(&key.text).ok_or_else(invalid)?;
            Ok(Some(to_integer(index as f64)))
        }
    }
}

/// Evaluates an expression. A missing result becomes null. If `current` is missing, the result is
/// missing.
pub(crate) fn evaluate(
    expression: &Expression,
    current: &Value,
    document: &Document,
    budget: &Budget,
) -> Result<Value, EvalError> {
    if current.is_missing() {
        return Ok(Value::Missing);
    }
    let incomplete = || EvalError::Incomplete("the expression".to_owned());
    let mut stack: Vec<Value> = Vec::new();
    for instruction in expression.program()? {
        budget.spend(1)?;
        let value = match instruction {
            Instruction::Fail(error) => return Err(error.clone()),
            Instruction::Push(constant) => constant.value(budget)?,
            Instruction::Select(path) => {
                let mut values = apply(path, current, document, budget)?;
                match (values.len(), values.pop()) {
                    (2.., Some(last)) => {
                        values.push(last);
                        // The reference copies the values, which fails for missing ones.
                        if values.iter().any(Value::is_missing) {
                            return Err(EvalError::Missing);
                        }
                        Value::Several(values.into())
                    }
                    (_, only) => only.unwrap_or(Value::Missing),
                }
            }
            Instruction::Call(function) => {
                let value = stack.pop().ok_or_else(incomplete)?;
                function.call(&value, document, budget)?
            }
            Instruction::Apply(operator) => {
                let right = stack.pop().ok_or_else(incomplete)?;
                let left = stack.pop().ok_or_else(incomplete)?;
                operator.apply(&left, &right, document, budget)?
            }
        };
        stack.push(value);
    }
    match (stack.pop(), stack.is_empty()) {
        (Some(Value::Missing) | None, true) => Ok(Value::Null),
        (Some(value), true) => Ok(value),
        _ => Err(incomplete()),
    }
}

impl Constant {
    fn value(&self, budget: &Budget) -> Result<Value, EvalError> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(*number),
            Self::Text(text) => {
                budget.spend_text(text.len())?;
                Value::text(text)
            }
        })
    }
}

/// Parses an integer with an optional sign.
fn parse(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Converts a negative index, which counts from the end.
fn from_start(index: i64, length: usize) -> i64 {
    if index < 0 { index.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) } else { index }
}

/// Returns the elements of a slice. The step must not be 0.
fn slice(
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
