//! Parses tokens into an expression, with the checks of Prometheus.

use hpa_go_compat::regex::{GoRegex, RegexProblem};

use super::{
    Expr, Grouping, Matcher, Matching, Node, Selector, Side, SyntaxError, Type, Wrapper,
    functions::{self, check_arguments},
    lexer::{Token, tokens, unescape},
};
use crate::rules::config::parse_duration;

/// The maximum depth of expressions. The parser and its callers are recursive.
const MAX_NESTING: usize = 50;
/// The maximum number of operators. Their trees are walked recursively.
const MAX_OPERATORS: usize = 500;
/// The maximum number of regular expressions that are compiled to check them. A tenant's query may
/// have thousands.
const MAX_REGEXES: usize = 50;
/// The maximum size of a compiled regular expression in bytes.
const MAX_REGEX_SIZE: usize = 1 << 20;
/// The precedence of a sign, which binds tighter than all operators but `^`.
const SIGN: u8 = 5;

/// Words that can't be metric names.
const KEYWORDS: [&str; 6] = ["bool", "group_left", "group_right", "ignoring", "on", "atan2"];

/// Parses a query. Its result can have any type.
pub fn parse(query: &str) -> Result<Expr<'_>, SyntaxError> {
    parse_with(query, MAX_REGEXES)
}

/// Like [`parse`], but doesn't check regular expressions, because compiling those of tenants would
/// cost much CPU time. The server checks them.
pub fn parse_without_regexes(query: &str) -> Result<Expr<'_>, SyntaxError> {
    parse_with(query, 0)
}

fn parse_with(query: &str, regexes: usize) -> Result<Expr<'_>, SyntaxError> {
    let tokens = tokens(query)?;
    let mut parser = Parser { tokens, next: 0, query, depth: 0, operators: 0, regexes };
    if parser.tokens.is_empty() {
        return parser.error("the query is empty");
    }
    let expr = parser.expression(0)?;
    if parser.peek().is_some() { parser.unexpected("the end of the query") } else { Ok(expr) }
}

struct Parser<'q> {
    tokens: Vec<(usize, Token<'q>)>,
    next: usize,
    query: &'q str,
    depth: usize,
    operators: usize,
    /// Regular expressions that may still be compiled.
    regexes: usize,
}

type ParseResult<T> = Result<T, SyntaxError>;

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|candidate| word.eq_ignore_ascii_case(candidate))
}

/// The precedence of a binary operator.
fn precedence(token: Token<'_>) -> Option<(&str, u8)> {
    Some(match token {
        Token::Word(word) if is_one_of(word, &["or"]) => (word, 0),
        Token::Word(word) if is_one_of(word, &["and", "unless"]) => (word, 1),
        Token::Word(word) if is_one_of(word, &["atan2"]) => (word, 4),
        Token::Symbol(symbol @ ("==" | "!=" | "<" | "<=" | ">" | ">=")) => (symbol, 2),
        Token::Symbol(symbol @ ("+" | "-")) => (symbol, 3),
        Token::Symbol(symbol @ ("*" | "/" | "%")) => (symbol, 4),
        Token::Symbol(symbol @ "^") => (symbol, 6),
        _ => return None,
    })
}

fn fail<T>(at: usize, message: impl Into<String>) -> ParseResult<T> {
    Err(SyntaxError { at, message: message.into() })
}

