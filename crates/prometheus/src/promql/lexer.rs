//! Tokens of PromQL.

use super::SyntaxError;

/// A token, with its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'q> {
    /// A name of a metric, label or function, or a keyword.
    Word(&'q str),
    /// A number or a duration.
    Number(&'q str),
    /// The contents of a string literal, with escapes.
    Text(&'q str),
    /// An operator or a bracket.
    Symbol(&'q str),
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "=~", "!~", "+", "-", "*", "/", "%", "^", "<", ">", "=", "(", ")", "{",
    "}", "[", "]", ",", ":", "@",
];

/// All tokens of a query, with their offsets.
pub(super) fn tokens(query: &str) -> Result<Vec<(usize, Token<'_>)>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut rest = skip_blanks(query);
    let mut in_range = false;
    while let Some(first) = rest.chars().next() {
        let at = query.len() - rest.len();
        let error = |message: String| SyntaxError { at, message };
        let (token, len) = match first {
            '"' | '\'' | '`' => text(rest, first).map_err(error)?,
            '0'..='9' | '.' => number(rest),
            'a'..='z' | 'A'..='Z' | '_' => word(rest),
            ':' if !in_range && rest.len() > 1 => word(rest),
            _ => {
                let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
                let symbol =
                    symbol.ok_or_else(|| error(format!("unexpected character {first:?}")))?;
                (Token::Symbol(symbol), symbol.len())
            }
        };
        match token {
            Token::Symbol("[") => in_range = true,
            Token::Symbol("]") => in_range = false,
            _ => {}
        }
        tokens.push((at, token));
        rest = skip_blanks(rest.get(len..).unwrap_or_default());
    }
    Ok(tokens)
}

/// Skips spaces and comments.
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

fn word(text: &str) -> (Token<'_>, usize) {
    let word = prefix(text, |char| char.is_ascii_alphanumeric() || "_:".contains(char));
    (Token::Word(word), word.len())
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

fn text(rest: &str, quote: char) -> Result<(Token<'_>, usize), String> {
    let inner = rest.get(1..).unwrap_or_default();
    let mut chars = inner.char_indices();
    while let Some((index, char)) = chars.next() {
        match char {
            // Backquotes have no escapes.
            '\\' if quote != '`' => escape(&mut chars, quote)?,
            '\n' if quote != '`' => break,
            _ if char == quote => {
                return Ok((Token::Text(inner.get(..index).unwrap_or_default()), index + 2));
            }
            _ => {}
        }
    }
    Err(format!("the string that starts with {quote} has no end: a quote is missing or too many"))
}

/// Checks an escape sequence after its backslash.
fn escape(chars: &mut std::str::CharIndices<'_>, quote: char) -> Result<(), String> {
    let Some((_, escaped)) = chars.next() else { return Ok(()) };
    let (digits, radix) = match escaped {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => return Ok(()),
        _ if escaped == quote => return Ok(()),
        'x' => (2, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='7' => (2, 8),
        _ => {
            return Err(format!(
                "strings have no escape \\{escaped}: write \\\\{escaped} for a backslash"
            ));
        }
    };
    let is_valid = chars.take(digits).filter(|(_, char)| char.is_digit(radix)).count() == digits;
    if is_valid { Ok(()) } else { Err(format!("the escape \\{escaped} needs more digits")) }
}
