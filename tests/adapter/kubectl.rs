//! Runs kubectl against the API server of a test.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use hpa_tests::kube_apiserver::ADMIN;
use tokio::{process::Command, time::timeout};

use crate::{EXTERNAL_METRIC_PATH, VISITOR, WAIT_TIMEOUT};

/// Runs kubectl with the kubeconfigs in `dir`, which are named after the users.
pub(crate) struct Kubectl {
    /// The directory of kubectl and kube-apiserver.
    pub(crate) assets: PathBuf,
    dir: tempfile::TempDir,
}

impl Kubectl {
    pub(crate) fn new(assets: &Path, dir_prefix: &str) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix(dir_prefix).tempdir()?;
        Ok(Self { assets: assets.to_owned(), dir })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs kubectl as an administrator. An error contains its output.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<String> {
        self.run_as(ADMIN, arguments).await
    }

    async fn run_as(&self, user: &str, arguments: &[&str]) -> Result<String> {
        let dir = self.dir();
        let mut command = Command::new(self.assets.join("kubectl"));
        command.env("KUBECONFIG", dir.join(format!("{user}.kubeconfig"))).env("HOME", dir);
        let output = timeout(Duration::from_secs(180), command.args(arguments).output());
        let output = output.await.context("kubectl hangs")??;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {}: {stdout}{stderr}", arguments.join(" "));
        }
        Ok(stdout)
    }

    /// Writes manifests to a file in the directory, and applies them.
    pub(crate) async fn apply(&self, file: &str, manifests: &str) -> Result<()> {
        let path = self.dir().join(file);
        std::fs::write(&path, manifests)?;
        self.run(&["apply", "-f", &path.display().to_string()]).await?;
        Ok(())
    }

    /// Patches the status of an object: of a node, or in the namespace `shop`.
    pub(crate) async fn patch_status(&self, object: &str, status: &str) -> Result<()> {
        let command = ["-n", "shop", "patch", object];
        let patch = ["--subresource=status", "--type=merge", "-p", status];
        self.run(&[command, patch].concat()).await?;
        Ok(())
    }

    /// Waits until the spec of a target in the namespace `shop` has this number of replicas.
    pub(crate) async fn wait_for_replicas(&self, target: &str, replicas: u32) -> Result<()> {
        let scaled = format!("--for=jsonpath={{.spec.replicas}}={replicas}");
        self.run(&["wait", "-n", "shop", &scaled, WAIT_TIMEOUT, target]).await?;
        Ok(())
    }

    /// The adapter refuses a user without rights.
    pub(crate) async fn check_visitor_is_refused(&self) -> Result<()> {
        let read = self.run_as(VISITOR, &["get", "--raw", EXTERNAL_METRIC_PATH]).await;
        let error = read.err().context("a ServiceAccount without roles read the metric")?;
        ensure!(error.to_string().contains("cannot list resource"), "{error}");
        Ok(())
    }
}
