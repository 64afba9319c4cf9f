//! Limits the work of an evaluation.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use hpa_go_compat::{Compat, regex::GoRegex};

use crate::jsonpath::{error::EvalError, value::Value};

/// Limits of documents and evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of a document in bytes.
    pub document_bytes: usize,
    /// Number of values in a document.
    pub values: usize,
    /// Nesting depth of a document.
    pub depth: usize,
    /// Steps of an evaluation. Each takes up to half a microsecond.
    pub steps: u64,
    /// Bytes of the strings and lists that an evaluation creates.
    pub bytes: usize,
    /// Time limit of an evaluation, for machines on which steps take longer.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 10 << 20,
            values: 500_000,
            depth: 200,
            steps: 2_000_000,
            bytes: 32 << 20,
            time: Duration::from_secs(5),
        }
    }
}

/// Maximum length of a regular expression.
const MAX_PATTERN_BYTES: usize = 1 << 10;

/// Maximum number of regular expressions in one evaluation. Each is compiled once.
const MAX_PATTERNS: usize = 8;

/// Maximum sizes of compiled regular expressions in bytes, each with the steps that a search costs
/// for each byte of the text. Larger programs cost more, because a search may visit all states of
/// the program for each byte.
const PROGRAM_SIZES: [(usize, usize); 3] = [(16 << 10, 10), (64 << 10, 40), (256 << 10, 160)];

/// Steps to compile a byte of a regular expression. The number is high, because short expressions
/// can be expensive: three bytes can select a large class of Unicode characters.
const STEPS_TO_COMPILE_BYTE: usize = 200;

/// Steps between two checks of the time limit.
const STEPS_BETWEEN_TIME_CHECKS: u64 = 4096;

/// Limits the steps of an evaluation and the bytes that it creates. Caches its regular expressions.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    steps: Cell<u64>,
    bytes: Cell<usize>,
    start: Instant,
    patterns: RefCell<Vec<Pattern>>,
    pub(crate) compat: Compat,
}

#[derive(Debug)]
struct Pattern {
    text: Vec<u8>,
    regex: GoRegex,
    steps_per_byte: usize,
}

impl Budget {
    pub(crate) fn new(limits: Limits, compat: Compat) -> Self {
        Self {
            limits,
            steps: Cell::new(0),
            bytes: Cell::new(0),
            start: Instant::now(),
            patterns: RefCell::default(),
            compat,
        }
    }

    /// Spends steps. Fails if they exceed the limit, or if the time limit is exceeded.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), EvalError> {
        let spent_before = self.steps.get();
        let spent = spent_before.saturating_add(steps as u64);
        self.steps.set(spent);
        if spent > self.limits.steps {
            return Err(EvalError::TooManySteps(self.limits.steps));
        }
        let checks_time =
            spent_before / STEPS_BETWEEN_TIME_CHECKS != spent / STEPS_BETWEEN_TIME_CHECKS;
        if checks_time && self.start.elapsed() > self.limits.time {
            return Err(EvalError::new("the evaluation takes too long"));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn spent(&self) -> (u64, usize) {
        (self.steps.get(), self.bytes.get())
    }

    /// Spends the steps and the bytes of a new list of values.
    pub(crate) fn spend_values(&self, count: usize) -> Result<(), EvalError> {
        self.spend(count)?;
        self.spend_bytes(count.saturating_mul(size_of::<Value>()))
    }

    /// Spends the steps and the bytes of a new string.
    pub(crate) fn spend_text(&self, bytes: usize) -> Result<(), EvalError> {
        self.spend_bytes(bytes)?;
        self.spend(bytes / 64)
    }

    /// Spends the steps for copying, unquoting and parsing a key.
    pub(crate) fn spend_key(&self, key: &[u8]) -> Result<(), EvalError> {
        self.spend(1 + key.len() / 16)
    }

    fn spend_bytes(&self, bytes: usize) -> Result<(), EvalError> {
        let total = self.bytes.get().saturating_add(bytes);
        self.bytes.set(total);
        if total > self.limits.bytes {
            return Err(EvalError::new("the evaluation needs too much memory"));
        }
        Ok(())
    }

    /// Whether a regular expression matches any part of a string.
    pub(crate) fn is_match(&self, pattern: &[u8], text: &[u8]) -> Result<bool, EvalError> {
        let too_many = || EvalError::new(format!("more than {MAX_PATTERNS} regular expressions"));
        let mut patterns = self.patterns.borrow_mut();
        let cached = patterns.iter().position(|cached| cached.text == pattern);
        let index = if let Some(index) = cached {
            index
        } else {
            if patterns.len() >= MAX_PATTERNS {
                return Err(too_many());
            }
            patterns.push(self.compile(pattern)?);
            patterns.len() - 1
        };
        let pattern = patterns.get(index).ok_or_else(too_many)?;
        self.spend(1 + text.len().saturating_mul(pattern.steps_per_byte))?;
        Ok(pattern.regex.is_match(&String::from_utf8_lossy(text)))
    }

    fn compile(&self, pattern: &[u8]) -> Result<Pattern, EvalError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(EvalError::new("a regular expression has more than 1 KiB"));
        }
        let mut problem = String::new();
        let text = String::from_utf8_lossy(pattern);
        for (size, steps_per_byte) in PROGRAM_SIZES {
            self.spend(100 + pattern.len().saturating_mul(STEPS_TO_COMPILE_BYTE))?;
            match GoRegex::with_size_limit(&text, size) {
                Ok(regex) => return Ok(Pattern { text: pattern.to_vec(), regex, steps_per_byte }),
                // Without the pattern: it may come from the document, which errors must not quote.
                Err(error) => problem = error.problem.to_string(),
            }
        }
        Err(EvalError::new(format!("invalid regular expression: {problem}")))
    }
}
