//! Child processes that log to a file and don't outlive this process.

use std::{
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// Number of log lines that an error quotes.
const QUOTED_LINES: usize = 20;
const MAX_LINE_CHARS: usize = 600;

/// A running program. Dropping the handle kills it.
pub struct Process {
    name: String,
    // Dropped before the child: the watchdog must never signal a reused process ID.
    _watchdog: Child,
    child: Child,
    log: PathBuf,
}

/// The signal that a program receives if this process ends without dropping the handle, for example
/// because this process is killed.
#[derive(Clone, Copy, Debug)]
pub enum OnParentExit {
    Kill,
    /// SIGTERM, for a program that has to clean up.
    Terminate,
}

impl Process {
    /// Starts a program with standard output and standard error in `dir/name.log`.
    pub fn start(dir: &Path, name: &str, mut command: Command) -> Result<Self> {
        let log = Log::create(dir, name)?;
        command.stdout(log.file.try_clone()?);
        Self::spawn(name, command, log, OnParentExit::Kill)
    }

    /// Starts a program with standard error in `dir/name.log`, and returns its standard output.
    pub fn start_piped(
        dir: &Path,
        name: &str,
        mut command: Command,
        on_parent_exit: OnParentExit,
    ) -> Result<(Self, ChildStdout)> {
        command.stdout(Stdio::piped());
        let mut process = Self::spawn(name, command, Log::create(dir, name)?, on_parent_exit)?;
        let stdout = process.child.stdout.take().context("standard output is not piped")?;
        Ok((process, stdout))
    }

    fn spawn(
        name: &str,
        mut command: Command,
        log: Log,
        on_parent_exit: OnParentExit,
    ) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stderr(log.file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let id = child.id().with_context(|| format!("{name} has exited"))?;
        let watchdog = watchdog(id, on_parent_exit).context("cannot start the watchdog")?;
        Ok(Self { name: name.to_owned(), _watchdog: watchdog, child, log: log.path })
    }

    /// Returns the process ID, or an error once `ensure_running` or `wait` has seen the program
    /// exit.
    pub fn id(&self) -> Result<u32> {
        self.child.id().with_context(|| format!("{} has exited", self.name))
    }

    /// Returns an error that quotes the log if the program has exited.
    pub fn ensure_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} exited: {status}\n{}", self.name, self.quoted_tail()),
        }
    }

    /// Waits until the program exits.
    pub async fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        match timeout(within, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => {
                bail!("{} did not exit within {within:?}\n{}", self.name, self.quoted_tail())
            }
        }
    }

    /// Sends SIGTERM and waits until the program exits. Fails if it has exited before.
    pub async fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.ensure_running()?;
        self.send_sigterm()?;
        self.wait(within).await.context("after SIGTERM")
    }

    /// Sends SIGTERM, and SIGKILL after `grace`, and waits until the program has exited.
    pub async fn stop(mut self, grace: Duration) -> Result<()> {
        self.send_sigterm()?;
        if timeout(grace, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// Sends SIGTERM, unless the program has exited.
    pub fn send_sigterm(&self) -> Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(id.map_or(Ok(()), |id| kill_process(id, Signal::TERM))?)
    }

    /// Returns the last `lines` lines of the log that contain `containing`, indented.
    pub fn tail(&self, lines: usize, containing: &str) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let matching = text.lines().rev().filter(|line| line.contains(containing));
        let truncate = |line: &str| line.chars().take(MAX_LINE_CHARS).collect::<String>();
        let mut last: Vec<String> =
            matching.take(lines).map(|line| format!("    | {}", truncate(line))).collect();
        last.reverse();
        last.join("\n")
    }

    fn quoted_tail(&self) -> String {
        self.tail(QUOTED_LINES, "")
    }
}

struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    fn create(dir: &Path, name: &str) -> Result<Self> {
        let path = dir.join(format!("{name}.log"));
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, file })
    }
}

/// Starts a shell that signals the process `id` when this process ends. The standard input of the
/// shell is a pipe that only this process writes to: the end of this process is the end of input.
///
/// A parent-death signal (`PR_SET_PDEATHSIG`) would not need a second process, but it exists only
/// on Linux, fires at the end of the spawning thread, and can't be set from outside the child
/// without `unsafe`. The shell ignores SIGINT and SIGTERM, which may be sent to the whole process
/// group, as Ctrl-C does.
fn watchdog(id: u32, on_parent_exit: OnParentExit) -> Result<Child> {
    let signal = match on_parent_exit {
        OnParentExit::Kill => "KILL",
        OnParentExit::Terminate => "TERM",
    };
    let script = "trap '' INT TERM; read -r _; kill -s \"$1\" \"$2\"";
    Ok(Command::new("/bin/sh")
        .args(["-c", script, "watchdog", signal, &id.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?)
}

/// Below the ports that Linux gives to clients (`ip_local_port_range`). A client could take one of
/// those before the program listens on it.
const FREE_PORTS: Range<u16> = 15_000..32_000;

/// Returns loopback ports that were free at the time of the call, all of them different.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // A random start, so that test binaries that run at once don't choose the same ports.
    let count = FREE_PORTS.end - FREE_PORTS.start;
    let start = RandomState::new().hash_one(()) % u64::from(count);
    let start = u16::try_from(start).context("the start")?;
    let ports = (0..count).map(|index| FREE_PORTS.start + (start + index) % count);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let free: Vec<u16> = ports.filter(is_free).take(N).collect();
    free.try_into().ok().context("not enough free loopback ports")
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::expect_used,
        clippy::used_underscore_binding,
        reason = "a failed setup fails the test, and the watchdog is used only here"
    )]

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command.arg("1000");
        command
    }

    #[tokio::test]
    async fn program_is_signalled_when_the_parent_exits() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut process = Process::start(dir.path(), "sleep", sleep()).expect("sleep starts");
        process.ensure_running().expect("sleep runs");
        // Closes the pipe, as the end of this process would.
        drop(process._watchdog.stdin.take());
        let status = process.wait(LIMIT).await.expect("sleep exits");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        assert!(process.id().is_err() && process.ensure_running().is_err());
    }

    #[tokio::test]
    async fn error_quotes_the_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo first; echo no such file >&2; exit 3"]);
        let mut process = Process::start(dir.path(), "script", command).expect("sh starts");
        process.wait(LIMIT).await.expect("sh exits");
        let error = process.ensure_running().expect_err("the script failed").to_string();
        assert_eq!(error, "script exited: exit status: 3\n    | first\n    | no such file");
        assert_eq!(process.tail(1, "fi"), "    | no such file");
    }
}
