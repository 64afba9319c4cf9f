//! Findings as text, JSON and SARIF.

use std::fmt::Write;

use hpa_calc::explain::{counted, one_line};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{
    finding::{Finding, Severity},
    rules::RULES,
};
use crate::{manifests::Problem, terminal::escape_line};

const SARIF_SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The characters of a file's path that a URI must escape.
const URI_ESCAPES: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// One line for each finding, then the counts, unless nothing could be checked. `problem_count` is
/// the number of inputs that could not be checked. The caller prints these problems.
pub(super) fn text(findings: &[Finding], autoscaler_count: usize, problem_count: usize) -> String {
    let mut text = String::new();
    for finding in findings {
        // Writing to a string doesn't fail.
        let _ = writeln!(text, "{} ({})", line(finding), finding.rule.id);
    }
    let count = |severity| findings.iter().filter(|one| one.rule.severity == severity).count();
    let error_count = count(Severity::Error);
    if problem_count > 0 && findings.is_empty() && autoscaler_count == 0 {
        return text;
    }
    let mut counts = vec![counted(autoscaler_count, "autoscaler")];
    if problem_count > 0 {
        counts.push(format!("{} not checked (see stderr)", counted(problem_count, "input")));
    }
    // "0 errors" would be wrong if an input that could not be checked has some.
    if problem_count == 0 || error_count > 0 {
        counts.push(counted(error_count, "error"));
    }
    counts.push(counted(count(Severity::Warning), "warning"));
    counts.push(counted(count(Severity::Note), "note"));
    text + &counts.join(", ") + "\n"
}

/// A finding on one line, without its rule.
pub(super) fn line(finding: &Finding) -> String {
    let Finding { file, position, autoscaler, field, message, rule } = finding;
    let severity = rule.severity.as_str();
    let location = match position.line {
        0 => file.clone(),
        line => format!("{file}:{line}"),
    };
    escape_line(&format!("{location}: {severity}: {autoscaler}: {field}: {message}"))
}

pub(super) fn json(findings: &[Finding]) -> serde_json::Result<String> {
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "rule": finding.rule.id,
                "severity": finding.rule.severity.as_str(),
                "file": finding.file,
                "line": finding.position.line,
                "column": finding.position.column,
                "autoscaler": finding.autoscaler,
                "field": finding.field,
                "message": finding.message,
                "help": finding.rule.help(),
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&findings)? + "\n")
}

pub(super) fn sarif(findings: &[Finding], problems: &[Problem]) -> serde_json::Result<String> {
    let rules: Vec<Value> = RULES
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "shortDescription": { "text": capitalized(rule.summary) },
                "help": { "text": format!("See {}", rule.help()) },
                "defaultConfiguration": { "level": rule.severity.as_str() },
            })
        })
        .collect();
    let results: Vec<Value> = findings.iter().map(sarif_result).collect();
    let notifications: Vec<Value> = problems
        .iter()
        .map(|problem| json!({ "level": "error", "message": sarif_message(&problem.to_string()) }))
        .collect();
    let driver = json!({
        "name": "hpa lint",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let log = json!({
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": driver },
            "invocations": [{
                "executionSuccessful": problems.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    });
    Ok(serde_json::to_string_pretty(&log)? + "\n")
}

/// The text with its first letter in upper case.
fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at_checked(1).unwrap_or((text, ""));
    first.to_uppercase() + rest
}

/// A file as a URI reference, without `./`, as viewers name the files of a repository.
fn file_uri(file: &str) -> String {
    let path = file.replace(std::path::MAIN_SEPARATOR, "/");
    utf8_percent_encode(path.strip_prefix("./").unwrap_or(&path), URI_ESCAPES).to_string()
}

/// A message without the meaning that SARIF gives to `{0}` (a placeholder) and to `[text](uri)` (a
/// link): sections 3.11.5 and 3.11.6 of SARIF 2.1.0. Brackets are escaped only if there may be a
/// link, because viewers without links print the backslashes, and paths of fields have brackets.
fn sarif_message(text: &str) -> Value {
    let mut text = one_line(text).replace('{', "{{").replace('}', "}}");
    if text.contains("](") {
        text = text.replace('\\', r"\\").replace('[', r"\[").replace(']', r"\]");
    }
    json!({ "text": text })
}

fn sarif_result(finding: &Finding) -> Value {
    let Finding { rule, file, position, autoscaler, field, message } = finding;
    let logical = json!([{ "fullyQualifiedName": format!("{autoscaler}:{field}") }]);
    // A viewer can't open an object of a cluster, which has no line.
    let location = if position.line == 0 {
        json!({ "logicalLocations": logical })
    } else {
        json!({
            "physicalLocation": {
                "artifactLocation": { "uri": file_uri(file) },
                "region": { "startLine": position.line, "startColumn": position.column.max(1) },
            },
            "logicalLocations": logical,
        })
    };
    json!({
        "ruleId": rule.id,
        "level": rule.severity.as_str(),
        "message": sarif_message(&format!("{autoscaler}: {field}: {message}")),
        "locations": [location],
    })
}
