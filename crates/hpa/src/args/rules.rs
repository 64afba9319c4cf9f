use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use http::Uri;

use super::{
    LintFormat, PrometheusArguments,
    values::{BOOL, dns_label, fraction},
};

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Check a rules file, and with a Prometheus URL also the series of each rule
    Check(Box<RulesCheckArguments>),
    /// Explain why a metric is found or not: the rules that were considered, and the query
    Explain(Box<RulesExplainArguments>),
    /// Print rules for metrics that follow the usual conventions, as prometheus-adapter's
    /// config-gen
    Generate(RulesGenerateArguments),
    /// Compare the metrics of two servers of the metrics APIs, and their values
    Compare(Box<RulesCompareArguments>),
    /// Print the JSON Schema of rules files, for editors
    Schema,
}

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/rules-check.txt").trim_ascii_end())]
pub(crate) struct RulesCheckArguments {
    /// The rules file, or a ConfigMap or Helm values with rules; "-" is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: LintFormat,
    #[command(flatten)]
    pub(crate) connection: RulesConnection,
}

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/rules-explain.txt").trim_ascii_end())]
pub(crate) struct RulesExplainArguments {
    /// The API of the metric
    #[arg(value_name = "API")]
    pub(crate) api: MetricsApiArgument,
    /// RESOURCE/METRIC of custom metrics, as in pods/http_requests; the name of an external metric;
    /// pods/cpu, pods/memory, nodes/cpu or nodes/memory
    #[arg(value_name = "METRIC")]
    pub(crate) metric: String,
    /// The name of an object; can be repeated [default: the first 20 objects that have series]
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The rules file; "-" is standard input
    #[arg(
        long,
        visible_alias = "metrics-config",
        value_name = "FILE",
        default_value = "rules.yaml"
    )]
    pub(crate) config: PathBuf,
    /// The namespace of the request
    #[arg(long, short = 'n', value_name = "NAME", value_parser = dns_label)]
    pub(crate) namespace: Option<String>,
    /// Selector for series, as in an autoscaler's metric.selector
    #[arg(long, short = 'l', value_name = "SELECTOR", default_value = "")]
    pub(crate) selector: String,
    #[command(flatten)]
    pub(crate) connection: RulesConnection,
}

/// A metrics API for which rules can define metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetricsApiArgument {
    /// Metrics of objects: custom.metrics.k8s.io
    Custom,
    /// Metrics without an object: external.metrics.k8s.io
    External,
    /// CPU and memory of pods and nodes: metrics.k8s.io
    Resource,
}

/// The Prometheus servers of the rules, and the API server that has the resources.
#[derive(Args, Debug)]
pub(crate) struct RulesConnection {
    /// Connect to the `servers` of the rules file. Implied by --prometheus-url
    #[arg(long, value_name = BOOL, default_value_t = false)]
    pub(crate) connect: bool,
    /// Read the resources from this kubeconfig's API server. For rules about custom resources
    /// [default: the resources of Kubernetes itself]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    // Last: a group's heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) prometheus: PrometheusArguments,
}

#[derive(Args, Debug)]
pub(crate) struct RulesGenerateArguments {
    /// The window of rates; should be at least four times the scrape interval
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(crate) rate_interval: String,
    /// Prefix of the labels that name objects, for example kube_
    #[arg(long, value_name = "PREFIX", default_value = "")]
    pub(crate) label_prefix: String,
}

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
    /// File with autoscalers or Lists of them, in YAML or JSON [default: the autoscalers of the
    /// kubeconfig's cluster, of both APIs]
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
