use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hpa_controller::AutoscalerApi;

const EXAMPLES: &str = "\
Examples:
  Convert the autoscalers of a manifest to autoscaling.hpa-rs.dev/v2:
    hpa convert -f autoscaler.yaml | kubectl apply -f -

  Convert them back to autoscaling/v2:
    hpa convert -f autoscaler.yaml --to core

  Convert all autoscalers of a namespace:
    kubectl get hpa --namespace shop -o yaml | hpa convert | kubectl apply -f -

Objects of other kinds pass through unchanged. autoscaling/v1 and v2beta2
become v2. v2beta1 is rejected, and so is a v1 object that has metrics or
behavior in annotations: get it as autoscaling/v2. The status and metadata that
the API server sets (uid, resourceVersion, managedFields, ...) are dropped.";

/// The arguments of `hpa convert`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArguments {
    /// Manifest in YAML or JSON, of one or more documents; - reads standard input
    #[arg(long, short = 'f', value_name = "FILE", default_value = "-")]
    pub(crate) filename: PathBuf,
    /// API to convert the autoscalers to
    #[arg(long, value_name = "API", default_value = "custom")]
    pub(crate) to: TargetApi,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: Format,
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
    /// One YAML document per object.
    Yaml,
    /// One JSON object, or a List of several
    Json,
}
