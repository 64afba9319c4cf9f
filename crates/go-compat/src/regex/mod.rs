//! Go's regular expressions (RE2 syntax) on the `regex` crate.
//!
//! Both engines match in the same way, but their syntax differs: each accepts expressions that the
//! other rejects or interprets differently. [`GoRegex`] therefore parses an expression with Go's
//! grammar and translates it to the syntax of the `regex` crate.

mod class;
#[cfg(test)]
mod tests;
mod translate;

use regex::{Captures, Regex, RegexBuilder};

use translate::Translation;

use crate::is_word_char;

/// The maximum length of an expression in bytes.
const MAX_REGEX_LEN: usize = 1 << 14;
/// The maximum size of the compiled program of an expression in bytes.
const MAX_PROGRAM_SIZE: usize = 1 << 20;
/// The maximum memory of a search in bytes.
///
/// For each state of the program, a search stores 32 bytes for each group (16 for each of its two
/// bounds) and 32 bytes for the match. A state of the program takes about 32 bytes as well. So a
/// search needs up to the size of the program for each group, and once more for the match.
const MAX_SEARCH_SIZE: usize = 1 << 23;
/// The sizes that [`GoRegex::new`] tries in turn, because a program's size can't be read.
const PROGRAM_SIZES: [usize; 5] = [1 << 12, 1 << 14, 1 << 16, 1 << 18, MAX_PROGRAM_SIZE];
/// The maximum size in bytes of the cache of states that searches with an expression use. It isn't
/// part of [`MAX_SEARCH_SIZE`].
const DFA_SIZE_LIMIT: usize = 1 << 21;

/// A regular expression with Go's syntax and semantics.
#[derive(Clone, Debug)]
pub struct GoRegex {
    regex: Regex,
    expression: String,
    /// The names of the groups. Groups without a name have an empty one.
    group_names: Vec<String>,
    max_program_size: usize,
}

impl GoRegex {
    /// Compiles an expression (Go's `regexp.Compile`).
    pub fn new(expression: &str) -> Result<Self, RegexError> {
        Self::compile(expression, &PROGRAM_SIZES)
    }

    /// Compiles a tenant's expression. Its program may have at most `size_limit` bytes, because the
    /// time of a search is proportional to that size.
    pub fn with_size_limit(expression: &str, size_limit: usize) -> Result<Self, RegexError> {
        Self::compile(expression, &[size_limit.min(MAX_PROGRAM_SIZE)])
    }

    /// Compiles with the first limit that suffices.
    fn compile(expression: &str, size_limits: &[usize]) -> Result<Self, RegexError> {
        let too_large = || error(RegexProblem::TooLarge, expression);
        if expression.len() > MAX_REGEX_LEN {
            return Err(too_large());
        }
        let Translation { pattern, group_names } = translate::translate(expression)?;
        let size_limit_for_groups = MAX_SEARCH_SIZE / (group_names.len() + 1);
        let build = |size_limit: &usize| {
            let size_limit = size_limit_for_groups.min(*size_limit);
            let mut builder = RegexBuilder::new(&pattern);
            builder.size_limit(size_limit).dfa_size_limit(DFA_SIZE_LIMIT);
            Some((builder.build().ok()?, size_limit))
        };
        let compiled = size_limits.iter().find_map(build);
        let (regex, max_program_size) = compiled.ok_or_else(too_large)?;
        Ok(Self { regex, expression: expression.to_owned(), group_names, max_program_size })
    }

    /// An upper bound in bytes of the memory of a search, and of the compiled program. With
    /// [`GoRegex::new`], the bound is at most four times too high, unless the program is smaller
    /// than 4 KiB: then it is 4 KiB for each group and for the match.
    pub fn max_search_size(&self) -> usize {
        self.max_program_size * (self.group_count() + 1)
    }

    /// The expression that was compiled.
    pub fn as_str(&self) -> &str {
        &self.expression
    }

    /// Whether any part of the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The number of groups.
    pub fn group_count(&self) -> usize {
        self.group_names.len()
    }

    /// The index of the group with this name, counted from 1. If several groups have the name, it
    /// is the index of the last one.
    pub fn group_index(&self, name: &str) -> Option<usize> {
        self.group_names.iter().rposition(|group| group == name).map(|index| index + 1)
    }

