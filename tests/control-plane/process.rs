//! Child processes whose output goes to a file and who do not outlive their handle.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A running program; killed when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both of its outputs in `dir/name.log`.
    pub(crate) fn start(dir: &Path, name: &str, mut command: Command) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// The end of its output.
    pub(crate) fn tail(&self, lines: usize, containing: &str) -> String {
        tail(&self.log, lines, containing)
    }

    /// Says so when the program has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(anyhow!("{} ended: {status}\n{}", self.name, self.tail(20, ""))),
        }
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let ended = timeout(within, self.child.wait()).await;
        Ok(ended.map_err(|_| {
            anyhow!("{} did not end within {within:?}\n{}", self.name, self.tail(20, ""))
        })??)
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.check()?;
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(pid.context("no process id")?, Signal::TERM)?;
        timeout(within, self.child.wait())
            .await
            .map_err(|_| {
                anyhow!(
                    "{} did not end within {within:?} of SIGTERM\n{}",
                    self.name,
                    self.tail(20, "")
                )
            })?
            .map_err(Into::into)
    }
}

/// The last `lines` lines of a file that contain `containing`, indented.
fn tail(path: &Path, lines: usize, containing: &str) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut kept: Vec<String> = (text.lines().rev().filter(|line| line.contains(containing)))
        .take(lines)
        .map(|line| format!("    | {}", line.chars().take(600).collect::<String>()))
        .collect();
    kept.reverse();
    kept.join("\n")
}
