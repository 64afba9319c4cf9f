//! `hpa convert`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hpa_controller::AutoscalerApi;

const EXAMPLES: &str = "\
Examples:
  Convert the autoscalers of a manifest to autoscaling.hpa-rs.dev/v2:
    hpa convert autoscaler.yaml | kubectl apply -f -

  Convert them back to autoscaling/v2:
    hpa convert autoscaler.yaml --to core

  Update a manifest of autoscaling/v2beta1, which Kubernetes 1.25 removed:
    hpa convert old.yaml --to core > new.yaml

  Convert all autoscalers of a namespace:
    kubectl get hpa --namespace shop -o yaml | hpa convert | kubectl apply -f -

Objects of other kinds pass through unchanged. autoscaling/v1, v2beta1 and
v2beta2 are converted as the API server does. A field that the version doesn't
have is an error. The status and the metadata that the API server sets (uid,
resourceVersion, managedFields, ...) are dropped.";

/// The arguments of `hpa convert`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArguments {
    /// Manifest with one or more documents in YAML or JSON [default: standard input]
    #[arg(value_name = "FILE", conflicts_with = "filename")]
    pub(crate) file: Option<PathBuf>,
    /// Alternative to FILE
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) filename: Option<PathBuf>,
    /// API to convert the autoscalers to
    #[arg(long, value_name = "API", default_value = "custom")]
    pub(crate) to: TargetApi,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: Format,
}

impl ConvertArguments {
    /// The path of the manifest; `-` is standard input.
    pub(crate) fn path(&self) -> &Path {
        self.file.as_deref().or(self.filename.as_deref()).unwrap_or(Path::new("-"))
    }
}

/// An API that serves autoscalers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetApi {
    /// autoscaling/v2
    Core,
    /// autoscaling.hpa-rs.dev/v2 (see hpa crd); own is an alias
    #[value(alias = "own")]
    Custom,
}

impl TargetApi {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::Core => "autoscaling/v2",
            Self::Custom => hpa_crd::API_VERSION,
        }
    }
}

impl From<TargetApi> for AutoscalerApi {
    fn from(api: TargetApi) -> Self {
        match api {
            TargetApi::Core => Self::Core,
            TargetApi::Custom => Self::Custom,
        }
    }
}

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The documents of the manifest, in YAML
    Yaml,
    /// A JSON object, or a List of several objects
    Json,
}
