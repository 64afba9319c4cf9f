//! Progress messages for the process that started this one.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::Result;

const INTERVAL: Duration = Duration::from_secs(5);

/// Prints a line to standard output.
pub(super) fn print_progress(line: &str) -> Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

/// Limits messages about a long operation to one in five seconds.
pub(super) struct ProgressTimer(Instant);

impl ProgressTimer {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Returns whether a message is due.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.0.elapsed() >= INTERVAL;
        if is_due {
            self.0 = Instant::now();
        }
        is_due
    }
}
