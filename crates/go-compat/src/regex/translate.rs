//! Translates Go's syntax to that of the `regex` crate.
//!
//! The translator writes the output in one pass. It stores where the last atom (the operand of a
//! repetition) starts in the output, because a repetition wraps that atom. Flags are not copied:
//! each atom is written so that it matches as the flags at this place demand.

use std::fmt::Write as _;

use super::{
    RegexError, RegexProblem,
    class::{self, NOTHING, escape},
    consumed, error,
};

/// The maximum product of nested repetition counts.
const MAX_REPEAT: u32 = 1000;
/// The maximum depth of groups.
const MAX_DEPTH: usize = 200;

pub(super) struct Translation {
    pub(super) pattern: String,
    /// The names of the groups. Groups without a name have an empty one.
    pub(super) group_names: Vec<String>,
}

pub(super) fn translate(expression: &str) -> Result<Translation, RegexError> {
    let mut translator = Translator {
        expression,
        rest: expression,
        pattern: String::with_capacity(2 * expression.len()),
        ..Translator::default()
    };
    while !translator.rest.is_empty() {
        translator.repetition = translator.translate_next()?;
    }
    if !translator.groups.is_empty() {
        return Err(error(RegexProblem::MissingParenthesis, expression));
    }
    Ok(Translation { pattern: translator.pattern, group_names: translator.group_names })
}

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the syntax")]
struct Flags {
    ignore_case: bool,
    multi_line: bool,
    dot_matches_newline: bool,
    swap_greed: bool,
}

/// A part of the expression that a repetition can apply to.
#[derive(Clone, Copy)]
struct Atom {
    /// The offset of its start in the output.
    start: usize,
    /// The product of the nested repetition counts in it.
    repeats: u32,
}

/// The atoms so far of the innermost open group, or of the expression outside of groups.
#[derive(Clone, Copy, Default)]
struct GroupAtoms {
    /// The last atom of the current alternative.
    last: Option<Atom>,
    /// The largest [`Atom::repeats`] of all atoms before `last`, also of earlier alternatives.
    earlier_repeats: u32,
}

/// An open group, with the state to restore when it closes.
struct Group {
    /// The offset of the group in the output.
    start: usize,
    outer_atoms: GroupAtoms,
    outer_flags: Flags,
}

#[derive(Default)]
struct Translator<'e> {
    expression: &'e str,
    rest: &'e str,
    pattern: String,
    group_names: Vec<String>,
    flags: Flags,
    groups: Vec<Group>,
    atoms: GroupAtoms,
    /// The text from the last repetition on, if the last part was a repetition.
    repetition: Option<&'e str>,
}

