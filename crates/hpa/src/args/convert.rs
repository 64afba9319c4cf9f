use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hpa_controller::AutoscalerApi;

use super::values::autoscaler_api;

/// The arguments of `hpa convert`.
#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/convert.txt").trim_ascii_end())]
pub(crate) struct ConvertArguments {
    /// Manifest with one or more documents in YAML or JSON [default: standard input]
    #[arg(value_name = "FILE", conflicts_with = "filename")]
    pub(crate) file: Option<PathBuf>,
    /// Alternative to FILE
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) filename: Option<PathBuf>,
    /// API to convert the autoscalers to
    #[arg(long, value_name = "API", default_value = "custom", value_parser = autoscaler_api())]
    pub(crate) to: AutoscalerApi,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: ConvertFormat,
}

impl ConvertArguments {
    /// The path of the manifest; `-` is standard input.
    pub(crate) fn path(&self) -> &Path {
        self.file.as_deref().or(self.filename.as_deref()).unwrap_or(Path::new("-"))
    }
}

/// The output of `hpa convert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertFormat {
    /// The documents of the manifest, in YAML
    Yaml,
    /// A JSON object, or a List of several objects
    Json,
}
