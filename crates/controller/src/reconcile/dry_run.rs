//! A reconcile in dry run: decides, compares the decision with the peer's, writes nothing.

use std::sync::Arc;

use hpa_calc::{
    api::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, Scale},
    conclude::{Conclusion, ScaleWriteError},
    decide::{Decision, ReconcileError},
};
use tracing::{debug, info, warn};

use super::{
    observer::{FinishedReconcile, ReconcileBeforeStatusWrite},
    reconciler::Reconciler,
    worker_slot::WorkerSlot,
};
use crate::{
    cache::{Autoscaler, ErrorClass},
    key::HpaKey,
    scale_target::ScaleUnavailable,
    shadow::{
        self, Comparison, ComparisonResult, DecisionInputs, Evaluation, Observation, PeerStatus,
        compare_any, compare_scaling, scale_as_seen_by_peer,
    },
};

impl Reconciler {
    /// Decides on an autoscaler and compares the decision with the status that the peer wrote.
    /// Writes nothing.
    pub(super) async fn compare(
        &self,
        key: &HpaKey,
        autoscaler: &Arc<Autoscaler>,
        hpa: &Arc<HorizontalPodAutoscaler>,
        slot: &WorkerSlot,
    ) {
        let started = self.clock.instants().monotonic;
        let record = || autoscaler.shadow_record_or_new(hpa, self.settings.flags(), started);
        let observation = record().observe(hpa);
        let scale = self.scale_to_compare(hpa, observation.as_ref());
        let Some(scale) = slot.release_if_slow(scale).await else {
            debug!("the peer's status does not have the current replicas yet");
            let duration = self.elapsed_since(started);
            return self.observer.finished(&FinishedReconcile::undecided(key, None, duration));
        };
        let mut decided_on = HorizontalPodAutoscaler::clone(hpa);
        if let Some(observation) = &observation {
            decided_on.status = observation.previous_status.clone();
        }
        let mut selected = None;
        let plan = self.plan(key, &decided_on, scale.clone(), self.settings.flags(), |selector| {
            selected.insert(self.select(key, selector, None)).clone()
        });
        let scale = scale.map_err(|unavailable| unavailable.error);
        let read = self.read_metrics(&decided_on, &plan, self.timeout);
        let (readings, read_durations) = slot.release_during(read).await;
        let now = self.clock.instants();
        let history = autoscaler.history(now);
        let inputs = selected
            .map(|selected| Arc::new(DecisionInputs { selected, readings: readings.clone() }));
        let earlier = record().add_inputs(inputs.clone());
        let decision = plan.decide(readings, history.clone(), now.wall);
        let conclusion = if let Some(Observation { is_new_status, is_compared, .. }) = observation {
            let peer = PeerStatus { status: &hpa.status, is_new: is_new_status };
            let decide = |inputs: &DecisionInputs, scale| {
                let (settings, history) = (self.settings.flags(), history.clone());
                inputs.decide(&decided_on, scale, settings, history, now.wall)
            };
            let decisions = earlier.iter().map(|inputs| decide(inputs, scale.clone()));
            let mut comparison = compare_any(decision, decisions, peer, now.wall);
            if let Ok(scale) = &scale {
                let all: Vec<_> = inputs.into_iter().chain(earlier).collect();
                let decide = |inputs: &DecisionInputs, scale| decide(inputs, Ok(scale));
                comparison = compare_scaling(comparison, &all, scale, peer, now.wall, decide);
            }
            if is_compared {
                let evaluation = record().evaluate(&comparison, peer.status, now.monotonic);
                self.report_comparison(key, peer.status, &comparison, &evaluation);
            } else {
                let ours = &comparison.conclusion.explanation;
                debug!(%ours, "decided; the peer may not have decided yet");
            }
            comparison.conclusion
        } else {
            conclude_unwritten(decision, now.wall)
        };
        self.report_dry_run(&ReconcileBeforeStatusWrite {
            key,
            hpa,
            settings: self.settings.flags(),
            conclusion: &conclusion,
            at: now.wall,
            duration: self.elapsed_since(started),
            read_durations: &read_durations,
        });
        autoscaler.set_history(conclusion.history, now);
    }

    /// The scale to decide on. `None` if the peer has not written a status for the current replicas
    /// yet.
    async fn scale_to_compare(
        &self,
        hpa: &HorizontalPodAutoscaler,
        observation: Option<&Observation>,
    ) -> Option<Result<Scale, ScaleUnavailable>> {
        let peer = &hpa.status;
        let scale = match self.read_target(hpa).await {
            Ok(target) => target.scale_object.scale,
            Err(unavailable) => return Some(Err(unavailable)),
        };
        match observation {
            Some(observation) if observation.is_new_status => {
                let is_settled = scale.status_replicas == scale.spec_replicas;
                let mut seen = scale_as_seen_by_peer(peer, scale);
                if is_settled {
                    // Since the peer's read, the target may have followed a scaling by the peer.
                    seen.status_replicas = seen.spec_replicas;
                }
                Some(Ok(seen))
            }
            Some(_) if scale.spec_replicas != peer.current_replicas => None,
            _ => Some(Ok(scale)),
        }
    }

    fn report_dry_run(&self, concluded: &ReconcileBeforeStatusWrite<'_>) {
        let ReconcileBeforeStatusWrite { key, conclusion, duration, .. } = *concluded;
        let error = conclusion.error.as_ref();
        self.observer.concluded(concluded);
        let is_decided = error.is_none_or(ReconcileError::is_partial);
        self.observer.finished(&FinishedReconcile {
            key,
            scaled: None,
            desired_replicas: is_decided.then_some(conclusion.explanation.desired_replicas),
            error: error.map(ErrorClass::from),
            duration,
        });
    }

    fn report_comparison(
        &self,
        key: &HpaKey,
        peer: &HorizontalPodAutoscalerStatus,
        comparison: &Comparison,
        evaluation: &Evaluation,
    ) {
        self.observer.compared(key, evaluation.result);
        let ours = &comparison.conclusion.explanation;
        let differences: Vec<_> = comparison.differences.iter().map(ToString::to_string).collect();
        let differences = differences.join("; ");
        match (evaluation.result, evaluation.is_new) {
            (ComparisonResult::Different, true) => {
                let theirs = shadow::explain_status(peer);
                warn!(differences, %ours, theirs, "the peer decided differently");
            }
            (ComparisonResult::Same, true) => info!(%ours, "the peer decides the same again"),
            (ComparisonResult::Unsettled, _) if comparison.scaling_difference.is_some() => {
                let theirs = shadow::explain_status(peer);
                info!(differences, %ours, theirs, "the peer scaled differently, not counted");
            }
            (result, _) => {
                debug!(?result, differences, %ours, "compared the decision with the peer's");
            }
        }
    }
}

/// The conclusion of a decision that can't be compared yet. Its history has no scale event, because
/// nothing was scaled.
fn conclude_unwritten(decision: Decision<'_>, now: jiff::Timestamp) -> Conclusion {
    debug!(decision = %decision.explanation(), "decided; there is nothing to compare with yet");
    let mut conclusion = decision.clone().conclude(Ok(()), now);
    conclusion.history = decision.conclude(Err(ScaleWriteError::not_sent("")), now).history;
    conclusion
}