    /// Returns the text of a group in the first match, or an empty text if the group matched
    /// nothing or doesn't exist. `None` if the expression doesn't match.
    pub fn group<'t>(&self, text: &'t str, index: usize) -> Option<&'t str> {
        let captures = self.regex.captures(text)?;
        Some(captures.get(index).map_or("", |group| group.as_str()))
    }

    /// Replaces `$1`, `${1}`, `$name`, `${name}` and `$$` in the template with groups of the first
    /// match (Go's `ExpandString`). `None` if nothing matches.
    ///
    /// Names are as long as possible: `$1_x` is the group `1_x`. A group that doesn't exist is
    /// empty. A `$` that doesn't start a reference is kept.
    pub fn expand(&self, template: &str, text: &str) -> Option<String> {
        let captures = self.regex.captures(text)?;
        let expand = |part| match part {
            TemplatePart::Text(text) => text,
            TemplatePart::Reference(name) => self.group_text(&captures, name),
        };
        Some(template_parts(template).into_iter().map(expand).collect())
    }

    /// The references in a template (for [`expand`](Self::expand)) to groups that don't exist.
    pub fn unknown_references<'t>(&self, template: &'t str) -> Vec<&'t str> {
        let is_known = |name: &str| match group_number(name) {
            Some(index) => index <= self.group_count(),
            None => self.group_index(name).is_some(),
        };
        let unknown = |part| match part {
            TemplatePart::Reference(name) if !is_known(name) => Some(name),
            _ => None,
        };
        template_parts(template).into_iter().filter_map(unknown).collect()
    }

    /// The text of the group that a reference names. If several groups have the name, it is that of
    /// the first one that matched.
    fn group_text<'t>(&self, captures: &Captures<'t>, name: &str) -> &'t str {
        let group = |index: usize| captures.get(index).map(|group| group.as_str());
        if let Some(index) = group_number(name) {
            return group(index).unwrap_or_default();
        }
        let mut named = self.group_names.iter().enumerate().filter(|(_, group)| *group == name);
        named.find_map(|(index, _)| group(index + 1)).unwrap_or_default()
    }
}

/// A part of a template for [`GoRegex::expand`].
enum TemplatePart<'t> {
    Text(&'t str),
    /// The number or the name of a group.
    Reference(&'t str),
}

/// Splits a template at its references. `$$`, and a `$` that doesn't start a reference, are the
/// text `$`.
fn template_parts(template: &str) -> Vec<TemplatePart<'_>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        parts.push(TemplatePart::Text(before));
        if let Some((name, after)) = parse_reference(after) {
            parts.push(TemplatePart::Reference(name));
            rest = after;
        } else {
            parts.push(TemplatePart::Text("$"));
            rest = after.strip_prefix('$').unwrap_or(after);
        }
    }
    parts.push(TemplatePart::Text(rest));
    parts
}

/// Parses the group number of a reference. Go treats a number with a leading zero as a name.
fn group_number(name: &str) -> Option<usize> {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = name.len() > 1 && name.starts_with('0');
    // No group has a number that overflows.
    (is_number && !has_leading_zero).then(|| name.parse().unwrap_or(usize::MAX))
}

/// The name of a reference after its `$`, and the rest.
fn parse_reference(text: &str) -> Option<(&str, &str)> {
    let is_braced = text.starts_with('{');
    let start = text.strip_prefix('{').unwrap_or(text);
    let rest = start.trim_start_matches(is_word_char);
    let name = start.strip_suffix(rest).filter(|name| !name.is_empty())?;
    Some((name, if is_braced { rest.strip_prefix('}')? } else { rest }))
}

/// An error with the text of Go's `regexp/syntax`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}: `{expression}`")]
pub struct RegexError {
    /// The kind of error.
    pub problem: RegexProblem,
    /// The part of the expression that is wrong.
    pub expression: String,
}

/// The kind of error in an expression. `Display` writes Go's text for it, except for
/// [`Self::TotalTooLarge`], which Go doesn't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegexProblem {
    /// A range of characters is empty, or the name of a class is unknown or not closed.
    #[error("invalid character class range")]
    InvalidRange,
    /// A backslash before a character that can't be escaped.
    #[error("invalid escape sequence")]
    InvalidEscape,
    /// The name of a group is empty, not closed, or has other characters than letters, digits and
    /// underscores. RE2 also takes the start of a look-behind for a name.
    #[error("invalid named capture")]
    InvalidGroupName,
    /// `(?` with an unknown flag, or a look-ahead, which RE2 doesn't have.
    #[error("invalid or unsupported Perl syntax")]
    InvalidPerlSyntax,
    /// A repetition of a repetition, such as `a**`.
    #[error("invalid nested repetition operator")]
    NestedRepetition,
    /// A repetition with a maximum below its minimum, or of more than 1000 times. The counts of
    /// nested repetitions are multiplied.
    #[error("invalid repeat count")]
    InvalidRepeatCount,
    /// A class without a closing bracket.
    #[error("missing closing ]")]
    MissingBracket,
    /// A group without a closing parenthesis.
    #[error("missing closing )")]
    MissingParenthesis,
    /// A repetition operator at the start of the expression, of a group or of an alternative.
    #[error("missing argument to repetition operator")]
    MissingRepetitionArgument,
    /// The last character is a backslash.
    #[error("trailing backslash at end of expression")]
    TrailingBackslash,
    /// A closing parenthesis without an opening one.
    #[error("unexpected )")]
    UnexpectedParenthesis,
    /// Groups are nested too deeply.
    #[error("expression nests too deeply")]
    TooDeep,
    /// The expression is too long, or its program or a search with it needs too much memory.
    #[error("expression too large")]
    TooLarge,
    /// Searches with several expressions together need too much memory. Compiling a single
    /// expression doesn't return it.
    #[error("expressions too large together")]
    TotalTooLarge,
}

fn error(problem: RegexProblem, expression: &str) -> RegexError {
    RegexError { problem, expression: expression.to_owned() }
}

/// The part of `text` before `rest`, which is the end of `text`.
fn consumed<'e>(text: &'e str, rest: &str) -> &'e str {
    text.strip_suffix(rest).unwrap_or(text)
}
