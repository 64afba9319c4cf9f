use std::{net::IpAddr, path::PathBuf};

use clap::{Args, ValueEnum};
use hpa_controller::key::AutoscalerApi;
use jiff::SignedDuration;

use super::values::{duration, fraction, log_filter, namespace, positive_duration, rate};

const RUN_EXAMPLES: &str = "\
Examples:
  Run against the cluster of the current kubeconfig context, for one namespace:
    hpa run --namespace shop

  Run in a cluster, where the built-in controller is switched off (kube-controller-manager
  --controllers='*,-horizontal-pod-autoscaler-controller'), for all namespaces:
    hpa run --log-format json

  See how it would decide beside the built-in controller, without writing anything (hpa shadow-report sums up):
    hpa run --dry-run

  See why each decision came out as it did:
    hpa run --log-level info,hpa_controller=debug

Several instances can run: the one that holds the lease works, the others wait for it. Do not let another controller
handle the same autoscalers: they would overwrite each other's decisions.
Durations are written as in Kubernetes: 15s, 5m0s, 1h30m.";

#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    #[command(flatten)]
    pub(crate) election: ElectionArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
    #[command(flatten)]
    pub(crate) observation: ObservationArguments,
    #[cfg(feature = "otlp")]
    #[command(flatten)]
    pub(crate) traces: super::TraceArguments,
    /// Write nothing: decide beside the controller that handles the autoscalers, and tell where the two differ. No leader
    /// is elected
    #[arg(long, env = "HPA_DRY_RUN")]
    pub(crate) dry_run: bool,
    /// How many threads work. One is enough for tens of thousands of autoscalers, and wastes no time on waking others
    #[arg(long, env = "HPA_THREADS", value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,
    /// How long running reconciles may take to finish after SIGTERM or SIGINT
    #[arg(long, env = "HPA_SHUTDOWN_GRACE_PERIOD", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) shutdown_grace_period: SignedDuration,
}

/// The flags of kube-controller-manager's horizontal pod autoscaler controller, with their names and defaults.
#[derive(Args, Debug)]
#[command(next_help_heading = "Autoscaling (as in kube-controller-manager)")]
pub(crate) struct AutoscalingArguments {
    /// How many autoscalers are reconciled at once
    #[arg(
        long,
        env = "HPA_CONCURRENT_HORIZONTAL_POD_AUTOSCALER_SYNCS",
        value_name = "COUNT",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) concurrent_horizontal_pod_autoscaler_syncs: u32,
    /// How often each autoscaler is reconciled
    #[arg(long, env = "HPA_HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD", value_name = "DURATION", default_value = "15s", value_parser = positive_duration)]
    pub(crate) horizontal_pod_autoscaler_sync_period: SignedDuration,
    /// How long a higher recommendation keeps replicas from being scaled down, where an autoscaler does not say
    #[arg(long, env = "HPA_HORIZONTAL_POD_AUTOSCALER_DOWNSCALE_STABILIZATION", value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    pub(crate) horizontal_pod_autoscaler_downscale_stabilization: SignedDuration,
    /// How far usage may be from its target, as a fraction of it, without a change, where an autoscaler does not say
    #[arg(long, env = "HPA_HORIZONTAL_POD_AUTOSCALER_TOLERANCE", value_name = "FRACTION", default_value_t = 0.1, value_parser = fraction)]
    pub(crate) horizontal_pod_autoscaler_tolerance: f64,
    /// How long after a pod's start its CPU samples may be skipped
    #[arg(long, env = "HPA_HORIZONTAL_POD_AUTOSCALER_CPU_INITIALIZATION_PERIOD", value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    pub(crate) horizontal_pod_autoscaler_cpu_initialization_period: SignedDuration,
    /// How long after a pod's start its readiness changes count as initial readiness
    #[arg(long, env = "HPA_HORIZONTAL_POD_AUTOSCALER_INITIAL_READINESS_DELAY", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) horizontal_pod_autoscaler_initial_readiness_delay: SignedDuration,
    /// Whether autoscalers may scale to zero and back (the feature gate HPAScaleToZero, on since Kubernetes 1.37)
    #[arg(long, env = "HPA_SCALE_TO_ZERO", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) scale_to_zero: bool,
}

/// Which cluster, and how it is asked.
#[derive(Args, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArguments {
    /// The kubeconfig file [default: $KUBECONFIG, else ~/.kube/config, else the service account of the pod]
    #[arg(long, env = "HPA_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, env = "HPA_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Use the service account of the pod this runs in, and no kubeconfig
    #[arg(long, env = "HPA_IN_CLUSTER", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) in_cluster: bool,
    /// A namespace whose autoscalers are handled; can be repeated [default: all namespaces]
    #[arg(long = "namespace", short = 'n', env = "HPA_NAMESPACE", value_name = "NAME", value_delimiter = ',', value_parser = namespace)]
    pub(crate) namespaces: Vec<String>,
    /// The autoscalers that are handled: those of Kubernetes' own API, of ours (hpa crd), or both
    #[arg(long, env = "HPA_AUTOSCALER_API", value_name = "API", default_value = "core")]
    pub(crate) autoscaler_api: AutoscalerApiArgument,
    /// Requests to the Kubernetes API per second, on average [default: no limit]
    #[arg(long, env = "HPA_KUBE_API_QPS", value_name = "RATE", value_parser = rate)]
    pub(crate) kube_api_qps: Option<f64>,
    /// Requests to the Kubernetes API at once above the average [default: the rate of --kube-api-qps, at least 1]
    #[arg(long, env = "HPA_KUBE_API_BURST", value_name = "COUNT", requires = "kube_api_qps", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_api_burst: Option<u32>,
    /// Whether Deployments, StatefulSets, ReplicaSets and custom resources with a scale are watched once an autoscaler
    /// targets one of their kind. If not, or without the right to, each reconcile reads its target's scale
    #[arg(long, env = "HPA_WATCH_SCALES", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) watch_scales: bool,
    /// The deadline of a request to the Kubernetes API or a metrics API
    #[arg(long, env = "HPA_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = positive_duration)]
    pub(crate) request_timeout: SignedDuration,
}

