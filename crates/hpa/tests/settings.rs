//! docs/settings.md lists what the table of the engine has.

use std::{fmt::Write as _, fs};

use hpa_calc::settings::SETTINGS;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");

/// The table of docs/settings.md.
fn table() -> String {
    let mut table = String::from("| name | field | values | default |\n|---|---|---|---|\n");
    for setting in SETTINGS {
        let parent = match setting.metric_types() {
            None => "spec.".to_owned(),
            Some(types) => {
                let members: Vec<_> = types.iter().map(|kind| kind.member()).collect();
                format!("spec.metrics[].{{{}}}.", members.join(", "))
            }
        };
        let values = setting.expected().replace('|', "\\|");
        writeln!(
            table,
            "| `{}` | `{parent}{}` | {values} | {} |\n| | {} | | |",
            setting.name, setting.field, setting.default, setting.summary
        )
        .expect("a string can be written");
    }
    table
}

#[test]
fn document_has_the_table_of_the_code() {
    let document = fs::read_to_string(DOCUMENT).expect("docs/settings.md");
    let table = table();
    assert!(document.contains(&table), "docs/settings.md must have this table:\n\n{table}");
}

#[test]
fn document_has_a_section_of_each_setting() {
    let document = fs::read_to_string(DOCUMENT).expect("docs/settings.md");
    for setting in SETTINGS {
        let heading = format!("\n## {}\n", setting.name);
        assert!(document.contains(&heading), "docs/settings.md has no section {}", setting.name);
    }
}
