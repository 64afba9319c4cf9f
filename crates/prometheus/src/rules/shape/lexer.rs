//! Tokens of PromQL.

use super::NotPerObject;

/// A token, with the text that it is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'q> {
    /// A name of a metric, label or function, or a keyword.
    Word(&'q str),
    /// A number or a duration.
    Number(&'q str),
    /// The text between the quotes, with its escapes.
    Text(&'q str),
    /// An operator or a bracket.
    Symbol(&'q str),
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "=~", "!~", "+", "-", "*", "/", "%", "^", "<", ">", "=", "(", ")", "{",
    "}", "[", "]", ",", ":", "@",
];

/// All tokens of a query.
pub(super) fn tokens(query: &str) -> Result<Vec<Token<'_>>, NotPerObject> {
    let mut tokens = Vec::new();
    let mut rest = skip_blanks(query);
    while let Some(first) = rest.chars().next() {
        let (token, len) = match first {
            '"' | '\'' | '`' => text(rest, first)?,
            '0'..='9' | '.' => number(rest),
            'a'..='z' | 'A'..='Z' | '_' => {
                let is_word = |char: char| char.is_ascii_alphanumeric() || "_:".contains(char);
                let word = prefix(rest, is_word);
                (Token::Word(word), word.len())
            }
            _ => {
                let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
                let symbol = symbol.ok_or_else(|| unknown(rest))?;
                (Token::Symbol(symbol), symbol.len())
            }
        };
        tokens.push(token);
        rest = skip_blanks(rest.get(len..).unwrap_or_default());
    }
    Ok(tokens)
}

/// Without spaces and comments at the start.
fn skip_blanks(text: &str) -> &str {
    let mut rest = text.trim_start();
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    rest
}

fn prefix(text: &str, accept: impl Fn(char) -> bool) -> &str {
    let end = text.find(|char| !accept(char)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// A number such as `0x1F`, `.5`, `1e-3`, or a duration such as `1h30m`.
fn number(text: &str) -> (Token<'_>, usize) {
    let mut number = prefix(text, |char| char.is_ascii_alphanumeric() || "._".contains(char));
    let has_exponent = number.ends_with(['e', 'E']) && !number.starts_with("0x");
    let after = text.get(number.len()..).unwrap_or_default();
    if has_exponent && let Some(digits) = after.strip_prefix(['+', '-']) {
        let len = number.len() + 1 + prefix(digits, |char| char.is_ascii_digit()).len();
        number = text.get(..len).unwrap_or(number);
    }
    (Token::Number(number), number.len())
}

fn text(rest: &str, quote: char) -> Result<(Token<'_>, usize), NotPerObject> {
    let inner = rest.get(1..).unwrap_or_default();
    let mut is_escaped = false;
    for (index, char) in inner.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            // Backquotes have no escapes.
            '\\' if quote != '`' => is_escaped = true,
            _ if char == quote => {
                return Ok((Token::Text(inner.get(..index).unwrap_or_default()), index + 2));
            }
            _ => {}
        }
    }
    Err(unknown(rest))
}

fn unknown(rest: &str) -> NotPerObject {
    NotPerObject::Syntax(rest.chars().take(20).collect())
}
