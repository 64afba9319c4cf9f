//! Parses tokens into an expression, with the checks of Prometheus.

mod selector;

use super::{
    COMPARISONS, Expr, Grouping, Matching, Node, SET_OPERATORS, Side, SyntaxError, Type, Wrapper,
    functions::{self, check_arguments},
    lexer::{Token, tokenize},
};
use crate::rules::config::parse_duration;

/// The maximum depth of expressions, because the parser and its callers are recursive.
const MAX_NESTING: usize = 50;
/// The maximum number of binary operators, because their trees are walked recursively.
const MAX_OPERATORS: usize = 500;
/// At most this many regular expressions of a query are compiled to check them. The others are
/// accepted unchecked.
const MAX_REGEXES: usize = 50;
/// The precedence of a sign, which binds tighter than all operators but `^`.
const SIGN_PRECEDENCE: u8 = 5;

/// Keywords that can't start an operand, in upper or lower case. Other keywords may be names of
/// metrics.
const NEVER_OPERANDS: [&str; 6] = ["bool", "group_left", "group_right", "ignoring", "on", "atan2"];

/// Parses a query. The type of the result isn't restricted.
pub fn parse(query: &str) -> Result<Expr<'_>, SyntaxError> {
    parse_with_limit(query, MAX_REGEXES)
}

/// Like [`parse`], but leaves the check of regular expressions to the server: compiling those of
/// tenants would cost much CPU time.
pub fn parse_without_regex_checks(query: &str) -> Result<Expr<'_>, SyntaxError> {
    parse_with_limit(query, 0)
}

/// Parses a query, and compiles at most `max_regexes` of its regular expressions.
fn parse_with_limit(query: &str, max_regexes: usize) -> Result<Expr<'_>, SyntaxError> {
    let mut parser = Parser {
        tokens: tokenize(query)?,
        position: 0,
        query,
        depth: 0,
        operator_count: 0,
        regexes_left: max_regexes,
    };
    if parser.tokens.is_empty() {
        return parser.error("the query is empty");
    }
    let expr = parser.parse_expression(0)?;
    if parser.peek().is_some() { parser.unexpected("the end of the query") } else { Ok(expr) }
}

struct Parser<'q> {
    /// The tokens with their byte offsets.
    tokens: Vec<(usize, Token<'q>)>,
    /// The position of the next token.
    position: usize,
    query: &'q str,
    /// The nesting depth of the current expression. The outermost one has 1.
    depth: usize,
    /// The number of binary operators so far.
    operator_count: usize,
    /// The number of regular expressions that may still be compiled.
    regexes_left: usize,
}

type ParseResult<T> = Result<T, SyntaxError>;

/// Whether a keyword, such as an operator or an aggregation, is one of `words`. Case doesn't
/// matter.
pub fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|candidate| word.eq_ignore_ascii_case(candidate))
}

