//! The command line.

use std::{
    fmt, fmt::Display, net::SocketAddr, ops::RangeInclusive, path::PathBuf, str::FromStr,
    time::Duration,
};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{RangedI64ValueParser, RangedU64ValueParser},
};

use crate::{
    adapter::Adapter,
    controller::{Controller, absolute_path, parse_duration},
};

/// Examples of `hpa-bench run`, and an explanation of the measurement.
const RUN_HELP: &str = include_str!("run_help.txt");
/// The same for `hpa-bench adapter`.
const ADAPTER_HELP: &str = include_str!("adapter_help.txt");
const AFTER_HELP: &str = "--help shows examples and explains the measurement.";

/// Measure and compare HorizontalPodAutoscaler controllers from outside.
#[derive(Debug, Parser)]
#[command(name = "hpa-bench", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure one controller after the other, each against its own server, and print a table.
    Run(RunArguments),
    /// Measure adapters that serve the custom metrics API, one after the other, each behind its own
    /// API server, and print a table.
    Adapter(AdapterArguments),
    /// Serve only: a populated API server with metrics that counts requests. `run` starts it.
    Serve(ServeArguments),
    /// Serve only: a fake Prometheus with any number of series.
    Prometheus(PrometheusArguments),
    /// Print a chart of the cost by the number of autoscalers, as SVG.
    Chart(ChartArguments),
}

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, after_long_help = RUN_HELP)]
pub(crate) struct RunArguments {
    /// API server to measure against: testbed, kube-apiserver=DIR (a directory with etcd and
    /// kube-apiserver), or kubeconfig=FILE (a running cluster)
    #[arg(long, value_name = "KIND", default_value = "testbed")]
    pub(crate) server: ApiServer,
    /// Controller to measure: ours=FILE (hpa), ours@DURATION=FILE (hpa with that
    /// --status-interval) or reference=FILE (kube-controller-manager); can be repeated
    #[arg(long = "controller", value_name = "KIND=FILE", required = true)]
    pub(crate) controllers: Vec<Controller>,
    /// Length of the measurement, which begins after the first decisions and --settle
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Maximum time to wait until all autoscalers are decided; then the measurement starts anyway
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration)]
    pub(crate) within: Duration,
    /// Time to wait between the first decisions and the measurement, for work in the background.
    /// The figures up to the measurement include this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) settle: Option<Duration>,
    /// Rounds in which each controller is measured in turn; the result is the medians
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = count(1..=100))]
    pub(crate) repeat: u32,
    /// Autoscalers to create one by one during the measurement, to measure how soon they are
    /// decided
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = count(0..=1000))]
    pub(crate) extra: u32,
    /// The controllers' --concurrent-horizontal-pod-autoscaler-syncs
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = count(1..=10_000))]
    pub(crate) concurrent_syncs: u32,
    /// Additional flag of `ours`, such as --flag=--share-queries=never; can be repeated
    #[arg(long = "flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) flags: Vec<String>,
    /// Fail if a controller makes less than this share of its due reconciles, in percent, or if not
    /// all autoscalers are decided before the measurement
    #[arg(long, value_name = "PERCENT", value_parser = count(1..=100))]
    pub(crate) require_due: Option<u32>,
    /// Also write the numbers to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Keep the temporary directory with the logs of controllers and servers
    #[arg(long)]
    pub(crate) keep: bool,
    // Last, because its heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) population: Population,
}

