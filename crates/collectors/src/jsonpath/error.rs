//! Errors of an extraction.

use std::borrow::Cow;

use hpa_calc::report::error_texts;

/// A failed extraction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The path has invalid syntax.
    #[error("invalid path at byte {position}: {problem}")]
    Path { position: usize, problem: &'static str },
    /// The document is not JSON, or exceeds a limit.
    #[error("{}{problem} at byte {position}", error_texts::INVALID_DOCUMENT)]
    Document { position: usize, problem: &'static str },
    /// The path or expression can't be evaluated for the document.
    #[error("{start}{0}", start = error_texts::EVALUATION_FAILED)]
    Evaluation(String),
    #[error("{}", error_texts::PATH_SELECTS_NOTHING)]
    Empty,
    /// Several values, or an array, but no aggregator.
    #[error("{}", error_texts::NO_AGGREGATOR)]
    NoAggregator,
    #[error("{}", error_texts::ONE_IS_NOT_NUMERIC)]
    NotNumeric,
    /// The only value is of this type, which can't be a result.
    #[error("the value is {0}{end}", end = error_texts::OF_ANOTHER_TYPE)]
    Type(&'static str),
    /// The value is a number that a 64-bit float can't represent.
    #[error("the number is too large")]
    TooLarge,
}

/// A failed evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvalError {
    #[error("invalid syntax at byte {0} of {1:?}")]
    Syntax(usize, String),
    #[error("{0:?} is incomplete")]
    Incomplete(String),
    #[error("{0:?} is not an index")]
    Index(String),
    #[error("invalid slice {0:?}")]
    Slice(String),
    #[error("{0} needs {1}")]
    Operand(&'static str, &'static str),
    #[error("division by zero")]
    DivisionByZero,
    #[error("a step of the path needs a value that is missing")]
    Missing,
    #[error("more than {0} steps")]
    TooManySteps(u64),
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl EvalError {
    pub(crate) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Other(message.into())
    }
}

impl From<EvalError> for ExtractError {
    fn from(error: EvalError) -> Self {
        Self::Evaluation(error.to_string())
    }
}

/// Truncates a path or an expression for errors.
pub(crate) fn abbreviated(text: &[u8]) -> String {
    const MAX_BYTES: usize = 120;
    match text.split_at_checked(MAX_BYTES) {
        Some((cut, [_, ..])) => String::from_utf8_lossy(cut).into_owned() + "...",
        _ => String::from_utf8_lossy(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::shorter(119, "")]
    #[case::equal(120, "")]
    #[case::longer(121, "...")]
    fn only_texts_over_the_limit_are_abbreviated(#[case] bytes: usize, #[case] ellipsis: &str) {
        let expected = "x".repeat(bytes.min(120)) + ellipsis;
        assert_eq!(abbreviated("x".repeat(bytes).as_bytes()), expected);
    }
}
