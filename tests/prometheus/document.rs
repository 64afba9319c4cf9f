//! Reads the recipes of docs/prometheus.md.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use hpa_calc::api::MetricSpec;
use hpa_tests::repository_path;
use serde::Deserialize;

/// A recipe of the cookbook, from the YAML blocks of its section.
pub(crate) struct Recipe {
    pub(crate) title: String,
    /// A rules file.
    pub(crate) rules: String,
    /// The metric in `spec.metrics` of an autoscaler.
    pub(crate) metric: MetricSpec,
    /// Recording rules of Prometheus.
    pub(crate) recording: Option<String>,
}

/// All recipes, in the order of the document.
pub(crate) fn recipes() -> Result<Vec<Recipe>> {
    let path = repository_path("docs/prometheus.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let cookbook = text.split("\n## ").find(|section| section.starts_with("Cookbook\n"));
    let sections = cookbook.context("no cookbook")?.split("\n### ").skip(1);
    sections.map(recipe).collect()
}

fn recipe(section: &str) -> Result<Recipe> {
    let title = section.lines().next().unwrap_or_default().to_owned();
    let blocks: Vec<&str> =
        section.split("```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next()).collect();
    let find =
        |keys: &[&str]| blocks.iter().find(|block| keys.iter().any(|key| block.starts_with(key)));
    let rules =
        find(&["rules:", "externalRules:"]).with_context(|| format!("{title}: no rules"))?;
    let spec = find(&["metrics:"]).with_context(|| format!("{title}: no metric"))?;
    let recording = find(&["groups:"]);
    ensure!(blocks.len() == 2 + usize::from(recording.is_some()), "{title}: unexpected block");
    let spec: Spec = serde_saphyr::from_str(spec).with_context(|| format!("{title}: {spec}"))?;
    let [metric] = <[MetricSpec; 1]>::try_from(spec.metrics)
        .map_err(|metrics| anyhow::anyhow!("{title}: {} metrics", metrics.len()))?;
    Ok(Recipe {
        title,
        rules: (*rules).to_owned(),
        metric,
        recording: recording.map(|block| (*block).to_owned()),
    })
}

/// The excerpt of an autoscaler's spec in a recipe.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    metrics: Vec<MetricSpec>,
}
