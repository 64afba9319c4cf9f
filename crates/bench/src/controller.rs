//! The controllers that can be measured.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use hpa_tests::harness::command_without_hpa_variables;
use jiff::SignedDuration;
use tokio::process::Command;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    pub(crate) kind: ControllerKind,
    pub(crate) binary: PathBuf,
    /// The `--status-interval` of `hpa`. If zero, each reconcile may write the status.
    pub(crate) status_interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControllerKind {
    /// `hpa`.
    Ours,
    /// `kube-controller-manager`.
    Reference,
}

const SYNTAX: &str = "must be ours=FILE, ours@STATUS_INTERVAL=FILE or reference=FILE";

fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .ok_or_else(|| format!("the status interval {text} must be a duration such as 60s"))
}

/// Parses a duration that isn't negative.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}

/// Makes a path absolute. Otherwise, `Command` would look up a name without a slash in `$PATH`.
pub(crate) fn absolute_path(path: &str) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| error.to_string())
}

impl FromStr for Controller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, binary) = text.split_once('=').ok_or(SYNTAX)?;
        let (kind, status_interval) = match name.split_once('@') {
            None if name == "ours" => (ControllerKind::Ours, Duration::ZERO),
            None if name == "reference" => (ControllerKind::Reference, Duration::ZERO),
            Some(("ours", interval)) => (ControllerKind::Ours, parse_interval(interval)?),
            _ => return Err(SYNTAX.to_owned()),
        };
        Ok(Self { kind, binary: absolute_path(binary)?, status_interval })
    }
}

impl Controller {
    /// The name in reports.
    pub(crate) fn name(&self) -> String {
        match self.kind {
            ControllerKind::Ours if self.writes_each_status() => "ours".to_owned(),
            ControllerKind::Ours => format!("ours@{}s", self.status_interval.as_secs_f64()),
            ControllerKind::Reference => "reference".to_owned(),
        }
    }

    /// Whether each reconcile writes a changed status at once.
    pub(crate) fn writes_each_status(&self) -> bool {
        self.status_interval.is_zero()
    }

    /// The URL scheme of the controller's metrics endpoint.
    pub(crate) fn metrics_scheme(&self) -> &'static str {
        match self.kind {
            ControllerKind::Ours => "http",
            ControllerKind::Reference => "https",
        }
    }

    pub(crate) fn command(&self, flags: &[String]) -> Command {
        measured_command(&self.binary, (self.kind == ControllerKind::Ours).then_some("run"), flags)
    }
}

/// The command of a program to measure.
pub(crate) fn measured_command(
    binary: &Path,
    subcommand: Option<&str>,
    flags: &[String],
) -> Command {
    let mut command = command_without_hpa_variables(binary);
    command.args(subcommand).args(flags);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controller_is_parsed_from_kind_and_file() {
        let binary = PathBuf::from("/bin/a=b");
        assert_eq!(
            "ours=/bin/a=b".parse(),
            Ok(Controller {
                kind: ControllerKind::Ours,
                binary: binary.clone(),
                status_interval: Duration::ZERO
            })
        );
        let with_interval: Controller = "ours@1m=/bin/a=b".parse().expect("valid");
        assert_eq!(with_interval.status_interval, Duration::from_mins(1));
        assert_eq!(with_interval.name(), "ours@60s");
        assert_eq!(
            "reference=/bin/a=b".parse(),
            Ok(Controller {
                kind: ControllerKind::Reference,
                binary,
                status_interval: Duration::ZERO
            })
        );
        for text in ["/bin/hpa", "theirs=/bin/hpa", "reference@60s=/bin/hpa"] {
            assert_eq!(text.parse::<Controller>(), Err(SYNTAX.to_owned()), "{text}");
        }
        let error = "ours@soon=/bin/hpa".parse::<Controller>().expect_err("no duration");
        assert_eq!(error, "the status interval soon must be a duration such as 60s");
    }
}
