//! The operators of expressions: precedence and evaluation.

use std::cmp::Ordering;

use crate::jsonpath::{
    error::EvalError,
    operands::Evaluation,
    scan::Scanner,
    value::{Type, Value},
};

/// An operator of two values, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operator(&'static str);

impl Operator {
    pub(crate) fn take(scanner: &mut Scanner<'_>) -> Option<Self> {
        scanner.take_operator().map(Self)
    }

    fn precedence(self) -> u8 {
        match self.0 {
            "**" => 6,
            "*" | "/" | "%" | "<<" | ">>" | "&" | "&^" => 5,
            "+" | "-" | "|" | "^" => 4,
            "==" | "!=" | "<" | "<=" | ">" | ">=" | "=~" => 3,
            "&&" => 2,
            // `||`
            _ => 1,
        }
    }

    /// Whether this operator is applied before `next`, the operator on its right. `^` is always
    /// applied first, because ajson treats it as a function.
    pub(crate) fn binds_before(self, next: Self) -> bool {
        let is_right_associative = self.0 == "**";
        self.0 == "^"
            || self.precedence() > next.precedence()
            || self.precedence() == next.precedence() && !is_right_associative
    }
}

impl Evaluation<'_> {
    pub(crate) fn apply(
        self,
        operator: Operator,
        left: &Value,
        right: &Value,
    ) -> Result<Value, EvalError> {
        match operator.0 {
            "&&" => Ok(Value::Bool(self.is_true(left)? && self.is_true(right)?)),
            "||" => Ok(Value::Bool(self.is_true(left)? || self.is_true(right)?)),
            "=~" => self.matches(left, right),
            "==" | "!=" | "<" | "<=" | ">" | ">=" if left.is_missing() || right.is_missing() => {
                Ok(Value::Bool(false))
            }
            "==" => Ok(Value::Bool(self.equal(left, right)?)),
            "!=" => Ok(Value::Bool(!self.equal(left, right)?)),
            "<" | "<=" | ">" | ">=" => self.compare(operator, left, right),
            "**" | "*" | "/" | "+" | "-" => self.calculate(operator, left, right),
            _ => self.calculate_integer(operator, left, right),
        }
    }

    fn calculate(
        self,
        operator: Operator,
        left: &Value,
        right: &Value,
    ) -> Result<Value, EvalError> {
        if let ("+", Some(first)) = (operator.0, left.as_text(self.document)) {
            let second =
                right.as_text(self.document).ok_or(EvalError::Operand("+", "two strings"))?;
            self.budget.spend_text(first.len() + second.len())?;
            return Ok(Value::text(&[first, second].concat()));
        }
        let (left, right) = (self.number(operator.0, left)?, self.number(operator.0, right)?);
        let result = match operator.0 {
            "**" => libm::pow(left, right),
            "*" => left * right,
            "/" if right == 0.0 => return Err(EvalError::DivisionByZero),
            "/" => left / right,
            "+" => left + right,
            // `-`
            _ => left - right,
        };
        Ok(Value::Number(Some(result)))
    }

    fn calculate_integer(
        self,
        operator: Operator,
        left: &Value,
        right: &Value,
    ) -> Result<Value, EvalError> {
        let left = self.integer(operator.0, left)?;
        // Go accepts shifts by more than 63 bits. The result is then 0 or -1.
        let shift = || Ok(u32::try_from(self.unsigned(operator.0, right)?).unwrap_or(u32::MAX));
        let right = || self.integer(operator.0, right);
        let result = match operator.0 {
            "<<" => left.checked_shl(shift()?).unwrap_or_default(),
            ">>" => left >> shift()?.min(63),
            "&" => left & right()?,
            "&^" => left & !right()?,
            "|" => left | right()?,
            "^" => left ^ right()?,
            // `%`
            _ => match right()? {
                0 => return Err(EvalError::DivisionByZero),
                right => left.wrapping_rem(right),
            },
        };
        Ok(Value::Number(Some(result as f64)))
    }

    fn compare(self, operator: Operator, left: &Value, right: &Value) -> Result<Value, EvalError> {
        let kind = left.value_type(self.document);
        if kind != right.value_type(self.document) {
            return Ok(Value::Bool(false));
        }
        let order = match (left.as_text(self.document), right.as_text(self.document)) {
            (Some(left), Some(right)) => {
                self.budget.spend(left.len().min(right.len()) / 256)?;
                Some(left.cmp(right))
            }
            _ if kind == Type::Number => {
                self.number(operator.0, left)?.partial_cmp(&self.number(operator.0, right)?)
            }
            _ => return Err(EvalError::Operand(operator.0, "numbers or strings")),
        };
        let is = |accepted: &[Ordering]| order.is_some_and(|order| accepted.contains(&order));
        Ok(Value::Bool(match operator.0 {
            "<" => is(&[Ordering::Less]),
            "<=" => is(&[Ordering::Less, Ordering::Equal]),
            ">" => is(&[Ordering::Greater]),
            // `>=`
            _ => is(&[Ordering::Greater, Ordering::Equal]),
        }))
    }

    /// The operator `=~`.
    fn matches(self, left: &Value, right: &Value) -> Result<Value, EvalError> {
        let operands = (left.as_text(self.document), right.as_text(self.document));
        let (Some(text), Some(pattern)) = operands else {
            return Err(EvalError::Operand("=~", "two strings"));
        };
        Ok(Value::Bool(self.budget.is_match(pattern, text)?))
    }

    /// Whether two values have equal types and contents. The depth of the document limits the
    /// recursion.
    fn equal(self, left: &Value, right: &Value) -> Result<bool, EvalError> {
        self.budget.spend(1)?;
        let kind = left.value_type(self.document);
        if kind != right.value_type(self.document) {
            return Ok(false);
        }
        match kind {
            Type::Null => return Ok(true),
            Type::Number => {
                #[expect(clippy::float_cmp, reason = "the operator compares exactly")]
                return Ok(self.number("==", left)? == self.number("==", right)?);
            }
            Type::Bool => return Ok(left.as_bool(self.document) == right.as_bool(self.document)),
            Type::Text => {
                let (left, right) = (left.as_text(self.document), right.as_text(self.document));
                self.budget.spend(left.map_or(0, <[u8]>::len) / 256)?;
                return Ok(left == right);
            }
            Type::Array | Type::Object => {}
        }
        let (first, second) = (left.children(self.document), right.children(self.document));
        if first.len() != second.len() {
            return Ok(false);
        }
        for (at, (left, right)) in first.iter().zip(second.iter()).enumerate() {
            self.budget.spend(first.key_at(at).map_or(0, <[u8]>::len) / 256)?;
            let is_same_key = first.key_at(at) == second.key_at(at);
            if !is_same_key || !self.equal(&left, &right)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
