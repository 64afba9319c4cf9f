//! The inputs of a decision.

use jiff::Timestamp;

use crate::{
    api::{HorizontalPodAutoscaler, Scale},
    decision::Decision,
    fallback::failures_by_status,
    history::{History, Recommendation},
    plan::{Plan, ScaleReadError, SelectedPods},
    readings::Readings,
    settings::Settings,
    time::before,
};

/// Everything that a decision depends on.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The autoscaler.
    pub hpa: HorizontalPodAutoscaler,
    /// The target's scale, or the error of reading it.
    pub scale: Result<Scale, ScaleReadError>,
    /// The effective settings of the autoscaler.
    pub settings: Settings,
    /// The pods that the scale's selector matches.
    pub selected: SelectedPods,
    /// The readings of the plan's queries.
    pub readings: Readings,
    /// The autoscaler's recommendations and scale events. If they are unknown (`None`), nothing is
    /// stabilized, and policies count from the current replicas.
    pub history: Option<History>,
    /// The time of the decision.
    pub now: Timestamp,
}

impl Inputs {
    /// The plan whose queries the readings answer.
    pub fn plan(&self) -> Plan<'_> {
        Plan::new(&self.hpa, self.scale.clone(), &self.settings, |_| self.selected.clone())
    }

    /// Decides on the inputs.
    pub fn decide(&self) -> Decision<'_> {
        let mut decision =
            self.plan().decide(self.readings.clone(), self.effective_history(), self.now);
        if self.history.is_none() {
            decision.doubt_start_of_delay();
        }
        decision
    }

    /// The time of the decision by the clock of the samples.
    pub(super) fn now_by_samples(&self) -> Timestamp {
        before(self.now, self.readings.clock_lead())
    }

    /// The replicas that the target has after the decision.
    pub fn resulting_replicas(&self) -> i32 {
        self.decide().resulting_replicas()
    }

    /// The history. If it is unknown, a history that stabilizes nothing and has the failures that
    /// the status reports.
    pub(super) fn effective_history(&self) -> History {
        self.history.clone().unwrap_or_else(|| {
            // This recommendation is outside of every window. Without it, the decision would
            // stabilize at the current replicas, like the first decision after a start.
            let replicas = self.scale.as_ref().map_or(0, |scale| scale.spec_replicas);
            let old = Recommendation { replicas, at: Timestamp::MIN };
            let failing_metrics = failures_by_status(&self.hpa, &self.readings);
            History { recommendations: vec![old], failing_metrics, ..History::default() }
        })
    }
}
