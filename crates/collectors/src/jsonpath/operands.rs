//! The document and the budget of an evaluation, and the conversions of operands.

use crate::jsonpath::{
    budget::Budget,
    document::Document,
    error::EvalError,
    math,
    value::{NoNumber, Type, Value},
};

/// An evaluation in a document. Paths, functions and operators extend it in their files.
#[derive(Clone, Copy)]
pub(crate) struct Evaluation<'e> {
    pub(crate) document: &'e Document,
    pub(crate) budget: &'e Budget,
}

impl Evaluation<'_> {
    /// Returns an operand of the function or operator `name` as a number.
    pub(crate) fn number(self, name: &'static str, value: &Value) -> Result<f64, EvalError> {
        value.number(self.document).map_err(|error| match error {
            NoNumber::OtherType => EvalError::Operand(name, "a number"),
            NoNumber::TooLarge => EvalError::new("a number is too large"),
        })
    }

    pub(crate) fn integer(self, name: &'static str, value: &Value) -> Result<i64, EvalError> {
        let number = self.number(name, value)?;
        // Also false for NaN and infinities.
        if number % 1.0 == 0.0 {
            Ok(math::to_integer(number))
        } else {
            Err(EvalError::Operand(name, "an integer"))
        }
    }

    pub(crate) fn unsigned(self, name: &'static str, value: &Value) -> Result<u64, EvalError> {
        let integer = self.integer(name, value)?;
        u64::try_from(integer).map_err(|_| EvalError::Operand(name, "an integer of at least 0"))
    }

    /// Whether a value counts as true. 0, null, false, and empty strings, arrays and objects don't.
    pub(crate) fn is_true(self, value: &Value) -> Result<bool, EvalError> {
        Ok(match value.value_type(self.document) {
            Type::Null => false,
            Type::Bool => value.as_bool(self.document).unwrap_or_default(),
            Type::Number => self.number("a condition", value)? != 0.0,
            Type::Text => value.as_text(self.document).is_some_and(|text| !text.is_empty()),
            Type::Array | Type::Object => value.children(self.document).len() > 0,
        })
    }
}
