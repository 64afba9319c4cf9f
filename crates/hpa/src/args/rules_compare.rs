use std::path::PathBuf;

use clap::Args;
use http::Uri;

use super::values::fraction;

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/rules-compare.txt").trim_ascii_end())]
pub(crate) struct RulesCompareArguments {
    /// URL of the first server [default: the API server of the kubeconfig]
    #[arg(long, value_name = "URL")]
    pub(crate) left: Option<Uri>,
    /// File with a bearer token for --left
    #[arg(long, value_name = "FILE", requires = "left")]
    pub(crate) left_token_file: Option<PathBuf>,
    /// File with the CAs of the certificate of --left
    #[arg(long, value_name = "FILE", requires = "left")]
    pub(crate) left_ca_file: Option<PathBuf>,
    /// Name in the certificate of --left [default: the host of its URL]
    #[arg(long, value_name = "NAME", requires = "left")]
    pub(crate) left_server_name: Option<String>,
    /// Don't verify the certificate of --left
    #[arg(long, requires = "left", conflicts_with = "left_ca_file")]
    pub(crate) left_insecure_skip_tls_verify: bool,
    /// URL of the second server
    #[arg(long, value_name = "URL")]
    pub(crate) right: Uri,
    /// File with a bearer token for --right
    #[arg(long, value_name = "FILE")]
    pub(crate) right_token_file: Option<PathBuf>,
    /// File with the CAs of the certificate of --right
    #[arg(long, value_name = "FILE")]
    pub(crate) right_ca_file: Option<PathBuf>,
    /// Name in the certificate of --right [default: the host of its URL]
    #[arg(long, value_name = "NAME")]
    pub(crate) right_server_name: Option<String>,
    /// Don't verify the certificate of --right
    #[arg(long, conflicts_with = "right_ca_file")]
    pub(crate) right_insecure_skip_tls_verify: bool,
    /// File with autoscalers or Lists of them, in YAML or JSON [default: the
    /// autoscalers of the kubeconfig's cluster]
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) autoscalers: Option<PathBuf>,
    /// Relative difference up to which values count as equal
    #[arg(long, value_name = "FRACTION", default_value_t = 0.1, value_parser = fraction)]
    pub(crate) tolerance: f64,
    /// The kubeconfig file [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}
