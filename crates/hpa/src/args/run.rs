use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use hpa_calc::settings::SETTINGS;
use hpa_controller::AutoscalerApi;
use jiff::{SignedDuration, tz::TimeZone};

use super::{
    CollectorArguments, PrometheusArguments, ScalingScheduleArguments, SharingArguments,
    forecast::zone,
    lease::LeaseArguments,
    values::{
        BOOL, HPA_PREFIX, bytes, dns_label, duration, fraction, log_filter, positive_duration,
        positive_number, setting_name,
    },
};

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/run.txt").trim_ascii_end())]
pub(crate) struct RunArguments {
    // Before the other groups: a group's heading applies to all flags after it.
    /// Compare decisions with the acting controller, write nothing. Differences are logged, and
    /// leader election is off
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) dry_run: bool,
    /// Start, and handle all autoscalers, although another controller wrote statuses within the
    /// last two sync periods (at least 30s). Two controllers overwrite each other's decisions
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) allow_other_controller: bool,
    /// Minimum interval between status writes of an autoscaler while its metric values change by at
    /// most the tolerance and nothing else changes; 0s writes in every reconcile, as
    /// kube-controller-manager does. Other changes are always written at once
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "60s",
        value_parser = duration)]
    pub(crate) status_interval: SignedDuration,
    /// Worker threads. One is enough for tens of thousands of autoscalers
    #[arg(long, env = HPA_PREFIX, value_name = "COUNT", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,
    /// Time limit for running reconciles after SIGTERM, SIGINT or SIGHUP
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "10s",
        value_parser = duration)]
    pub(crate) shutdown_grace_period: SignedDuration,
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Read metrics from Prometheus by the rules of this file. It has the format of
    /// prometheus-adapter's configuration, and is reloaded when it changes. All other metrics come
    /// from the metrics APIs of the cluster
    #[arg(long, env = HPA_PREFIX, value_name = "FILE", help_heading = "Metrics")]
    pub(crate) metrics_config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sharing: SharingArguments,
    #[command(flatten)]
    pub(crate) prometheus: PrometheusArguments,
    #[command(flatten)]
    pub(crate) schedules: ScalingScheduleArguments,
    #[command(flatten)]
    pub(crate) collectors: CollectorArguments,
    #[command(flatten)]
    pub(crate) forecasts: ForecastSourceArguments,
    #[command(flatten)]
    pub(crate) election: ElectionArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
    #[command(flatten)]
    pub(crate) observation: ObservationArguments,
    #[command(flatten)]
    pub(crate) debug: DebugArguments,
}

impl RunArguments {
    /// The address of the debug API.
    pub(crate) fn debug_address(&self) -> SocketAddr {
        let address = self.debug.debug_bind_address.unwrap_or(self.observation.bind_address);
        SocketAddr::new(address, self.debug.debug_port)
    }
}

/// The source of past loads for forecasts.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Forecasts (autoscalers with the setting forecast)")]
pub(crate) struct ForecastSourceArguments {
    /// URL of the Prometheus with the past loads for forecasts. The other flags of Prometheus also
    /// apply to it [default: --prometheus-url; without a Prometheus, forecasts start at the
    /// earliest after the leader has run for ten days]
    #[arg(long, env = HPA_PREFIX, value_name = "URL")]
    pub(crate) forecast_prometheus: Option<String>,
    /// The time zone of days and weeks in forecasts, such as Europe/Berlin. The time zone of an
    /// autoscaler's scheduled bounds takes precedence
    #[arg(long, env = HPA_PREFIX, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    pub(crate) forecast_time_zone: TimeZone,
}

