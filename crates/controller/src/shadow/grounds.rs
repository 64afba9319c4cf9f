//! What a decision is made on, kept to decide on it once more.

use hpa_calc::{
    api::{HorizontalPodAutoscaler, Scale},
    decide::Decision,
    history::History,
    plan::{Plan, ScaleReadError, SelectedPods},
    readings::{ReadError, Reading},
    settings::Settings,
};
use jiff::Timestamp;

/// The pods and metrics that a look read.
#[derive(Clone, Debug)]
pub(crate) struct DecisionInputs {
    /// The pods that the target's selector matched.
    pub(crate) selected: SelectedPods,
    /// The answer for each metric of the spec.
    pub(crate) readings: Vec<Option<Result<Reading, ReadError>>>,
}

impl DecisionInputs {
    /// The decision on these pods and metrics, all else being as it is now.
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
