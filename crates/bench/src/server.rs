//! The server as who measures sees it.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    args::RunArguments,
    cluster,
    process::{Process, tied},
    record::{Progress, Stats},
};

/// A server in a process of its own.
pub(crate) struct Server {
    pub(crate) process: Process,
    client: Client,
}

impl Server {
    /// Starts it and waits until it is populated. Its name is that of the controller that it is for.
    pub(crate) async fn start(
        arguments: &RunArguments,
        folder: &Path,
        kubeconfig: &Path,
        name: &str,
    ) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut command = tied(&own)?;
        command.arg("serve").args(arguments.population.flags()).arg("--kubeconfig").arg(kubeconfig);
        command.arg(format!("--extra={}", arguments.extra)).arg(format!("--server={}", arguments.server));
        let mut process = Process::start(command.stdout(Stdio::piped()), folder, &format!("{name}-server"))?;
        let output = process.output().context("the server has no output")?;
        let mut lines = BufReader::new(output).lines();
        let address = loop {
            let line = lines.next_line().await?;
            ensure!(line.is_some(), "the server did not start\n{}", process.log_end());
            match line {
                Some(line) if !line.starts_with("http://") => eprintln!("hpa-bench: {name}: {line}"),
                line => break line.unwrap_or_default(),
            }
        };
        let client = Client::try_from(Config::new(address.parse()?))?;
        Ok(Self { process, client })
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
        let answer: String = self
            .client
            .request_text(request)
            .await
            .with_context(|| format!("cannot ask the server for {path}"))?;
        serde_json::from_str(&answer).with_context(|| format!("cannot read the server's {path}"))
    }
}
