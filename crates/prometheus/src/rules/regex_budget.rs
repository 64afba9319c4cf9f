//! Limits the memory of the regular expressions of a rules file.

use hpa_go_compat::regex::{GoRegex, RegexError, RegexProblem};

/// The maximum total memory of searches with the expressions of a file in bytes. Most expressions
/// count as 4 KiB, and 4 KiB for each group.
const MAX_TOTAL_SIZE: usize = 64 << 20;

/// The memory that is left for the expressions of a file.
#[derive(Debug)]
pub(crate) struct RegexBudget {
    bytes_left: usize,
}

impl Default for RegexBudget {
    fn default() -> Self {
        Self { bytes_left: MAX_TOTAL_SIZE }
    }
}

impl RegexBudget {
    /// Counts a compiled expression. Fails once the expressions of the file need too much memory
    /// together, and then for each further expression.
    pub(crate) fn charge(&mut self, regex: &GoRegex) -> Result<(), RegexError> {
        if let Some(bytes_left) = self.bytes_left.checked_sub(regex.max_search_size()) {
            self.bytes_left = bytes_left;
            return Ok(());
        }
        self.bytes_left = 0;
        let expression = regex.as_str().to_owned();
        Err(RegexError { problem: RegexProblem::TotalTooLarge, expression })
    }
}
