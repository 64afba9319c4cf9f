use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use jiff::SignedDuration;

use super::values::{log_filter, positive_duration};

const DEMO_EXAMPLES: &str = "\
Examples:
  Watch half an hour in a minute: a web front end, a worker that scales to
  zero, an API:
    hpa demo

  Keep the cluster running in real time until Ctrl-C, and use kubectl on it:
    hpa demo --hold
    (in another terminal, with the kubeconfig that the demo prints)
    kubectl get hpa --watch
    kubectl describe hpa worker

  Try your own workload and load:
    hpa demo --print-scenario > mine.yaml
    hpa demo --scenario mine.yaml --speed 60

  See forecasts scale before a load comes, and on a day that differs:
    hpa demo --scenario examples/forecast/cluster.yaml

  Let a Prometheus scrape the demo, for hpa replay (docs/demo.md has the
  configuration of Prometheus):
    hpa demo --metrics-address 127.0.0.1:9101

  In CI, print one line per new decision, then a summary:
    hpa demo --for 20s | cat

The demo needs no cluster and touches none. It simulates the API server, pods,
load and metrics in this process, on 127.0.0.1. It neither reads nor changes
your kubeconfig.

Exit status: 0 if the controller followed the load (the summary defines that),
1 if it did not, 2 if the demo could not run, 130 after Ctrl-C, SIGTERM or
SIGHUP before the end. With --hold, Ctrl-C is the normal end.";

#[derive(Args, Debug)]
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct DemoArguments {
    /// Scenario in YAML: workloads, load and incidents. --print-scenario prints an example
    /// [default: the built-in scenario]
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// Print the built-in scenario and exit
    #[arg(long)]
    pub(crate) print_scenario: bool,
    /// Simulated seconds per real second, from 1 to 600
    #[arg(long, value_name = "FACTOR", default_value_t = 30.0, value_parser = speed)]
    pub(crate) speed: f64,
    /// Real time to run for [default: the duration of the scenario divided by --speed]
    #[arg(long = "for", value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) duration: Option<SignedDuration>,
    /// Keep running until Ctrl-C after the end of the scenario. The load repeats in real time
    #[arg(long)]
    pub(crate) hold: bool,
    /// Serve the simulated cluster's metrics for Prometheus. They are those of kube-state-metrics
    /// and the kubelet, at http://ADDRESS/metrics. Port 0 is any free port
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics_address: Option<SocketAddr>,
    /// Random seed. The same seed results in the same load, noise and incidents [default: the seed
    /// of the scenario]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Keep the temporary directory with the kubeconfig and, on a terminal, the log. The log is
    /// always kept if the controller did not follow the load
    #[arg(long)]
    pub(crate) keep: bool,
    /// Log level of the controller: error, warn, info, debug, or directives by module. On a
    /// terminal the log goes to a file [default: error, on a terminal info]
    #[arg(long, value_name = "LEVEL", value_parser = log_filter)]
    pub(crate) log_level: Option<String>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (1.0..=600.0).contains(&speed) => Ok(speed),
        _ => Err("must be a number from 1 to 600".to_owned()),
    }
}
