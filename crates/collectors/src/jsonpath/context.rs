//! What bounds an evaluation.

use std::cell::Cell;

use crate::jsonpath::error::EvalError;

/// How closely the result follows the reference where that can do harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// A number that a 64-bit float can't represent is an error.
    #[default]
    Off,
    /// Such a number is 0, and the factorial of a number above 20 overflows.
    KubeMetricsAdapter,
}

/// Bounds for documents and evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of a document.
    pub document_bytes: usize,
    /// Number of values in a document.
    pub values: usize,
    /// Depth of a document.
    pub depth: usize,
    /// Steps of an evaluation, of about the same duration each.
    pub steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { document_bytes: 10 << 20, values: 500_000, depth: 200, steps: 2_000_000 }
    }
}

/// Counts the steps of an evaluation.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    left: Cell<u64>,
    pub(crate) compat: Compat,
}

impl Budget {
    pub(crate) fn new(limit: u64, compat: Compat) -> Self {
        Self { limit, left: Cell::new(limit), compat }
    }

    pub(crate) fn spend(&self, steps: usize) -> Result<(), EvalError> {
        let left = self.left.get().checked_sub(steps as u64);
        self.left.set(left.ok_or(EvalError::TooManySteps(self.limit))?);
        Ok(())
    }
}
