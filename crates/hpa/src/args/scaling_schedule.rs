use anyhow::ensure;
use clap::Args;
use hpa_collectors::schedules::{Compat, Settings};
use jiff::SignedDuration;

use super::values::{BOOL, HPA_PREFIX, duration};

/// Scaling schedules as metrics.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Scaling schedules (as in kube-metrics-adapter)")]
pub(crate) struct ScalingScheduleArguments {
    /// Compute the metrics of scaling schedules (zalando.org). They are Object metrics of a
    /// ScalingSchedule or ClusterScalingSchedule, whose status.active is also written
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) scaling_schedule: bool,
    #[command(flatten)]
    pub(crate) defaults: ScheduleDefaults,
}

/// Defaults for schedules.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named like their flags")]
pub(crate) struct ScheduleDefaults {
    /// Duration of the ramps of schedules that don't set scalingWindowDurationMinutes
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "10m",
        value_parser = duration)]
    pub(crate) scaling_schedule_default_scaling_window: SignedDuration,
    /// Time zone of repeating entries whose own time zone is missing or unknown
    #[arg(long, env = HPA_PREFIX, value_name = "NAME", default_value = "Europe/Berlin")]
    pub(crate) scaling_schedule_default_time_zone: String,
    /// Number of steps of a ramp
    #[arg(long, env = HPA_PREFIX, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) scaling_schedule_ramp_steps: u32,
}

impl ScheduleDefaults {
    pub(crate) fn settings(&self, compat: Compat) -> Settings {
        Settings {
            default_ramp_duration: self.scaling_schedule_default_scaling_window,
            default_time_zone: self.scaling_schedule_default_time_zone.clone(),
            ramp_steps: self.scaling_schedule_ramp_steps,
            compat,
            ..Settings::default()
        }
    }

    /// Checks that the time zone exists.
    pub(crate) fn check_time_zone(&self) -> anyhow::Result<()> {
        let zone = &self.scaling_schedule_default_time_zone;
        let is_known = Settings::default().time_zones.get(zone).is_ok();
        ensure!(is_known, "--scaling-schedule-default-time-zone: unknown time zone {zone:?}");
        Ok(())
    }
}
