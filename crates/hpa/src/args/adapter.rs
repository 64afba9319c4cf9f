use std::{net::IpAddr, path::PathBuf};

use clap::{Arg, Args, ValueEnum};
use hpa_prometheus::rules::Compat;
use jiff::SignedDuration;

use super::{
    CollectorArguments, LogArguments, PrometheusArguments, ScalingScheduleArguments,
    SharingArguments,
    ignored::IgnoredArguments,
    lease::{self, LeaseArguments},
    values::{BOOL, HPA_ADAPTER_PREFIX, duration, number, positive_duration},
};

#[derive(Args, Debug)]
#[command(
    after_help = include_str!("examples/adapter.txt").trim_ascii_end(),
    mut_args(lease::for_adapter),
    // Clients time out after 10 s. A query that ends earlier has an error that names Prometheus.
    mut_arg("prometheus_query_timeout", |arg: Arg| {
        arg.default_value("9s")
            .default_value_if("compat", "prometheus-adapter", "10s")
            .default_value_if("compat", "kube-metrics-adapter", "10s")
            .help("Timeout of a query, shorter than that of clients. The list of a rule's series \
                may take six times as long, at least 1m. The default is 10s with --compat")
    })
)]
pub(crate) struct AdapterArguments {
    /// File with the rules of prometheus-adapter; reloaded when it changes
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answer exactly as this program. Some of its answers can do harm, such as 0 for NaN
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "PROGRAM", default_value = "off")]
    pub(crate) compat: CompatArgument,
    /// Serve custom.metrics.k8s.io, if rules, collectors or schedules have metrics for it
    #[arg(long, alias = "enable-custom-metrics-api", env = HPA_ADAPTER_PREFIX, value_name = BOOL,
        default_value_t = true)]
    pub(crate) custom_metrics: bool,
    /// Serve external.metrics.k8s.io, if rules or collectors have metrics for it
    #[arg(long, alias = "enable-external-metrics-api", env = HPA_ADAPTER_PREFIX, value_name = BOOL,
        default_value_t = true)]
    pub(crate) external_metrics: bool,
    /// Serve metrics.k8s.io, if the file has resourceRules
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = BOOL, default_value_t = true)]
    pub(crate) resource_metrics: bool,
    /// Worker threads
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "COUNT", default_value_t = 2,
        value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,
    #[command(flatten)]
    pub(crate) sharing: SharingArguments,
    #[command(flatten)]
    pub(crate) prometheus: PrometheusArguments,
    #[command(flatten)]
    pub(crate) schedules: ScalingScheduleArguments,
    #[command(flatten)]
    pub(crate) collectors: CollectorArguments,
    // Only the leader writes events and the status of schedules.
    #[command(flatten, next_help_heading = "Leader election (as in kube-controller-manager)")]
    pub(crate) election: LeaseArguments,
    #[command(flatten)]
    pub(crate) cluster: AdapterClusterArguments,
    #[command(flatten)]
    pub(crate) serving: ServingArguments,
    #[command(flatten)]
    pub(crate) authentication: AuthenticationArguments,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
    #[command(flatten)]
    pub(crate) ignored: IgnoredArguments,
}

/// A program whose answers the adapter reproduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompatArgument {
    /// None
    Off,
    /// prometheus-adapter 0.12
    PrometheusAdapter,
    /// kube-metrics-adapter 0.2.9
    KubeMetricsAdapter,
}

impl CompatArgument {
    pub(crate) fn rules_compat(self) -> Compat {
        match self {
            Self::Off | Self::KubeMetricsAdapter => Compat::Off,
            Self::PrometheusAdapter => Compat::Reference,
        }
    }

    pub(crate) fn collectors_compat(self) -> Compat {
        match self {
            Self::Off | Self::PrometheusAdapter => Compat::Off,
            Self::KubeMetricsAdapter => Compat::Reference,
        }
    }
}

/// Access to the API server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Cluster (as in prometheus-adapter)")]
pub(crate) struct AdapterClusterArguments {
    /// Kubeconfig file for requests to the API server [default: $KUBECONFIG, else ~/.kube/config,
    /// else the service account of the pod]
    // The alias is the flag of the other commands. prometheus-adapter has no `--kubeconfig`.
    #[arg(long, alias = "kubeconfig", env = HPA_ADAPTER_PREFIX, value_name = "FILE")]
    pub(crate) lister_kubeconfig: Option<PathBuf>,
    /// Maximum average rate of requests to the API server per second, except for reviews and the
    /// lease; 0 means 5 and a negative number no limit, as in client-go [default: no limit]
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "RATE", allow_negative_numbers = true,
        value_parser = number)]
    pub(crate) client_qps: Option<f64>,
    /// Burst of these requests
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "COUNT", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) client_burst: u32,
    /// Timeout of requests to the API server
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "DURATION", default_value = "10s",
        value_parser = positive_duration)]
    pub(crate) request_timeout: SignedDuration,
}

