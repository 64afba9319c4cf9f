//! Evaluates paths and expressions.

use crate::jsonpath::{
    error::{EvalError, abbreviated},
    math::{format_shortest, to_integer},
    operands::Evaluation,
    quote::unquote,
    syntax::{Expression, Instruction, Key, Path, Step},
    value::{Type, Value},
};

impl Evaluation<'_> {
    /// Applies a path to the current value. Returns the selected values.
    pub(crate) fn select_values(
        self,
        path: &Path,
        current: &Value,
    ) -> Result<Vec<Value>, EvalError> {
        let mut selection = Selection { values: Vec::new(), left_over: None, evaluation: self };
        for (index, step) in path.steps.iter().enumerate() {
            self.budget.spend(1)?;
            match step {
                Step::Root if index == 0 => selection.values.push(current.root()),
                Step::Current if index == 0 => selection.values.push(current.clone()),
                Step::Root | Step::Current => {}
                Step::Descend => selection.descend()?,
                Step::Children => selection.select_children()?,
                Step::Slice { parts, text } => selection.select_slice(parts, text)?,
                Step::Filter(condition) => selection.filter_children(condition)?,
                Step::Script(expression) => selection.run_script(expression)?,
                Step::Keys { keys, text } => selection.select_keys(keys, text)?,
                Step::Invalid(error) => return Err(error.clone()),
            }
        }
        Ok(selection.values)
    }

    /// Adds the arrays and objects below a value: first its children, then those below each child.
    /// The depth of the document limits the recursion.
    fn collect_containers(self, value: &Value, found: &mut Vec<Value>) -> Result<(), EvalError> {
        let children = value.children(self.document);
        self.budget.spend_values(children.len())?;
        let start = found.len();
        found.extend(children.iter().filter(|child| child.is_container(self.document)));
        for at in start..found.len() {
            let Some(child) = found.get(at).cloned() else { break };
            self.collect_containers(&child, found)?;
        }
        Ok(())
    }

    /// The index that a key stands for in an array. `None` if the key is empty.
    fn resolve_index(self, array: &Value, key: &Key) -> Result<Option<i64>, EvalError> {
        let invalid = || EvalError::Index(abbreviated(&key.text));
        match &key.expression {
            _ if key.text.is_empty() => Ok(None),
            Some(expression) if expression.is_length => {
                let length = i64::try_from(array.children(self.document).len());
                length.map(Some).map_err(|_| invalid())
            }
            Some(expression) => {
                let value = self.evaluate(expression, array)?;
                self.integer("an index", &value).map(Some)
            }
            // ajson converts to a float and back, which rounds numbers above 2^53.
            None => {
                let index = parse_integer(&key.text).ok_or_else(invalid)?;
                Ok(Some(to_integer(index as f64)))
            }
        }
    }

    /// Evaluates an expression. The result is missing if `current` is missing. Otherwise, a missing
    /// result becomes null.
    pub(crate) fn evaluate(
        self,
        expression: &Expression,
        current: &Value,
    ) -> Result<Value, EvalError> {
        if current.is_missing() {
            return Ok(Value::Missing);
        }
        let incomplete = || EvalError::Incomplete("the expression".to_owned());
        let mut stack: Vec<Value> = Vec::new();
        for instruction in expression.program()? {
            self.budget.spend(1)?;
            let value = match instruction {
                Instruction::Fail(error) => return Err(error.clone()),
                Instruction::Push(constant) => {
                    if let Value::Text(text) = constant {
                        self.budget.spend_text(text.len())?;
                    }
                    constant.clone()
                }
                Instruction::Select(path) => self.select_value(path, current)?,
                Instruction::Call(function) => {
                    let value = stack.pop().ok_or_else(incomplete)?;
                    self.call(*function, &value)?
                }
                Instruction::Apply(operator) => {
                    let right = stack.pop().ok_or_else(incomplete)?;
                    let left = stack.pop().ok_or_else(incomplete)?;
                    self.apply(*operator, &left, &right)?
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

    /// The value of a path in an expression: the only selected value, or an array of several.
    fn select_value(self, path: &Path, current: &Value) -> Result<Value, EvalError> {
        let mut values = self.select_values(path, current)?;
        if values.len() < 2 {
            return Ok(values.pop().unwrap_or(Value::Missing));
        }
        // ajson copies the values, which fails for missing ones.
        if values.iter().any(Value::is_missing) {
            return Err(EvalError::Missing);
        }
        Ok(Value::Several(values.into()))
    }

    /// Returns the elements of a slice. The step must not be 0.
    fn slice(
        self,
        array: &Value,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    ) -> Result<Vec<Value>, EvalError> {
        let children = array.children(self.document);
        let length = i64::try_from(children.len()).unwrap_or(i64::MAX);
        let bound = |bound: Option<i64>, default: i64| {
            bound.map_or(default, |bound| from_start(bound, children.len()))
        };
        let (mut at, end) = if step > 0 {
            (bound(start, 0).max(0), bound(end, length).min(length))
        } else {
            (bound(start, length - 1).min(length), bound(end, -1).max(-1))
        };
        let is_before_end = |at: i64| if step > 0 { at < end } else { at > end };
        let mut values = Vec::new();
        while is_before_end(at) {
            self.budget.spend_values(1)?;
            values.extend(usize::try_from(at).ok().and_then(|at| children.get(at)));
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        Ok(values)
    }
}

/// The values that the steps of a path have selected so far.
struct Selection<'e> {
    values: Vec<Value>,
    /// Reproduces a defect of ajson: one of its variables keeps a value after a filter or script.
    /// If the next step is a name, and the first value is neither an array nor an object, the step
    /// selects the kept value. After a filter, that is the result for the last child, if it is
    /// true. After a script, it is the child that the key selects, or a missing value.
    left_over: Option<Value>,
    evaluation: Evaluation<'e>,
}

impl Selection<'_> {
    fn descend(&mut self) -> Result<(), EvalError> {
        let mut below = Vec::new();
        for value in &self.values {
            if value.is_missing() {
                return Err(EvalError::Missing);
            }
            self.evaluation.collect_containers(value, &mut below)?;
        }
        self.values.append(&mut below);
        Ok(())
    }

    fn select_children(&mut self) -> Result<(), EvalError> {
        let mut selected = Vec::new();
        for value in &self.values {
            let children = value.children(self.evaluation.document);
            self.evaluation.budget.spend_values(children.len())?;
            selected.extend(children.iter());
        }
        self.values = selected;
        Ok(())
    }

    fn select_slice(&mut self, parts: &[Key], text: &str) -> Result<(), EvalError> {
        let mut elements = Vec::new();
        for value in &self.values {
            let is_array = value.value_type(self.evaluation.document) == Type::Array;
            if is_array && value.children(self.evaluation.document).len() > 0 {
                elements.append(&mut self.slice_of(value, parts, text)?);
            }
        }
        self.values = elements;
        Ok(())
    }

    fn slice_of(&self, array: &Value, parts: &[Key], text: &str) -> Result<Vec<Value>, EvalError> {
        let part = |at: usize| match parts.get(at) {
            Some(key) => self.evaluation.resolve_index(array, key),
            None => Ok(None),
        };
        let error = || EvalError::Slice(text.to_owned());
        let (start, end) = (part(0).map_err(|_| error())?, part(1).map_err(|_| error())?);
        match part(2)?.unwrap_or(1) {
            0 => Err(error()),
            step => self.evaluation.slice(array, start, end, step),
        }
    }

    fn filter_children(&mut self, condition: &Expression) -> Result<(), EvalError> {
        let mut accepted = Vec::new();
        for value in std::mem::take(&mut self.values) {
            if value.is_missing() {
                return Err(EvalError::Missing);
            }
            for child in value.children(self.evaluation.document).iter() {
                self.evaluation.budget.spend(1)?;
                let result = self.evaluation.evaluate(condition, &child)?;
                // If the truth of the result can't be determined, the child is not selected.
                let is_accepted = self.evaluation.is_true(&result).unwrap_or_default();
                self.left_over = is_accepted.then_some(result);
                if is_accepted {
                    self.evaluation.budget.spend_values(1)?;
                    accepted.push(child);
                }
            }
        }
        self.values = accepted;
        Ok(())
    }

    fn run_script(&mut self, expression: &Expression) -> Result<(), EvalError> {
        let mut selected = Vec::new();
        for value in std::mem::take(&mut self.values) {
            if value.is_missing() {
                return Err(EvalError::Missing);
            }
            if !value.is_container(self.evaluation.document) {
                continue;
            }
            let result = self.evaluation.evaluate(expression, &value)?;
            if let Some(is_true) = result.as_bool(self.evaluation.document) {
                self.left_over = is_true.then_some(Value::Missing);
                if is_true {
                    let children = value.children(self.evaluation.document);
                    self.evaluation.budget.spend_values(children.len())?;
                    selected.extend(children.iter());
                }
                continue;
            }
            if self.left_over.is_some() {
                // ajson clears its variable here, but still treats it as present.
                self.left_over = Some(Value::Missing);
            }
            let Some(key) = self.script_key(&result, &value)? else { continue };
            let child = value.child(&key, self.evaluation.document);
            self.evaluation.budget.spend_values(child.iter().count())?;
            if let (Some(left_over), Some(child)) = (&mut self.left_over, &child) {
                *left_over = child.clone();
            }
            selected.extend(child);
        }
        self.values = selected;
        Ok(())
    }

    /// Converts the result of a script to a key. `None` if it is neither a string nor a number.
    fn script_key(&self, result: &Value, container: &Value) -> Result<Option<Vec<u8>>, EvalError> {
        if let Some(text) = result.as_text(self.evaluation.document) {
            self.evaluation.budget.spend_key(text)?;
            return Ok(Some(text.to_vec()));
        }
        if result.value_type(self.evaluation.document) != Type::Number {
            return Ok(None);
        }
        let key = match self.evaluation.integer("a script", result) {
            // ajson subtracts the negative index from the size instead of adding it.
            Ok(index) if index < 0 => {
                let size = i64::try_from(container.children(self.evaluation.document).len());
                size.unwrap_or(i64::MAX).wrapping_sub(index).to_string()
            }
            Ok(index) => index.to_string(),
            Err(_) => format_shortest(self.evaluation.number("a script", result)?),
        };
        Ok(Some(key.into_bytes()))
    }

    fn select_keys(&mut self, keys: &[Key], text: &str) -> Result<(), EvalError> {
        let mut selected = Vec::new();
        for key in keys {
            // The cost of copying and unquoting the key.
            self.evaluation.budget.spend(key.text.len() / 8)?;
            // In ajson, the first non-empty array resolves a negative index or an expression. That
            // index is used for all later values.
            let mut key = key.clone();
            for value in &self.values {
                self.evaluation.budget.spend_key(&key.text)?;
                let child = match value.value_type(self.evaluation.document) {
                    Type::Array => self.element(value, &mut key, text)?,
                    Type::Object => {
                        key = unquote_key(key);
                        value.child(&key.text, self.evaluation.document)
                    }
                    _ => self.left_over.take(),
                };
                if value.is_container(self.evaluation.document) {
                    self.left_over = None;
                }
                self.evaluation.budget.spend_values(child.iter().count())?;
                selected.extend(child);
            }
        }
        self.values = selected;
        Ok(())
    }

    fn element(
        &self,
        array: &Value,
        key: &mut Key,
        text: &str,
    ) -> Result<Option<Value>, EvalError> {
        if [b"length".as_slice(), b"'length'", b"\"length\""].contains(&key.text.as_slice()) {
            return Ok(Some(self.evaluation.length(array)));
        }
        let size = array.children(self.evaluation.document).len();
        let number = if key.expression.is_some() {
            let number = self.evaluation.resolve_index(array, key)?;
            number.ok_or_else(|| EvalError::Index(text.to_owned()))?
        } else {
            *key = unquote_key(key.clone());
            let Some(number) = parse_integer(&key.text) else { return Ok(None) };
            number
        };
        if size == 0 {
            return Ok(None);
        }
        let number = from_start(number, size);
        *key = Key::new(number.to_string().into_bytes(), 0);
        Ok(array.child(&key.text, self.evaluation.document))
    }
}

/// Removes the quotes of a key. Invalid quoted keys become empty.
fn unquote_key(key: Key) -> Key {
    match key.text.as_slice() {
        [quote @ (b'"' | b'\''), .., last] if quote == last => {
            Key::new(unquote(&key.text, *quote).unwrap_or_default(), 0)
        }
        _ => key,
    }
}

/// Parses an integer with an optional sign.
fn parse_integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Converts an index, which counts from the end if it is negative, to an index from the start.
fn from_start(index: i64, length: usize) -> i64 {
    if index < 0 { index.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) } else { index }
}
