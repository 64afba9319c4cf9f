//! The findings of `hpa rules check` as JSON and SARIF.

use hpa_prometheus::rules::config::Finding;

use super::CheckedRules;
use crate::{
    findings::{self, Entry, FindingKind, Severity},
    manifests::Problem,
};

/// The kinds of findings: the part of the rules that they are about, and the mistake.
/// `docs/prometheus.md` has the same table.
static KINDS: [(&str, &str); 9] = [
    ("field", "another field of the file is unknown, repeated or has an invalid value"),
    ("series-query", "`seriesQuery` is missing or is not a selector"),
    ("series-filters", "`seriesFilters` is invalid or excludes the series"),
    ("name", "`name` is invalid or gives no name of a metric"),
    ("resources", "`resources` is invalid, or a label of it is not used"),
    ("metrics-query", "`metricsQuery` is invalid or may have a wrong result"),
    ("resource-rules", "`resourceRules` is invalid, or its queries have a wrong result"),
    ("server", "a server is invalid or doesn't exist"),
    (
        "rule",
        "a field of a rule is unknown or repeated, or Prometheus has no series, no usable sample \
         or several series of a metric for the rule",
    ),
];

fn kind(id: &'static str, summary: &'static str) -> FindingKind {
    let (section, page) = ("Kinds of findings", "docs/prometheus.md");
    FindingKind { id, severity: Severity::Error, summary, section, page }
}

/// The kind of a finding about the field at this path.
fn kind_of(path: &str) -> FindingKind {
    let (rule, field) = path.split_once('.').unwrap_or((path, ""));
    let field = field.split(['.', '[']).next().unwrap_or_default();
    let id = match (rule.split('[').next().unwrap_or_default(), field) {
        ("servers", _) | (_, "server") => "server",
        ("resourceRules", _) => "resource-rules",
        (_, "seriesQuery") => "series-query",
        (_, "seriesFilters") => "series-filters",
        (_, "name") => "name",
        (_, "resources") => "resources",
        (_, "metricsQuery") => "metrics-query",
        ("rules" | "externalRules", "") if rule.ends_with(']') => "rule",
        (name, "") if name.starts_with("default rule ") => "rule",
        _ => "field",
    };
    let known = KINDS.iter().find(|(known, _)| *known == id);
    kind(id, known.map_or("", |(_, summary)| *summary))
}

pub(super) fn json(file: &str, places: &[CheckedRules]) -> serde_json::Result<String> {
    findings::json("place", entries(file, places))
}

pub(super) fn sarif(
    file: &str,
    places: &[CheckedRules],
    problems: &[Problem],
) -> serde_json::Result<String> {
    let kinds = KINDS.iter().map(|(id, summary)| kind(id, summary));
    findings::sarif("hpa rules check", kinds, entries(file, places), problems)
}

/// The servers that should have been read and didn't answer.
pub(super) fn problems(file: &str, places: &[CheckedRules]) -> Vec<Problem> {
    let unread = places.iter().filter(|checked| !checked.unread.is_empty());
    let problems = unread.map(|CheckedRules { place, unread, .. }| Problem {
        place: if place.is_empty() { file.to_owned() } else { format!("{file}: {place}") },
        message: unread.join("; "),
    });
    problems.collect()
}

fn entries<'a>(file: &'a str, places: &'a [CheckedRules]) -> impl Iterator<Item = Entry<'a>> {
    places.iter().flat_map(move |CheckedRules { place, findings, .. }| {
        findings.iter().map(move |finding| entry(file, place, finding))
    })
}

fn entry<'a>(file: &'a str, place: &'a str, finding: &'a Finding) -> Entry<'a> {
    Entry {
        kind: kind_of(&finding.path),
        severity: if finding.is_warning { Severity::Warning } else { Severity::Error },
        file,
        position: finding.position.unwrap_or_default(),
        subject: place,
        field: &finding.path,
        message: &finding.message,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::query("rules[0].metricsQuery", "metrics-query")]
    #[case::filter("externalRules[2].seriesFilters[1]", "series-filters")]
    #[case::label("default rule 3.resources.overrides.pod", "resources")]
    #[case::sample("rules[0]", "rule")]
    #[case::default_rule("default rule 3", "rule")]
    #[case::reference("externalRules[0].server", "server")]
    #[case::server("servers[0].tokenFile", "server")]
    #[case::usage("resourceRules.cpu.nodeQuery", "resource-rules")]
    #[case::section("rules", "field")]
    #[case::document("", "field")]
    fn kind_is_the_part_of_the_rules(#[case] path: &str, #[case] id: &str) {
        assert_eq!(kind_of(path).id, id);
    }

    #[test]
    fn document_has_a_row_for_each_kind() {
        let document = include_str!("../../../../../docs/prometheus.md");
        for (id, summary) in KINDS {
            assert!(document.contains(&format!("| `{id}` | {summary} |\n")), "{id}");
        }
    }
}
