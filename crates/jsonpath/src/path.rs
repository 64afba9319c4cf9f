//! Parses paths.

use crate::{
    ExtractError,
    error::EvalError,
    expression::{Expression, MAX_BYTES, shown},
    scan::{Scanner, starts_operator},
};

/// Depth of expressions in paths in expressions.
const MAX_NESTING: usize = 16;

/// A compiled path.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// `$`: the root, if it is first. Otherwise it has no effect.
    Root,
    /// `@`: the current value, if it is first. Otherwise it has no effect.
    Current,
    /// `..`: also all containers below.
    Descend,
    /// `*`: all children.
    Children,
    /// `[a:b:c]`: the parts between the colons.
    Slice { parts: Vec<Key>, text: String },
    /// `[?(...)]`.
    Filter(Expression),
    /// `[(...)]`.
    Script(Expression),
    /// Names, separated by commas.
    Keys { keys: Vec<Key>, text: String },
    /// A step that can't be evaluated.
    Invalid(EvalError),
}

/// A name, an index, or an expression in parentheses.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: Vec<u8>,
    pub(crate) expression: Option<Expression>,
}

impl Key {
    pub(crate) fn new(text: Vec<u8>, nesting: usize) -> Self {
        let inner = text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")"));
        let expression = inner.map(|inner| Expression::parse(inner, nesting + 1));
        Self { text, expression }
    }
}

impl Path {
    /// Parses a path. Steps that can't be evaluated are an error only when they are reached.
    pub(crate) fn parse(text: &[u8], nesting: usize) -> Result<Self, ExtractError> {
        if text.len() > MAX_BYTES {
            let problem = "more than 16 KiB";
            return Err(ExtractError::Path { position: MAX_BYTES, problem });
        }
        let steps = split(text)?;
        let step = |step: &[u8]| {
            if nesting > MAX_NESTING {
                return Step::Invalid(EvalError::TooDeep);
            }
            Step::parse(step, nesting).unwrap_or_else(Step::Invalid)
        };
        Ok(Self { steps: steps.into_iter().map(step).collect() })
    }
}

/// Splits a path into its steps.
fn split(text: &[u8]) -> Result<Vec<&[u8]>, ExtractError> {
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
                    while scanner.peek().is_some_and(|byte| !b".[".contains(&byte))
                        || (scanner.peek().is_some() && scanner.is_escaped())
                    {
                        scanner.advance();
                    }
                    let name = scanner.since(start + 1);
                    if !name.is_empty() {
                        steps.push(name);
                    }
                }
            },
            b'[' => steps.push(bracketed(&mut scanner)?),
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

/// Takes what is in brackets, and the closing bracket. Brackets in quotes don't count.
fn bracketed<'t>(scanner: &mut Scanner<'t>) -> Result<&'t [u8], ExtractError> {
    let start = scanner.position();
    let mut depth = 1_usize;
    let mut quote = None;
    while let Some(byte) = scanner.peek() {
        match (byte, quote) {
            (b'\'' | b'"', None) => quote = Some(byte),
            (_, Some(open)) if byte == open && !scanner.is_escaped() => quote = None,
            (b'[', None) if !scanner.is_escaped() => depth += 1,
            (b']', None) if !scanner.is_escaped() => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let inner = scanner.since(start);
            scanner.advance();
            return Ok(inner);
        }
        scanner.advance();
    }
    Err(ExtractError::Path { position: start - 1, problem: "the bracket is not closed" })
}

impl Step {
    fn parse(text: &[u8], nesting: usize) -> Result<Self, EvalError> {
        // Also the steps below must have valid tokens.
        let tokens = tokens(text)?;
        let has = |token: &[u8]| tokens.iter().any(|other| other == token);
        let keys = |separator: &[u8]| {
            let parts = tokens.split(|token| token == separator);
            parts.map(|part| Key::new(part.concat(), nesting)).collect::<Vec<_>>()
        };
        let inside = |prefix: &[u8]| text.strip_prefix(prefix)?.strip_suffix(b")");
        Ok(match text {
            b"$" => Self::Root,
            b"@" => Self::Current,
            b".." => Self::Descend,
            b"*" => Self::Children,
            _ if has(b":") => {
                let parts = keys(b":");
                if parts.len() > 4 {
                    return Err(EvalError::Slice(shown(text)));
                }
                Self::Slice { parts, text: shown(text) }
            }
            _ if let Some(inner) = inside(b"?(") => {
                Self::Filter(Expression::parse(inner, nesting + 1).required()?)
            }
            _ if let Some(inner) = inside(b"(") => {
                Self::Script(Expression::parse(inner, nesting + 1).required()?)
            }
            _ if has(b",") => Self::Keys { keys: keys(b","), text: shown(text) },
            _ => Self::Keys { keys: vec![Key::new(text.to_vec(), nesting)], text: shown(text) },
        })
    }
}

/// Splits a step into tokens. Spaces between them are dropped, and names become lower-case.
fn tokens(text: &[u8]) -> Result<Vec<Vec<u8>>, EvalError> {
    let mut scanner = Scanner::new(text);
    let mut tokens = Vec::new();
    let mut after_value = false;
    while let Some(byte) = scanner.skip_space() {
        let start = scanner.position();
        let error = || EvalError::Syntax(start, shown(text));
        let is_sign = matches!(byte, b'-' | b'+');
        if starts_operator(byte) && (after_value || !is_sign) {
            after_value = false;
            tokens.push(scanner.operator().ok_or_else(error)?.as_bytes().to_vec());
            continue;
        }
        let token = match byte {
            b'-' | b'+' | b'0'..=b'9' => scanner.number().ok_or_else(error)?.as_bytes().to_vec(),
            b'.' => {
                scanner.advance();
                b".".to_vec()
            }
            b'"' | b'\'' => scanner.quoted(byte).ok_or_else(error)?.to_vec(),
            b'$' | b'@' => scanner.variable().ok_or_else(error)?.to_vec(),
            b'(' | b')' => {
                scanner.advance();
                vec![byte]
            }
            _ => {
                let (name, _) = scanner.name();
                if name.is_empty() {
                    scanner.advance();
                }
                lower(scanner.since(start))
            }
        };
        after_value = match byte {
            b'(' => false,
            b'-' | b'+' | b'0'..=b'9' | b'.' | b'"' | b'\'' | b'$' | b'@' | b')' => true,
            _ => scanner.peek() != Some(b'(') || scanner.since(start).len() == 1 && !is_word(byte),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

fn is_word(byte: u8) -> bool {
    matches!(byte, b'A'..=b'z' | b'0'..=b'9')
}

/// The text in lower case. Other than ASCII, as far as it is valid.
pub(crate) fn lower(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).to_lowercase().into_bytes()
}
