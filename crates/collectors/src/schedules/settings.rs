//! Settings of schedules.

use hpa_go_compat::Compat;
use jiff::{SignedDuration, tz::TimeZoneDatabase};

/// Defaults for schedules, from the flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Duration of the ramps of a spec that doesn't set it.
    pub default_scaling_window: SignedDuration,
    /// Time zone of repeating entries whose own is empty or unknown.
    pub default_time_zone: String,
    /// Number of steps of a ramp.
    pub ramp_steps: u32,
    pub time_zones: TimeZoneDatabase,
    /// With compatibility, repeating entries apply only within their day. Otherwise, windows and
    /// ramps continue across midnight.
    pub compat: Compat,
}

impl Default for Settings {
    /// The defaults of the flags of kube-metrics-adapter.
    fn default() -> Self {
        Self {
            default_scaling_window: SignedDuration::from_mins(10),
            default_time_zone: "Europe/Berlin".to_owned(),
            ramp_steps: 10,
            time_zones: jiff::tz::db().clone(),
            compat: Compat::Off,
        }
    }
}
