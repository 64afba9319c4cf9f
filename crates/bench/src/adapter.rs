//! The adapters that can be measured, with flags that make them comparable.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use tokio::process::Command;

use crate::controller::{absolute_path, measured_command};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adapter {
    kind: AdapterKind,
    pub(crate) binary: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdapterKind {
    /// `hpa adapter`.
    Ours,
    PrometheusAdapter,
}

pub(crate) struct AdapterSettings<'a> {
    pub(crate) kubeconfig: &'a Path,
    pub(crate) rules: &'a Path,
    pub(crate) prometheus_url: &'a str,
    pub(crate) port: u16,
    pub(crate) relist_interval: Duration,
    /// A directory for the certificate of the adapter.
    pub(crate) dir: &'a Path,
    /// Additional flags of `ours`.
    pub(crate) extra_flags: &'a [String],
}

const SYNTAX: &str = "must be ours=FILE or prometheus-adapter=FILE";

impl FromStr for Adapter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, binary) = text.split_once('=').ok_or(SYNTAX)?;
        let kind = match name {
            "ours" => AdapterKind::Ours,
            "prometheus-adapter" => AdapterKind::PrometheusAdapter,
            _ => return Err(SYNTAX.to_owned()),
        };
        Ok(Self { kind, binary: absolute_path(binary)? })
    }
}

impl Adapter {
    /// The name in reports.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            AdapterKind::Ours => "ours",
            AdapterKind::PrometheusAdapter => "prometheus-adapter",
        }
    }

    /// Returns the adapter's flags: one kubeconfig for all requests, no client-side rate limit, and
    /// a loopback port.
    pub(crate) fn flags(&self, settings: &AdapterSettings<'_>) -> Vec<String> {
        let kubeconfig = settings.kubeconfig.display();
        let mut flags = vec![
            format!("--config={}", settings.rules.display()),
            format!("--prometheus-url={}", settings.prometheus_url),
            format!("--metrics-relist-interval={}ms", settings.relist_interval.as_millis()),
            format!("--lister-kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--cert-dir={}", settings.dir.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", settings.port),
        ];
        match self.kind {
            AdapterKind::Ours => flags.extend_from_slice(settings.extra_flags),
            AdapterKind::PrometheusAdapter => {
                let no_rate_limit = ["--client-qps=100000", "--client-burst=100000"];
                flags.extend(no_rate_limit.map(ToOwned::to_owned));
            }
        }
        flags
    }

    pub(crate) fn command(&self, flags: &[String]) -> Command {
        measured_command(&self.binary, (self.kind == AdapterKind::Ours).then_some("adapter"), flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapter_is_parsed_from_kind_and_file() {
        let parse = |text: &str| text.parse::<Adapter>().map(|adapter| adapter.name());
        assert_eq!(parse("ours=/bin/a=b"), Ok("ours"));
        assert_eq!(parse("prometheus-adapter=/bin/a"), Ok("prometheus-adapter"));
        for text in ["/bin/hpa", "reference=/bin/hpa"] {
            assert_eq!(parse(text), Err(SYNTAX.to_owned()), "{text}");
        }
    }
}
