//! Creates the controller's options, the settings of decisions and the period of reads from flags.

use std::time::Duration;

use hpa_calc::settings::{SettingPolicy, Settings};
use hpa_controller::Options;

use crate::{
    args::{AutoscalingArguments, ClusterArguments, NO_SETTINGS, RunArguments, to_std},
    terminal,
};

/// The shortest period at which `hpa explain --watch` and `hpa dashboard` read an autoscaler again.
const MIN_READ_PERIOD: Duration = Duration::from_secs(1);

/// The options of `hpa run`.
pub(crate) fn options(arguments: &RunArguments) -> Options {
    let options = shared_options(&arguments.autoscaling, &arguments.cluster);
    Options {
        settings: options.settings.with(|settings| {
            settings.exact_schedules = arguments.schedules.scaling_schedule;
        }),
        shutdown_grace: to_std(arguments.shutdown_grace_period),
        allows_active_peer: arguments.allow_other_controller,
        status_interval: to_std(arguments.status_interval),
        ..options
    }
}

/// The settings of decisions.
pub(crate) fn settings(autoscaling: &AutoscalingArguments) -> Settings {
    Settings::default().with(|settings| {
        settings.tolerance = autoscaling.horizontal_pod_autoscaler_tolerance;
        settings.downscale_stabilization =
            autoscaling.horizontal_pod_autoscaler_downscale_stabilization;
        settings.cpu_initialization_period =
            autoscaling.horizontal_pod_autoscaler_cpu_initialization_period;
        settings.initial_readiness_delay =
            autoscaling.horizontal_pod_autoscaler_initial_readiness_delay;
        settings.scale_to_zero = autoscaling.scale_to_zero;
        settings.strict_scale_to_zero = true;
    })
}

/// The settings that autoscalers may override.
pub(crate) fn setting_policy(autoscaling: &AutoscalingArguments) -> SettingPolicy {
    let allowed = autoscaling.allow_settings.iter().copied().filter(|name| *name != NO_SETTINGS);
    SettingPolicy { allowed: allowed.collect(), min_sync_period: autoscaling.min_sync_period }
}

/// The period at which an autoscaler is read again: the sync period, but at least a second. Warns
/// if the sync period is shorter.
pub(crate) fn read_period(autoscaling: &AutoscalingArguments) -> Duration {
    let sync_period = to_std(autoscaling.horizontal_pod_autoscaler_sync_period);
    let period = sync_period.max(MIN_READ_PERIOD);
    if period != sync_period {
        terminal::warn(format_args!(
            "--horizontal-pod-autoscaler-sync-period is too short; using {period:?}"
        ));
    }
    period
}

/// The options that `hpa run` and `hpa shadow-report` share. The shutdown grace period and the
/// status interval are zero.
pub(crate) fn shared_options(
    autoscaling: &AutoscalingArguments,
    cluster: &ClusterArguments,
) -> Options {
    let AutoscalingArguments {
        concurrent_horizontal_pod_autoscaler_syncs: workers,
        horizontal_pod_autoscaler_sync_period: sync_period,
        ..
    } = *autoscaling;
    Options {
        settings: settings(autoscaling),
        setting_policy: setting_policy(autoscaling),
        sync_period: to_std(sync_period),
        workers: usize::try_from(workers).unwrap_or(usize::MAX),
        namespaces: cluster.namespaces.clone(),
        shutdown_grace: Duration::ZERO,
        request_timeout: to_std(cluster.request_timeout),
        allows_active_peer: false,
        watch_scales: cluster.watch_scales,
        status_interval: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};

    #[test]
    fn short_read_period_is_raised() {
        let read = |period: &str| {
            let flag = format!("--horizontal-pod-autoscaler-sync-period={period}");
            let words = ["hpa", "explain", "web", "--watch", &flag];
            let Command::Explain(arguments) = Arguments::parse_from(words).command else {
                panic!("another command");
            };
            read_period(&arguments.autoscaling)
        };
        assert_eq!(read("200ms"), Duration::from_secs(1));
        assert_eq!(read("15s"), Duration::from_secs(15));
    }
}
