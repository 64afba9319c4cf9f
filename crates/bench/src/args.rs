//! The command line.

use std::{
    ffi::OsString,
    fmt::{self, Display},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;

use crate::controller::Controller;

/// Examples, and how it is measured.
const RUN_HELP: &str = include_str!("run_help.txt");
const AFTER_HELP: &str = "--help has examples, and tells how it is measured.";

/// A load generator for HorizontalPodAutoscaler controllers: measures them from outside, side by side.
#[derive(Debug, Parser)]
#[command(name = "hpa-bench", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure one controller after the other, each against a server of its own, and print a table.
    Run(RunArguments),
    /// Only the server: populated, with metrics, counting what it is asked. `run` starts it.
    Serve(ServeArguments),
    /// Become another program that ends when who started this does.
    #[command(hide = true)]
    ExitWithParent(TiedArguments),
}

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, after_long_help = RUN_HELP)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) population: Population,
    /// What to measure against: testbed, kube-apiserver=DIR, a folder with etcd and kube-apiserver, or kubeconfig=FILE, a
    /// server that runs already
    #[arg(long, value_name = "KIND", default_value = "testbed")]
    pub(crate) server: ApiServer,
    /// What to measure: ours=FILE (hpa) or reference=FILE (kube-controller-manager); can be repeated
    #[arg(long = "controller", value_name = "KIND=FILE", required = true)]
    pub(crate) controllers: Vec<Controller>,
    /// How long to measure after all autoscalers were decided
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = positive_duration)]
    pub(crate) duration: Duration,
    /// How long to wait until all autoscalers are decided; after that it is measured without those that are not
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = positive_duration)]
    pub(crate) within: Duration,
    /// How many times to measure each controller, in turn; medians are told
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// How many autoscalers to create one by one meanwhile, to see how soon they are decided
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) extra: u32,
    /// The controllers' --concurrent-horizontal-pod-autoscaler-syncs
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrent_syncs: u32,
    /// Write the numbers to this file too, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Keep the temporary folder with the logs of controllers and servers
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    pub(crate) population: Population,
    /// What serves: testbed, kube-apiserver=DIR, a folder with etcd and kube-apiserver, or kubeconfig=FILE, a server that
    /// runs already
    #[arg(long, value_name = "KIND", default_value = "testbed")]
    pub(crate) server: ApiServer,
    /// Where to write the kubeconfig
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// How many more targets to have whose autoscalers are created by a POST to /add, one by one
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) extra: u32,
}

#[derive(Args, Debug)]
pub(crate) struct TiedArguments {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// What is in the cluster.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Population {
    /// How many autoscalers, each with a Deployment
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) autoscalers: u32,
    /// How many pods each Deployment has, to begin with
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pods: u32,
    /// Over how many namespaces they are spread
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) namespaces: u32,
    /// What is scaled on
    #[arg(long, value_name = "KIND", default_value = "cpu")]
    pub(crate) metric: Metric,
    /// What the load does
    #[arg(long, value_name = "KIND", default_value = "jitter")]
    pub(crate) change: Change,
    /// How often each autoscaler is to be reconciled; metrics are measured twice as often
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = positive_duration)]
    pub(crate) period: Duration,
}

/// What a controller is measured against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApiServer {
    /// An API server in memory.
    Testbed,
    /// The one of Kubernetes, with its etcd: the folder of the two programs.
    KubeApiserver(PathBuf),
    /// One that runs already and may serve others too: the kubeconfig by which it is reached.
    Kubeconfig(PathBuf),
}

impl FromStr for ApiServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let absolute = |path: &str| std::path::absolute(path).map_err(|error| error.to_string());
        match text.split_once('=') {
            None if text == "testbed" => Ok(Self::Testbed),
            Some(("kube-apiserver", folder)) => Ok(Self::KubeApiserver(absolute(folder)?)),
            Some(("kubeconfig", file)) => Ok(Self::Kubeconfig(absolute(file)?)),
            _ => Err("must be testbed, kube-apiserver=DIR or kubeconfig=FILE".to_owned()),
        }
    }
}

impl Display for ApiServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Testbed => formatter.write_str("testbed"),
            Self::KubeApiserver(folder) => write!(formatter, "kube-apiserver={}", folder.display()),
            Self::Kubeconfig(file) => write!(formatter, "kubeconfig={}", file.display()),
        }
    }
}

/// What autoscalers scale on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metric {
    /// CPU utilization of the pods.
    Cpu,
    /// A metric of no object, one series for each autoscaler.
    External,
}

/// What the load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Change {
    /// Each measurement is a percent or so off: nothing is scaled, but every reconcile has a new status to write.
    Jitter,
    /// Always what the targets have replicas for: nothing is scaled, and no status is new.
    Steady,
    /// By half up and down in forty periods, each target at its own time: targets are scaled.
    Wave,
}

impl Population {
    /// The flags that say the same to another process.
    pub(crate) fn flags(&self) -> Vec<String> {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        vec![
            format!("--autoscalers={}", self.autoscalers),
            format!("--pods={}", self.pods),
            format!("--namespaces={}", self.namespaces),
            format!("--metric={}", name(self.metric.to_possible_value())),
            format!("--change={}", name(self.change.to_possible_value())),
            format!("--period={}ms", self.period.as_millis()),
        ]
    }
}

const MAX_DURATION: Duration = Duration::from_hours(24);

fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration =
        text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    match duration {
        None => Err("must be a duration such as 15s, 500ms or 5m".to_owned()),
        Some(duration) if duration < Duration::from_millis(10) => {
            Err("must be at least 10ms".to_owned())
        }
        Some(duration) if duration > MAX_DURATION => Err("must be at most 24h".to_owned()),
        Some(duration) => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test may stop where it was misled")]

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn server_is_a_kind_and_may_have_a_path() {
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
    fn flags_of_a_population_say_the_same() {
        let given = [
            "hpa-bench",
            "serve",
            "--kubeconfig=x",
            "--autoscalers=7",
            "--pods=3",
            "--namespaces=2",
        ];
        let more = ["--metric=external", "--change=wave", "--period=1500ms"];
        let parse = |flags: Vec<String>| match Arguments::parse_from(flags).command {
            Command::Serve(arguments) => arguments.population,
            Command::Run(_) | Command::ExitWithParent(_) => unreachable!("serve was asked for"),
        };
        let first = parse(given.iter().chain(&more).map(ToString::to_string).collect());
        assert_eq!(first.flags(), [&given[3..], &more].concat());
        let start = given[..3].iter().map(ToString::to_string).collect::<Vec<_>>();
        let second = parse([start, first.flags()].concat());
        assert_eq!(second.flags(), first.flags());
    }
}
