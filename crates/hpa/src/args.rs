//! The command line: kube-controller-manager's flag names, and an environment variable for each.

#![expect(clippy::doc_markdown, reason = "the comments of flags are shown as they are")]

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use hpa_controller::api::AutoscalerApi;
use jiff::SignedDuration;

use crate::{
    completions::CompletionsArguments, convert::ConvertArguments, man::ManArguments,
    shadow::ShadowReportArguments,
};

/// A HorizontalPodAutoscaler controller: scales as the one in kube-controller-manager does, and says why.
#[derive(Debug, Parser)]
#[command(name = "hpa", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the controller at work on a simulated cluster: load rises and falls, replicas follow.
    Demo(DemoArguments),
    /// Run the controller against a cluster, until it is told to stop.
    Run(Box<RunArguments>),
    /// Compare decisions with those of the controller that runs, writing nothing, and report the differences
    ShadowReport(Box<ShadowReportArguments>),
    /// Print the CustomResourceDefinition of our own API, with the schema of autoscaling/v2
    Crd,
    /// Turn HorizontalPodAutoscalers of Kubernetes' own API into ones of ours, and back
    Convert(ConvertArguments),
    /// Print what lets a shell complete the arguments of this program
    Completions(CompletionsArguments),
    /// Print a manual page
    Man(ManArguments),
}

const DEMO_EXAMPLES: &str = "\
Examples:
  Watch half an hour in a minute: a web front end, a worker that sleeps while its queue is empty, an API:
    hpa demo

  Look at it with kubectl, at leisure: the cluster stays, in real time, until Ctrl-C
    hpa demo --hold
    (in another terminal, with the kubeconfig that is printed)
    kubectl get hpa --watch
    kubectl describe hpa worker

  Try it on your own workload and load:
    hpa demo --print-scenario > mine.yaml
    hpa demo --scenario mine.yaml --speed 60

  In CI: one line for each decision that says something new, then a summary:
    hpa demo --for 20s | cat

Nothing has to be installed, and no cluster is touched: the API server, its pods, load and
metrics are simulated in this process, on 127.0.0.1, and go with it. Your kubeconfig is not
read or changed.

Exit status: 0 if the controller followed the load (the summary tells what that means), 1 if it
did not, 2 if the demonstration could not run, 130 after Ctrl-C or SIGTERM before the end. On
hold Ctrl-C is the end.";

