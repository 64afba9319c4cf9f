//! The controllers that can be measured, with flags that make them comparable.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use tokio::process::Command;

/// A controller to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    pub(crate) kind: Kind,
    pub(crate) binary: PathBuf,
}

pub(crate) struct Settings<'a> {
    pub(crate) kubeconfig: &'a Path,
    pub(crate) period: Duration,
    pub(crate) syncs: u32,
    pub(crate) metrics_port: u16,
    /// Whether the API server accepts protobuf.
    pub(crate) protobuf: bool,
    /// A directory for files of the controller.
    pub(crate) dir: &'a Path,
}

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
        // Absolute, so that it is not looked up in $PATH.
        let binary = std::path::absolute(binary).map_err(|error| error.to_string())?;
        Ok(Self { kind, binary })
    }
}

impl Controller {
    /// The name in reports.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ours => "ours",
            Kind::Reference => "reference",
        }
    }

    /// URL scheme of its metrics endpoint.
    pub(crate) fn metrics_scheme(&self) -> &'static str {
        match self.kind {
            Kind::Ours => "http",
            Kind::Reference => "https",
        }
    }

    /// Returns its flags: no leader election, no client-side rate limit, metrics on a loopback
    /// port.
    pub(crate) fn flags(&self, settings: &Settings<'_>) -> Vec<String> {
        let mut flags = vec![
            format!("--kubeconfig={}", settings.kubeconfig.display()),
            format!("--horizontal-pod-autoscaler-sync-period={}ms", settings.period.as_millis()),
            format!("--concurrent-horizontal-pod-autoscaler-syncs={}", settings.syncs),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
        ];
        match self.kind {
            Kind::Ours => flags.push(format!("--metrics-port={}", settings.metrics_port)),
            Kind::Reference => flags.extend([
                "--controllers=horizontal-pod-autoscaler-controller".to_owned(),
                "--kube-api-qps=100000".to_owned(),
                "--kube-api-burst=100000".to_owned(),
                format!("--secure-port={}", settings.metrics_port),
                // For its self-signed certificate.
                format!("--cert-dir={}", settings.dir.display()),
                "--authorization-always-allow-paths=/metrics".to_owned(),
            ]),
        }
        if self.kind == Kind::Reference && !settings.protobuf {
            flags.push("--kube-api-content-type=application/json".to_owned());
        }
        flags
    }

    pub(crate) fn command(&self, flags: &[String]) -> Command {
        let mut command = Command::new(&self.binary);
        if self.kind == Kind::Ours {
            command.arg("run");
        }
        // Settings in the environment of the caller must not apply.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("HPA_") {
                command.env_remove(variable);
            }
        }
        command.args(flags);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controller_is_parsed_from_kind_and_file() {
        let binary = PathBuf::from("/bin/a=b");
        assert_eq!(
            "ours=/bin/a=b".parse(),
            Ok(Controller { kind: Kind::Ours, binary: binary.clone() })
        );
        assert_eq!("reference=/bin/a=b".parse(), Ok(Controller { kind: Kind::Reference, binary }));
        let error = Err("must be ours=FILE or reference=FILE".to_owned());
        assert_eq!("/bin/hpa".parse::<Controller>(), error);
        assert_eq!("theirs=/bin/hpa".parse::<Controller>(), error);
    }
}
