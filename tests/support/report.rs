//! The results of a suite that is its own test runner.

use std::{fmt::Display, process::ExitCode};

use anyhow::Result;

use crate::programs;

/// The results so far.
#[derive(Debug, Default)]
pub struct Report {
    passed: usize,
    /// The names of the failed tests, which are printed again at the end.
    failed: Vec<String>,
    skipped: usize,
}

#[allow(clippy::print_stdout, reason = "a test runner prints its results")]
impl Report {
    /// Prints the result of a test. A failed test doesn't end the suite.
    pub fn add_result(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                println!("test {name} ... ok");
                self.passed += 1;
            }
            Err(error) => {
                println!("test {name} ... FAILED\n  {error:#}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Reports a test as skipped.
    pub fn skip(&mut self, name: &str, reason: impl Display) {
        println!("test {name} ... skipped: {reason}");
        self.skipped += 1;
    }

    /// Reports a test as skipped because a program is missing. `reason` names the searched
    /// location.
    ///
    /// # Panics
    /// As [`programs::skip`].
    pub fn skip_without(&mut self, program: &str, name: &str, reason: impl Display) {
        programs::skip(program, reason);
        println!("test {name} ... skipped");
        self.skipped += 1;
    }

    /// Prints the summary.
    pub fn finish(self) -> ExitCode {
        let Self { passed, failed, skipped } = self;
        println!();
        for name in &failed {
            println!("failed: {name}");
        }
        let result = if failed.is_empty() { "ok" } else { "FAILED" };
        let failures = failed.len();
        println!("test result: {result}. {passed} passed; {failures} failed; {skipped} ignored");
        if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
