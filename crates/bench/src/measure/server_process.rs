//! `hpa-bench serve` as a child process.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use hpa_tests::kube_apiserver::{OnParentExit, Process};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{ChildStdout, Command},
};

use crate::{
    args::RunArguments,
    prometheus,
    stats::{ADD_PATH, PROGRESS_PATH, Progress, STATS_PATH, Stats},
};

/// Time for the process to exit once it has closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);
/// Number of lines of the server's log that an error quotes.
const LOG_LINES: usize = 20;

pub(super) struct ServerProcess {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
    name: String,
    /// The server's URL and a client. Set once the server is ready.
    endpoint: Option<(String, Client)>,
    /// Whether the server exited before it was ready. `wait_until_ready` has reported that error.
    has_failed: bool,
}

impl ServerProcess {
    /// Starts the server for the controller `name`.
    pub(super) fn start(
        arguments: &RunArguments,
        dir: &Path,
        kubeconfig: &Path,
        name: &str,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.arg("serve").args(arguments.population.flags()).arg("--kubeconfig").arg(kubeconfig);
        command
            .arg(format!("--extra={}", arguments.extra))
            .arg(format!("--server={}", arguments.server));
        // SIGTERM, because the server may have to delete objects from a cluster.
        let on_parent_exit = OnParentExit::Terminate;
        let log = format!("{name}-server");
        let (process, output) = Process::start_piped(dir, &log, command, on_parent_exit)?;
        Ok(Self {
            process,
            lines: BufReader::new(output).lines(),
            name: name.to_owned(),
            endpoint: None,
            has_failed: false,
        })
    }

    /// Waits until the server is populated and prints its URL.
    pub(super) async fn wait_until_ready(&mut self) -> Result<()> {
        while let Some(line) = self.lines.next_line().await? {
            if line.starts_with("http://") {
                let client = Client::try_from(Config::new(line.parse()?))?;
                self.endpoint = Some((line, client));
                return Ok(());
            }
            eprintln!("hpa-bench: {}: {line}", self.name);
        }
        self.has_failed = true;
        bail!("the server did not start\n{}", self.process.tail(LOG_LINES, ""))
    }

    /// Sends SIGTERM and waits, without a timeout, until the server has cleaned up and closes its
    /// output, then at most [`EXIT_TIMEOUT`] for its exit. Does nothing if the server exited before
    /// it was ready.
    pub(super) async fn stop(mut self) -> Result<()> {
        if self.has_failed {
            return Ok(());
        }
        self.process.send_sigterm()?;
        while let Some(line) = self.lines.next_line().await? {
            if !line.starts_with("http://") {
                eprintln!("hpa-bench: {}: {line}", self.name);
            }
        }
        let status = self.process.wait(EXIT_TIMEOUT).await?;
        ensure!(
            status.success(),
            "the server failed: {status}\n{}",
            self.process.tail(LOG_LINES, "")
        );
        Ok(())
    }

    fn endpoint(&self) -> Result<&(String, Client)> {
        self.endpoint.as_ref().context("the server is not ready")
    }

    /// The URL of the fake Prometheus.
    pub(super) fn prometheus_url(&self) -> Result<String> {
        let (url, _) = self.endpoint()?;
        Ok(format!("{url}{}", prometheus::PATH_PREFIX))
    }

    pub(super) async fn stats(&self) -> Result<Stats> {
        self.request("GET", STATS_PATH).await
    }

    pub(super) async fn progress(&self) -> Result<Progress> {
        self.request("GET", PROGRESS_PATH).await
    }

    /// Creates one more autoscaler.
    pub(super) async fn add_autoscaler(&self) -> Result<Progress> {
        self.request("POST", ADD_PATH).await
    }

    async fn request<T: DeserializeOwned>(&self, method: &str, path: &str) -> Result<T> {
        let request = http::Request::builder().method(method).uri(path).body(Vec::<u8>::new())?;
        let (_, client) = self.endpoint()?;
        let response: String = client
            .request_text(request)
            .await
            .with_context(|| format!("no response from the server for {path}"))?;
        serde_json::from_str(&response)
            .with_context(|| format!("cannot parse the server's response for {path}"))
    }
}
