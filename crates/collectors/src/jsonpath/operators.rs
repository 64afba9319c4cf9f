//! The operators of expressions: precedence and evaluation.

use std::cmp::Ordering;

use crate::jsonpath::{
    budget::Budget,
    document::Document,
    error::EvalError,
    functions::{integer, is_true, number, unsigned},
    scan::OPERATORS,
    value::{Type, Value},
};

/// An operator of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operator(&'static str);

impl Operator {
    pub(crate) fn new(text: &str) -> Option<Self> {
        OPERATORS.into_iter().find(|operator| *operator == text).map(Self)
    }

    fn precedence(self) -> u8 {
        match self.0 {
            "**" => 6,
            "*" | "/" | "%" | "<<" | ">>" | "&" | "&^" => 5,
            "+" | "-" | "|" | "^" => 4,
            "==" | "!=" | "<" | "<=" | ">" | ">=" | "=~" => 3,
            "&&" => 2,
            _ => 1,
        }
    }

    /// Whether this operator is applied before `next`, the operator on its right. `^` is always
    /// applied first, because the reference treats it as a function.
    pub(crate) fn binds_before(self, next: Self) -> bool {
        let is_right_associative = self.0 == "**";
        self.0 == "^"
            || self.precedence() > next.precedence()
            || self.precedence() == next.precedence() && !is_right_associative
    }

    pub(crate) fn apply(
        self,
        left: &Value,
        right: &Value,
        document: &Document,
        budget: &Budget,
    ) -> Result<Value, EvalError> {
        match self.0 {
            "&&" => Ok(Value::Bool(is_true(left, document)? && is_true(right, document)?)),
            "||" => Ok(Value::Bool(is_true(left, document)? || is_true(right, document)?)),
            "=~" => matches(left, right, document, budget),
            "==" | "!=" | "<" | "<=" | ">" | ">=" if left.is_missing() || right.is_missing() => {
                Ok(Value::Bool(false))
            }
            "==" => Ok(Value::Bool(equal(left, right, document, budget)?)),
            "!=" => Ok(Value::Bool(!equal(left, right, document, budget)?)),
            "<" | "<=" | ">" | ">=" => self.compare(left, right, document, budget),
            "**" | "*" | "/" | "+" | "-" => self.calculate(left, right, document, budget),
            _ => self.calculate_integer(left, right, document),
        }
    }

    fn calculate(
        self,
        left: &Value,
        right: &Value,
        document: &Document,
        budget: &Budget,
    ) -> Result<Value, EvalError> {
        if let ("+", Some(first)) = (self.0, left.as_text(document)) {
            let second = right.as_text(document).ok_or(EvalError::Operand("+", "two strings"))?;
            budget.spend_text(first.len() + second.len())?;
            return Ok(Value::text(&[first, second].concat()));
        }
        let (left, right) = (number(self.0, left, document)?, number(self.0, right, document)?);
        let result = match self.0 {
            "**" => libm::pow(left, right),
            "*" => left * right,
            "/" if right == 0.0 => return Err(EvalError::DivisionByZero),
            "/" => left / right,
            "+" => left + right,
            _ => left - right,
        };
        Ok(Value::Number(Some(result)))
    }

    fn calculate_integer(
        self,
        left: &Value,
        right: &Value,
        document: &Document,
    ) -> Result<Value, EvalError> {
        let left = integer(self.0, left, document)?;
        // Go accepts shifts by more than 63 bits. The result is then 0 or -1.
        let shift = || Ok(u32::try_from(unsigned(self.0, right, document)?).unwrap_or(u32::MAX));
        let right = || integer(self.0, right, document);
        let result = match self.0 {
            "<<" => left.checked_shl(shift()?).unwrap_or_default(),
            ">>" => left >> shift()?.min(63),
            "&" => left & right()?,
            "&^" => left & !right()?,
            "|" => left | right()?,
            "^" => left ^ right()?,
            _ => match right()? {
                0 => return Err(EvalError::DivisionByZero),
                right => left.wrapping_rem(right),
            },
        };
        Ok(Value::Number(Some(result as f64)))
    }

    fn compare(
        self,
        left: &Value,
        right: &Value,
        document: &Document,
        budget: &Budget,
    ) -> Result<Value, EvalError> {
        let kind = left.kind(document);
        if kind != right.kind(document) {
            return Ok(Value::Bool(false));
        }
        let order = match (left.as_text(document), right.as_text(document)) {
            (Some(left), Some(right)) => {
                budget.spend(left.len().min(right.len()) / 256)?;
                Some(left.cmp(right))
            }
            _ if kind == Type::Number => {
                number(self.0, left, document)?.partial_cmp(&number(self.0, right, document)?)
            }
            _ => return Err(EvalError::Operand(self.0, "numbers or strings")),
        };
        let is = |accepted: &[Ordering]| order.is_some_and(|order| accepted.contains(&order));
        Ok(Value::Bool(match self.0 {
            "<" => is(&[Ordering::Less]),
            "<=" => is(&[Ordering::Less, Ordering::Equal]),
            ">" => is(&[Ordering::Greater]),
            _ => is(&[Ordering::Greater, Ordering::Equal]),
        }))
    }
}

/// The operator `=~`.
fn matches(
    left: &Value,
    right: &Value,
    document: &Document,
    budget: &Budget,
) -> Result<Value, EvalError> {
    let operands = (left.as_text(document), right.as_text(document));
    let (Some(text), Some(pattern)) = operands else {
        return Err(EvalError::Operand("=~", "two strings"));
    };
    Ok(Value::Bool(budget.is_match(pattern, text)?))
}

/// Whether two values have equal types and contents. The depth of the document limits the
/// recursion.
fn equal(
    left: &Value,
    right: &Value,
    document: &Document,
    budget: &Budget,
) -> Result<bool, EvalError> {
    budget.spend(1)?;
    let kind = left.kind(document);
    if kind != right.kind(document) {
        return Ok(false);
    }
    match kind {
        Type::Null => return Ok(true),
        Type::Number => {
            #[expect(clippy::float_cmp, reason = "the operator compares exactly")]
            return Ok(number("==", left, document)? == number("==", right, document)?);
        }
        Type::Bool => return Ok(left.as_bool(document) == right.as_bool(document)),
        Type::Text => {
            let (left, right) = (left.as_text(document), right.as_text(document));
            budget.spend(left.map_or(0, <[u8]>::len) / 256)?;
            return Ok(left == right);
        }
        Type::Array | Type::Object => {}
    }
    let (first, second) = (left.children(document), right.children(document));
    if first.len() != second.len() {
        return Ok(false);
    }
    for (at, (left, right)) in first.iter().zip(second.iter()).enumerate() {
        budget.spend(first.key_at(at).map_or(0, <[u8]>::len) / 256)?;
        let is_same_key = first.key_at(at) == second.key_at(at);
        if !is_same_key || !equal(&left, &right, document, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}
