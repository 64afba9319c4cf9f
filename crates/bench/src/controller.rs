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

/// What a controller is told.
pub(crate) struct Setting<'a> {
    pub(crate) kubeconfig: &'a Path,
    pub(crate) period: Duration,
    pub(crate) syncs: u32,
    pub(crate) metrics_port: u16,
    /// Whether the server does.
    pub(crate) knows_protobuf: bool,
    /// Where it may write.
    pub(crate) folder: &'a Path,
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

    /// How its metrics are asked for.
    pub(crate) fn metrics_scheme(&self) -> &'static str {
        match self.kind {
            Kind::Ours => "http",
            Kind::Reference => "https",
        }
    }

    /// Its flags: no leader election, no limit of requests, its metrics on a port of the loopback device.
    pub(crate) fn flags(&self, setting: &Setting<'_>) -> Vec<String> {
        let mut flags = vec![
            format!("--kubeconfig={}", setting.kubeconfig.display()),
            format!("--horizontal-pod-autoscaler-sync-period={}ms", setting.period.as_millis()),
            format!("--concurrent-horizontal-pod-autoscaler-syncs={}", setting.syncs),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
        ];
        match self.kind {
            Kind::Ours => flags.push(format!("--metrics-port={}", setting.metrics_port)),
            Kind::Reference => flags.extend([
                "--controllers=horizontal-pod-autoscaler-controller".to_owned(),
                "--kube-api-qps=100000".to_owned(),
                "--kube-api-burst=100000".to_owned(),
                format!("--secure-port={}", setting.metrics_port),
                // For the certificate that it makes itself.
                format!("--cert-dir={}", setting.folder.display()),
                "--authorization-always-allow-paths=/metrics".to_owned(),
            ]),
        }
        if self.kind == Kind::Reference && !setting.knows_protobuf {
            flags.push("--kube-api-content-type=application/json".to_owned());
        }
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
        assert_eq!(
            "ours=/bin/a=b".parse(),
            Ok(Controller { kind: Kind::Ours, binary: binary.clone() })
        );
        assert_eq!("reference=/bin/a=b".parse(), Ok(Controller { kind: Kind::Reference, binary }));
        let refusal = Err("must be ours=FILE or reference=FILE".to_owned());
        assert_eq!("/bin/hpa".parse::<Controller>(), refusal);
        assert_eq!("theirs=/bin/hpa".parse::<Controller>(), refusal);
    }
}
