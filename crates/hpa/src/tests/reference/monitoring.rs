//! The pages of exported metrics and of alerts.

use serde_json::Value;

use super::{Page, code, read_yaml};
use crate::tests::export_tests::{Exposition, alerting_rules};

/// `exposition` must have all metrics, in Prometheus's text format.
pub(super) fn metrics(exposition: &str) -> Page {
    let mut page = Page::new(
        "metrics.md",
        "Metrics",
        "The metrics that `hpa run` exports with all its sources. [Metrics](../metrics.md) names \
         the flag that each one needs.",
    );
    page.start_table(None, &["metric", "type", "labels", ""]);
    let help = |name: &str| {
        let start = format!("# HELP {name} ");
        exposition.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default()
    };
    for (name, (kind, labels)) in Exposition::parse(exposition).families {
        let label_cells: Vec<String> = labels.iter().map(|label| code(label)).collect();
        page.add_row(&[&code(&name), &kind, &label_cells.join(" "), help(&name)]);
        page.names.extend(labels.iter().map(|label| format!("{name}{{{label}}}")));
        page.names.push(name);
    }
    page
}

pub(super) fn alerts() -> Page {
    let mut page = Page::new(
        "alerts.md",
        "Alerts",
        "The rules of the chart. [Alerts](../alerts.md) says what to do about each.",
    );
    let rules = read_yaml("charts/hpa-controller/files/rules.yaml");
    page.start_table(None, &["alert", "severity", "for", "", "expression"]);
    for rule in alerting_rules(&rules) {
        let text = |pointer: &str| rule.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let Some(name) = rule["alert"].as_str() else { continue };
        let link = format!("[{name}](../alerts.md#{})", name.to_lowercase());
        let summary = text("/annotations/summary").replace("{{", "`{{").replace("}}", "}}`");
        let expression = code(text("/expr"));
        page.add_row(&[&link, text("/labels/severity"), text("/for"), &summary, &expression]);
        page.names.push(name.to_owned());
    }
    page
}
