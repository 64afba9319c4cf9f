//! Starts Prometheus.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use hpa_tests::kube_apiserver::{Process, free_ports};
use tempfile::TempDir;
use tokio::process::Command;

use crate::fixture;

/// A running Prometheus. Dropping the handle stops it.
pub(crate) struct Server {
    pub(crate) url: String,
    _process: Process,
    _dir: TempDir,
}

/// The version of Prometheus. Fails if Prometheus or promtool is missing or doesn't run.
pub(crate) fn version() -> Result<String> {
    version_of("promtool")?;
    version_of("prometheus")
}

fn version_of(program: &str) -> Result<String> {
    let output = std::process::Command::new(program).arg("--version").output();
    let output = output.with_context(|| {
        format!("there is no {program} in PATH (Debian has a package prometheus)")
    })?;
    ensure!(output.status.success(), "{program} --version: {}", output.status);
    // `prometheus, version 2.42.0 (branch: ...)`. Older versions print it to standard error.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.split_whitespace().nth(2).context("no version")?.to_owned())
}

impl Server {
    /// Starts Prometheus with recording rules. It scrapes the [`fixture`].
    pub(crate) async fn start(recording: &[&str]) -> Result<Self> {
        let target = fixture::serve().await;
        let dir = tempfile::tempdir()?;
        let mut files = String::new();
        for (index, rules) in recording.iter().enumerate() {
            let path = dir.path().join(format!("rules-{index}.yaml"));
            fs::write(&path, rules)?;
            writeln!(files, "- {}", path.display())?;
        }
        let config = format!(
            "global: {{scrape_interval: 100ms, scrape_timeout: 100ms, evaluation_interval: \
             200ms}}\nrule_files:\n{files}\
             scrape_configs:\n\
             - job_name: fixture\n\
             \x20 honor_labels: true\n\
             \x20 static_configs: [{{targets: ['{target}']}}]\n"
        );
        let (process, url) = start_process(dir.path(), &config)?;
        Ok(Self { url, _process: process, _dir: dir })
    }

    /// Starts Prometheus with the series of an OpenMetrics file, and without scraping.
    pub(crate) fn start_with_series(openmetrics: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("series.txt");
        fs::write(&file, openmetrics)?;
        let output = std::process::Command::new("promtool")
            // With the default blocks of two hours, it would take long: promtool reads the whole
            // file for each block.
            .args(["tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=500h"])
            .args([file, dir.path().join("data")])
            .output()
            .context("there is no promtool in PATH")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "promtool: {errors}");
        let (process, url) = start_process(dir.path(), "")?;
        Ok(Self { url, _process: process, _dir: dir })
    }
}

/// Starts the process, and returns it with its URL.
fn start_process(dir: &Path, config: &str) -> Result<(Process, String)> {
    let config_path = dir.join("prometheus.yaml");
    fs::write(&config_path, config)?;
    let [port] = free_ports()?;
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", config_path.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg("--storage.tsdb.retention.time=60d")
        .arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let process = Process::start(dir, "prometheus", command)?;
    Ok((process, format!("http://127.0.0.1:{port}")))
}
