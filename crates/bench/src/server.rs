//! The server as who measures sees it.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    args::Population,
    front,
    process::{Process, tied},
    record::{Progress, Stats},
};

/// A server in a process of its own.
pub(crate) struct Server {
    pub(crate) process: Process,
    client: Client,
}

impl Server {
    /// Starts it and waits until it is populated.
    pub(crate) async fn start(
        population: &Population,
        extra: u32,
        folder: &Path,
        kubeconfig: &Path,
        name: &str,
    ) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut command = tied(&own)?;
        command.arg("serve").args(population.flags()).arg("--kubeconfig").arg(kubeconfig);
        command.arg(format!("--extra={extra}")).stdout(Stdio::piped());
        let mut process = Process::start(command, folder, name)?;
        let output = process.output().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await?;
        ensure!(line.ends_with('\n'), "the server did not start\n{}", process.log_end());
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Self { process, client: Client::try_from(config)? })
    }

    pub(crate) async fn stats(&self) -> Result<Stats> {
        self.ask("GET", front::STATS).await
    }

    pub(crate) async fn progress(&self) -> Result<Progress> {
        self.ask("GET", front::PROGRESS).await
    }

    /// Creates one more autoscaler.
    pub(crate) async fn add(&self) -> Result<Progress> {
        self.ask("POST", front::ADD).await
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
