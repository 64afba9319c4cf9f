use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::{KubectlArguments, SourceArguments};

/// The arguments of `hpa lint`.
#[derive(Args, Debug)]
#[command(
    after_help = include_str!("examples/lint.txt").trim_ascii_end(),
    group(ArgGroup::new("input").args(["files", "filename"]).multiple(true)),
    group(
        ArgGroup::new("checked")
            .args(["files", "filename", "all_namespaces", "namespace"])
            .multiple(true)
            .required(true)
    ),
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
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Alternative to FILE; can be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Read subdirectories
    #[arg(long, short = 'R', requires = "input")]
    pub(crate) recursive: bool,
    /// Check the autoscalers of all namespaces of the cluster
    #[arg(long, short = 'A', conflicts_with = "input")]
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

impl LintArguments {
    /// The paths of manifests and directories; `-` is standard input. Empty for autoscalers of the
    /// cluster.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().chain(&self.filename).cloned().collect()
    }
}

/// The output of `hpa lint` and `hpa rules check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    /// One line per finding
    Text,
    /// A JSON list
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}
