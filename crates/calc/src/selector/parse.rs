//! The grammar of a selector string.

use std::collections::BTreeSet;

use super::{Operator, Requirement, SelectorError, validate};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// A key or a value. `in` and `notin` are also identifiers where a key or value is expected.
    Identifier,
    Operator(Operator),
    Not,
    Open,
    Close,
    Comma,
    End,
}

impl Token {
    /// The token at a position of a key or value, where `in` and `notin` are identifiers.
    fn as_value(self) -> Self {
        match self {
            Self::Operator(Operator::In | Operator::NotIn) => Self::Identifier,
            other => other,
        }
    }
}

/// Splits off the next token: returns it with its text and the rest. As in the API's lexer, one NUL
/// after a token is skipped, and a NUL in place of a token ends the selector.
fn lex(text: &str) -> (Token, &str, &str) {
    const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];
    const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];

    let text = text.trim_start_matches(SPACES);
    let (token, len) = match text.as_bytes() {
        [] | [0, ..] => return (Token::End, "", ""),
        [b'=', b'=', ..] => (Token::Operator(Operator::DoubleEquals), 2),
        [b'=', ..] => (Token::Operator(Operator::Equals), 1),
        [b'!', b'=', ..] => (Token::Operator(Operator::NotEquals), 2),
        [b'!', ..] => (Token::Not, 1),
        [b'(', ..] => (Token::Open, 1),
        [b')', ..] => (Token::Close, 1),
        [b',', ..] => (Token::Comma, 1),
        [b'>', ..] => (Token::Operator(Operator::GreaterThan), 1),
        [b'<', ..] => (Token::Operator(Operator::LessThan), 1),
        _ => {
            let ends =
                |char: char| char == '\0' || SPACES.contains(&char) || SYMBOLS.contains(&char);
            (Token::Identifier, text.find(ends).unwrap_or(text.len()))
        }
    };
    let (literal, rest) = text.split_at(len);
    let token = match literal {
        "in" => Token::Operator(Operator::In),
        "notin" => Token::Operator(Operator::NotIn),
        _ => token,
    };
    (token, literal, rest.strip_prefix('\0').unwrap_or(rest))
}

/// Parses requirements with one token of lookahead.
struct Parser<'a> {
    /// The next token, with its text in `literal`.
    token: Token,
    literal: &'a str,
    /// The text after the next token.
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let (token, literal, rest) = lex(text);
        Self { token, literal, rest }
    }

    /// The next token, at a position of a key or value.
    fn peek_value(&self) -> Token {
        self.token.as_value()
    }

    /// Consumes the next token.
    fn take(&mut self) -> (Token, &'a str) {
        let taken = (self.token, self.literal);
        (self.token, self.literal, self.rest) = lex(self.rest);
        taken
    }

    /// Consumes the next token, at a position of a key or value.
    fn take_value(&mut self) -> (Token, &'a str) {
        let (token, literal) = self.take();
        (token.as_value(), literal)
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut token, mut key) = self.take_value();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.take_value();
        }
        if token != Token::Identifier {
            return Err(unexpected(key, ", expected: identifier"));
        }
        if let Some(error) = validate::key_error(key, "<nil>") {
            return Err(SelectorError::Invalid(error));
        }
        let operator = match self.peek_value() {
            _ if negated => Operator::DoesNotExist,
            Token::End | Token::Comma => Operator::Exists,
            _ => self.operator()?,
        };
        let values = match operator {
            Operator::Exists | Operator::DoesNotExist => Vec::new(),
            Operator::In | Operator::NotIn => self.set()?.into_iter().map(str::to_owned).collect(),
            _ => vec![self.exact_value()?.to_owned()],
        };
        Requirement::new(key, operator, &values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        match self.take() {
            (Token::Operator(operator), _) => Ok(operator),
            (_, literal) => Err(unexpected(literal, ", expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    /// Parses the values in parentheses. Nothing between two delimiters is the empty value.
    fn set(&mut self) -> Result<BTreeSet<&'a str>, SelectorError> {
        let (token, literal) = self.take_value();
        if token != Token::Open {
            return Err(unexpected(literal, " expected: '('"));
        }
        let mut values = BTreeSet::new();
        match self.peek_value() {
            Token::Close => {
                values.insert("");
            }
            Token::Identifier | Token::Comma => self.values(&mut values)?,
            _ => return Err(unexpected(self.literal, ", expected: ',', ')' or identifier")),
        }
        self.take();
        Ok(values)
    }

    /// Parses values up to the closing parenthesis, and doesn't consume it.
    fn values(&mut self, values: &mut BTreeSet<&'a str>) -> Result<(), SelectorError> {
        loop {
            match self.take_value() {
                (Token::Identifier, value) => {
                    values.insert(value);
                    match self.peek_value() {
                        Token::Comma => {}
                        Token::Close => return Ok(()),
                        _ => return Err(unexpected(self.literal, ", expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert("");
                    }
                    match self.peek_value() {
                        Token::Close => {
                            values.insert("");
                            return Ok(());
                        }
                        Token::Comma => {
                            values.insert("");
                        }
                        _ => {}
                    }
                }
                (_, literal) => return Err(unexpected(literal, ", expected: ',', or identifier")),
            }
        }
    }

    /// Parses the value after an operator such as `=`. Nothing is the empty value.
    fn exact_value(&mut self) -> Result<&'a str, SelectorError> {
        if matches!(self.peek_value(), Token::End | Token::Comma) {
            return Ok("");
        }
        match self.take_value() {
            (Token::Identifier, value) => Ok(value),
            (_, literal) => Err(unexpected(literal, ", expected: identifier")),
        }
    }
}

fn unexpected(found: &str, expected: &'static str) -> SelectorError {
    SelectorError::Syntax { found: found.to_owned(), expected }
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser::new(text);
    let mut requirements = Vec::new();
    match parser.peek_value() {
        Token::End => return Ok(requirements),
        Token::Identifier | Token::Not => {}
        _ => {
            return Err(unexpected(
                parser.literal,
                ", expected: !, identifier, or 'end of string'",
            ));
        }
    }
    loop {
        let requirement = parser.requirement();
        requirements
            .push(requirement.map_err(|error| SelectorError::Requirement(Box::new(error)))?);
        match parser.take_value() {
            (Token::End, _) => return Ok(requirements),
            (Token::Comma, _) if matches!(parser.peek_value(), Token::Identifier | Token::Not) => {}
            (Token::Comma, _) => {
                return Err(unexpected(parser.literal, ", expected: identifier after ','"));
            }
            (_, literal) => return Err(unexpected(literal, ", expected: ',' or 'end of string'")),
        }
    }
}