/// Which of several instances works: kube-controller-manager's flags, with their defaults.
#[derive(Args, Debug)]
#[command(next_help_heading = "Leader election (as in kube-controller-manager)")]
pub(crate) struct ElectionArguments {
    /// Whether a leader is elected before anything is written. Without it there must be one instance only
    #[arg(long, env = "HPA_LEADER_ELECT", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) leader_elect: bool,
    /// How long after the leader's last renewal that they saw other instances wait before they take the lease
    #[arg(long, env = "HPA_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION", default_value = "15s", value_parser = positive_duration)]
    pub(crate) leader_elect_lease_duration: SignedDuration,
    /// How long after its last renewal the leader goes on; less than the lease duration
    #[arg(long, env = "HPA_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s", value_parser = positive_duration)]
    pub(crate) leader_elect_renew_deadline: SignedDuration,
    /// How often the lease is renewed, or looked at; 1.2 times that must be less than the renew deadline
    #[arg(long, env = "HPA_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION", default_value = "2s", value_parser = positive_duration)]
    pub(crate) leader_elect_retry_period: SignedDuration,
    /// The name of the lease; those of the kept histories begin with it
    #[arg(long, env = "HPA_LEADER_ELECT_RESOURCE_NAME", value_name = "NAME", default_value = "hpa-controller", value_parser = namespace)]
    pub(crate) leader_elect_resource_name: String,
    /// The namespace of the lease and the kept histories [default: that of the pod this runs in, else kube-system]
    #[arg(long, env = "HPA_LEADER_ELECT_RESOURCE_NAMESPACE", value_name = "NAME", value_parser = namespace)]
    pub(crate) leader_elect_resource_namespace: Option<String>,
    /// Whether the leader keeps recommendations and scale events in ConfigMaps beside the lease, so that stabilization
    /// windows outlive it. Needs --leader-elect
    #[arg(long, env = "HPA_KEEP_HISTORY", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) keep_history: bool,
}

impl ElectionArguments {
    /// Whether the durations fit each other, as kube-controller-manager demands.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (lease, renew) = (self.leader_elect_lease_duration, self.leader_elect_renew_deadline);
        let retry = self.leader_elect_retry_period;
        if lease <= renew {
            let rule =
                "--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline";
            return Err(format!("{rule} ({lease:#}, {renew:#})"));
        }
        // A standby waits up to 1.2 times longer.
        if renew <= retry.saturating_mul(6) / 5 {
            let rule = "--leader-elect-renew-deadline must be greater than 1.2 times --leader-elect-retry-period";
            return Err(format!("{rule} ({renew:#}, {retry:#})"));
        }
        Ok(())
    }
}

/// What is logged, and how.
#[derive(Args, Debug)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArguments {
    /// error, warn, info, debug, trace, or directives by module: info,hpa_controller=debug
    #[arg(long, env = "HPA_LOG_LEVEL", value_name = "LEVEL", default_value = "info", value_parser = log_filter)]
    pub(crate) log_level: String,
    /// How a line is written
    #[arg(long, env = "HPA_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// Where the controller is asked how it is, and what it tells.
#[derive(Args, Debug)]
#[command(next_help_heading = "Metrics and health")]
pub(crate) struct ObservationArguments {
    /// The address on which /metrics, /healthz and /readyz are served
    #[arg(long, env = "HPA_BIND_ADDRESS", value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(crate) bind_address: IpAddr,
    /// The port for it; 0 serves nothing
    #[arg(long, env = "HPA_METRICS_PORT", value_name = "PORT", default_value_t = 8080)]
    pub(crate) metrics_port: u16,
    /// The certificates to serve it with, PEM; read again when the file changes [default: no TLS]
    #[arg(long, env = "HPA_TLS_CERT_FILE", value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The key of the first certificate, PEM
    #[arg(long, env = "HPA_TLS_PRIVATE_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Also tell what each metric of each autoscaler proposes, what limits it and whether it fails: up to 19 series
    /// for each autoscaler
    #[arg(long, env = "HPA_PER_HPA_METRICS")]
    pub(crate) per_hpa_metrics: bool,
}

/// Whose autoscalers are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AutoscalerApiArgument {
    /// autoscaling/v2
    Core,
    /// autoscaling.hpa-rs.dev/v2
    Own,
    /// Both
    Both,
}

impl AutoscalerApiArgument {
    /// The APIs that are meant.
    pub(crate) fn apis(self) -> Vec<AutoscalerApi> {
        match self {
            Self::Core => vec![AutoscalerApi::Core],
            Self::Own => vec![AutoscalerApi::Custom],
            Self::Both => AutoscalerApi::ALL.to_vec(),
        }
    }
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
