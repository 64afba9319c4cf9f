//! A decision of the controller, in words.

use hpa_calc::{
    EffectiveBehavior, Settings,
    api::{ConditionType, HorizontalPodAutoscaler},
    explain::{Measurement, Reason},
    settings::Bounds,
};
use hpa_controller::{HpaKey, ReconcileBeforeStatusWrite};
use hpa_testbed::workload::WorkloadId;

/// A decision, with the words of its explanation.
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
    /// See [`Explanation::limit`](hpa_calc::Explanation::limit).
    pub(crate) limit: Option<String>,
    /// The measurement and the limit, or the error, as a sentence.
    pub(crate) sentence: String,
    /// The metric with the largest proposal.
    pub(crate) measurement: Option<Measurement>,
    /// Whether forecasts are on, but the controller has not checked yet whether they help. It reads
    /// the past of the measured load for that (`forecast_checks` of the controller).
    pub(crate) waits_for_forecast: bool,
}

impl Decision {
    pub(crate) fn from_reconcile(concluded: &ReconcileBeforeStatusWrite<'_>, second: f64) -> Self {
        let ReconcileBeforeStatusWrite { key, hpa, settings, conclusion, at, .. } = *concluded;
        let explanation = &conclusion.explanation;
        Self {
            second,
            key: key.clone(),
            target: target_id(hpa),
            bounds: settings.bounds_at(&hpa.spec, at),
            downscale_window: downscale_window(hpa, settings),
            from: explanation.current_replicas,
            to: conclusion.scaled_to,
            reason: explanation.reason(),
            limit: explanation.limit(hpa),
            sentence: explanation.sentence(hpa),
            measurement: explanation.measurement(hpa),
            waits_for_forecast: waits_for_forecast(concluded),
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

fn waits_for_forecast(
    ReconcileBeforeStatusWrite { settings, conclusion, .. }: &ReconcileBeforeStatusWrite<'_>,
) -> bool {
    let has_load = conclusion.explanation.winner.is_some();
    let is_checked = conclusion.status.condition(&ConditionType::ForecastActive).is_some();
    settings.forecasts.is_on() && has_load && !is_checked
}

/// The simulation's identity of an autoscaler's target.
pub(crate) fn target_id(hpa: &HorizontalPodAutoscaler) -> WorkloadId {
    let target = &hpa.spec.scale_target_ref;
    WorkloadId::new(&hpa.metadata.namespace, &target.kind, &target.name)
}

/// The stabilization window for scaling down, in seconds.
pub(super) fn downscale_window(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> f64 {
    let behavior = EffectiveBehavior::new(&hpa.spec, settings);
    behavior.down().stabilization_window().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpa_calc::{Inputs, Readings, Scale, SelectedPods, settings::SettingPolicy};
    use serde_json::json;

    use super::*;

    #[test]
    fn decision_has_the_scheduled_bounds_and_the_window_of_the_annotation() {
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "default", "annotations": {
                "autoscaling.hpa-rs.dev/downscale-stabilization": "30s",
                "autoscaling.hpa-rs.dev/bounds": r#"[
                    { "start": "00:00", "end": "00:00", "minReplicas": 12, "maxReplicas": 20 }
                ]"#,
            } },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 2, "maxReplicas": 10,
            },
        }))
        .expect("an autoscaler");
        let settings = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default()).settings;
        let now = "2026-01-05T12:00:00Z".parse().expect("a time");
        let inputs = Inputs {
            hpa: hpa.clone(),
            scale: Ok(Scale { spec_replicas: 12, status_replicas: 12, selector: "app=web".into() }),
            settings: settings.clone(),
            selected: SelectedPods::default(),
            readings: Readings::new(),
            history: None,
            now,
        };
        let conclusion = inputs.decide().conclude(Ok(()), now);
        let decision = Decision::from_reconcile(
            &ReconcileBeforeStatusWrite {
                key: &HpaKey::new("default", "web"),
                hpa: &hpa,
                settings: &settings,
                conclusion: &conclusion,
                at: now,
                duration: Duration::ZERO,
                read_durations: &[],
            },
            0.0,
        );
        let Bounds { min_replicas, max_replicas, .. } = decision.bounds;
        assert_eq!((min_replicas, max_replicas), (12, 20));
        assert!((decision.downscale_window - 30.0).abs() < f64::EPSILON, "{decision:?}");
    }
}