#[derive(Args, Debug)]
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct DemoArguments {
    /// What is in the cluster, what load comes and what goes wrong: YAML as --print-scenario prints it [default: the one it prints]
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// Print the built-in scenario, to be changed, and do nothing else
    #[arg(long)]
    pub(crate) print_scenario: bool,
    /// How many simulated seconds pass in a second, from 1 to 600
    #[arg(long, value_name = "FACTOR", default_value_t = 30.0, value_parser = speed)]
    pub(crate) speed: f64,
    /// How long it takes, in real time [default: the scenario's duration by --speed]
    #[arg(long = "for", value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) duration: Option<SignedDuration>,
    /// Stay after the end until Ctrl-C: the load begins again, in real time
    #[arg(long)]
    pub(crate) hold: bool,
    /// Where chance begins: the same seed, the same load, noise and incidents [default: the scenario's]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Keep the temporary folder with the kubeconfig and, on a terminal, the log. A log is kept in any case if the load was not followed
    #[arg(long)]
    pub(crate) keep: bool,
    /// What the controller logs: error, warn, info, debug, or directives by module. On a terminal it goes to a file
    /// [default: warn, on a terminal info]
    #[arg(long, value_name = "LEVEL", value_parser = log_filter)]
    pub(crate) log_level: Option<String>,
}

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
    /// Write nothing: decide beside the controller that handles the autoscalers, and tell where the two differ. No leader
    /// is elected
    #[arg(long, env = "HPA_DRY_RUN")]
    pub(crate) dry_run: bool,
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
            let rule = "--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline";
            return Err(format!("{rule} ({lease:#}, {renew:#})"));
        }
        // A standby waits up to 1.2 times longer.
        if renew <= retry.saturating_mul(6) / 5 {
            let rule =
                "--leader-elect-renew-deadline must be greater than 1.2 times --leader-elect-retry-period";
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
            Self::Own => vec![AutoscalerApi::Own],
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

fn duration(text: &str) -> Result<SignedDuration, String> {
    let duration = if text == "0" { Ok(SignedDuration::ZERO) } else { text.parse::<SignedDuration>() };
    match duration {
        Ok(duration) if duration.is_negative() => Err("must not be negative".to_owned()),
        Ok(duration) if duration > MAX_DURATION => Err("must be at most 8760h (a year)".to_owned()),
        Ok(duration) => Ok(duration),
        Err(_) => Err("must be a duration such as 15s, 5m0s or 1h30m".to_owned()),
    }
}

/// Longer than any window or period that makes sense, short enough for every calculation with it.
const MAX_DURATION: SignedDuration = SignedDuration::from_hours(8760);

pub(crate) fn positive_duration(text: &str) -> Result<SignedDuration, String> {
    match duration(text)? {
        duration if duration < SignedDuration::from_millis(10) => Err("must be at least 10ms".to_owned()),
        duration => Ok(duration),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (1.0..=600.0).contains(&speed) => Ok(speed),
        _ => Err("must be a number from 1 to 600".to_owned()),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(fraction) if fraction.is_finite() && fraction >= 0.0 => Ok(fraction),
        _ => Err("must be a number of at least 0, such as 0.1".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("must be a number above 0".to_owned()),
    }
}

fn namespace(text: &str) -> Result<String, String> {
    let is_label = !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_label { Ok(text.to_owned()) } else { Err("must be the name of a namespace".to_owned()) }
}

fn log_filter(text: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::builder().parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A duration that is known not to be negative, as the standard library has it.
pub(crate) fn to_std(duration: SignedDuration) -> Duration {
    duration.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<RunArguments, String> {
        let arguments = ["hpa", "run"].iter().chain(arguments);
        match Arguments::try_parse_from(arguments) {
            Ok(Arguments { command: Command::Run(run) }) => Ok(*run),
            Ok(Arguments { command }) => Err(format!("another command: {command:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn defaults_are_the_reference_controllers() {
        let autoscaling = parse(&[]).expect("the defaults").autoscaling;
        assert_eq!(autoscaling.concurrent_horizontal_pod_autoscaler_syncs, 5);
        assert_eq!(autoscaling.horizontal_pod_autoscaler_sync_period, SignedDuration::from_secs(15));
        assert_eq!(
            autoscaling.horizontal_pod_autoscaler_downscale_stabilization,
            SignedDuration::from_mins(5)
        );
        assert!((autoscaling.horizontal_pod_autoscaler_tolerance - 0.1).abs() < f64::EPSILON);
        assert_eq!(
            autoscaling.horizontal_pod_autoscaler_cpu_initialization_period,
            SignedDuration::from_mins(5)
        );
        assert_eq!(
            autoscaling.horizontal_pod_autoscaler_initial_readiness_delay,
            SignedDuration::from_secs(30)
        );
    }

    #[test]
    fn durations_are_written_as_in_kubernetes() {
        for (text, seconds) in [("15s", 15), ("5m0s", 300), ("1h30m", 5400), ("0", 0), ("0s", 0), ("2m", 120)]
        {
            assert_eq!(duration(text), Ok(SignedDuration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("1.5s"), Ok(SignedDuration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(SignedDuration::from_millis(250)));
    }

    #[test]
    fn bad_value_is_refused_with_its_flag_named() {
        for (flag, value) in [
            ("--concurrent-horizontal-pod-autoscaler-syncs", "0"),
            ("--horizontal-pod-autoscaler-sync-period", "0s"),
            ("--horizontal-pod-autoscaler-sync-period", "15"),
            ("--horizontal-pod-autoscaler-downscale-stabilization", "-1s"),
            ("--horizontal-pod-autoscaler-tolerance", "-0.1"),
            ("--horizontal-pod-autoscaler-tolerance", "NaN"),
            ("--horizontal-pod-autoscaler-cpu-initialization-period", "soon"),
            ("--horizontal-pod-autoscaler-initial-readiness-delay", "9000h"),
            ("--kube-api-qps", "0"),
            ("--namespace", "Not-A-Namespace"),
            ("--log-level", "hpa=loud"),
            ("--log-format", "xml"),
            ("--request-timeout", "0"),
            ("--bind-address", "localhost"),
            ("--metrics-port", "65536"),
            ("--leader-elect", "maybe"),
            ("--leader-elect-lease-duration", "0s"),
            ("--leader-elect-renew-deadline", "-1s"),
            ("--leader-elect-retry-period", "0"),
            ("--leader-elect-resource-name", "Not A Name"),
            ("--leader-elect-resource-namespace", ""),
        ] {
            let argument = format!("{flag}={value}");
            let error = parse(&[&argument]).expect_err(&argument);
            assert!(error.contains(flag), "{argument}: {error}");
        }
    }

    #[test]
    fn election_is_the_reference_controllers() {
        let election = parse(&[]).expect("the defaults").election;
        let seconds = |duration: SignedDuration| duration.as_secs();
        assert!(election.leader_elect && election.keep_history);
        assert_eq!(seconds(election.leader_elect_lease_duration), 15);
        assert_eq!(seconds(election.leader_elect_renew_deadline), 10);
        assert_eq!(seconds(election.leader_elect_retry_period), 2);
        assert_eq!(election.check(), Ok(()));
        assert!(parse(&["--leader-elect"]).expect("a flag").election.leader_elect);
        assert!(!parse(&["--leader-elect=false"]).expect("a flag").election.leader_elect);
    }

    #[test]
    fn durations_of_the_election_must_fit_each_other() {
        for (arguments, named) in [
            (["--leader-elect-lease-duration=10s"], "--leader-elect-lease-duration must be greater"),
            (["--leader-elect-renew-deadline=15s"], "than --leader-elect-renew-deadline (15s, 15s)"),
            (["--leader-elect-renew-deadline=2400ms"], "--leader-elect-renew-deadline must be greater"),
            (["--leader-elect-retry-period=9s"], "1.2 times --leader-elect-retry-period (10s, 9s)"),
        ] {
            let error = parse(&arguments).expect("each alone is good").election.check();
            assert!(error.as_ref().is_err_and(|error| error.contains(named)), "{arguments:?}: {error:?}");
        }
    }

    #[test]
    fn namespaces_can_be_repeated_or_listed() {
        let cluster = parse(&["--namespace", "a", "-n", "b,c"]).expect("namespaces").cluster;
        assert_eq!(cluster.namespaces, ["a", "b", "c"]);
    }

    #[test]
    fn autoscaler_api_is_kubernetes_own_unless_told() {
        use AutoscalerApi::{Core, Own};
        let apis = |arguments: &[&str]| parse(arguments).expect("an API").cluster.autoscaler_api.apis();
        assert_eq!(apis(&[]), [Core]);
        assert_eq!(apis(&["--autoscaler-api=own"]), [Own]);
        assert_eq!(apis(&["--autoscaler-api=both"]), [Core, Own]);
    }

    #[test]
    fn certificate_goes_with_its_key() {
        let error = parse(&["--tls-cert-file", "tls.crt"]).expect_err("no key");
        assert!(error.contains("--tls-private-key-file"), "{error}");
    }

    #[test]
    fn every_flag_of_run_has_an_environment_variable() {
        let command = Arguments::command();
        let run = command.find_subcommand("run").expect("run");
        for argument in
            run.get_arguments().filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
        {
            assert!(argument.get_env().is_some(), "{}", argument.get_id());
        }
    }
}
