use std::path::PathBuf;

use clap::{Arg, Args};
use jiff::{SignedDuration, tz::TimeZone};

use super::{
    PastArguments,
    simulate::SimulationFormat,
    values::{duration, number_in, positive_duration, positive_number},
};

/// The arguments of `hpa forecast`.
#[derive(Args, Debug)]
#[command(
    after_help = include_str!("examples/forecast.txt").trim_ascii_end(),
    mut_arg("name", |arg: Arg| arg.required_unless_present("file").conflicts_with("file")),
    mut_arg("filename", |arg: Arg| arg.conflicts_with("file")),
    mut_arg("since", |arg: Arg| arg.default_value("28d").help("The duration of the past to read")),
    mut_arg("until", |arg: Arg| arg.help("The end of the past [default: now]")),
    mut_arg("step", |arg: Arg| arg.help("The time between two samples [default: 1m for 28 days]")),
    mut_arg("pod_startup", |arg: Arg| {
        arg.help("The time from a scale-up until its pods are ready [default: the median from \
            kube-state-metrics, else 2m]")
    }),
    mut_arg("pod_capacity", |arg: Arg| {
        arg.help("The load above which a pod is overloaded, in units of the metric (CPU in \
            cores, memory in MiB) [default: the load that pods exceed for 2 % of the time without \
            forecasts, but at least the target plus its tolerance]")
    })
)]
pub(crate) struct ForecastArguments {
    /// Read the load from this CSV file instead of Prometheus. "-" is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The column of --file with the load, by the name in the header, or by its number if there is
    /// no header. Required if there are several
    #[arg(long, value_name = "NAME", requires = "file")]
    pub(crate) column: Option<String>,
    /// The target load of a pod, for --file [default: a hundredth of the peak]
    #[arg(long, value_name = "NUMBER", value_parser = positive_number, requires = "file")]
    pub(crate) target: Option<f64>,
    /// The time zone of days and weeks, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    pub(crate) time_zone: TimeZone,
    /// The time between a forecast and the load that it predicts [default: the startup of pods, the
    /// delay of the metric, and a minute]
    #[arg(long, value_name = "DURATION", value_parser = horizon)]
    pub(crate) horizon: Option<SignedDuration>,
    /// The age of a sample when the autoscaler reads it. 0 is allowed
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = metric_delay)]
    pub(crate) metric_delay: SignedDuration,
    /// The quantile of the predicted load to scale for. A higher one causes less overload and more
    /// pod-hours [default: of 0.5 to 0.95, the cheapest that leaves at most a quarter of the
    /// overload, or else the one that leaves the least]
    #[arg(long, value_name = "NUMBER", value_parser = quantile)]
    pub(crate) quantile: Option<f64>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: SimulationFormat,
    /// Write a report with charts to this file, as one HTML page
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
    at_most_six_hours(positive_duration(text)?)
}

fn metric_delay(text: &str) -> Result<SignedDuration, String> {
    at_most_six_hours(duration(text)?)
}

fn at_most_six_hours(time: SignedDuration) -> Result<SignedDuration, String> {
    if time <= SignedDuration::from_hours(6) {
        Ok(time)
    } else {
        Err("must be at most 6h".to_owned())
    }
}

fn quantile(text: &str) -> Result<f64, String> {
    let error = "must be a number between 0 and 1, such as 0.8";
    number_in(text, |quantile| quantile > 0.0 && quantile < 1.0, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_delay_may_be_zero_and_the_horizon_may_not() {
        assert_eq!(metric_delay("0s"), Ok(SignedDuration::ZERO));
        assert_eq!(horizon("0s"), Err("must be at least 10ms".to_owned()));
        for parse in [metric_delay, horizon] {
            assert_eq!(parse("6h1s"), Err("must be at most 6h".to_owned()));
        }
    }
}
