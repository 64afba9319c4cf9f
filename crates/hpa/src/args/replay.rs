use std::{path::PathBuf, time::Duration};

use clap::{Arg, Args};
use hpa_controller::AutoscalerApi;
use hpa_prometheus::rules::config::parse_duration;
use jiff::{SignedDuration, Timestamp};

use super::{
    KubectlArguments, RulesFileArguments,
    run::AutoscalingArguments,
    simulate::SimulationFormat,
    values::{autoscaler_api, duration, positive_duration, positive_number, time},
};

/// The arguments of `hpa replay`.
#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/replay.txt").trim_ascii_end())]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    pub(crate) past: PastArguments,
    /// Variants to compare with: a YAML file with `variants` as in a scenario of hpa simulate
    #[arg(long, value_name = "FILE")]
    pub(crate) variants: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: SimulationFormat,
    /// Write a report with charts to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the rebuilt scenario, for hpa simulate, to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Also print every scaling with its reason
    #[arg(long)]
    pub(crate) steps: bool,
    /// Add every reconcile to the JSON output
    #[arg(long)]
    pub(crate) timeline: bool,
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
}

/// The autoscaler, and the queries for its past.
#[derive(Args, Debug)]
#[command(mut_arg("prometheus_url", |arg: Arg| arg.visible_alias("prometheus")))]
pub(crate) struct PastArguments {
    /// The autoscaler. Optional with --filename, if the files have a single one
    #[arg(value_name = "[NAMESPACE/]NAME", required_unless_present = "filename")]
    pub(crate) name: Option<String>,
    /// Read the autoscaler from a file instead of a cluster. It is YAML or JSON, "-" is standard
    /// input; can be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,
    /// The duration of the past to replay
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = prometheus_duration)]
    pub(crate) since: Duration,
    /// The end of the replayed time [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) until: Option<Timestamp>,
    /// The time between two samples [default: 15s for up to 8 days, then longer]
    #[arg(long, value_name = "DURATION", value_parser = at_least_one_second)]
    pub(crate) step: Option<SignedDuration>,
    /// A query for the total of a metric over all pods, or for the value of an Object or External
    /// metric. METRIC is the name or the index in spec.metrics. METRIC= is optional if there is a
    /// single metric. Can be repeated
    #[arg(long, value_name = "[METRIC=]QUERY")]
    pub(crate) load_query: Vec<String>,
    /// A query for the replicas [default: the replicas from kube-state-metrics]
    #[arg(long, value_name = "QUERY")]
    pub(crate) replicas_query: Option<String>,
    /// Ignore this metric of the autoscaler, by its name or its index in spec.metrics. Can be
    /// repeated
    #[arg(long, value_name = "METRIC")]
    pub(crate) ignore_metric: Vec<String>,
    /// Regular expression for the names of the pods [default: depends on the target's kind]
    #[arg(long, value_name = "REGEX")]
    pub(crate) pods: Option<String>,
    /// The window of CPU rates [default: 4 scrapes, at least 1m; 2m if their interval is unknown]
    #[arg(long, value_name = "DURATION", value_parser = at_least_one_second)]
    pub(crate) rate_window: Option<SignedDuration>,
    /// The request of a pod, such as cpu=250m [default: the request from kube-state-metrics]. Can
    /// be repeated
    #[arg(long, value_name = "RESOURCE=QUANTITY")]
    pub(crate) request: Vec<String>,
    /// The time from a scale-up until its pods are ready [default: the median from
    /// kube-state-metrics, else 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) pod_startup: Option<SignedDuration>,
    /// The maximum load that a pod can serve, in units of the metric (CPU in cores, memory in MiB)
    /// [default: the highest load that a pod served, but at least twice its target]
    #[arg(long, value_name = "NUMBER", value_parser = positive_number)]
    pub(crate) pod_capacity: Option<f64>,
    /// The API of the autoscaler
    #[arg(long, value_name = "API", default_value = "core", value_parser = autoscaler_api())]
    pub(crate) autoscaler_api: AutoscalerApi,
    #[command(flatten)]
    pub(crate) cluster: KubectlArguments,
    #[command(flatten)]
    pub(crate) rules: RulesFileArguments,
}

/// Parses a duration in Prometheus's notation, which has days and weeks.
fn prometheus_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(time) if time >= Duration::from_secs(60) => Ok(time),
        _ => Err("must be a duration of at least 1m, such as 90m, 12h, 7d or 2w".to_owned()),
    }
}

fn at_least_one_second(text: &str) -> Result<SignedDuration, String> {
    match positive_duration(text)? {
        time if time.as_secs() >= 1 => Ok(time),
        _ => Err("must be at least 1s".to_owned()),
    }
}
