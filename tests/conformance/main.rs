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
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use flate2::read::GzDecoder;
use serde_json::Value;

/// How many failures of a file are shown.
const SHOWN: usize = 5;

type Check = fn(line: &Value, header: &Value) -> Result<(), String>;

/// What the files whose names begin so hold: whether the first line is a header, and what a line is checked by. The
/// longest beginning counts.
const CHECKS: [(&str, bool, Check); 7] = [
    ("calculator_", false, |line, _| calculators::check(line)),
    ("traces", false, |line, _| traces::check(line)),
    ("hpa_admission", false, |line, _| admission::admission(line)),
    ("quantity", false, |line, _| values::quantity(line)),
    ("milli_format", false, |line, _| values::milli_format(line)),
    ("selector", true, values::selector),
    ("label_selector", true, values::label_selector),
];

/// What the default folder holds; fewer would be a slip.
const DEFAULT_FILES: usize = 9;

fn main() -> ExitCode {
    let given = std::env::var_os("HPA_CONFORMANCE_DIR").map(PathBuf::from);
    let folder =
        given.clone().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance"));
    let files = match files(&folder) {
        Ok(files) if files.len() >= if given.is_some() { 1 } else { DEFAULT_FILES } => files,
        Ok(files) => {
            return refuse(
                &folder,
                &format!("it has only {} files of recorded answers", files.len()),
            );
        }
        Err(error) => return refuse(&folder, &error.to_string()),
    };
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_chosen =
        |name: &str| chosen.is_empty() || chosen.iter().any(|part| name.contains(part.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for path in files {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default();
        if !is_chosen(name) {
            continue;
        }
        match run(&path, name) {
            Ok((file_passed, file_failed)) => {
                println!("{name}: {file_passed} passed, {file_failed} failed");
                passed += file_passed;
                failed += file_failed;
            }
            Err(error) => {
                println!("{name}: 0 passed, 1 failed\n  {}: {error}", path.display());
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

fn refuse(folder: &Path, reason: &str) -> ExitCode {
    println!("{}: {reason}", folder.display());
    ExitCode::FAILURE
}

/// The folder's files of recorded answers, by name.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let unpacked = if path.extension().is_some_and(|extension| extension == "gz") {
            path.with_extension("")
        } else {
            path.clone()
        };
        if unpacked.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn run(path: &Path, name: &str) -> std::io::Result<(usize, usize)> {
    let checks = CHECKS.into_iter().filter(|(beginning, ..)| name.starts_with(beginning));
    let Some((_, has_header, check)) = checks.max_by_key(|(beginning, ..)| beginning.len()) else {
        return Err(std::io::Error::other("no check is known for a file of this name"));
    };
    let file = File::open(path)?;
    let is_packed = path.extension().is_some_and(|extension| extension == "gz");
    let reader: Box<dyn Read> =
        if is_packed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    let mut lines = BufReader::new(reader).lines();
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
                    let label =
                        line.get("name").or_else(|| line.get("input")).unwrap_or(&Value::Null);
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
