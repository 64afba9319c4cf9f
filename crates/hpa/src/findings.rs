//! Findings of `hpa lint` and `hpa rules check` as JSON and SARIF.

use hpa_calc::explain::one_line;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::manifests::{Position, Problem};

/// The name in [`Entry::file`] of objects that were read from a cluster.
pub(crate) const CLUSTER: &str = "cluster";

const SARIF_SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The characters of a file's path that a URI must escape.
const URI_ESCAPES: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// The severity of a finding, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// The setting may be intended.
    Note,
    /// The autoscaler or the rule doesn't work as intended, or may fail at any time.
    Warning,
    /// The object or the rule is refused, or can't work.
    Error,
}

impl Severity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A kind of finding.
#[derive(Clone, Copy)]
pub(crate) struct FindingKind {
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    /// The mistake, as in a table of the documentation.
    pub(crate) summary: &'static str,
    /// The section of the documentation of this project, as in "section ID of PAGE". Not a link,
    /// because the user's repository has no such file.
    pub(crate) section: &'static str,
    pub(crate) page: &'static str,
}

impl FindingKind {
    fn help(&self) -> String {
        format!("section {} of {} in hpa-rs", self.section, self.page)
    }
}

/// A finding, as JSON and SARIF write it.
pub(crate) struct Entry<'a> {
    pub(crate) kind: FindingKind,
    pub(crate) severity: Severity,
    pub(crate) file: &'a str,
    /// The line is 0 if the finding is at no position of a file.
    pub(crate) position: Position,
    /// The autoscaler, or the place of the rules in the file. May be empty.
    pub(crate) subject: &'a str,
    /// The path of the field. May be empty.
    pub(crate) field: &'a str,
    pub(crate) message: &'a str,
}

/// A list of findings. `subject` is the name of the member for [`Entry::subject`].
pub(crate) fn json<'a>(
    subject: &str,
    entries: impl Iterator<Item = Entry<'a>>,
) -> serde_json::Result<String> {
    let findings = entries.map(|entry| {
        json!({
            "rule": entry.kind.id,
            "severity": entry.severity.as_str(),
            "file": entry.file,
            "line": entry.position.line,
            "column": entry.position.column,
            (subject): entry.subject,
            "field": entry.field,
            "message": entry.message,
            "help": entry.kind.help(),
        })
    });
    Ok(serde_json::to_string_pretty(&findings.collect::<Vec<_>>())? + "\n")
}

/// A log of one run of `tool`, which has these kinds of findings.
pub(crate) fn sarif<'a>(
    tool: &str,
    kinds: impl Iterator<Item = FindingKind>,
    entries: impl Iterator<Item = Entry<'a>>,
    problems: &[Problem],
) -> serde_json::Result<String> {
    let rules = kinds.map(|kind| {
        json!({
            "id": kind.id,
            "shortDescription": { "text": capitalized(kind.summary) },
            "help": { "text": format!("See {}", kind.help()) },
            "defaultConfiguration": { "level": kind.severity.as_str() },
        })
    });
    let results: Vec<Value> = entries.map(|entry| sarif_result(&entry)).collect();
    let notifications: Vec<Value> = problems
        .iter()
        .map(|problem| json!({ "level": "error", "message": sarif_message(&problem.to_string()) }))
        .collect();
    let driver = json!({
        "name": tool,
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules.collect::<Vec<_>>(),
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
pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars.as_str().chars()).collect()
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

fn sarif_result(entry: &Entry<'_>) -> Value {
    let Entry { kind, severity, file, position, subject, field, message } = *entry;
    let joined = |parts: &[&str], separator: &str| {
        let parts = parts.iter().copied().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(separator)
    };
    let logical = json!([{ "fullyQualifiedName": joined(&[subject, field], ":") }]);
    let artifact = json!({ "uri": file_uri(file) });
    let location = if position.line > 0 {
        json!({
            "physicalLocation": {
                "artifactLocation": artifact,
                "region": { "startLine": position.line, "startColumn": position.column.max(1) },
            },
            "logicalLocations": logical,
        })
    } else if file == CLUSTER {
        // A viewer can't open an object of a cluster.
        json!({ "logicalLocations": logical })
    } else {
        json!({
            "physicalLocation": { "artifactLocation": artifact },
            "logicalLocations": logical,
        })
    };
    json!({
        "ruleId": kind.id,
        "level": severity.as_str(),
        "message": sarif_message(&joined(&[subject, field, message], ": ")),
        "locations": [location],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_letter_is_capitalized() {
        let texts = ["", "the lease", "élan et repos"].map(capitalized);
        assert_eq!(texts, ["", "The lease", "Élan et repos"]);
    }
}
