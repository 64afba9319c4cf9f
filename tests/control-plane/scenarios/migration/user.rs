//! A user at a shell with kubectl, helm and hpa.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use hpa_tests::{helm, programs};
use tokio::process::Command;

use super::guide::{Guide, Part, check_mentioned};
use crate::test_env::TestEnv;

/// Commands that need a kubelet or a control plane in pods.
const NEEDS_PODS: [&str; 3] = [" logs ", "component=kube-controller-manager", "rollout status"];

pub(super) struct User {
    guide: Guide,
    namespace: String,
    dir: PathBuf,
    variables: BTreeMap<&'static str, String>,
    /// Shell variables that the guide has set.
    assignments: Vec<String>,
}

impl User {
    /// Returns `None` if helm or kubectl is not installed.
    pub(super) fn new(env: &TestEnv, kubectl: &Path, kubeconfig: &Path) -> Result<Option<Self>> {
        if !kubectl.is_file() {
            programs::skip("kubectl", format_args!("{} does not exist", kubectl.display()));
            return Ok(None);
        }
        let helm = match helm::find() {
            Ok(helm) => helm,
            Err(missing) => {
                programs::skip("helm", missing);
                return Ok(None);
            }
        };
        let dir = env.plane.dir().join("migration");
        let tools = dir.join("tools");
        fs::create_dir_all(&tools)?;
        for (name, file) in [("kubectl", kubectl), ("helm", &helm), ("hpa", &env.binary)] {
            symlink(fs::canonicalize(file)?, tools.join(name))?;
        }
        symlink(hpa_tests::repository_path("charts"), dir.join("charts"))?;
        let path = env::var("PATH").unwrap_or_default();
        let variables = BTreeMap::from([
            ("PATH", format!("{}:{path}", tools.display())),
            ("HOME", dir.display().to_string()),
            ("KUBECONFIG", kubeconfig.display().to_string()),
            ("HPA_HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD", "1s".to_owned()),
            ("HPA_HORIZONTAL_POD_AUTOSCALER_DOWNSCALE_STABILIZATION", "2s".to_owned()),
        ]);
        let (guide, assignments) = (Guide::parse(), Vec::new());
        Ok(Some(Self { guide, namespace: env.ns.clone(), dir, variables, assignments }))
    }

    /// Runs the commands of a part of the guide that need no pods. Fails if one fails.
    pub(super) async fn follow(&mut self, section: &str, part: Part) -> Result<()> {
        let commands = self.guide.commands(section, part)?;
        let possible: Vec<String> = commands
            .into_iter()
            .filter(|command| !NEEDS_PODS.iter().any(|word| command.contains(word)))
            .map(|command| self.adapt(&command))
            .collect();
        self.run(&possible.join("\n")).await.with_context(|| format!("{section}: {part:?}"))?;
        let assigns = |line: &&String| {
            line.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|char| char.is_ascii_lowercase())
            })
        };
        self.assignments.extend(possible.iter().filter(assigns).cloned());
        Ok(())
    }

    /// Runs a command that the guide mentions within a sentence.
    pub(super) async fn run_inline(&self, command: &str) -> Result<()> {
        check_mentioned(command)?;
        self.run(&self.adapt(command)).await
    }

    /// Runs a script.
    async fn run(&self, script: &str) -> Result<()> {
        let all = format!("set -eo pipefail\n{}\n{script}", self.assignments.join("\n"));
        let mut command = Command::new("bash");
        command.args(["-c", &all]).current_dir(&self.dir).envs(&self.variables);
        let output = command.kill_on_drop(true).output().await.context("bash")?;
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        ensure!(output.status.success(), "{script}\n{}\n{stdout}{stderr}", output.status);
        Ok(())
    }

    pub(super) fn check_guide_is_complete(&self) -> Result<()> {
        self.guide.check_complete()
    }

    /// Changes a command to this scenario's namespace, and from ten minutes to ten seconds.
    fn adapt(&self, command: &str) -> String {
        let namespace = format!("-n {}", self.namespace);
        command
            .replace("-n shop", &namespace)
            .replace(" -A", &format!(" {namespace}"))
            .replace("--for 10m", &format!("--for 10s {namespace}"))
    }
}
