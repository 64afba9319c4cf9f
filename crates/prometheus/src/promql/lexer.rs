//! Splits a PromQL query into tokens.

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
    /// An operator, a bracket, `,`, `:` or `@`.
    Symbol(&'q str),
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "=~", "!~", "+", "-", "*", "/", "%", "^", "<", ">", "=", "(", ")", "{",
    "}", "[", "]", ",", ":", "@",
];

/// The white space of PromQL.
const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Returns all tokens of a query, with their offsets.
pub(super) fn tokenize(query: &str) -> Result<Vec<(usize, Token<'_>)>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut rest = skip_ignored(query, 0)?;
    // Between brackets, a colon separates durations. Elsewhere, it can be part of a name.
    let mut in_brackets = false;
    while let Some(first) = rest.chars().next() {
        let at = query.len() - rest.len();
        let error = |message: String| SyntaxError { at, message };
        let (token, len) = match first {
            '"' | '\'' | '`' => lex_string(rest, first).map_err(error)?,
            '0'..='9' | '.' => lex_number(rest),
            'a'..='z' | 'A'..='Z' | '_' => lex_word(rest),
            // A colon at the end of a query is a slip rather than the metric `:`.
            ':' if !in_brackets && rest.len() > 1 => lex_word(rest),
            _ => {
                let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
                let symbol =
                    symbol.ok_or_else(|| error(format!("unexpected character {first:?}")))?;
                (Token::Symbol(symbol), symbol.len())
            }
        };
        match token {
            Token::Symbol("[") => in_brackets = true,
            Token::Symbol("]") => in_brackets = false,
            _ => {}
        }
        tokens.push((at, token));
        rest = skip_ignored(query, at + len)?;
    }
    Ok(tokens)
}

/// Returns the offset of the first string in backquotes whose last backslash would escape the
/// closing backquote in `MetricsQL`. In Prometheus, such strings have no escapes, so the string
/// ends there.
pub(super) fn find_ambiguous_raw_string(query: &str) -> Result<Option<usize>, SyntaxError> {
    let is_ambiguous = |(at, token): &(usize, Token<'_>)| {
        let Token::Text(text) = token else { return false };
        let backslashes = text.len() - text.trim_end_matches('\\').len();
        backslashes % 2 == 1 && query.get(*at..).is_some_and(|rest| rest.starts_with('`'))
    };
    Ok(tokenize(query)?.into_iter().find(is_ambiguous).map(|(at, _)| at))
}

/// Skips white space and comments, which separate tokens.
///
/// Refuses a carriage return inside a comment: Prometheus ends the comment at it and reads the rest
/// of the line as part of the query; other servers don't. `\r\n` is accepted.
fn skip_ignored(query: &str, from: usize) -> Result<&str, SyntaxError> {
    let mut rest = query.get(from..).unwrap_or_default().trim_start_matches(WHITE_SPACE);
    while rest.starts_with('#') {
        let (comment, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if comment.strip_suffix('\r').unwrap_or(comment).contains('\r') {
            let message = "a comment contains a carriage return".to_owned();
            return Err(SyntaxError { at: query.len() - rest.len(), message });
        }
        rest = after.trim_start_matches(WHITE_SPACE);
    }
    Ok(rest)
}

/// The longest start of a text whose characters are all accepted.
fn prefix(text: &str, accept: impl Fn(char) -> bool) -> &str {
    let end = text.find(|char| !accept(char)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn lex_word(text: &str) -> (Token<'_>, usize) {
    let word = prefix(text, |char| char.is_ascii_alphanumeric() || "_:".contains(char));
    (Token::Word(word), word.len())
}

/// Reads a number such as `0x1F`, `.5`, `1e-3`, or a duration such as `1h30m`.
fn lex_number(text: &str) -> (Token<'_>, usize) {
    let mut number = prefix(text, |char| char.is_ascii_alphanumeric() || "._".contains(char));
    let is_hexadecimal = number.starts_with("0x") || number.starts_with("0X");
    let has_exponent = number.ends_with(['e', 'E']) && !is_hexadecimal;
    let after = text.get(number.len()..).unwrap_or_default();
    if has_exponent && let Some(digits) = after.strip_prefix(['+', '-']) {
        let len = number.len() + 1 + prefix(digits, |char| char.is_ascii_digit()).len();
        number = text.get(..len).unwrap_or(number);
    }
    (Token::Number(number), number.len())
}

/// Reads a string that starts with `quote`. Returns the token and its length, or a message.
fn lex_string(rest: &str, quote: char) -> Result<(Token<'_>, usize), String> {
    let inner = rest.get(1..).unwrap_or_default();
    let mut chars = inner.char_indices();
    while let Some((index, char)) = chars.next() {
        match char {
            // Backquotes have no escapes.
            '\\' if quote != '`' => check_escape(&mut chars, quote)?,
            '\n' if quote != '`' => break,
            _ if char == quote => {
                return Ok((Token::Text(inner.get(..index).unwrap_or_default()), index + 2));
            }
            _ => {}
        }
    }
    Err(format!("unterminated string that starts with {quote}: a quote is missing or superfluous"))
}

/// Checks an escape sequence after its backslash.
fn check_escape(chars: &mut std::str::CharIndices<'_>, quote: char) -> Result<(), String> {
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
    // The first octal digit is the escaped character itself.
    let mut number = escaped.to_digit(8).unwrap_or_default();
    for _ in 0..digits {
        let Some(digit) = chars.next().and_then(|(_, char)| char.to_digit(radix)) else {
            return Err(format!("the escape \\{escaped} needs more digits"));
        };
        number = number * radix + digit;
    }
    let is_valid = match escaped {
        'u' | 'U' => char::from_u32(number).is_some(),
        _ => u8::try_from(number).is_ok(),
    };
    if is_valid { Ok(()) } else { Err(format!("the escape \\{escaped} is not a valid character")) }
}

/// The text of a literal whose escape sequences have been checked. Invalid UTF-8 is replaced.
pub(super) fn unescape(literal: &str) -> String {
    let mut text = Vec::with_capacity(literal.len());
    let mut chars = literal.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            push_char(&mut text, char);
            continue;
        }
        let escaped = chars.next().unwrap_or(char);
        let mut number = |first: Option<char>, digits: usize, radix: u32| {
            let digits: String = first.into_iter().chain(chars.by_ref().take(digits)).collect();
            u32::from_str_radix(&digits, radix).unwrap_or_default()
        };
        match escaped {
            'x' => text.extend(u8::try_from(number(None, 2, 16))),
            '0'..='7' => text.extend(u8::try_from(number(Some(escaped), 2, 8))),
            'u' => push_char(&mut text, char::from_u32(number(None, 4, 16)).unwrap_or_default()),
            'U' => push_char(&mut text, char::from_u32(number(None, 8, 16)).unwrap_or_default()),
            'a' => text.push(7),
            'b' => text.push(8),
            'f' => text.push(12),
            'n' => text.push(b'\n'),
            'r' => text.push(b'\r'),
            't' => text.push(b'\t'),
            'v' => text.push(11),
            _ => push_char(&mut text, escaped),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn push_char(text: &mut Vec<u8>, char: char) {
    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}
