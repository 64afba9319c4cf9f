use std::path::PathBuf;

use clap::Args;
use jiff::SignedDuration;

use super::values::{log_filter, positive_duration};

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

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (1.0..=600.0).contains(&speed) => Ok(speed),
        _ => Err("must be a number from 1 to 600".to_owned()),
    }
}