impl<'q> Parser<'q> {
    fn peek(&self) -> Option<Token<'q>> {
        self.tokens.get(self.next).map(|(_, token)| *token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.next).map_or(self.query.len(), |(at, _)| *at)
    }

    fn error<T>(&self, message: impl Into<String>) -> ParseResult<T> {
        fail(self.offset(), message)
    }

    fn unexpected<T>(&self, expected: &str) -> ParseResult<T> {
        self.error(match self.peek() {
            Some(Token::Word(text) | Token::Number(text) | Token::Symbol(text)) => {
                format!("`{text}` instead of {expected}")
            }
            Some(Token::Text(_)) => format!("a string instead of {expected}"),
            None => format!("the query ends instead of {expected}"),
        })
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.peek() == Some(Token::Symbol(symbol));
        self.next += usize::from(found);
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found =
            matches!(self.peek(), Some(Token::Word(next)) if next.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> ParseResult<()> {
        if self.accept(symbol) { Ok(()) } else { self.unexpected(&format!("`{symbol}`")) }
    }

    /// Parses an expression whose operators have at least this precedence.
    fn expression(&mut self, min: u8) -> ParseResult<Expr<'q>> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return self.error("the query is nested too deeply");
        }
        let mut left = self.signed()?;
        while let Some((operator, precedence)) = self.peek().and_then(precedence)
            && precedence >= min
        {
            let at = self.offset();
            self.next += 1;
            self.operators += 1;
            if self.operators > MAX_OPERATORS {
                return fail(at, format!("the query has more than {MAX_OPERATORS} operators"));
            }
            let is_comparison = precedence == 2;
            let has_bool = self.accept_word("bool");
            if has_bool && !is_comparison {
                return fail(at, format!("`bool` is only for comparisons, not for `{operator}`"));
            }
            let matching = self.matching()?;
            // Only `^` is right-associative.
            let right =
                self.expression(if operator == "^" { precedence } else { precedence + 1 })?;
            left = binary(at, operator, has_bool, matching, left, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn signed(&mut self) -> ParseResult<Expr<'q>> {
        let at = self.offset();
        if !self.accept("-") && !self.accept("+") {
            let operand = self.primary()?;
            return self.modifiers(operand);
        }
        let operand = self.expression(SIGN)?;
        let result = operand.result;
        if matches!(result, Type::RangeVector | Type::Text) {
            return fail(at, format!("a sign needs a scalar or an instant vector, not {result}"));
        }
        Ok(wrapped(at, Wrapper::Sign, operand, result))
    }

    fn primary(&mut self) -> ParseResult<Expr<'q>> {
        let at = self.offset();
        match self.peek() {
            Some(Token::Number(text)) => {
                if !is_number(text) && parse_duration(text).is_err() {
                    return self.error(format!("`{text}` is neither a number nor a duration"));
                }
                self.next += 1;
                Ok(expr(at, Node::Number, Type::Scalar))
            }
            Some(Token::Text(text)) => {
                self.next += 1;
                Ok(expr(at, Node::Text(text), Type::Text))
            }
            Some(Token::Symbol("(")) => {
                self.next += 1;
                let operand = self.expression(0)?;
                self.expect(")")?;
                let result = operand.result;
                Ok(wrapped(at, Wrapper::Parentheses, operand, result))
            }
            Some(Token::Symbol("{")) => self.selector(at, ""),
            Some(Token::Word(word)) => self.word(at, word),
            _ => self.unexpected("an expression"),
        }
    }

    /// Parses an operand that starts with a word: a function, an aggregation, a selector or a
    /// number.
    fn word(&mut self, at: usize, word: &'q str) -> ParseResult<Expr<'q>> {
        let following = self.tokens.get(self.next + 1).map(|(_, token)| *token);
        // Only recorded series have a colon in their name.
        let is_call = following == Some(Token::Symbol("(")) && !word.contains(':');
        let is_grouped =
            matches!(following, Some(Token::Word(word)) if is_one_of(word, &["by", "without"]));
        let parameters = functions::aggregation(word);
        if let Some(parameters) = parameters.filter(|_| is_call || is_grouped) {
            self.next += 1;
            return self.aggregation(at, word, parameters);
        }
        if is_one_of(word, &["inf", "nan"]) && !is_call {
            self.next += 1;
            return Ok(expr(at, Node::Number, Type::Scalar));
        }
        let is_keyword = is_one_of(word, &KEYWORDS);
        let is_operator = precedence(Token::Word(word)).is_some();
        if is_keyword || is_call && (is_operator || is_one_of(word, &["by", "without", "offset"])) {
            return self.unexpected("an expression");
        }
        self.next += 1;
        if !is_call {
            return self.selector(at, word);
        }
        let arguments = self.arguments()?;
        if let Some(parameters) = functions::parameters(word) {
            check_arguments(word, parameters, arguments.iter().map(|argument| argument.result))
                .or_else(|message| fail(at, message))?;
        }
        Ok(expr(at, Node::Call(word, arguments), functions::result(word)))
    }

    /// Parses the matchers of a selector after its name.
    fn selector(&mut self, at: usize, name: &'q str) -> ParseResult<Expr<'q>> {
        let mut matchers = Vec::new();
        let brace_at = self.offset();
        let has_braces = self.accept("{");
        if has_braces {
            while !self.accept("}") {
                let matcher = self.matcher()?;
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

    /// Parses a label name. It is quoted if it has other characters than letters, digits and `_`.
    fn label(&mut self) -> ParseResult<&'q str> {
        let label = match self.peek() {
            Some(Token::Word(label)) if !label.contains(':') => label,
            // With escapes, a label would have several spellings.
            Some(Token::Text(label)) if !label.contains('\\') => label,
            _ => return self.unexpected("the name of a label"),
        };
        self.next += 1;
        Ok(label)
    }

    fn matcher(&mut self) -> ParseResult<Matcher<'q>> {
        let start = self.offset();
        let is_name = matches!(self.peek(), Some(Token::Text(_)));
        let label = self.label()?;
        if is_name && matches!(self.peek(), Some(Token::Symbol("," | "}"))) {
            let (label, value, source) = ("__name__", label, label);
            return Ok(Matcher { label, operator: "=", value, accepts_empty: false, source });
        }
        let Some(Token::Symbol(operator @ ("=" | "!=" | "=~" | "!~"))) = self.peek() else {
            return self.unexpected("`=`, `!=`, `=~` or `!~`");
        };
        self.next += 1;
        let Some(Token::Text(value)) = self.peek() else {
            return self.unexpected("a value in quotes");
        };
        let accepts_empty = match operator {
            "=" => value.is_empty(),
            "!=" => !value.is_empty(),
            _ => self.regex_accepts_empty(operator, value)?,
        };
        self.next += 1;
        let source = self.query.get(start..self.offset()).unwrap_or_default().trim_end();
        Ok(Matcher { label, operator, value, accepts_empty, source })
    }

    /// Checks the regular expression of a matcher, and whether the matcher accepts series without
    /// the label. Beyond the limits, the expression is left to the server.
    fn regex_accepts_empty(&mut self, operator: &str, value: &str) -> ParseResult<bool> {
        if self.regexes == 0 {
            return Ok(false);
        }
        self.regexes -= 1;
        let is_raw = self.query.get(self.offset()..).is_some_and(|rest| rest.starts_with('`'));
        let value = if is_raw { value.to_owned() } else { unescape(value) };
        match GoRegex::with_size_limit(&format!("^(?:{value})$"), MAX_REGEX_SIZE) {
            Ok(regex) => Ok(regex.is_match("") == (operator == "=~")),
            Err(error) if error.problem == RegexProblem::TooLarge => Ok(false),
            Err(error) => self.error(error.to_string()),
        }
    }

    /// Parses ranges, subqueries, `offset` and `@` after an operand.
    fn modifiers(&mut self, mut operand: Expr<'q>) -> ParseResult<Expr<'q>> {
        loop {
            let at = self.offset();
            let can_shift = matches!(
                operand.node,
                Node::Selector(_) | Node::Wrapped(Wrapper::Range | Wrapper::Subquery, _)
            );
            if self.accept("[") {
                operand = self.range(at, operand)?;
            } else if self.accept_word("offset") {
                if !can_shift || operand.has_offset {
                    return fail(at, "`offset` must follow a selector or a subquery, once");
                }
                self.accept("-");
                self.duration()?;
                operand.has_offset = true;
            } else if self.accept("@") {
                if !can_shift || operand.has_time {
                    return fail(at, "`@` must follow a selector or a subquery, once");
                }
                if self.accept_word("start") || self.accept_word("end") {
                    self.expect("(")?;
                    self.expect(")")?;
                } else {
                    let _ = self.accept("-") || self.accept("+");
                    if !matches!(self.peek(), Some(Token::Number(text)) if is_number(text)) {
                        return self.unexpected("a time in seconds");
                    }
                    self.next += 1;
                }
                operand.has_time = true;
            } else {
                return Ok(operand);
            }
        }
    }

    /// Parses a range or a subquery after its opening bracket.
    fn range(&mut self, at: usize, operand: Expr<'q>) -> ParseResult<Expr<'q>> {
        self.duration()?;
        let is_subquery = self.accept(":");
        if is_subquery && self.peek() != Some(Token::Symbol("]")) {
            self.duration()?;
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
        if operand.has_offset || operand.has_time {
            return fail(at, "a range must be before `offset` and `@`");
        }
        Ok(wrapped(at, Wrapper::Range, operand, Type::RangeVector))
    }

    fn duration(&mut self) -> ParseResult<()> {
        match self.peek() {
            Some(Token::Number(text)) if is_number(text) || parse_duration(text).is_ok() => {
                self.next += 1;
                Ok(())
            }
            _ => self.unexpected("a duration, such as 5m"),
        }
    }

    fn arguments(&mut self) -> ParseResult<Vec<Expr<'q>>> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression(0)?);
            if self.accept(")") {
                return Ok(arguments);
            }
            if !self.accept(",") {
                return self.unexpected("`,` or `)`");
            }
        }
    }

    /// Parses a list of labels in parentheses.
    fn labels(&mut self) -> ParseResult<Vec<&'q str>> {
        self.expect("(")?;
        let mut labels = Vec::new();
        while !self.accept(")") {
            labels.push(self.label()?);
            if !self.accept(",") && self.peek() != Some(Token::Symbol(")")) {
                return self.unexpected("`,` or `)`");
            }
        }
        Ok(labels)
    }

    fn matching(&mut self) -> ParseResult<Matching<'q>> {
        let mut matching = Matching { is_on: self.accept_word("on"), ..Matching::default() };
        if !matching.is_on && !self.accept_word("ignoring") {
            return Ok(matching);
        }
        matching.labels = self.labels()?;
        if self.accept_word("group_left") {
            matching.many = Some(Side::Left);
        } else if self.accept_word("group_right") {
            matching.many = Some(Side::Right);
        }
        if matching.many.is_some() && self.peek() == Some(Token::Symbol("(")) {
            matching.include = self.labels()?;
        }
        Ok(matching)
    }

    fn grouping(&mut self) -> ParseResult<Option<Grouping<'q>>> {
        let is_by = self.accept_word("by");
        if !is_by && !self.accept_word("without") {
            return Ok(None);
        }
        Ok(Some(Grouping { is_by, labels: self.labels()? }))
    }

    fn aggregation(
        &mut self,
        at: usize,
        name: &'q str,
        parameters: &'static str,
    ) -> ParseResult<Expr<'q>> {
        let before = self.grouping()?;
        let arguments = self.arguments()?;
        let grouping = if before.is_some() { before } else { self.grouping()? };
        check_arguments(name, parameters, arguments.iter().map(|argument| argument.result))
            .or_else(|message| fail(at, message))?;
        Ok(expr(at, Node::Aggregation(name, grouping, arguments), Type::InstantVector))
    }
}

