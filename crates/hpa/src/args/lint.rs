use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{KubectlArguments, SourceArguments};

/// The arguments of `hpa lint`.
#[derive(Args, Debug)]
#[command(
    after_help = include_str!("examples/lint.txt").trim_ascii_end(),
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
