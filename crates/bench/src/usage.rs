//! CPU time and memory of a process.

use std::fs;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// CPU time and memory that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// User and system time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Peak resident memory, in bytes.
    pub(crate) peak_memory: u64,
}

impl Usage {
    /// Reads the usage of a running process.
    pub(crate) fn for_process(id: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{id}/{file}");
            fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        let cpu_seconds = cpu_seconds(&read("stat")?).context("cannot parse the CPU time")?;
        let peak_memory = peak_memory(&read("status")?).context("cannot parse the memory")?;
        Ok(Self { cpu_seconds, peak_memory })
    }

    /// Adds the usage of two processes. The peaks are added, even if they were at different times.
    pub(crate) fn add(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            peak_memory: self.peak_memory + other.peak_memory,
        }
    }
}

/// Parses `/proc/PID/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name is in parentheses and may contain parentheses itself.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Parses `/proc/PID/status`.
fn peak_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_the_sum_of_user_and_system_time() {
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