fn expr(at: usize, node: Node<'_>, result: Type) -> Expr<'_> {
    Expr { at, node, result, has_offset: false, has_time: false }
}

fn wrapped(at: usize, wrapper: Wrapper, inner: Expr<'_>, result: Type) -> Expr<'_> {
    expr(at, Node::Wrapped(wrapper, Box::new(inner)), result)
}

fn is_number(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    match lower.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
        None => {
            lower.ends_with(|char: char| char.is_ascii_digit() || char == '.')
                && lower.parse::<f64>().is_ok()
        }
    }
}

/// Checks a binary expression.
fn binary<'q>(
    at: usize,
    operator: &'q str,
    has_bool: bool,
    matching: Matching<'q>,
    left: Expr<'q>,
    right: Expr<'q>,
) -> ParseResult<Expr<'q>> {
    let types = [left.result, right.result];
    if let Some(wrong) =
        types.iter().find(|result| matches!(result, Type::RangeVector | Type::Text))
    {
        return fail(at, format!("`{operator}` needs scalars or instant vectors, not {wrong}"));
    }
    let is_set = is_one_of(operator, &["and", "or", "unless"]);
    let has_scalar = types.contains(&Type::Scalar);
    let is_scalar = types == [Type::Scalar; 2];
    if has_scalar && is_set {
        return fail(at, format!("`{operator}` needs instant vectors, not a scalar"));
    }
    let is_comparison = ["==", "!=", "<", "<=", ">", ">="].contains(&operator);
    if is_scalar && is_comparison && !has_bool {
        return fail(at, format!("a comparison of scalars needs `{operator} bool`"));
    }
    if has_scalar && (matching.is_on || !matching.labels.is_empty() || matching.many.is_some()) {
        return fail(at, "`on` and `ignoring` are only for instant vectors");
    }
    if is_set && matching.many.is_some() {
        return fail(at, format!("`{operator}` can't have `group_left` or `group_right`"));
    }
    let both = matching.include.iter().find(|label| matching.labels.contains(label));
    if let Some(label) = both.filter(|_| matching.is_on) {
        return fail(at, format!("the label {label} is in `on` and in the group modifier"));
    }
    let result = if is_scalar { Type::Scalar } else { Type::InstantVector };
    Ok(expr(at, Node::Binary(operator, matching, Box::new([left, right])), result))
}
