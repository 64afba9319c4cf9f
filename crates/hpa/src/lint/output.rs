//! Findings as text, JSON and SARIF.

use std::fmt::Write;

use hpa_calc::explain::counted;

use super::{
    finding::{Finding, Severity},
    rules::{RULES, Rule},
};
use crate::{
    findings::{self, Entry},
    manifests::Problem,
    terminal::escape_line,
};

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
    findings::json("autoscaler", findings.iter().map(entry))
}

pub(super) fn sarif(findings: &[Finding], problems: &[Problem]) -> serde_json::Result<String> {
    let kinds = RULES.iter().map(Rule::kind);
    findings::sarif("hpa lint", kinds, findings.iter().map(entry), problems)
}

fn entry(finding: &Finding) -> Entry<'_> {
    let Finding { rule, file, position, autoscaler, field, message } = finding;
    Entry {
        kind: rule.kind(),
        severity: rule.severity,
        file,
        position: *position,
        subject: autoscaler,
        field,
        message,
    }
}