#[derive(Args, Debug)]
pub(crate) struct ChartArguments {
    /// Files that `hpa-bench run --json` wrote, each with the same controller and another number of
    /// autoscalers
    #[arg(value_name = "FILE", required = true)]
    pub(crate) numbers: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// API server: testbed, kube-apiserver=DIR (a directory with etcd and kube-apiserver), or
    /// kubeconfig=FILE (a running cluster)
    #[arg(long, value_name = "KIND", default_value = "testbed")]
    pub(crate) server: ApiServer,
    /// File to write the kubeconfig to
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// Additional targets, whose autoscalers are created one by one by a POST to /add
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) extra: u32,
    // Last, because its heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) population: Population,
}

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, after_long_help = ADAPTER_HELP)]
pub(crate) struct AdapterArguments {
    /// API server to measure behind: kube-apiserver=DIR (a directory with etcd and kube-apiserver)
    #[arg(long, value_name = "KIND")]
    pub(crate) server: ApiServer,
    /// Adapter to measure: ours=FILE (hpa) or prometheus-adapter=FILE; can be repeated
    #[arg(long = "adapter", value_name = "KIND=FILE", required = true)]
    pub(crate) adapters: Vec<Adapter>,
    /// Length of each of the two measurements: through the API server, and past it
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Maximum time to wait until an adapter serves the metric, and then for its first list of
    /// series. The wait for each further list is longer by --relist-interval
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration)]
    pub(crate) within: Duration,
    /// Lists of series to wait for before the measurement, the first one included
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = count(1..=100))]
    pub(crate) discoveries: u32,
    /// The adapters' --metrics-relist-interval
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub(crate) relist_interval: Duration,
    /// Rounds in which each adapter is measured in turn; the result is the medians
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = count(1..=100))]
    pub(crate) repeat: u32,
    /// Additional flag of `ours`; can be repeated
    #[arg(long = "flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) flags: Vec<String>,
    /// Also write the numbers to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Keep the temporary directory with the logs of adapters and servers
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) workloads: Workloads,
    // Last, because its heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) series: SeriesArguments,
}

#[derive(Args, Debug)]
pub(crate) struct PrometheusArguments {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) workloads: Workloads,
    // Last, because its heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) series: SeriesArguments,
}

/// The pods that metrics are about.
#[derive(Args, Clone, Debug)]
pub(crate) struct Workloads {
    /// Autoscalers, each with its own pods and a request in each period
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = count(1..=100_000))]
    pub(crate) autoscalers: u32,
    /// Pods of each autoscaler
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = count(1..=1000))]
    pub(crate) pods: u32,
    /// Namespaces over which the autoscalers are distributed
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = count(1..=10_000))]
    pub(crate) namespaces: u32,
    /// Sync period of the autoscalers
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) period: Duration,
}

impl Workloads {
    pub(crate) fn population(&self) -> Population {
        Population {
            autoscalers: self.autoscalers,
            pods: self.pods,
            namespaces: self.namespaces,
            metric: Metric::Prometheus,
            annotations: Vec::new(),
            change: Change::Jitter,
            period: self.period,
        }
    }
}

/// The series of the fake Prometheus.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Prometheus")]
pub(crate) struct SeriesArguments {
    /// Total number of series
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = large_count())]
    pub(crate) series: u64,
    /// Different names of series
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = large_count())]
    pub(crate) names: u64,
}

/// The objects in the cluster, and the load on them.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Population {
    /// Autoscalers, each with a Deployment
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = count(1..=100_000))]
    pub(crate) autoscalers: u32,
    /// Initial pods of each Deployment
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = count(1..=1000))]
    pub(crate) pods: u32,
    /// Namespaces over which the autoscalers are distributed
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = count(1..=10_000))]
    pub(crate) namespaces: u32,
    /// Metric of the autoscalers
    #[arg(long, value_name = "KIND", default_value = "cpu")]
    pub(crate) metric: Metric,
    /// Annotation of the autoscalers, such as a setting; can be repeated
    #[arg(long = "annotation", value_name = "NAME=VALUE", value_parser = annotation)]
    pub(crate) annotations: Vec<(String, String)>,
    /// How the load changes
    #[arg(long, value_name = "KIND", default_value = "jitter")]
    pub(crate) change: Change,
    /// Sync period of the controllers; metrics change twice as often
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) period: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApiServer {
    /// An API server in memory.
    Testbed,
    /// An etcd and a kube-apiserver, with the directory of the binaries.
    KubeApiserver(PathBuf),
    /// A running cluster, which may have other users, with its kubeconfig.
    Kubeconfig(PathBuf),
}

