//! Compares this implementation with recorded inputs and outputs, line by line. They were recorded
//! from the reference, from prometheus-adapter and from kube-metrics-adapter.
//!
//! `cargo test --release --test conformance` reads the data in this directory, or in
//! `HPA_CONFORMANCE_DIR`. `README.md` in this directory describes the lines. The suite prints
//! `FILE: N passed, N failed` for each file, and the first differences. Arguments that are not
//! options select files by a part of their names.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test runner, which panics on broken data and prints results"
)]

mod adapter;
mod admission;
mod calculators;
mod compare;
mod explanations;
mod json_path;
mod kma;
mod kma_http;
mod kma_store;
mod responses;
mod rules;
mod schedules;
mod store;
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

/// Maximum number of differences printed per file.
const MAX_DIFFERENCES: usize = 5;

type Check = fn(line: &Value, header: &Value) -> Result<(), String>;

/// The prefix of file names, whether the first line is a header, and the check of a line.
const CHECKS: [(&str, bool, Check); 16] = [
    ("calculator_", false, |line, _| calculators::check(line)),
    ("traces", false, |line, _| traces::check(line)),
    ("hpa_admission", false, |line, _| admission::check(line)),
    ("quantity", false, |line, _| values::quantity(line)),
    ("milli_format", false, |line, _| values::milli_format(line)),
    ("selector", true, values::selector),
    ("label_selector", true, values::label_selector),
    ("prometheus_rules", true, rules::check),
    ("kma_hpa_config", false, |line, _| kma::hpa_config(line)),
    ("kma_promql", false, |line, _| block_on(kma::promql(line))),
    ("kma_http", false, |line, _| block_on(kma_http::check(line))),
    ("kma_store", false, |line, _| kma_store::check(line)),
    ("json_path", false, |line, _| json_path::check(line)),
    ("scaling_schedule", false, |line, _| schedules::check(line)),
    ("prometheus_adapter_http", true, |line, header| block_on(adapter::http::check(line, header))),
    ("prometheus_adapter_start", false, |line, _| adapter::start::check(line)),
];

/// The directory of this file. The suite starts the binary of the crate `hpa`, so it is a test of
/// that crate, and `CARGO_MANIFEST_DIR` is the directory of that crate.
pub(crate) const DEFAULT_DIR: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance");

/// Number of data files in the default directory. Fewer files are an error.
const DEFAULT_FILE_COUNT: usize = 18;

fn main() -> ExitCode {
    let custom_dir = std::env::var_os("HPA_CONFORMANCE_DIR").map(PathBuf::from);
    let min_files = if custom_dir.is_some() { 1 } else { DEFAULT_FILE_COUNT };
    let dir = custom_dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DIR));
    let files = match data_files(&dir) {
        Ok(files) if files.len() >= min_files => files,
        Ok(files) => {
            return invalid_dir(&dir, &format!("only {} files with recorded data", files.len()));
        }
        Err(error) => return invalid_dir(&dir, &error.to_string()),
    };
    let name_parts: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_selected = |name: &str| {
        name_parts.is_empty() || name_parts.iter().any(|part| name.contains(part.as_str()))
    };
    let (mut passed, mut failed) = (0, 0);
    for path in files {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default();
        if !is_selected(name) {
            continue;
        }
        match check_file(&path, name) {
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
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 \
         filtered out"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn invalid_dir(dir: &Path, reason: &str) -> ExitCode {
    println!("{}: {reason}", dir.display());
    ExitCode::FAILURE
}

/// Runs an asynchronous check. Its servers and other tasks end with it.
fn block_on(check: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(check)
}

/// The data files in a directory, sorted by name.
fn data_files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let uncompressed = if path.extension().is_some_and(|extension| extension == "gz") {
            path.with_extension("")
        } else {
            path.clone()
        };
        if uncompressed.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Checks all lines of a file. Returns how many passed and failed.
fn check_file(path: &Path, name: &str) -> std::io::Result<(usize, usize)> {
    let found = CHECKS.into_iter().find(|(prefix, ..)| name.starts_with(prefix));
    let Some((_, has_header, check)) = found else {
        return Err(std::io::Error::other("no check for a file of this name"));
    };
    let file = File::open(path)?;
    let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
    let reader: Box<dyn Read> =
        if is_compressed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    let mut lines = BufReader::new(reader).lines();
    let header = if has_header {
        serde_json::from_str(&lines.next().transpose()?.unwrap_or_default())?
    } else {
        Value::Null
    };
    let (mut passed, mut failed) = (0, 0);
    for (number, line) in lines.enumerate() {
        let line: Value = serde_json::from_str(&line?)?;
        let Err(difference) = check(&line, &header) else {
            passed += 1;
            continue;
        };
        failed += 1;
        if failed <= MAX_DIFFERENCES {
            let label = line.get("name").or_else(|| line.get("input")).unwrap_or(&Value::Null);
            let label: String = label.to_string().chars().take(200).collect();
            let number = number + 1 + usize::from(has_header);
            println!("  {name} line {number}: {label}\n    {difference}");
        }
    }
    if passed + failed == 0 {
        return Err(std::io::Error::other("no lines"));
    }
    Ok((passed, failed))
}