/// The flags of kube-controller-manager's horizontal pod autoscaler controller, with their names
/// and defaults, and the settings that autoscalers may override.
#[derive(Args, Debug)]
#[command(next_help_heading = "Autoscaling (as in kube-controller-manager)")]
pub(crate) struct AutoscalingArguments {
    /// Maximum number of concurrent reconciles. Reconciles that wait for metrics don't count
    #[arg(long, env = HPA_PREFIX, value_name = "COUNT", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrent_horizontal_pod_autoscaler_syncs: u32,
    /// Interval between reconciles of an autoscaler
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "15s",
        value_parser = positive_duration)]
    pub(crate) horizontal_pod_autoscaler_sync_period: SignedDuration,
    /// Stabilization window for scaling down, for autoscalers that don't set one: the highest
    /// recommendation of this period is used
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "5m0s",
        value_parser = duration)]
    pub(crate) horizontal_pod_autoscaler_downscale_stabilization: SignedDuration,
    /// Relative difference between a metric and its target up to which replicas don't change, for
    /// autoscalers that don't set a tolerance
    #[arg(long, env = HPA_PREFIX, value_name = "FRACTION", default_value_t = 0.1,
        value_parser = fraction)]
    pub(crate) horizontal_pod_autoscaler_tolerance: f64,
    /// Time after the start of a pod during which its CPU samples may be ignored
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "5m0s",
        value_parser = duration)]
    pub(crate) horizontal_pod_autoscaler_cpu_initialization_period: SignedDuration,
    /// Time after the start of a pod during which a change of its readiness counts as initial
    /// readiness
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "30s",
        value_parser = duration)]
    pub(crate) horizontal_pod_autoscaler_initial_readiness_delay: SignedDuration,
    /// Allow autoscalers to scale to zero and back (the feature gate HPAScaleToZero, on by default
    /// since Kubernetes 1.37)
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = true)]
    pub(crate) scale_to_zero: bool,
    /// Settings that autoscalers may override by annotation or field: names from docs/settings.md,
    /// separated by commas, or "none" [default: all]
    #[arg(long, env = HPA_PREFIX, value_name = "NAMES", value_delimiter = ',',
        value_parser = setting_name, hide_default_value = true,
        default_values_t = SETTINGS.iter().map(|setting| setting.name))]
    pub(crate) allow_settings: Vec<&'static str>,
    /// The shortest sync period that an autoscaler can set for itself
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "5s",
        value_parser = positive_duration)]
    pub(crate) min_sync_period: SignedDuration,
}

/// The cluster and how to reach it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArguments {
    /// The kubeconfig file [default: $KUBECONFIG, else ~/.kube/config, else the service account of
    /// the pod]
    #[arg(long, env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, env = HPA_PREFIX, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Use the service account of this pod; ignore kubeconfig files
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) in_cluster: bool,
    /// Handle autoscalers in this namespace only; can be repeated [default: all namespaces]
    #[arg(long = "namespace", short = 'n', env = HPA_PREFIX, value_name = "NAME",
        value_delimiter = ',', value_parser = dns_label)]
    pub(crate) namespaces: Vec<String>,
    /// The API whose autoscalers to handle
    #[arg(long, env = HPA_PREFIX, value_name = "API", default_value = "core")]
    pub(crate) autoscaler_api: AutoscalerApiArgument,
    /// Maximum average rate of requests to the Kubernetes API, per second [default: no limit]
    #[arg(long, env = HPA_PREFIX, value_name = "RATE", value_parser = positive_number)]
    pub(crate) kube_api_qps: Option<f64>,
    /// Burst of requests to the Kubernetes API [default: --kube-api-qps, at least 1]
    #[arg(long, env = HPA_PREFIX, value_name = "COUNT", requires = "kube_api_qps",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_api_burst: Option<u32>,
    /// Watch the targets of autoscalers (Deployments, StatefulSets, ReplicaSets, custom resources
    /// with a scale subresource). If false or not permitted, each reconcile reads the scale
    /// instead
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = true)]
    pub(crate) watch_scales: bool,
    /// Timeout of a request to the Kubernetes API or a metrics API; at least 35s for writes of
    /// scales, which may wait for admission webhooks
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "10s",
        value_parser = positive_duration)]
    pub(crate) request_timeout: SignedDuration,
}

impl ClusterArguments {
    /// Checks that the flags name one source of credentials.
    pub(crate) fn check_credentials(&self) -> Result<(), String> {
        let names_kubeconfig = self.kubeconfig.is_some() || self.context.is_some();
        if self.in_cluster && names_kubeconfig {
            return Err("--in-cluster can't be used with --kubeconfig or --context".to_owned());
        }
        Ok(())
    }
}

/// kube-controller-manager's leader election flags with its defaults, and the history store.
#[derive(Args, Debug)]
#[command(next_help_heading = "Leader election (as in kube-controller-manager)")]
pub(crate) struct ElectionArguments {
    #[command(flatten)]
    pub(crate) lease: LeaseArguments,
    /// Time without a renewal of the lease after which the leader stops working; less than the
    /// lease duration
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "10s",
        value_parser = positive_duration)]
    pub(crate) leader_elect_renew_deadline: SignedDuration,
    /// Interval between attempts to renew or acquire the lease; less than the renew deadline / 1.2
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "2s",
        value_parser = positive_duration)]
    pub(crate) leader_elect_retry_period: SignedDuration,
    /// Name of this pod, for the lease's holder identity [default: the host name]
    #[arg(long, env = HPA_PREFIX, value_name = "NAME")]
    pub(crate) pod_name: Option<String>,
    /// Store recommendations and scale events in ConfigMaps. Stabilization windows then survive a
    /// change of leader. Needs --leader-elect
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = true)]
    pub(crate) keep_history: bool,
}

