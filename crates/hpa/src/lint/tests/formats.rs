//! The output formats, and the documentation of the rules.

use super::*;
use crate::lint::rules::{RULES, Rule};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lint.md");

#[test]
fn formats_have_rule_position_and_field() {
    let mut findings = lint(manifests_with(&[(0, "/spec/maxReplicas", json!(2))]));
    let text = output::text(&findings, 1, 0);
    assert!(
        text.starts_with("f.yaml:1: warning: shop/web: spec.minReplicas: minReplicas and"),
        "{text}"
    );
    let end = "(fixed-size)\n1 autoscaler, 0 errors, 1 warning, 0 notes\n";
    assert!(text.ends_with(end), "{text}");
    let json: Value = serde_json::from_str(&output::json(&findings).unwrap()).unwrap();
    assert_eq!((&json[0]["severity"], &json[0]["line"]), (&json!("warning"), &json!(1)));
    let problem = Problem { place: "g.yaml:3".to_owned(), message: "not YAML".to_owned() };
    findings[0].file = "./my charts/100%#1.yaml".to_owned();
    let sarif: Value =
        serde_json::from_str(&output::sarif(&findings, &[problem]).unwrap()).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!(run["results"][0]["ruleId"], "fixed-size");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), RULES.len());
    assert_eq!(rules[0]["help"]["text"], "See section invalid of docs/lint.md in hpa-rs");
    let place = &run["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "my%20charts/100%25%231.yaml");
    assert_eq!(place["region"], json!({ "startLine": 1, "startColumn": 1 }));
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let text = &invocation["toolExecutionNotifications"][0]["message"]["text"];
    assert_eq!(text, "g.yaml:3: not YAML");
}

#[test]
fn object_of_a_cluster_has_no_physical_location_in_sarif() {
    let mut findings = lint(manifests_with(&[(0, "/spec/maxReplicas", json!(2))]));
    findings[0].position.line = 0;
    findings[0].file = crate::findings::CLUSTER.to_owned();
    let sarif: Value = serde_json::from_str(&output::sarif(&findings, &[]).unwrap()).unwrap();
    let location = &sarif["runs"][0]["results"][0]["locations"][0];
    let expected = json!([{ "fullyQualifiedName": "shop/web:spec.minReplicas" }]);
    assert_eq!(location, &json!({ "logicalLocations": expected }));
}

#[rstest]
#[case::link(r"\[x](javascript:alert(1))", r"\\\[x\](javascript:alert(1))")]
#[case::brackets(r"a\[0]", r"a\[0]")]
#[case::placeholder("{0}", "{{0}}")]
#[case::control("a\n\u{1b}[31m\u{202e}", r"a\n\u{{1b}}[31m\u{{202e}}")]
fn sarif_message_has_neither_links_nor_placeholders(#[case] text: &str, #[case] expected: &str) {
    let problem = Problem { place: text.to_owned(), message: "not YAML".to_owned() };
    let sarif: Value = serde_json::from_str(&output::sarif(&[], &[problem]).unwrap()).unwrap();
    let invocation = &sarif["runs"][0]["invocations"][0];
    let message = &invocation["toolExecutionNotifications"][0]["message"]["text"];
    assert_eq!(*message, format!("{expected}: not YAML"));
}

#[test]
fn long_names_are_shortened_in_findings() {
    let long = "n".repeat(200_000);
    let findings = lint(manifests_with(&[
        (0, "/metadata/name", json!(long)),
        (0, "/metadata/annotations", json!({ (format!("autoscaling.hpa-rs.dev/{long}")): "x" })),
        (0, "/spec/maxReplicas", json!(2)),
    ]));
    assert!(!findings.is_empty());
    for finding in &findings {
        assert!(finding.autoscaler.ends_with("nn…"), "{}", finding.rule.id);
        let size = finding.autoscaler.len() + finding.field.len() + finding.message.len();
        assert!(size < 3000, "{size}: {}", finding.rule.id);
    }
}

#[test]
fn document_has_a_table_row_and_section_for_each_rule() {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/lint.md");
    let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| [")).collect();
    let row = |rule: &Rule| {
        let (id, severity) = (rule.id, rule.severity.as_str());
        format!("| [{id}](#{id}) | {severity} | {} |", rule.summary)
    };
    let expected: Vec<String> = RULES.iter().map(row).collect();
    assert_eq!(rows, expected, "the table must be:\n{}", expected.join("\n"));
    for id in RULES.iter().map(|rule| rule.id) {
        assert!(document.contains(&format!("\n### {id}\n")), "no section {id}");
    }
    let sections = document.lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(sections, RULES.len(), "a section is of no rule");
}

/// In the guide, a line with only a file's name precedes each block of code from that file.
#[test]
fn guide_shows_code_that_exists() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let guide = root.join("docs/contributing/add-a-lint-rule.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let mut lines = guide.lines();
    let mut checked = 0;
    while let Some(line) = lines.next() {
        let file = line.strip_prefix('`').and_then(|line| line.strip_suffix("`:"));
        let Some(file) = file else { continue };
        let content = std::fs::read_to_string(root.join(file)).expect(file);
        let block: Vec<&str> =
            lines.by_ref().skip(2).take_while(|line| !line.starts_with("```")).collect();
        for part in block.join("\n").split("\n...\n") {
            assert!(content.contains(part), "{file} lacks\n{part}");
            checked += 1;
        }
    }
    assert!(checked >= 4, "only {checked} blocks");
}
