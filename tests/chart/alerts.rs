//! Evaluates the alerts on recorded series with promtool.

use std::{
    fs,
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};
use hpa_tests::repository_path;

const RULES: &str = "charts/hpa-controller/files/rules.yaml";
const TESTS: &str = "tests/chart/alerts.yaml";

pub(crate) fn version() -> Result<String> {
    let output = promtool(&["--version"])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `promtool, version 3.1.0 (branch: ...)`
    Ok(text.split_whitespace().nth(2).unwrap_or_default().to_owned())
}

/// On the series of `alerts.yaml`, exactly the alerts that it expects fire.
pub(crate) fn check_firing_alerts() -> Result<()> {
    // Paths of rules are relative to the file with the tests.
    let dir = tempfile::tempdir()?;
    fs::copy(repository_path(RULES), dir.path().join("rules.yaml"))?;
    let tests = dir.path().join("alerts.yaml");
    fs::copy(repository_path(TESTS), &tests)?;
    let tests = tests.to_str().context("a path in UTF-8")?;
    let Output { status, stdout, stderr } = promtool(&["test", "rules", tests])?;
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    ensure!(status.success(), "{stdout}{stderr}");
    Ok(())
}

fn promtool(arguments: &[&str]) -> Result<Output> {
    Command::new("promtool").args(arguments).output().context("promtool is not in PATH")
}
