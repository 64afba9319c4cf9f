//! The controllers that can be measured, and the flags by which they do the same.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    str::FromStr,
    time::Duration,
};

use tokio::process::Command;

use crate::process::tied;

/// A controller to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    pub(crate) kind: Kind,
    pub(crate) binary: PathBuf,
}

/// Whose command line it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `hpa`.
    Ours,
    /// `kube-controller-manager`.
    Reference,
}

impl FromStr for Controller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, binary) = match text.split_once('=') {
            Some(("ours", binary)) => (Kind::Ours, binary),
            Some(("reference", binary)) => (Kind::Reference, binary),
            _ => return Err("must be ours=FILE or reference=FILE".to_owned()),
        };
        // As it is named here, not as something of that name that is found by $PATH.
        let binary = std::path::absolute(binary).map_err(|error| error.to_string())?;
        Ok(Self { kind, binary })
    }
}

impl Controller {
    /// How it is called in a table.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ours => "ours",
            Kind::Reference => "reference",
        }
    }

    /// Its flags: no leader election, no ports, no limit of requests.
    pub(crate) fn flags(&self, kubeconfig: &Path, period: Duration, syncs: u32) -> Vec<String> {
        let mut flags = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--horizontal-pod-autoscaler-sync-period={}ms", period.as_millis()),
            format!("--concurrent-horizontal-pod-autoscaler-syncs={syncs}"),
            "--leader-elect=false".to_owned(),
        ];
        let own: &[&str] = match self.kind {
            Kind::Ours => &["--metrics-port=0"],
            // The server knows no protobuf.
            Kind::Reference => &[
                "--controllers=horizontal-pod-autoscaler-controller",
                "--kube-api-content-type=application/json",
                "--kube-api-qps=100000",
                "--kube-api-burst=100000",
                "--secure-port=0",
            ],
        };
        flags.extend(own.iter().map(ToString::to_string));
        flags
    }

    /// What starts it.
    pub(crate) fn command(&self, flags: &[String]) -> anyhow::Result<Command> {
        let mut command = tied(&self.binary)?;
        if self.kind == Kind::Ours {
            command.arg("run");
        }
        // The caller's settings are not the measurement's.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("HPA_") {
                command.env_remove(variable);
            }
        }
        command.args(flags).stdout(Stdio::null());
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controller_is_a_kind_and_a_file() {
        let binary = PathBuf::from("/bin/a=b");
        assert_eq!("ours=/bin/a=b".parse(), Ok(Controller { kind: Kind::Ours, binary: binary.clone() }));
        assert_eq!("reference=/bin/a=b".parse(), Ok(Controller { kind: Kind::Reference, binary }));
        let refusal = Err("must be ours=FILE or reference=FILE".to_owned());
        assert_eq!("/bin/hpa".parse::<Controller>(), refusal);
        assert_eq!("theirs=/bin/hpa".parse::<Controller>(), refusal);
    }
}
