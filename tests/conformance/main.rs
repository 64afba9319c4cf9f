//! Compares this implementation with the recorded answers of the reference controller, line by line.
//!
//! `cargo test --release --test conformance`; the data is read from `HPA_CONFORMANCE_DIR`, by default the copy beside
//! this file, whose README is its schema. Prints a line for each file, `FILE: N passed, N failed`, and of the first
//! failures what differed. Arguments that are no options choose files by a part of their name.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test runner: it may stop where the data is broken, and it prints"
)]

mod admission;
mod answers;
mod calculators;
mod compare;
mod traces;
mod values;

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::ExitCode,
};

use flate2::read::GzDecoder;
use serde_json::Value;

/// How many failures of a file are shown.
const SHOWN: usize = 5;

type Check = fn(line: &Value, header: &Value) -> Result<(), String>;

/// A file's name, whether its first line is a header, and what a line is checked by.
const FILES: [(&str, bool, Check); 9] = [
    ("calculator_random", false, |line, _| calculators::check(line)),
    ("calculator_reference_suite", false, |line, _| calculators::check(line)),
    ("traces", false, |line, _| traces::check(line)),
    ("traces_changes", false, |line, _| traces::check(line)),
    ("hpa_admission", false, |line, _| admission::admission(line)),
    ("quantity", false, |line, _| values::quantity(line)),
    ("milli_format", false, |line, _| values::milli_format(line)),
    ("selector", true, values::selector),
    ("label_selector", true, values::label_selector),
];

fn main() -> ExitCode {
    let folder = std::env::var_os("HPA_CONFORMANCE_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance"), PathBuf::from);
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|part| name.contains(part.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for (name, has_header, check) in FILES.into_iter().filter(|(name, ..)| is_chosen(name)) {
        match run(&folder, name, has_header, check) {
            Ok((file_passed, file_failed)) => {
                println!("{name}: {file_passed} passed, {file_failed} failed");
                passed += file_passed;
                failed += file_failed;
            }
            Err(error) => {
                println!("{name}: cannot be read from {}: {error}", folder.display());
                failed += 1;
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(folder: &Path, name: &str, has_header: bool, check: Check) -> std::io::Result<(usize, usize)> {
    let file = File::open(folder.join(format!("{name}.jsonl.gz")))?;
    let mut lines = BufReader::new(GzDecoder::new(file)).lines();
    let header = if has_header {
        serde_json::from_str(&lines.next().transpose()?.unwrap_or_default())?
    } else {
        Value::Null
    };
    let (mut passed, mut failed) = (0, 0);
    for (number, line) in lines.enumerate() {
        let line: Value = serde_json::from_str(&line?)?;
        match check(&line, &header) {
            Ok(()) => passed += 1,
            Err(difference) => {
                failed += 1;
                if failed <= SHOWN {
                    let label = line.get("name").or_else(|| line.get("input")).unwrap_or(&Value::Null);
                    let label: String = label.to_string().chars().take(200).collect();
                    println!(
                        "  {name} line {}: {label}\n    {difference}",
                        number + 1 + usize::from(has_header)
                    );
                }
            }
        }
    }
    Ok((passed, failed))
}
