//! Child processes: what they log, and what they cost.

use std::{
    ffi::OsString,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{
    Pid, Signal, kill_process, parent_process_death_signal, set_parent_process_death_signal,
};
use serde::{Deserialize, Serialize};
use tokio::{
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// How long a process may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(15);
/// How much of a log is shown.
const LINES: usize = 20;

/// A process; killed when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// CPU time, of user and system, in seconds.
    pub(crate) cpu_seconds: f64,
    /// The most memory that it ever had resident, in bytes.
    pub(crate) peak_memory: u64,
}

impl Usage {
    /// Of a process that runs.
    pub(crate) fn of(id: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{id}/{file}");
            fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        let cpu_seconds = cpu_seconds(&read("stat")?).context("cannot make out the CPU time")?;
        let peak_memory = peak_memory(&read("status")?).context("cannot make out the memory")?;
        Ok(Self { cpu_seconds, peak_memory })
    }

    /// Of several together; that their peaks were at the same time is not said.
    pub(crate) fn add(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            peak_memory: self.peak_memory + other.peak_memory,
        }
    }
}

impl Process {
    /// Starts a command without input. What it writes to its standard error goes to a file.
    pub(crate) fn start(command: &mut Command, folder: &Path, name: &str) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Its standard output, if that is piped; it is given once.
    pub(crate) fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status})\n{}", self.name, self.log_end()),
        }
    }

    /// Its process id; an error if it has ended.
    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().with_context(|| format!("{} has ended", self.name))
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(self.id()?)
    }

    /// Tells it to end, and sees to it.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.tell_to_end()?;
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    pub(crate) fn tell_to_end(&self) -> Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            kill_process(id, Signal::TERM)?;
        }
        Ok(())
    }

    /// Waits until it has ended, however long that takes; an error if it failed.
    pub(crate) async fn wait(mut self) -> Result<()> {
        let status = self.child.wait().await?;
        ensure!(status.success(), "{} ended ({status})\n{}", self.name, self.log_end());
        Ok(())
    }

    /// The last lines that it logged.
    pub(crate) fn log_end(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut lines: Vec<&str> = text.lines().rev().take(LINES).collect();
        lines.reverse();
        lines.join("\n")
    }
}

/// Ports of the loopback device that were free a moment ago; taken together, so they differ.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let sockets = (0..N).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let sockets = sockets.collect::<Result<Vec<_>, _>>().context("there are no free ports")?;
    let port = |socket: &TcpListener| socket.local_addr().map(|address| address.port());
    let ports = sockets.iter().map(port).collect::<Result<Vec<_>, _>>()?;
    ports.try_into().ok().context("there are not that many free ports")
}

/// A command that runs a program by way of [`become_tied`]. To be started by a thread that lasts: the kernel takes the
/// end of that thread for the end of the process.
pub(crate) fn tied(program: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg("tied").arg("--").arg(program);
    Ok(command)
}

/// Turns this process into another program, which is killed when the process that started it ends, however that ends.
pub(crate) fn become_tied(command: &[OsString]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no program is given")?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let error = std::process::Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// Has the end of who started this process by way of [`become_tied`] told as a signal to end, instead of by being killed.
pub(crate) fn end_in_good_order() -> Result<()> {
    if parent_process_death_signal()? == Some(Signal::KILL) {
        set_parent_process_death_signal(Some(Signal::TERM))?;
    }
    Ok(())
}

/// Of `/proc/PID/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name is in parentheses and may have some itself.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Of `/proc/PID/status`.
fn peak_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_that_of_user_and_system() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("17 (a) b) S 1 2 3 4 5 6 7 8 9 10 {} {} 0 0 20 0 1", ticks * 2, ticks);
        assert_eq!(cpu_seconds(&stat), Some(3.0));
        assert_eq!(cpu_seconds("17 (a) S 1"), None);
    }

    #[test]
    fn peak_memory_is_in_bytes() {
        assert_eq!(
            peak_memory("Name:\ta\nVmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"),
            Some(2_097_152)
        );
        assert_eq!(peak_memory("Name:\ta\n"), None);
    }
}