impl ElectionArguments {
    /// Checks the durations against each other, as kube-controller-manager does.
    pub(crate) fn check_durations(&self) -> Result<(), String> {
        let lease = self.lease.leader_elect_lease_duration;
        let renew = self.leader_elect_renew_deadline;
        let retry = self.leader_elect_retry_period;
        if lease <= renew {
            let rule =
                "--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline";
            return Err(format!("{rule} ({lease:#}, {renew:#})"));
        }
        // As client-go: the deadline must exceed the retry period times its JitterFactor, 1.2.
        if renew <= retry.saturating_mul(6) / 5 {
            let rule = "--leader-elect-renew-deadline must be greater than 1.2 times \
                        --leader-elect-retry-period";
            return Err(format!("{rule} ({renew:#}, {retry:#})"));
        }
        Ok(())
    }
}

/// Log level and format.
#[derive(Args, Debug)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArguments {
    /// Log level: off, error, warn, info, debug or trace. Can be a list of directives by module,
    /// such as info,hpa_controller=debug
    #[arg(long, env = HPA_PREFIX, value_name = "LEVEL", default_value = "info",
        value_parser = log_filter)]
    pub(crate) log_level: String,
    /// Format of a log line
    #[arg(long, env = HPA_PREFIX, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// The endpoints for metrics and probes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Metrics and health")]
pub(crate) struct ObservationArguments {
    /// Address that serves /metrics, /healthz and /readyz, and the debug API if
    /// --debug-bind-address isn't set
    #[arg(long, env = HPA_PREFIX, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(crate) bind_address: IpAddr,
    /// Port of /metrics, /healthz and /readyz; 0 disables them
    #[arg(long, env = HPA_PREFIX, value_name = "PORT", default_value_t = 8080)]
    pub(crate) metrics_port: u16,
    /// Serving certificate chain, PEM; reloaded when the file changes [default: plain HTTP]
    #[arg(long, env = HPA_PREFIX, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Private key of the first certificate, PEM
    #[arg(long, env = HPA_PREFIX, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Export series for each autoscaler: the proposals of its metrics, its limits and whether it
    /// fails. Up to 19 series per autoscaler
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) per_hpa_metrics: bool,
}

/// The debug API, which `hpa explain`, `hpa status` and `hpa dashboard` read.
#[derive(Args, Debug)]
#[command(next_help_heading = "Debug API")]
#[expect(clippy::struct_field_names, reason = "the names of the flags")]
pub(crate) struct DebugArguments {
    /// Port of the debug API, for hpa explain, status and dashboard. It serves the last
    /// decisions, histories, cache ages and the queue as JSON. 0 disables it, and decisions are not
    /// recorded
    #[arg(long, env = HPA_PREFIX, value_name = "PORT", default_value_t = 0)]
    pub(crate) debug_port: u16,
    /// Address of the debug API. On a loopback address it serves plain HTTP without authentication.
    /// On any other address it serves HTTPS with the certificate of --tls-cert-file or a generated
    /// one, and requires a token whose user may get /debug/v1/* [default: --bind-address]
    #[arg(long, env = HPA_PREFIX, value_name = "ADDRESS")]
    pub(crate) debug_bind_address: Option<IpAddr>,
    /// Memory for recorded decisions. Each autoscaler gets an equal share
    #[arg(long, env = HPA_PREFIX, value_name = "BYTES", default_value = "64Mi",
        value_parser = bytes)]
    pub(crate) debug_memory_limit: u64,
}

/// The APIs that autoscalers may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AutoscalerApiArgument {
    /// autoscaling/v2
    Core,
    /// autoscaling.hpa-rs.dev/v2 (see hpa crd); own is an alias
    #[value(alias = "own")]
    Custom,
    /// Both
    Both,
}

impl AutoscalerApiArgument {
    pub(crate) fn apis(self) -> Vec<AutoscalerApi> {
        match self {
            Self::Core => vec![AutoscalerApi::Core],
            Self::Custom => vec![AutoscalerApi::Custom],
            Self::Both => AutoscalerApi::ALL.to_vec(),
        }
    }
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable text
    Text,
    /// One JSON object per line
    Json,
}
