//! Limits of an evaluation.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use hpa_go_compat::{Compat, regex::GoRegex};

use crate::jsonpath::{error::EvalError, value::Value};

/// Limits of documents and evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of a document.
    pub document_bytes: usize,
    /// Number of values in a document.
    pub values: usize,
    /// Depth of a document.
    pub depth: usize,
    /// Steps of an evaluation, of at most half a microsecond each.
    pub steps: u64,
    /// Bytes of the texts and lists that an evaluation creates.
    pub bytes: usize,
    /// Deadline of an evaluation on a machine that is too slow for all steps.
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

/// Length of a regular expression.
const MAX_PATTERN_BYTES: usize = 1 << 10;

/// Regular expressions of one evaluation, of which each is compiled once.
const MAX_PATTERNS: usize = 8;

/// Sizes of compiled regular expressions, and the steps that each byte of a searched text costs
/// with them. A search visits up to all states of the program for each byte.
const PROGRAM_SIZES: [(usize, usize); 3] = [(16 << 10, 10), (64 << 10, 40), (256 << 10, 160)];

/// Steps that each byte of a regular expression costs when it is compiled. A class of Unicode
/// characters has three bytes.
const STEPS_TO_COMPILE_BYTE: usize = 200;

/// Steps between two looks at the clock.
const STEPS_TO_CLOCK: u64 = 4096;

/// Counts the steps of an evaluation, and the bytes of its texts.
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
    steps_of_byte: usize,
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

    pub(crate) fn spend(&self, steps: usize) -> Result<(), EvalError> {
        let before = self.steps.get();
        let spent = before.saturating_add(steps as u64);
        self.steps.set(spent);
        if spent > self.limits.steps {
            return Err(EvalError::TooManySteps(self.limits.steps));
        }
        let looks_at_clock = before / STEPS_TO_CLOCK != spent / STEPS_TO_CLOCK;
        if looks_at_clock && self.start.elapsed() > self.limits.time {
            return Err(EvalError::TooSlow);
        }
        Ok(())
    }

    /// Steps and bytes.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> (u64, usize) {
        (self.steps.get(), self.bytes.get())
    }

    /// Spends the steps and the bytes of a new list of values.
    pub(crate) fn spend_values(&self, count: usize) -> Result<(), EvalError> {
        self.spend(count)?;
        self.spend_bytes(count.saturating_mul(size_of::<Value>()))
    }

    /// Spends the steps and the bytes of a new text.
    pub(crate) fn spend_text(&self, bytes: usize) -> Result<(), EvalError> {
        self.spend_bytes(bytes)?;
        self.spend(bytes / 64)
    }

    fn spend_bytes(&self, bytes: usize) -> Result<(), EvalError> {
        let total = self.bytes.get().saturating_add(bytes);
        self.bytes.set(total);
        if total > self.limits.bytes {
            return Err(EvalError::TooManyBytes);
        }
        Ok(())
    }

    /// Whether a regular expression matches any part of a text.
    pub(crate) fn is_match(&self, pattern: &[u8], text: &[u8]) -> Result<bool, EvalError> {
        let mut patterns = self.patterns.borrow_mut();
        let known = patterns.iter().position(|known| known.text == pattern);
        let index = if let Some(index) = known {
            index
        } else {
            if patterns.len() >= MAX_PATTERNS {
                return Err(EvalError::TooManyPatterns);
            }
            patterns.push(self.compile(pattern)?);
            patterns.len() - 1
        };
        let Some(pattern) = patterns.get(index) else { return Err(EvalError::TooManyPatterns) };
        self.spend(1 + text.len().saturating_mul(pattern.steps_of_byte))?;
        Ok(pattern.regex.is_match(&String::from_utf8_lossy(text)))
    }

    fn compile(&self, pattern: &[u8]) -> Result<Pattern, EvalError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(EvalError::PatternTooLong);
        }
        let text = String::from_utf8_lossy(pattern);
        let mut problem = EvalError::PatternTooLong;
        for (size, steps_of_byte) in PROGRAM_SIZES {
            self.spend(100 + pattern.len().saturating_mul(STEPS_TO_COMPILE_BYTE))?;
            match GoRegex::with_size_limit(&text, size) {
                Ok(regex) => return Ok(Pattern { text: pattern.to_vec(), regex, steps_of_byte }),
                // The expression can be a text of the document, which errors must not have.
                Err(error) => problem = EvalError::Regex(error.problem.to_string()),
            }
        }
        Err(problem)
    }
}