/// Address, TLS and limits of the server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Serving (as in prometheus-adapter)")]
pub(crate) struct ServingArguments {
    /// Address to listen on
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(crate) bind_address: IpAddr,
    /// Port to listen on, with TLS; 0 for any
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "PORT", default_value_t = 443)]
    pub(crate) secure_port: u16,
    /// Additional port for /livez, /readyz and /healthz, without TLS; 0 for none. Probes on it
    /// don't share connections with other clients
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "PORT", default_value_t = 0)]
    pub(crate) health_port: u16,
    /// Serving certificate chain, PEM; reloaded when the file changes
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Private key of the first certificate, PEM
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Directory of apiserver.crt and apiserver.key, which are used without --tls-cert-file and
    /// --service, and generated if they don't exist
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "DIRECTORY",
        default_value = "apiserver.local.config/certificates")]
    pub(crate) cert_dir: PathBuf,
    /// Minimum TLS version
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "VERSION", default_value = "VersionTLS12",
        value_parser = ["VersionTLS12", "VersionTLS13"])]
    pub(crate) tls_min_version: String,
    /// Serve HTTP/1.1 only
    #[arg(long, alias = "disable-http2-serving", env = HPA_ADAPTER_PREFIX, value_name = BOOL,
        default_value_t = false)]
    pub(crate) disable_http2: bool,
    /// Concurrent requests of an HTTP/2 connection; 0 for the default, 250. Clients other than the
    /// API server have at most 32
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "COUNT", default_value_t = 0)]
    pub(crate) http2_max_streams_per_connection: u32,
    /// Service of the adapter, as NAMESPACE/NAME. The adapter generates a certificate for it,
    /// stores it in --serving-secret, and sets the caBundle of the Service's APIService objects
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "SERVICE", requires = "serving_secret",
        conflicts_with = "tls_cert_file")]
    pub(crate) service: Option<String>,
    /// Secret for the certificate of --service, in the namespace of the Service. It must exist, and
    /// may be empty
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "NAME", requires = "service")]
    pub(crate) serving_secret: Option<String>,
}

/// Authentication of clients.
#[derive(Args, Debug)]
#[command(next_help_heading = "Authentication (as in prometheus-adapter)")]
pub(crate) struct AuthenticationArguments {
    /// Kubeconfig file for TokenReviews and for reading the cluster's client CAs [default: as
    /// --lister-kubeconfig]
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "FILE")]
    pub(crate) authentication_kubeconfig: Option<PathBuf>,
    /// Time for which TokenReviews are cached
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "DURATION", default_value = "10s",
        value_parser = duration)]
    pub(crate) authentication_token_webhook_cache_ttl: SignedDuration,
    /// Don't read the ConfigMap kube-system/extension-apiserver-authentication
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) authentication_skip_lookup: bool,
    /// Start even if the ConfigMap kube-system/extension-apiserver-authentication can't be read.
    /// Client certificates are rejected until it can be read
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) authentication_tolerate_lookup_failure: bool,
    /// CAs of client certificates [default: those of the cluster]
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// CAs of the front proxy's certificate [default: those of the cluster, with the cluster's
    /// allowed names and headers]
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "FILE")]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that are allowed in the front proxy's certificate [default: any]
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "NAME", value_delimiter = ',')]
    pub(crate) requestheader_allowed_names: Vec<String>,
    /// Headers with the name of the user
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "HEADER", value_delimiter = ',',
        default_value = "x-remote-user")]
    pub(crate) requestheader_username_headers: Vec<String>,
    /// Headers with the UID of the user [default: none]
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "HEADER", value_delimiter = ',')]
    pub(crate) requestheader_uid_headers: Vec<String>,
    /// Headers with the groups of the user
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "HEADER", value_delimiter = ',',
        default_value = "x-remote-group")]
    pub(crate) requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with further information about the user
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "PREFIX", value_delimiter = ',',
        default_value = "x-remote-extra-")]
    pub(crate) requestheader_extra_headers_prefix: Vec<String>,
}

/// Authorization of requests.
#[derive(Args, Debug)]
#[command(next_help_heading = "Authorization (as in prometheus-adapter)")]
#[expect(clippy::struct_field_names, reason = "the names of prometheus-adapter's flags")]
pub(crate) struct AuthorizationArguments {
    /// Kubeconfig file for SubjectAccessReviews [default: as --lister-kubeconfig]
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "FILE")]
    pub(crate) authorization_kubeconfig: Option<PathBuf>,
    /// Time for which SubjectAccessReviews that allow a request are cached [default: 5m0s; 10s with
    /// --compat prometheus-adapter]
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "DURATION", value_parser = duration)]
    pub(crate) authorization_webhook_cache_authorized_ttl: Option<SignedDuration>,
    /// Time for which SubjectAccessReviews that deny a request are cached
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "DURATION", default_value = "10s",
        value_parser = duration)]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: SignedDuration,
    /// Paths that need no authorization. One that ends with * is a prefix
    #[arg(long, env = HPA_ADAPTER_PREFIX, value_name = "PATH", value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez")]
    pub(crate) authorization_always_allow_paths: Vec<String>,
}
