use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use jiff::SignedDuration;

use super::values::{log_filter, number_in, positive_duration};

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/demo.txt").trim_ascii_end())]
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
    number_in(text, |speed| (1.0..=600.0).contains(&speed), "must be a number from 1 to 600")
}
