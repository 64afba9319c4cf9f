//! A decision of the controller, in words.

use hpa_calc::{
    EffectiveBehavior, Settings,
    api::{ConditionType, HorizontalPodAutoscaler},
    explain::{Measurement, Reason},
};
use hpa_controller::{HpaKey, Reconciled};
use hpa_testbed::workload::WorkloadId;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// Simulated seconds since the start.
    pub(crate) second: f64,
    pub(crate) key: HpaKey,
    pub(crate) target: WorkloadId,
    pub(crate) bounds: Bounds,
    /// Stabilization window for scaling down, in seconds.
    pub(crate) downscale_window: f64,
    /// Current replicas.
    pub(crate) from: i32,
    /// The replicas written, if the controller scaled.
    pub(crate) to: Option<i32>,
    pub(crate) reason: Reason,
    /// The limit of the replicas, with the metrics' proposal. `None` if the measurement explains
    /// the decision, or if there is no decision.
    pub(crate) limit: Option<String>,
    /// The measurement and the limit, or the error, as a sentence.
    pub(crate) sentence: String,
    /// The metric with the largest proposal.
    pub(crate) measurement: Option<Measurement>,
    /// Whether a load was measured whose past isn't checked yet.
    pub(crate) waits_for_forecast: bool,
}

/// `minReplicas` and `maxReplicas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) min: i32,
    pub(crate) max: i32,
}

impl Bounds {
    pub(crate) fn new(hpa: &HorizontalPodAutoscaler) -> Self {
        Self { min: hpa.spec.effective_min_replicas(), max: hpa.spec.max_replicas }
    }
}

impl Decision {
    pub(crate) fn from_reconcile(reconciled: &Reconciled<'_>, second: f64) -> Self {
        let Reconciled { key, hpa, conclusion, .. } = *reconciled;
        let explanation = &conclusion.explanation;
        let target = &hpa.spec.scale_target_ref;
        Self {
            second,
            key: key.clone(),
            target: WorkloadId::new(&hpa.metadata.namespace, &target.kind, &target.name),
            bounds: Bounds::new(hpa),
            downscale_window: downscale_window(hpa),
            from: explanation.current_replicas,
            to: conclusion.scaled_to,
            reason: explanation.reason(),
            limit: explanation.limit(hpa),
            sentence: explanation.sentence(hpa),
            measurement: explanation.measurement(hpa),
            waits_for_forecast: waits_for_forecast(reconciled),
        }
    }

    /// `2 -> 5` or `stays at 5`.
    pub(crate) fn change(&self) -> String {
        match self.to {
            Some(to) => format!("{} -> {to}", self.from),
            None => format!("stays at {}", self.from),
        }
    }
}

/// Whether a load was measured whose past isn't checked yet.
fn waits_for_forecast(Reconciled { settings, conclusion, .. }: &Reconciled<'_>) -> bool {
    let has_load = conclusion.explanation.winner.is_some();
    let is_checked = conclusion.status.condition(&ConditionType::ForecastActive).is_some();
    settings.forecasts.is_on() && has_load && !is_checked
}

/// The stabilization window for scaling down, in seconds.
pub(super) fn downscale_window(hpa: &HorizontalPodAutoscaler) -> f64 {
    let behavior = EffectiveBehavior::new(&hpa.spec, &Settings::default());
    behavior.down().stabilization_window().as_secs_f64()
}
