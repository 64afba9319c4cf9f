//! Splits a path into steps, and a step into tokens.

use crate::jsonpath::{
    ExtractError,
    error::{EvalError, abbreviated},
    scan::{Scanner, is_name, starts_operator},
};

/// Splits a path into its steps.
pub(crate) fn split_steps(text: &[u8]) -> Result<Vec<&[u8]>, ExtractError> {
    let mut scanner = Scanner::new(text);
    let mut steps = Vec::new();
    while let Some(byte) = scanner.peek() {
        let start = scanner.position();
        scanner.advance();
        match byte {
            b'$' | b'@' => steps.push(scanner.since(start)),
            b'.' => match scanner.peek() {
                None => {}
                // The second dot also starts the next step.
                Some(b'.') => steps.push(b"..".as_slice()),
                Some(_) => {
                    let name = take_step_name(&mut scanner);
                    if !name.is_empty() {
                        steps.push(name);
                    }
                }
            },
            b'[' => steps.push(take_brackets(&mut scanner)?),
            _ => {
                return Err(ExtractError::Path {
                    position: start,
                    problem: "expected a dot or a bracket",
                });
            }
        }
    }
    Ok(steps)
}

/// Takes a name up to the next dot or bracket without a backslash.
fn take_step_name<'t>(scanner: &mut Scanner<'t>) -> &'t [u8] {
    let start = scanner.position();
    let mut is_escaped = scanner.is_escaped();
    while let Some(byte) = scanner.peek()
        && (is_escaped || !b".[".contains(&byte))
    {
        is_escaped = byte == b'\\' && !is_escaped;
        scanner.advance();
    }
    scanner.since(start)
}

/// Takes the contents of brackets, and the closing bracket. Returns the contents. Brackets in
/// quotes are ignored.
fn take_brackets<'t>(scanner: &mut Scanner<'t>) -> Result<&'t [u8], ExtractError> {
    let start = scanner.position();
    let mut depth = 1_usize;
    let mut quote = None;
    let mut is_escaped = scanner.is_escaped();
    while let Some(byte) = scanner.peek() {
        match (byte, quote) {
            (b'\'' | b'"', None) => quote = Some(byte),
            (_, Some(open)) if byte == open && !is_escaped => quote = None,
            (b'[', None) if !is_escaped => depth += 1,
            (b']', None) if !is_escaped => depth -= 1,
            _ => {}
        }
        is_escaped = byte == b'\\' && !is_escaped;
        if depth == 0 {
            let inner = scanner.since(start);
            scanner.advance();
            return Ok(inner);
        }
        scanner.advance();
    }
    Err(ExtractError::Path { position: start - 1, problem: "the bracket is not closed" })
}

/// Splits a step into tokens. Spaces between them are dropped, and names become lower-case.
pub(crate) fn tokenize(text: &[u8]) -> Result<Vec<Vec<u8>>, EvalError> {
    let mut scanner = Scanner::new(text);
    let mut tokens = Vec::new();
    let mut after_value = false;
    while let Some(byte) = scanner.skip_space() {
        let start = scanner.position();
        let error = || EvalError::Syntax(start, abbreviated(text));
        let is_sign = matches!(byte, b'-' | b'+');
        if starts_operator(byte) && (after_value || !is_sign) {
            after_value = false;
            tokens.push(scanner.take_operator().ok_or_else(error)?.as_bytes().to_vec());
            continue;
        }
        let token = match byte {
            b'-' | b'+' | b'0'..=b'9' => {
                scanner.take_number().ok_or_else(error)?.as_bytes().to_vec()
            }
            b'.' => {
                scanner.advance();
                b".".to_vec()
            }
            b'"' | b'\'' => scanner.take_quoted(byte).ok_or_else(error)?.to_vec(),
            b'$' | b'@' => scanner.take_variable().ok_or_else(error)?.to_vec(),
            b'(' | b')' => {
                scanner.advance();
                vec![byte]
            }
            _ => {
                let (name, _) = scanner.take_name();
                if name.is_empty() {
                    scanner.advance();
                }
                to_lower_case(scanner.since(start))
            }
        };
        // A name before a parenthesis is a function. Any other character counts as a value, also
        // before a parenthesis.
        after_value = match byte {
            b'(' => false,
            b'-' | b'+' | b'0'..=b'9' | b'.' | b'"' | b'\'' | b'$' | b'@' | b')' => true,
            _ => scanner.peek() != Some(b'(') || scanner.since(start).len() == 1 && !is_name(byte),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

/// Converts to lower case. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn to_lower_case(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).to_lowercase().into_bytes()
}
