use std::path::PathBuf;

use clap::{Arg, Args};
use jiff::{SignedDuration, tz::TimeZone};

use super::{
    PastArguments,
    simulate::SimulationFormat,
    values::{accept_boolean, positive_duration, rate},
};

const EXAMPLES: &str = "\
Examples:
  Is this load forecastable? A CSV file has a time and a load in each line:
    hpa forecast --file load.csv --time-zone Europe/Berlin

  What 50 requests per second and pod mean, and how long a pod takes to start:
    hpa forecast --file load.csv --target 50 --pod-startup 90s

  The past four weeks of an autoscaler, from Prometheus:
    kubectl port-forward -n monitoring svc/prometheus 9090 &
    hpa forecast shop/web --prometheus http://localhost:9090

  A report with charts, to send to someone:
    hpa forecast shop/web --prometheus http://localhost:9090 --html report.html

A pod that is started when the load rises is ready minutes later. A forecast
starts it before. The command runs the autoscaler on its past load, minute by
minute, with and without forecasts that knew only what came before. It says:
  - whether forecasts would have helped, at equal pod-hours. If not: why not.
  - overload and pod-hours of the past two weeks, and what perfect knowledge
    of the load would have given
  - the horizon and the quantile to set

It needs ten days, and takes four weeks. It writes nothing to the cluster.

Times in a file: 2026-11-23T08:00:00Z, 2026-11-23 09:00 in --time-zone, or
seconds since 1970. Samples may be up to two hours apart. docs/forecast.md
explains the model, the gate, and how good it is.

Exit status: 0 if forecasts would have helped, 1 if not, 2 on errors.";

/// The arguments of `hpa forecast`.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    mut_args(accept_boolean),
    mut_arg("name", |arg: Arg| arg.required_unless_present("file").conflicts_with("file")),
    mut_arg("filename", |arg: Arg| arg.conflicts_with("file")),
    mut_arg("since", |arg: Arg| arg.default_value("28d").help("How much of the past to read")),
    mut_arg("until", |arg: Arg| arg.help("The end of the past [default: now]")),
    mut_arg("step", |arg: Arg| arg.help("The time between two samples [default: 1m for 28 days]")),
    mut_arg("ignore_metric", |arg: Arg| {
        arg.help("Forecast without this metric. Can be repeated")
    }),
    mut_arg("pod_startup", |arg: Arg| {
        arg.help("How long pods take to become ready [default: the median that \
            kube-state-metrics exports, else 2m]")
    }),
    mut_arg("pod_capacity", |arg: Arg| {
        arg.help("The most load that a pod can serve, in units of the metric (CPU in cores, \
            memory in MiB). More is overload [default: what the autoscaler without forecasts \
            exceeds for 2 % of the time, at least the target and its tolerance]")
    })
)]
pub(crate) struct ForecastArguments {
    /// Read the load from this CSV file instead of Prometheus. - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The load of a pod that the autoscaler aims at, for --file [default: a hundredth of the
    /// peak]
    #[arg(long, value_name = "NUMBER", value_parser = rate, requires = "file")]
    pub(crate) target: Option<f64>,
    /// The time zone of days and weeks, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    pub(crate) time_zone: TimeZone,
    /// How far to look ahead [default: the time until pods are ready, the delay of the metric, and
    /// a minute]
    #[arg(long, value_name = "DURATION", value_parser = horizon)]
    pub(crate) horizon: Option<SignedDuration>,
    /// The age of the metric when it is read
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = horizon)]
    pub(crate) metric_delay: SignedDuration,
    /// The part of the past days that the forecast covers [default: the best one of 0.5 to 0.95]
    #[arg(long, value_name = "NUMBER", value_parser = quantile)]
    pub(crate) quantile: Option<f64>,
    /// The format of the result
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: SimulationFormat,
    /// Write a report with charts to this file. The page needs no other file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a chart of the six hours in which forecasts help most to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) past: PastArguments,
}

pub(super) fn zone(text: &str) -> Result<TimeZone, String> {
    TimeZone::get(text).map_err(|_| "must be a time zone such as Europe/Berlin or UTC".to_owned())
}

fn horizon(text: &str) -> Result<SignedDuration, String> {
    match positive_duration(text)? {
        time if time <= SignedDuration::from_hours(6) => Ok(time),
        _ => Err("must be at most 6h".to_owned()),
    }
}

fn quantile(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(quantile) if quantile > 0.0 && quantile < 1.0 => Ok(quantile),
        _ => Err("must be a number between 0 and 1, such as 0.8".to_owned()),
    }
}
