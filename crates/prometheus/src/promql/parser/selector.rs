//! Parses selectors and what can follow an operand: a range, a subquery, `offset` and `@`.

use hpa_go_compat::regex::{GoRegex, RegexProblem};

use super::{
    super::{
        Expr, Matcher, Node, Selector, Type, Wrapper,
        lexer::{Token, unescape},
    },
    ParseResult, Parser, expr, fail, is_number, wrapped,
};
use crate::rules::config::parse_duration;

/// The maximum size of a compiled regular expression in bytes.
const MAX_REGEX_SIZE: usize = 1 << 20;

impl<'q> Parser<'q> {
    /// Parses the matchers of a selector. Its name, if any, has been parsed.
    pub(super) fn parse_selector(&mut self, at: usize, name: &'q str) -> ParseResult<Expr<'q>> {
        let mut matchers = Vec::new();
        let brace_at = self.offset();
        let has_braces = self.accept("{");
        if has_braces {
            while !self.accept("}") {
                let matcher = self.parse_matcher()?;
                if matcher.label == "__name__" && !name.is_empty() {
                    return fail(at, format!("the name is set twice, by `{name}` and `__name__`"));
                }
                matchers.push(matcher);
                if !self.accept(",") && self.peek() != Some(Token::Symbol("}")) {
                    return self.unexpected("`,` or `}`");
                }
            }
        }
        if name.is_empty() && matchers.iter().all(|matcher| matcher.accepts_empty) {
            return fail(at, "a selector needs a name, or a matcher that doesn't match \"\"");
        }
        let first_matcher_at = has_braces.then_some(brace_at + 1);
        let selector = Selector { name, matchers, first_matcher_at };
        Ok(expr(at, Node::Selector(selector), Type::InstantVector))
    }

    /// Parses a label name. Names with other characters than letters, digits and `_` are quoted.
    pub(super) fn parse_label(&mut self) -> ParseResult<&'q str> {
        let label = match self.peek() {
            Some(Token::Word(label)) if !label.contains(':') => label,
            // An escape is refused, because a label would then have several spellings.
            Some(Token::Text(label)) if !label.contains('\\') => label,
            _ => return self.unexpected("the name of a label"),
        };
        self.position += 1;
        Ok(label)
    }

    fn parse_matcher(&mut self) -> ParseResult<Matcher<'q>> {
        let start = self.offset();
        let is_name = matches!(self.peek(), Some(Token::Text(_)));
        let label = self.parse_label()?;
        if is_name && matches!(self.peek(), Some(Token::Symbol("," | "}"))) {
            let (label, value, source) = ("__name__", label, label);
            return Ok(Matcher { label, operator: "=", value, accepts_empty: false, source });
        }
        let Some(Token::Symbol(operator @ ("=" | "!=" | "=~" | "!~"))) = self.peek() else {
            return self.unexpected("`=`, `!=`, `=~` or `!~`");
        };
        self.position += 1;
        let Some(Token::Text(value)) = self.peek() else {
            return self.unexpected("a value in quotes");
        };
        let accepts_empty = match operator {
            "=" => value.is_empty(),
            "!=" => !value.is_empty(),
            _ => self.regex_accepts_empty(operator, value)?,
        };
        self.position += 1;
        let source = self.query.get(start..self.offset()).unwrap_or_default().trim_end();
        Ok(Matcher { label, operator, value, accepts_empty, source })
    }

    /// Checks the regular expression of a matcher. Returns whether the matcher accepts series
    /// without the label. Beyond the limits, the expression isn't compiled, and the result is
    /// `false`.
    fn regex_accepts_empty(&mut self, operator: &str, value: &str) -> ParseResult<bool> {
        if self.regexes_left == 0 {
            return Ok(false);
        }
        self.regexes_left -= 1;
        let is_raw = self.query.get(self.offset()..).is_some_and(|rest| rest.starts_with('`'));
        let value = if is_raw { value.to_owned() } else { unescape(value) };
        match GoRegex::with_size_limit(&format!("^(?:{value})$"), MAX_REGEX_SIZE) {
            Ok(regex) => Ok(regex.is_match("") == (operator == "=~")),
            Err(error) if error.problem == RegexProblem::TooLarge => Ok(false),
            Err(error) => self.error(error.to_string()),
        }
    }

    /// Parses ranges, subqueries, `offset` and `@` after an operand.
    pub(super) fn parse_modifiers(&mut self, mut operand: Expr<'q>) -> ParseResult<Expr<'q>> {
        loop {
            let at = self.offset();
            let can_shift = matches!(
                operand.node,
                Node::Selector(_) | Node::Wrapped(Wrapper::Range | Wrapper::Subquery, _)
            );
            if self.accept("[") {
                operand = self.parse_range(at, operand)?;
            } else if self.accept_word("offset") {
                if !can_shift || operand.has_offset {
                    return fail(at, "`offset` must follow a selector or a subquery, once");
                }
                self.accept("-");
                self.expect_duration()?;
                operand.has_offset = true;
            } else if self.accept("@") {
                if !can_shift || operand.has_at_modifier {
                    return fail(at, "`@` must follow a selector or a subquery, once");
                }
                self.parse_evaluation_time()?;
                operand.has_at_modifier = true;
            } else {
                return Ok(operand);
            }
        }
    }

    /// Parses the time after `@`: `start()`, `end()`, or seconds since the Unix epoch.
    fn parse_evaluation_time(&mut self) -> ParseResult<()> {
        if self.accept_word("start") || self.accept_word("end") {
            self.expect("(")?;
            return self.expect(")");
        }
        let _ = self.accept("-") || self.accept("+");
        if !matches!(self.peek(), Some(Token::Number(text)) if is_number(text)) {
            return self.unexpected("a time in seconds");
        }
        self.position += 1;
        Ok(())
    }

    /// Parses a range or a subquery after its opening bracket.
    fn parse_range(&mut self, at: usize, operand: Expr<'q>) -> ParseResult<Expr<'q>> {
        self.expect_duration()?;
        let is_subquery = self.accept(":");
        if is_subquery && self.peek() != Some(Token::Symbol("]")) {
            self.expect_duration()?;
        }
        self.expect("]")?;
        let result = operand.result;
        if is_subquery {
            if result != Type::InstantVector {
                return fail(at, format!("a subquery needs an instant vector, not {result}"));
            }
            return Ok(wrapped(at, Wrapper::Subquery, operand, Type::RangeVector));
        }
        if !matches!(operand.node, Node::Selector(_)) {
            let message = "a range must follow a selector: for an expression, use a subquery, such \
                           as [5m:1m]";
            return fail(at, message);
        }
        if operand.has_offset || operand.has_at_modifier {
            return fail(at, "a range must be before `offset` and `@`");
        }
        Ok(wrapped(at, Wrapper::Range, operand, Type::RangeVector))
    }

    fn expect_duration(&mut self) -> ParseResult<()> {
        match self.peek() {
            Some(Token::Number(text)) if is_number(text) || parse_duration(text).is_ok() => {
                self.position += 1;
                Ok(())
            }
            _ => self.unexpected("a duration, such as 5m"),
        }
    }
}
