use clap::Args;

use super::{CollectorArguments, RulesFileArguments, ScalingScheduleArguments};
use crate::terminal;

/// The flags of `hpa run` for metrics that the controller doesn't read from the metrics APIs.
#[derive(Args, Debug)]
#[command(mut_arg("scaling_schedule", |flag| flag.help(
    "Compute the metrics of scaling schedules (zalando.org). They are Object metrics of a \
     ScalingSchedule or ClusterScalingSchedule, and have no tolerance, as with hpa run \
     --scaling-schedule"
)))]
pub(crate) struct SourceArguments {
    #[command(flatten)]
    pub(crate) schedules: ScalingScheduleArguments,
    #[command(flatten)]
    pub(crate) collectors: CollectorArguments,
    // Last: the heading of Prometheus applies to all flags after it.
    #[command(flatten)]
    pub(crate) rules: RulesFileArguments,
}

impl SourceArguments {
    /// Warns on standard error of flags for collectors that have no effect, and of
    /// `--prometheus-url` if no source reads from it.
    pub(crate) fn warn_of_unused_flags(&self) {
        let is_used = self.collectors.collectors || self.rules.metrics_config.is_some();
        let has_prometheus = self.rules.prometheus.prometheus_url.is_some();
        for sentence in self.collectors.ineffective_flags(has_prometheus) {
            terminal::warn(sentence);
        }
        if has_prometheus && !is_used {
            terminal::warn(
                "--prometheus-url has no effect: it is for the rules of --metrics-config and for \
                 --collectors",
            );
        }
    }
}
