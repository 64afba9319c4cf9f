//! The adapters that can be measured.

use std::{path::PathBuf, str::FromStr};

use tokio::process::Command;

use crate::controller::{absolute_path, measured_command};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adapter {
    pub(crate) kind: AdapterKind,
    pub(crate) binary: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdapterKind {
    /// `hpa adapter`.
    Ours,
    PrometheusAdapter,
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
