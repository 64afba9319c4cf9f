//! Errors of regular expressions, with the texts of Go's `regexp/syntax`.

use std::fmt;

/// Why a regular expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}: `{expression}`")]
pub struct RegexError {
    /// What is wrong.
    pub problem: RegexProblem,
    /// The part of the expression that is wrong.
    pub expression: String,
}

/// What is wrong with a regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegexProblem {
    /// A range of characters is empty, or a class has an unknown name.
    InvalidRange,
    /// A backslash before a character that can't be escaped.
    InvalidEscape,
    /// The name of a group is empty, has other characters than letters, digits and underscores, or
    /// is used twice.
    InvalidGroupName,
    /// `(?` with an unknown flag, or a look-around, which RE2 doesn't have.
    InvalidPerlSyntax,
    /// A repetition of a repetition, such as `a**`.
    NestedRepetition,
    /// A repetition of more than 1000 times, or with a maximum below its minimum.
    InvalidRepeatCount,
    /// A class without its bracket.
    MissingBracket,
    /// A group without its parenthesis.
    MissingParenthesis,
    /// Nothing to repeat.
    MissingRepetitionArgument,
    /// The last character is a backslash.
    TrailingBackslash,
    /// A parenthesis without a group.
    UnexpectedParenthesis,
    /// Groups are nested too deeply.
    TooDeep,
    /// The expression needs too much memory.
    TooLarge,
}

impl fmt::Display for RegexProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidRange => "invalid character class range",
            Self::InvalidEscape => "invalid escape sequence",
            Self::InvalidGroupName => "invalid named capture",
            Self::InvalidPerlSyntax => "invalid or unsupported Perl syntax",
            Self::NestedRepetition => "invalid nested repetition operator",
            Self::InvalidRepeatCount => "invalid repeat count",
            Self::MissingBracket => "missing closing ]",
            Self::MissingParenthesis => "missing closing )",
            Self::MissingRepetitionArgument => "missing argument to repetition operator",
            Self::TrailingBackslash => "trailing backslash at end of expression",
            Self::UnexpectedParenthesis => "unexpected )",
            Self::TooDeep => "expression nests too deeply",
            Self::TooLarge => "expression too large",
        })
    }
}

pub(super) fn error(problem: RegexProblem, expression: &str) -> RegexError {
    RegexError { problem, expression: expression.to_owned() }
}

/// The part of a text before its end `rest`.
pub(super) fn before<'e>(text: &'e str, rest: &str) -> &'e str {
    text.strip_suffix(rest).unwrap_or(text)
}
