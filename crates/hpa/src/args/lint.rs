use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{KubectlArguments, SourceArguments, values::accept_boolean};

const EXAMPLES: &str = "\
Examples:
  Check the manifests in a directory and its subdirectories:
    hpa lint -R manifests/

  Check the output of kustomize or helm:
    kustomize build overlays/prod | hpa lint -
    helm template web charts/web | hpa lint -

  Check the autoscalers of a namespace, or of the whole cluster:
    hpa lint -n shop
    hpa lint -A

  Also check that each metric is served by a rule:
    hpa lint manifests/*.yaml --metrics-config rules.yaml \\
      --prometheus-url http://prometheus.monitoring:9090

  Write SARIF for code scanning:
    hpa lint manifests/*.yaml -o sarif > hpa.sarif

The API server rejects autoscalers with errors. Warnings and notes are advice;
docs/lint.md has the reasons. Files are checked together: an autoscaler is
compared with its target if both are given.

Exit status: 0 without errors and warnings, 1 with an error or a warning (only
with an error with --warnings-as-notes), 2 if a file can't be checked or the
command failed.";

/// The arguments of `hpa lint`.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    mut_args(accept_boolean),
    mut_arg("namespace", |namespace| {
        namespace.help(
            "Check the autoscalers of this namespace of the cluster. With FILE, the namespace of \
             objects that don't name one",
        )
    })
)]
pub(crate) struct LintArguments {
    /// Manifests in YAML or JSON, or directories of them; "-" is standard input. Without a FILE, -n
    /// or -A select autoscalers of the cluster
    #[arg(value_name = "FILE", required_unless_present_any = ["all_namespaces", "namespace"])]
    pub(crate) files: Vec<PathBuf>,
    /// Read subdirectories
    #[arg(long, short = 'R', requires = "files")]
    pub(crate) recursive: bool,
    /// Check the autoscalers of all namespaces of the cluster
    #[arg(long, short = 'A', conflicts_with = "files")]
    pub(crate) all_namespaces: bool,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: LintFormat,
    /// Exit with status 0 if there are only warnings
    #[arg(long)]
    pub(crate) warnings_as_notes: bool,
    #[command(flatten)]
    pub(crate) cluster: KubectlArguments,
    #[command(flatten)]
    pub(crate) sources: SourceArguments,
}

/// The format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    /// One line per finding.
    Text,
    /// A JSON list.
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}
