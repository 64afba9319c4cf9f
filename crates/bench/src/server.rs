//! The server as who measures sees it.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result, bail};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::ChildStdout,
};

use crate::{
    args::RunArguments,
    cluster,
    process::{Process, tied},
    record::{Progress, Stats},
};

/// A server in a process of its own.
pub(crate) struct Server {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
    name: String,
    /// What it is asked with, once it has told its address.
    client: Option<Client>,
    /// Whether it is known that it failed, and why.
    has_failed: bool,
}

impl Server {
    /// Starts it. Its name is that of the controller that it is for.
    pub(crate) fn start(
        arguments: &RunArguments,
        folder: &Path,
        kubeconfig: &Path,
        name: &str,
    ) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut command = tied(&own)?;
        command.arg("serve").args(arguments.population.flags()).arg("--kubeconfig").arg(kubeconfig);
        command
            .arg(format!("--extra={}", arguments.extra))
            .arg(format!("--server={}", arguments.server));
        let mut process =
            Process::start(command.stdout(Stdio::piped()), folder, &format!("{name}-server"))?;
        let output = process.output().context("the server has no output")?;
        Ok(Self {
            process,
            lines: BufReader::new(output).lines(),
            name: name.to_owned(),
            client: None,
            has_failed: false,
        })
    }

    /// Waits until it is populated.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<()> {
        while let Some(line) = self.lines.next_line().await? {
            if line.starts_with("http://") {
                self.client = Some(Client::try_from(Config::new(line.parse()?))?);
                return Ok(());
            }
            eprintln!("hpa-bench: {}: {line}", self.name);
        }
        self.has_failed = true;
        bail!("the server did not start\n{}", self.process.log_end())
    }

    /// Tells it to end, and waits for as long as it has to clean up.
    pub(crate) async fn end(mut self) -> Result<()> {
        if self.has_failed {
            return Ok(());
        }
        self.process.tell_to_end()?;
        while let Some(line) = self.lines.next_line().await? {
            if !line.starts_with("http://") {
                eprintln!("hpa-bench: {}: {line}", self.name);
            }
        }
        self.process.wait().await
    }

    pub(crate) async fn stats(&self) -> Result<Stats> {
        self.ask("GET", cluster::STATS).await
    }

    pub(crate) async fn progress(&self) -> Result<Progress> {
        self.ask("GET", cluster::PROGRESS).await
    }

    /// Creates one more autoscaler.
    pub(crate) async fn add(&self) -> Result<Progress> {
        self.ask("POST", cluster::ADD).await
    }

    async fn ask<T: DeserializeOwned>(&self, method: &str, path: &str) -> Result<T> {
        let request = http::Request::builder().method(method).uri(path).body(Vec::<u8>::new())?;
        let client = self.client.as_ref().context("the server is not ready")?;
        let answer: String = client
            .request_text(request)
            .await
            .with_context(|| format!("cannot ask the server for {path}"))?;
        serde_json::from_str(&answer).with_context(|| format!("cannot read the server's {path}"))
    }
}
