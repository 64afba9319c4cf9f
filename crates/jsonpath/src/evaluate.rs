//! Evaluates expressions.

use crate::{
    apply::apply,
    context::Budget,
    document::Document,
    error::EvalError,
    expression::{Constant, Expression, Instruction},
    value::Value,
};

/// The value of an expression. A missing value becomes null.
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
            Instruction::Push(constant) => constant.value(),
            Instruction::Select(path) => {
                let mut values = apply(path, current, document, budget)?;
                match (values.len(), values.pop()) {
                    (2.., Some(last)) => {
                        values.push(last);
                        // The reference copies them, which fails for missing ones.
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
    fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(*number),
            Self::Text(text) => Value::text(text),
        }
    }
}
