//! Output of the suite.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Error, Result};

#[derive(Debug)]
pub(crate) struct Report {
    start: Instant,
    plane_start: Instant,
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
    /// The reason for the last skipped tests. Printed again after the long output of the tests.
    notice: Option<String>,
}

impl Report {
    pub(crate) fn new() -> Self {
        let start = Instant::now();
        Self { start, plane_start: start, passed: 0, failed: Vec::new(), skipped: 0, notice: None }
    }

    pub(crate) fn begin_plane(&mut self, plane: &str) {
        self.plane_start = Instant::now();
        println!("\nagainst {plane}");
    }

    pub(crate) fn finish_plane(&self, plane: &str) {
        println!("{plane} took {:.1} s", self.plane_start.elapsed().as_secs_f32());
    }

    pub(crate) fn add_result(&mut self, name: &str, result: Result<()>, time: Duration) {
        let seconds = time.as_secs_f32();
        match result {
            Ok(()) => {
                println!("test {name} ... ok ({seconds:.1} s)");
                self.passed += 1;
            }
            Err(error) => {
                println!("test {name} ... FAILED ({seconds:.1} s)\n  {error:#}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Reports a failure outside of a test.
    pub(crate) fn add_failure(&mut self, step: &str, error: Error) {
        self.add_result(step, Err(error), self.plane_start.elapsed());
    }

    /// Reports `count` tests as skipped.
    pub(crate) fn skip(&mut self, count: usize, reason: &str) {
        println!("\n{reason}");
        self.skipped += count;
        self.notice = Some(reason.to_owned());
    }

    pub(crate) fn print_summary(self) -> ExitCode {
        let (result, code) = if self.failed.is_empty() {
            ("ok", ExitCode::SUCCESS)
        } else {
            ("FAILED", ExitCode::FAILURE)
        };
        println!();
        for name in &self.failed {
            println!("failed: {name}");
        }
        if let Some(notice) = &self.notice {
            println!("{notice}");
        }
        let (passed, failed, skipped) = (self.passed, self.failed.len(), self.skipped);
        let seconds = self.start.elapsed().as_secs_f32();
        println!(
            "test result: {result}. {passed} passed; {failed} failed; {skipped} ignored; in {seconds:.1} s"
        );
        code
    }
}
