//! Checks that the documentation matches code and charts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hpa_tests::repository_path;
use serde_json::Value;

use crate::{
    files,
    helm::{ADAPTER, CONTROLLER},
    rendered::alert_rules,
};

/// The parts of each alert's section.
const ALERT_PARTS: [&str; 3] = ["**Meaning.**", "**Check.**", "**Cure.**"];

/// docs/alerts.md has one section per alert, in the order of the rules.
pub(crate) fn check_alerts() -> Result<()> {
    let rules = files::read_controller_file("files/rules.yaml")?;
    let alerts: Vec<&str> = alert_rules(&rules).filter_map(|rule| rule["alert"].as_str()).collect();
    ensure!(!alerts.is_empty(), "no alerts");
    let text = fs::read_to_string(repository_path("docs/alerts.md"))?;
    let sections: Vec<&str> = text.split("\n## ").skip(1).collect();
    let titles: Vec<&str> = sections.iter().filter_map(|section| section.lines().next()).collect();
    ensure!(titles == alerts, "sections {titles:?}, alerts {alerts:?}");
    for section in sections {
        for part in ALERT_PARTS {
            ensure!(section.contains(part), "{part} is missing: {section}");
        }
    }
    Ok(())
}

/// docs/debugging.md explains the condition reasons that exist, and no others.
pub(crate) fn check_condition_reasons() -> Result<()> {
    let code = fs::read_to_string(repository_path("crates/calc/src/api/condition.rs"))?;
    let enumeration =
        code.split_once("ConditionReason {").and_then(|(_, rest)| rest.split_once("\n    }"));
    let known: BTreeSet<&str> =
        enumeration.context("no reasons")?.0.split('"').skip(1).step_by(2).collect();
    let text = fs::read_to_string(repository_path("docs/debugging.md"))?;
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("Conditions"))
        .context("no section")?;
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: BTreeSet<&str> = rows.collect();
    ensure!(known.len() > 20, "only {known:?}");
    ensure!(explained == known, "explained {explained:?}, known {known:?}");
    Ok(())
}

/// The Markdown files in the root and in `docs`, without those in `docs/book`.
fn markdown_files() -> Result<Vec<PathBuf>> {
    let root = fs::read_dir(repository_path(""))?;
    let mut found = root.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut directories = vec![repository_path("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            // Links in docs/book are relative to the root.
            if path.is_dir() && !path.ends_with("book") {
                directories.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    ensure!(found.len() > 40, "{found:?}");
    Ok(found)
}

/// Every relative link refers to an existing file and section.
pub(crate) fn check_links() -> Result<()> {
    let mut wrong = Vec::new();
    for document in markdown_files()? {
        let text = fs::read_to_string(&document)?;
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.contains("://") && !target_exists(&document, link)? {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n  "));
    Ok(())
}

fn target_exists(document: &Path, link: &str) -> Result<bool> {
    let (path, section) = link.split_once('#').unwrap_or((link, ""));
    let directory = document.parent().context("a file is in a directory")?;
    let target = if path.is_empty() { document.to_owned() } else { directory.join(path) };
    if section.is_empty() || !target.is_file() {
        return Ok(target.exists());
    }
    let text = fs::read_to_string(target)?;
    Ok(text.lines().filter(|line| line.starts_with('#')).any(|heading| anchor(heading) == section))
}

/// The anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(is_kept)
        .collect::<String>()
        .replace(' ', "-")
}

/// Each `--set` in a document names a value of the chart that its code block installs.
pub(crate) fn check_values() -> Result<()> {
    let schema = |chart| files::read_from_chart(chart, "values.schema.json");
    let (controller, adapter) = (schema(&CONTROLLER)?, schema(&ADAPTER)?);
    let mut seen = BTreeSet::new();
    for document in markdown_files()? {
        let text = fs::read_to_string(&document)?;
        for block in text.split("```") {
            let (chart, schema) = if block.contains("charts/hpa-adapter") {
                (ADAPTER.name, &adapter)
            } else {
                (CONTROLLER.name, &controller)
            };
            for name in set_value_names(block) {
                let document = document.display();
                ensure!(has_value(schema, name), "{document}: {chart} has no {name}");
                seen.insert(format!("{chart} {name}"));
            }
        }
    }
    for used in ["hpa-controller dryRun", "hpa-adapter image.repository"] {
        ensure!(seen.contains(used), "{used} is missing in {seen:?}");
    }
    Ok(())
}

/// The names of the values that `--set` arguments set.
fn set_value_names(block: &str) -> impl Iterator<Item = &str> {
    let arguments = block.split("--set ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    arguments.map(|set| set.trim_matches(['\'', '"', '`']).split('=').next().unwrap_or_default())
}

/// Whether the schema has this value. The fields of embedded Kubernetes objects are not checked.
fn has_value(schema: &Value, name: &str) -> bool {
    let mut at = schema;
    for part in name.split('.') {
        let Some(properties) = at.get("properties") else { return at["type"] == "object" };
        let Some(property) = properties.get(part) else { return false };
        at = property;
    }
    true
}
