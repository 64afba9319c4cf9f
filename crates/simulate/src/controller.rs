//! The settings of the simulated controller.

use crate::workload::{random, seconds::Seconds};
use hpa_calc::Settings;
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The controller: its sync period and the settings that kube-controller-manager has as flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ControllerSettings {
    /// Time between two reconciles.
    pub sync_period: Seconds,
    /// Time of the first reconcile after the start. By default a part of the sync period that the
    /// seed selects.
    pub initial_delay: Option<Seconds>,
    /// How far usage may differ from the target without a change, as a fraction.
    pub tolerance: f64,
    /// The stabilization window for scaling down of autoscalers that don't set one.
    pub downscale_stabilization: Seconds,
    /// For how long after a pod's start its CPU usage counts only once it is ready.
    pub cpu_initialization_period: Seconds,
    /// How soon after its start a pod must become ready to count as having been ready.
    pub initial_readiness_delay: Seconds,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        let settings = Settings::default();
        let seconds = |span: SignedDuration| Seconds::new(span.as_secs_f64());
        Self {
            sync_period: Seconds::new(15.0),
            initial_delay: None,
            tolerance: settings.tolerance,
            downscale_stabilization: seconds(settings.downscale_stabilization),
            cpu_initialization_period: seconds(settings.cpu_initialization_period),
            initial_readiness_delay: seconds(settings.initial_readiness_delay),
        }
    }
}

impl ControllerSettings {
    /// The settings of the decisions.
    pub fn engine(&self) -> Settings {
        let span = |seconds: Seconds| {
            SignedDuration::try_from_secs_f64(seconds.get()).unwrap_or(SignedDuration::MAX)
        };
        Settings::default()
            .with_tolerance(self.tolerance)
            .with_downscale_stabilization(span(self.downscale_stabilization))
            .with_cpu_initialization_period(span(self.cpu_initialization_period))
            .with_initial_readiness_delay(span(self.initial_readiness_delay))
    }

    /// The second of the first reconcile.
    pub(crate) fn first_reconcile(&self, seed: u64) -> f64 {
        self.initial_delay.map_or_else(
            || {
                let mut rng = random::rng(seed, random::hash(&["initial delay"]), 0);
                rng.f64() * self.sync_period.get()
            },
            Seconds::get,
        )
    }
}
