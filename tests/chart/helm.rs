//! Runs helm.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use hpa_tests::repository_path;
use serde_json::Value;

/// A chart with sets of values. The set `defaults` is empty, the others are files in `directory`.
pub(crate) struct Chart {
    pub(crate) name: &'static str,
    directory: &'static str,
    pub(crate) value_sets: &'static [&'static str],
}

pub(crate) const CONTROLLER: Chart = Chart {
    name: "hpa-controller",
    directory: "values",
    value_sets: &["defaults", "everything", "namespaced", "shadow", "custom"],
};
pub(crate) const ADAPTER: Chart = Chart {
    name: "hpa-adapter",
    directory: "values/adapter",
    value_sets: &["defaults", "everything", "cert-manager", "moved"],
};

/// The name of the release, which differs from the name of the chart.
pub(crate) const RELEASE: &str = "test";
pub(crate) const NAMESPACE: &str = "autoscaling-system";

#[derive(Clone)]
pub(crate) struct Helm {
    path: PathBuf,
    chart: &'static Chart,
    pub(crate) version: String,
}

fn version(path: &Path) -> Result<String> {
    let output = Command::new(path).args(["version", "--short"]).output()?;
    ensure!(output.status.success(), "{}", output_text(&output));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn output_text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

impl Helm {
    /// The binary at a path, for the controller's chart.
    pub(crate) fn new(path: PathBuf) -> Result<Self> {
        let version = version(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, chart: &CONTROLLER, version })
    }

    /// The same binary for another chart.
    pub(crate) fn with_chart(&self, chart: &'static Chart) -> Self {
        Self { chart, ..self.clone() }
    }

    pub(crate) fn chart_name(&self) -> &'static str {
        self.chart.name
    }

    fn run(&self, arguments: &[&str], extra_arguments: &[String]) -> Result<Output> {
        let mut command = Command::new(&self.path);
        command.args(arguments).arg(self.chart.path()).args(extra_arguments);
        command.output().context("helm")
    }

    /// Runs `helm lint --strict`. Fails if it reports a problem.
    pub(crate) fn lint(&self, value_set: &str) -> Result<()> {
        let output = self.run(&["lint", "--strict"], &self.chart.value_arguments(value_set))?;
        ensure!(output.status.success(), "helm lint: {}", output_text(&output));
        Ok(())
    }

    /// Renders the chart with a set of values.
    pub(crate) fn template(&self, value_set: &str) -> Result<Vec<Value>> {
        self.render(&self.chart.value_arguments(value_set))
    }

    /// Renders the chart with `--set`.
    pub(crate) fn template_with(&self, set: &str) -> Result<Vec<Value>> {
        self.render(&["--set".to_owned(), set.to_owned()])
    }

    /// The notes after an installation with `--set`.
    pub(crate) fn notes(&self, set: &str) -> Result<String> {
        let values = ["--dry-run=client", "--set", set].map(str::to_owned);
        let output = self.run(&["install", RELEASE, "--namespace", NAMESPACE], &values)?;
        ensure!(output.status.success(), "helm install: {}", output_text(&output));
        let output = String::from_utf8(output.stdout)?;
        let (_, notes) = output.split_once("\nNOTES:\n").context("no notes")?;
        Ok(notes.to_owned())
    }

    /// Renders the chart for a version of Kubernetes.
    pub(crate) fn template_for_version(&self, version: &str) -> Result<Vec<Value>> {
        self.render(&["--kube-version".to_owned(), version.to_owned()])
    }

    /// The rendered text of a release in a namespace of the same name.
    pub(crate) fn render_text(&self, release: &str, value_set: &str) -> Result<String> {
        self.render_release(release, release, &self.chart.value_arguments(value_set))
    }

    /// The objects of a release in a namespace of the same name, without Helm's labels.
    pub(crate) fn manifests(&self, release: &str) -> Result<String> {
        let rendered = self.render_text(release, "defaults")?;
        let is_kept = |line: &&str| {
            let line = line.trim_start();
            !["# Source:", "helm.sh/chart:", "app.kubernetes.io/managed-by:"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        let lines: Vec<&str> = rendered.lines().filter(is_kept).collect();
        Ok(format!(
            "# Made from charts/hpa-adapter with its default values: just adapter-manifests\n{}\n",
            lines.join("\n")
        ))
    }

    fn render(&self, values: &[String]) -> Result<Vec<Value>> {
        parse_documents(&self.render_release(RELEASE, NAMESPACE, values)?)
    }

    fn render_release(&self, release: &str, namespace: &str, values: &[String]) -> Result<String> {
        let output = self.run(&["template", release, "--namespace", namespace], values)?;
        ensure!(output.status.success(), "helm template: {}", output_text(&output));
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Chart {
    pub(crate) fn path(&self) -> PathBuf {
        repository_path("charts").join(self.name)
    }

    fn value_arguments(&self, value_set: &str) -> Vec<String> {
        if value_set == "defaults" {
            return Vec::new();
        }
        let file = repository_path(&format!("tests/chart/{}/{value_set}.yaml", self.directory));
        vec!["--values".to_owned(), file.display().to_string()]
    }
}

/// Parses a stream of YAML documents.
pub(crate) fn parse_documents(text: &str) -> Result<Vec<Value>> {
    let parse = |document: &str| {
        serde_saphyr::from_str::<Value>(document).with_context(|| format!("not YAML:\n{document}"))
    };
    let all: Vec<Value> = text
        .split("\n---")
        .map(|one| one.trim_start_matches("---"))
        .map(parse)
        .collect::<Result<_>>()?;
    Ok(all.into_iter().filter(|object| !object.is_null()).collect())
}