impl<'e> Translator<'e> {
    /// Translates the next part. If that is a repetition, returns the text from its operator on.
    fn translate_next(&mut self) -> Result<Option<&'e str>, RegexError> {
        let start = self.rest;
        let mut chars = start.chars();
        let first = chars.next().unwrap_or_default();
        self.rest = chars.as_str();
        match first {
            '*' | '+' | '?' => {
                self.repeat(start, &first.to_string(), 1)?;
                return Ok(Some(start));
            }
            '{' => {
                if let Some(count) = RepeatCount::parse(start) {
                    self.rest = count.rest;
                    self.repeat_counted(start, &count)?;
                    return Ok(Some(start));
                }
                self.push_literal('{'.into());
            }
            '(' if self.rest.starts_with('?') => self.open_special_group(start)?,
            '(' => {
                self.group_names.push(String::new());
                self.open_group("(")?;
            }
            ')' => self.close_group()?,
            '|' => {
                self.end_atom();
                self.pattern.push('|');
            }
            '^' => self.push_atom(if self.flags.multi_line { "(?m:^)" } else { r"\A" }),
            '$' => self.push_atom(if self.flags.multi_line { "(?m:$)" } else { r"\z" }),
            '.' => {
                self.push_atom(if self.flags.dot_matches_newline { "(?s:.)" } else { r"[^\n]" });
            }
            '[' => {
                let (class, rest) = class::bracketed_class(start)?;
                self.push_class(rest, &class);
            }
            '\\' => self.translate_escape(start)?,
            char => self.push_literal(char.into()),
        }
        Ok(None)
    }

    /// Translates a backslash and what it escapes. `start` is the text from the backslash on.
    fn translate_escape(&mut self, start: &'e str) -> Result<(), RegexError> {
        let mut chars = self.rest.chars();
        let letter = chars.next().unwrap_or_default();
        self.rest = chars.as_str();
        match letter {
            'A' => self.push_atom(r"\A"),
            'z' => self.push_atom(r"\z"),
            'b' => self.push_atom(r"(?-u:\b)"),
            'B' => self.push_atom(r"(?-u:\B)"),
            'C' => return Err(error(RegexProblem::InvalidEscape, r"\C")),
            'Q' => {
                let (quoted, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
                quoted.chars().for_each(|char| self.push_literal(char.into()));
                self.rest = rest;
            }
            _ => {
                if let Some((class, rest)) = class::unicode_class(start)? {
                    self.push_class(rest, &class);
                } else if let Some(class) = class::perl_class(letter) {
                    self.push_class(self.rest, class);
                } else {
                    let (code_point, rest) = escape(start)?;
                    self.rest = rest;
                    self.push_literal(code_point);
                }
            }
        }
        Ok(())
    }

    fn push_atom(&mut self, pattern: &str) {
        self.start_atom();
        self.pattern.push_str(pattern);
    }

    /// Appends a translated class. `rest` is the text after it.
    fn push_class(&mut self, rest: &'e str, class: &str) {
        self.rest = rest;
        if self.flags.ignore_case {
            self.push_atom(&format!("(?i:{class})"));
        } else {
            self.push_atom(class);
        }
    }

    fn push_literal(&mut self, code_point: u32) {
        self.start_atom();
        let (opening, closing) = if self.flags.ignore_case { ("(?i:", ")") } else { ("", "") };
        self.pattern.push_str(opening);
        match char::from_u32(code_point) {
            Some(char) if char == '_' || char.is_ascii_alphanumeric() => self.pattern.push(char),
            Some(_) => {
                // Writing to a string can't fail.
                let _ = write!(self.pattern, "\\x{{{code_point:X}}}");
            }
            None => self.pattern.push_str(NOTHING),
        }
        self.pattern.push_str(closing);
    }

    /// Starts an atom at the end of the output.
    fn start_atom(&mut self) {
        self.end_atom();
        self.atoms.last = Some(Atom { start: self.pattern.len(), repeats: 1 });
    }

    /// Ends the last atom: no repetition can follow it.
    fn end_atom(&mut self) {
        if let Some(atom) = self.atoms.last.take() {
            self.atoms.earlier_repeats = self.atoms.earlier_repeats.max(atom.repeats);
        }
    }

    fn repeat_counted(
        &mut self,
        start: &'e str,
        count: &RepeatCount<'e>,
    ) -> Result<(), RegexError> {
        let RepeatCount { min, max, .. } = *count;
        let largest = max.unwrap_or(min);
        if min > MAX_REPEAT || largest > MAX_REPEAT || largest < min {
            return Err(error(RegexProblem::InvalidRepeatCount, consumed(start, count.rest)));
        }
        let operator = match max {
            Some(max) => format!("{{{min},{max}}}"),
            None => format!("{{{min},}}"),
        };
        self.repeat(start, &operator, if max == Some(0) { 0 } else { largest.max(1) })
    }

    /// Repeats the last atom. `start` is the text from the operator on, and `self.rest` must be the
    /// text after it. `count` multiplies [`Atom::repeats`]; 0 resets it.
    fn repeat(&mut self, start: &'e str, operator: &str, count: u32) -> Result<(), RegexError> {
        let mut is_lazy = self.flags.swap_greed;
        if let Some(after) = self.rest.strip_prefix('?') {
            self.rest = after;
            is_lazy = !is_lazy;
        }
        if let Some(first) = self.repetition {
            return Err(error(RegexProblem::NestedRepetition, consumed(first, self.rest)));
        }
        let Some(atom) = self.atoms.last.as_mut() else {
            return Err(error(RegexProblem::MissingRepetitionArgument, consumed(start, self.rest)));
        };
        atom.repeats = if count == 0 { 1 } else { atom.repeats.saturating_mul(count) };
        if count > 1 && atom.repeats > MAX_REPEAT {
            return Err(error(RegexProblem::InvalidRepeatCount, consumed(start, self.rest)));
        }
        let repeated = self.pattern.split_off(atom.start);
        let lazy = if is_lazy { "?" } else { "" };
        let _ = write!(self.pattern, "(?:{repeated}){operator}{lazy}");
        Ok(())
    }

    fn open_group(&mut self, opening: &str) -> Result<(), RegexError> {
        if self.groups.len() == MAX_DEPTH {
            return Err(error(RegexProblem::TooDeep, self.expression));
        }
        let group =
            Group { start: self.pattern.len(), outer_atoms: self.atoms, outer_flags: self.flags };
        self.groups.push(group);
        self.atoms = GroupAtoms::default();
        self.pattern.push_str(opening);
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), RegexError> {
        let Some(group) = self.groups.pop() else {
            return Err(error(RegexProblem::UnexpectedParenthesis, self.expression));
        };
        self.pattern.push(')');
        self.end_atom();
        let repeats = self.atoms.earlier_repeats.max(1);
        self.atoms = group.outer_atoms;
        self.flags = group.outer_flags;
        self.end_atom();
        self.atoms.last = Some(Atom { start: group.start, repeats });
        Ok(())
    }

    /// Translates `(?P<name>`, `(?<name>`, `(?flags)` or `(?flags:`.
    fn open_special_group(&mut self, start: &'e str) -> Result<(), RegexError> {
        let after = start.strip_prefix("(?").unwrap_or_default();
        let named = after.strip_prefix("P<").or_else(|| after.strip_prefix('<'));
        // If nothing follows `(?P<` or `(?<`, Go parses it as flags.
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            return self.parse_flags(start, after);
        };
        let Some((name, rest)) = named.split_once('>') else {
            return Err(error(RegexProblem::InvalidGroupName, start));
        };
        let is_name = |char: char| char == '_' || char.is_ascii_alphanumeric();
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(error(RegexProblem::InvalidGroupName, consumed(start, rest)));
        }
        self.group_names.push(name.to_owned());
        self.rest = rest;
        self.open_group("(")
    }

    /// Parses flags, and opens a group if a colon follows. `after` is the text after `(?`.
    fn parse_flags(&mut self, start: &'e str, after: &'e str) -> Result<(), RegexError> {
        let mut flags = self.flags;
        let mut is_set = true;
        let mut has_flag = false;
        let mut chars = after.chars();
        while let Some(char) = chars.next() {
            match char {
                'i' => flags.ignore_case = is_set,
                'm' => flags.multi_line = is_set,
                's' => flags.dot_matches_newline = is_set,
                'U' => flags.swap_greed = is_set,
                '-' if is_set => {
                    is_set = false;
                    has_flag = false;
                    continue;
                }
                ':' | ')' if is_set || has_flag => {
                    self.rest = chars.as_str();
                    if char == ':' {
                        self.open_group("(?:")?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            has_flag = true;
        }
        Err(error(RegexProblem::InvalidPerlSyntax, consumed(start, chars.as_str())))
    }
}

/// The count of a repetition: `{2}`, `{2,}` or `{2,3}`.
struct RepeatCount<'e> {
    min: u32,
    max: Option<u32>,
    rest: &'e str,
}

impl<'e> RepeatCount<'e> {
    fn parse(text: &'e str) -> Option<Self> {
        let (min, rest) = Self::parse_number(text.strip_prefix('{')?)?;
        if let Some(rest) = rest.strip_prefix('}') {
            return Some(Self { min, max: Some(min), rest });
        }
        let rest = rest.strip_prefix(',')?;
        if let Some(rest) = rest.strip_prefix('}') {
            return Some(Self { min, max: None, rest });
        }
        let (max, rest) = Self::parse_number(rest)?;
        Some(Self { min, max: Some(max), rest: rest.strip_prefix('}')? })
    }

    /// Parses a number without leading zeros. A number out of range becomes `u32::MAX`, which is
    /// also above [`MAX_REPEAT`].
    fn parse_number(text: &str) -> Option<(u32, &str)> {
        let rest = text.trim_start_matches(|char: char| char.is_ascii_digit());
        let digits = consumed(text, rest);
        if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        Some((digits.parse().unwrap_or(u32::MAX), rest))
    }
}