/// The binary operator that a token is, and its precedence.
fn binary_operator(token: Token<'_>) -> Option<(&str, u8)> {
    Some(match token {
        Token::Word(word) if is_one_of(word, &["or"]) => (word, 0),
        Token::Word(word) if is_one_of(word, &["and", "unless"]) => (word, 1),
        Token::Word(word) if is_one_of(word, &["atan2"]) => (word, 4),
        Token::Symbol(symbol) if COMPARISONS.contains(&symbol) => (symbol, 2),
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
        self.tokens.get(self.position).map(|(_, token)| *token)
    }

    /// The byte offset of the next token.
    fn offset(&self) -> usize {
        self.tokens.get(self.position).map_or(self.query.len(), |(at, _)| *at)
    }

    /// Fails with a message about the next token.
    fn error<T>(&self, message: impl Into<String>) -> ParseResult<T> {
        fail(self.offset(), message)
    }

    fn unexpected<T>(&self, expected: &str) -> ParseResult<T> {
        self.error(match self.peek() {
            Some(Token::Word(text) | Token::Number(text) | Token::Symbol(text)) => {
                format!("`{text}` instead of {expected}")
            }
            Some(Token::Text(_)) => format!("a string instead of {expected}"),
            None => format!("the query ends where {expected} is expected"),
        })
    }

    /// Skips the next token if it is `symbol`. Returns whether it was.
    fn accept(&mut self, symbol: &str) -> bool {
        let is_next = self.peek() == Some(Token::Symbol(symbol));
        self.position += usize::from(is_next);
        is_next
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is_next =
            matches!(self.peek(), Some(Token::Word(next)) if next.eq_ignore_ascii_case(word));
        self.position += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, symbol: &str) -> ParseResult<()> {
        if self.accept(symbol) { Ok(()) } else { self.unexpected(&format!("`{symbol}`")) }
    }

    /// Parses an expression whose binary operators have at least this precedence.
    fn parse_expression(&mut self, min_precedence: u8) -> ParseResult<Expr<'q>> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return self.error("the query is nested too deeply");
        }
        let mut left = self.parse_signed()?;
        while let Some((operator, precedence)) = self.peek().and_then(binary_operator)
            && precedence >= min_precedence
        {
            let at = self.offset();
            self.position += 1;
            self.operator_count += 1;
            if self.operator_count > MAX_OPERATORS {
                return fail(at, format!("the query has more than {MAX_OPERATORS} operators"));
            }
            let is_comparison = COMPARISONS.contains(&operator);
            let has_bool = self.accept_word("bool");
            if has_bool && !is_comparison {
                return fail(at, format!("`bool` is only for comparisons, not for `{operator}`"));
            }
            let matching = self.parse_matching()?;
            // Only `^` is right-associative.
            let right =
                self.parse_expression(if operator == "^" { precedence } else { precedence + 1 })?;
            left = checked_binary(at, operator, has_bool, matching, left, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn parse_signed(&mut self) -> ParseResult<Expr<'q>> {
        let at = self.offset();
        if !self.accept("-") && !self.accept("+") {
            let operand = self.parse_primary()?;
            return self.parse_modifiers(operand);
        }
        let operand = self.parse_expression(SIGN_PRECEDENCE)?;
        let result = operand.result;
        if matches!(result, Type::RangeVector | Type::Text) {
            return fail(at, format!("a sign needs a scalar or an instant vector, not {result}"));
        }
        Ok(wrapped(at, Wrapper::Sign, operand, result))
    }

    fn parse_primary(&mut self) -> ParseResult<Expr<'q>> {
        let at = self.offset();
        match self.peek() {
            Some(Token::Number(text)) => {
                if !is_number(text) && parse_duration(text).is_err() {
                    return self.error(format!("`{text}` is neither a number nor a duration"));
                }
                self.position += 1;
                Ok(expr(at, Node::Number, Type::Scalar))
            }
            Some(Token::Text(text)) => {
                self.position += 1;
                Ok(expr(at, Node::Text(text), Type::Text))
            }
            Some(Token::Symbol("(")) => {
                self.position += 1;
                let operand = self.parse_expression(0)?;
                self.expect(")")?;
                let result = operand.result;
                Ok(wrapped(at, Wrapper::Parentheses, operand, result))
            }
            Some(Token::Symbol("{")) => self.parse_selector(at, ""),
            Some(Token::Word(word)) => self.parse_word(at, word),
            _ => self.unexpected("an expression"),
        }
    }

    /// Parses an operand that starts with a word: a function, an aggregation, a selector or a
    /// number.
    fn parse_word(&mut self, at: usize, word: &'q str) -> ParseResult<Expr<'q>> {
        let next_token = self.tokens.get(self.position + 1).map(|(_, token)| *token);
        // A function's name has no colon, unlike that of a recorded series.
        let is_call = next_token == Some(Token::Symbol("(")) && !word.contains(':');
        let is_grouped =
            matches!(next_token, Some(Token::Word(word)) if is_one_of(word, &["by", "without"]));
        let parameters = functions::aggregation_parameters(word);
        if let Some(parameters) = parameters.filter(|_| is_call || is_grouped) {
            self.position += 1;
            return self.parse_aggregation(at, word, parameters);
        }
        if is_one_of(word, &["inf", "nan"]) && !is_call {
            self.position += 1;
            return Ok(expr(at, Node::Number, Type::Scalar));
        }
        let is_keyword = is_one_of(word, &NEVER_OPERANDS);
        let is_operator = binary_operator(Token::Word(word)).is_some();
        if is_keyword || is_call && (is_operator || is_one_of(word, &["by", "without", "offset"])) {
            return self.unexpected("an expression");
        }
        self.position += 1;
        if !is_call {
            return self.parse_selector(at, word);
        }
        let arguments = self.parse_arguments()?;
        if let Some(parameters) = functions::parameters(word) {
            check_arguments(word, parameters, arguments.iter().map(|argument| argument.result))
                .or_else(|message| fail(at, message))?;
        }
        Ok(expr(at, Node::Call(word, arguments), functions::result_type(word)))
    }

    fn parse_arguments(&mut self) -> ParseResult<Vec<Expr<'q>>> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.parse_expression(0)?);
            if self.accept(")") {
                return Ok(arguments);
            }
            if !self.accept(",") {
                return self.unexpected("`,` or `)`");
            }
        }
    }

    /// Parses a list of labels in parentheses.
    fn parse_labels(&mut self) -> ParseResult<Vec<&'q str>> {
        self.expect("(")?;
        let mut labels = Vec::new();
        while !self.accept(")") {
            labels.push(self.parse_label()?);
            if !self.accept(",") && self.peek() != Some(Token::Symbol(")")) {
                return self.unexpected("`,` or `)`");
            }
        }
        Ok(labels)
    }

    fn parse_matching(&mut self) -> ParseResult<Matching<'q>> {
        let mut matching = Matching { is_on: self.accept_word("on"), ..Matching::default() };
        if !matching.is_on && !self.accept_word("ignoring") {
            return Ok(matching);
        }
        matching.labels = self.parse_labels()?;
        if self.accept_word("group_left") {
            matching.many = Some(Side::Left);
        } else if self.accept_word("group_right") {
            matching.many = Some(Side::Right);
        }
        if matching.many.is_some() && self.peek() == Some(Token::Symbol("(")) {
            matching.include = self.parse_labels()?;
        }
        Ok(matching)
    }

    fn parse_grouping(&mut self) -> ParseResult<Option<Grouping<'q>>> {
        let is_by = self.accept_word("by");
        if !is_by && !self.accept_word("without") {
            return Ok(None);
        }
        Ok(Some(Grouping { is_by, labels: self.parse_labels()? }))
    }

    fn parse_aggregation(
        &mut self,
        at: usize,
        name: &'q str,
        parameters: &'static str,
    ) -> ParseResult<Expr<'q>> {
        let grouping = self.parse_grouping()?;
        let arguments = self.parse_arguments()?;
        // `by` and `without` may also follow the arguments.
        let grouping = if grouping.is_some() { grouping } else { self.parse_grouping()? };
        check_arguments(name, parameters, arguments.iter().map(|argument| argument.result))
            .or_else(|message| fail(at, message))?;
        Ok(expr(at, Node::Aggregation(name, grouping, arguments), Type::InstantVector))
    }
}