impl FromStr for ApiServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "testbed" => Ok(Self::Testbed),
            Some(("kube-apiserver", dir)) => Ok(Self::KubeApiserver(absolute_path(dir)?)),
            Some(("kubeconfig", file)) => Ok(Self::Kubeconfig(absolute_path(file)?)),
            _ => Err("must be testbed, kube-apiserver=DIR or kubeconfig=FILE".to_owned()),
        }
    }
}

impl Display for ApiServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Testbed => formatter.write_str("testbed"),
            Self::KubeApiserver(dir) => write!(formatter, "kube-apiserver={}", dir.display()),
            Self::Kubeconfig(file) => write!(formatter, "kubeconfig={}", file.display()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metric {
    /// CPU utilization of the pods.
    Cpu,
    /// An external metric, with one series for each autoscaler.
    External,
    /// A metric of the pods, from custom.metrics.k8s.io.
    Pods,
    /// The same metric, which `ours` reads from a fake Prometheus itself (`hpa run
    /// --metrics-config`).
    Prometheus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Change {
    /// Changes twice per period, by at most 1.2 % of the average up or down: nothing is scaled, but
    /// every reconcile has a new status to write.
    Jitter,
    /// Constant: nothing is scaled, and no status changes.
    Steady,
    /// Rises and falls by half within forty periods, with a phase for each target: targets are
    /// scaled.
    Wave,
}

impl Population {
    /// Returns the flags that set these values.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--autoscalers={}", self.autoscalers),
            format!("--pods={}", self.pods),
            format!("--namespaces={}", self.namespaces),
            format!("--metric={}", value_name(&self.metric)),
            format!("--change={}", value_name(&self.change)),
            format!("--period={}ms", self.period.as_millis()),
        ];
        let annotations = self.annotations.iter();
        flags.extend(annotations.map(|(name, value)| format!("--annotation={name}={value}")));
        flags
    }
}

/// The name of a flag's value.
pub(crate) fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn annotation(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The parser of a number of series or names.
fn large_count() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=100_000_000)
}

fn count(range: RangeInclusive<i64>) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(range)
}

const MAX_DURATION: Duration = Duration::from_hours(24);

fn duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        None => Err("must be a duration such as 15s, 500ms or 5m".to_owned()),
        Some(duration) if duration < Duration::from_millis(10) => {
            Err("must be at least 10ms".to_owned())
        }
        Some(duration) if duration > MAX_DURATION => Err("must be at most 24h".to_owned()),
        Some(duration) => Ok(duration),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Parses a population from flags. The load is steady unless a flag changes it.
    pub(crate) fn population(flags: &[&str]) -> Population {
        let start = ["hpa-bench", "serve", "--kubeconfig=x"];
        let change = flags.iter().any(|flag| flag.starts_with("--change="));
        let steady = (!change).then_some("--change=steady");
        let arguments = start.iter().chain(flags).copied().chain(steady);
        match Arguments::parse_from(arguments).command {
            Command::Serve(arguments) => arguments.population,
            other => unreachable!("the command is serve: {other:?}"),
        }
    }

    #[test]
    fn command_line_is_valid() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        let lines = RUN_HELP.lines().chain(ADAPTER_HELP.lines());
        let too_long: Vec<&str> = lines.filter(|line| line.chars().count() > 79).collect();
        assert_eq!(too_long, Vec::<&str>::new());
    }

    #[test]
    fn server_is_parsed_from_kind_and_path() {
        for text in ["testbed", "kube-apiserver=/a=b", "kubeconfig=/a=b"] {
            assert_eq!(
                text.parse().map(|server: ApiServer| server.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "kube-apiserver", "kubeconfig", "kubeconfig=", "testbed=/a", "etcd=/a"] {
            assert!(text.parse::<ApiServer>().is_err(), "{text}");
        }
    }

    #[test]
    fn population_flags_round_trip() {
        let flags = [
            "--autoscalers=7",
            "--pods=3",
            "--namespaces=2",
            "--metric=external",
            "--change=wave",
            "--period=1500ms",
            "--annotation=a=b=c",
        ];
        assert_eq!(population(&flags).flags(), flags);
    }
}
