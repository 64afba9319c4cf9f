//! Compares docs/settings.md with the settings of the engine.

#![allow(clippy::expect_used, clippy::format_push_string, reason = "tests")]

use std::fs;

use hpa_calc::{
    api::MetricSourceType,
    settings::{SETTINGS, Setting},
};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");

/// The table of settings, as docs/settings.md must have it.
fn settings_table() -> String {
    let mut table = String::from("| name | field | values | default |\n|---|---|---|---|\n");
    for setting in SETTINGS {
        let parent = match setting.metric_types() {
            None => "spec.".to_owned(),
            Some(types) => {
                let members: Vec<_> = types.iter().filter_map(MetricSourceType::member).collect();
                format!("spec.metrics[].{{{}}}.", members.join(", "))
            }
        };
        let values = setting.expected().replace('|', "\\|");
        let Setting { name, field, default, summary, .. } = setting;
        table += &format!("| `{name}` | `{parent}{field}` | {values} | {default} |\n");
        table += &format!("| | {summary} | | |\n");
    }
    table
}

#[test]
fn document_has_the_table_of_the_code() {
    let document = fs::read_to_string(DOCUMENT).expect("docs/settings.md");
    let table = settings_table();
    assert!(document.contains(&table), "docs/settings.md must have this table:\n\n{table}");
}

#[test]
fn document_has_a_section_for_each_setting() {
    let document = fs::read_to_string(DOCUMENT).expect("docs/settings.md");
    for setting in SETTINGS {
        let heading = format!("\n## {}\n", setting.name);
        assert!(document.contains(&heading), "docs/settings.md has no section {}", setting.name);
    }
}