fn expr(at: usize, node: Node<'_>, result: Type) -> Expr<'_> {
    Expr { at, node, result, has_offset: false, has_at_modifier: false }
}

fn wrapped(at: usize, wrapper: Wrapper, inner: Expr<'_>, result: Type) -> Expr<'_> {
    expr(at, Node::Wrapped(wrapper, Box::new(inner)), result)
}

fn is_number(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    match lower.strip_prefix("0x") {
        Some(digits) => {
            let digits = digits.strip_prefix('_').unwrap_or(digits);
            without_underscores(digits, 16)
                .is_some_and(|digits| u64::from_str_radix(&digits, 16).is_ok())
        }
        None => without_underscores(&lower, 10).is_some_and(|number| {
            number.ends_with(|char: char| char.is_ascii_digit() || char == '.')
                && number.parse::<f64>().is_ok()
        }),
    }
}

/// Removes the underscores of a number. `None` if one of them is not between two digits.
fn without_underscores(number: &str, radix: u32) -> Option<String> {
    let mut parts = number.split('_');
    let mut result = parts.next()?.to_owned();
    for part in parts {
        let is_separator = result.ends_with(|char: char| char.is_digit(radix))
            && part.starts_with(|char: char| char.is_digit(radix));
        if !is_separator {
            return None;
        }
        result.push_str(part);
    }
    Some(result)
}

/// Builds a binary expression, if the operator accepts the types and modifiers.
fn checked_binary<'q>(
    at: usize,
    operator: &'q str,
    has_bool: bool,
    matching: Matching<'q>,
    left: Expr<'q>,
    right: Expr<'q>,
) -> ParseResult<Expr<'q>> {
    let types = [left.result, right.result];
    if let Some(wrong_type) =
        types.iter().find(|result| matches!(result, Type::RangeVector | Type::Text))
    {
        return fail(
            at,
            format!("`{operator}` needs scalars or instant vectors, not {wrong_type}"),
        );
    }
    let is_set = is_one_of(operator, &SET_OPERATORS);
    let has_scalar = types.contains(&Type::Scalar);
    let is_scalar = types == [Type::Scalar; 2];
    if has_scalar && is_set {
        return fail(at, format!("`{operator}` needs instant vectors, not a scalar"));
    }
    if is_scalar && COMPARISONS.contains(&operator) && !has_bool {
        return fail(at, format!("a comparison of scalars needs `{operator} bool`"));
    }
    if has_scalar && (matching.is_on || !matching.labels.is_empty() || matching.many.is_some()) {
        return fail(at, "`on` and `ignoring` are only for instant vectors");
    }
    if is_set && matching.many.is_some() {
        return fail(at, format!("`{operator}` can't have `group_left` or `group_right`"));
    }
    let repeated = matching.include.iter().find(|label| matching.labels.contains(label));
    if let Some(label) = repeated.filter(|_| matching.is_on) {
        return fail(at, format!("the label {label} is in `on` and in the group modifier"));
    }
    let result = if is_scalar { Type::Scalar } else { Type::InstantVector };
    let matching = Matching { has_bool, ..matching };
    Ok(expr(at, Node::Binary(operator, matching, Box::new([left, right])), result))
}
