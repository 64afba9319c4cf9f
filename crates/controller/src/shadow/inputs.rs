//! The inputs of an earlier reconcile, to decide on them once more.

use hpa_calc::{
    api::{HorizontalPodAutoscaler, Scale},
    decide::Decision,
    history::History,
    plan::{Plan, ScaleReadError, SelectedPods},
    readings::Readings,
    settings::Settings,
};
use jiff::Timestamp;

/// The pods and metrics that one reconcile read.
#[derive(Clone, Debug)]
pub(crate) struct DecisionInputs {
    pub(crate) selected: SelectedPods,
    pub(crate) readings: Readings,
}

impl DecisionInputs {
    /// The decision on these pods and metrics.
    pub(crate) fn decide<'a>(
        &self,
        hpa: &'a HorizontalPodAutoscaler,
        scale: Result<Scale, ScaleReadError>,
        settings: &'a Settings,
        history: History,
        now: Timestamp,
    ) -> Decision<'a> {
        let plan = Plan::new(hpa, scale, settings, |_| self.selected.clone());
        plan.decide(self.readings.clone(), history, now)
    }
}
