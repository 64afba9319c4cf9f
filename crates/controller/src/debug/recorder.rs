//! Records decisions for the debug API.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use hpa_calc::{
    Conclusion, Explanation, HorizontalPodAutoscaler, MilliValue, ReconcileError,
    api::MetricSpec,
    explain::{MetricExplanation, Reason, none_ready_text, one_line},
};
use serde::Serialize;

use super::schema::Decision;
use crate::{
    cache::{DecisionRun, DecisionSample, Decisions},
    metrics::Telemetry,
    reconcile::{Observer, ReconcileBeforeStatusWrite},
};

/// The limit for one autoscaler's decisions, because the debug API serves them in one document.
const MAX_BYTES_PER_AUTOSCALER: usize = 256 << 10;

/// Records every decision in the cached autoscaler. Each autoscaler gets an equal share of the
/// memory, at most 256 KiB.
pub struct DecisionRecorder {
    telemetry: Arc<Telemetry>,
    limit_bytes: usize,
}

impl DecisionRecorder {
    /// Records in at most `limit_bytes`. When autoscalers are created, the limit may be exceeded
    /// until the others are reconciled the next time.
    pub fn new(telemetry: Arc<Telemetry>, limit_bytes: usize) -> Self {
        Self { telemetry, limit_bytes }
    }

    pub(super) fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// The limit for one of `count` autoscalers.
    pub(super) fn bytes_per_autoscaler(&self, count: usize) -> usize {
        (self.limit_bytes / count.max(1)).min(MAX_BYTES_PER_AUTOSCALER)
    }
}

impl Observer for DecisionRecorder {
    fn concluded(&self, concluded: &ReconcileBeforeStatusWrite<'_>) {
        let ReconcileBeforeStatusWrite { key, hpa, conclusion, at, .. } = *concluded;
        let sources = self.telemetry.sources();
        let Some(autoscaler) = sources.autoscalers.get(key) else { return };
        let decision = decision(hpa, conclusion);
        let explanation = &conclusion.explanation;
        let sample = DecisionSample {
            at,
            current: explanation.current_replicas,
            desired: decision.desired_replicas,
            proposed: decision.proposed_replicas,
            values: explanation.metrics.iter().map(comparable_value).collect(),
        };
        let (Some(decision_json), Some(explanation_json)) = (json(&decision), json(explanation))
        else {
            return;
        };
        let outcome_hash = outcome_hash(&decision, explanation);
        let mut run = DecisionRun::new(at, outcome_hash, decision_json, explanation_json);
        run.has_unschedulable_pods = decision.unschedulable_pods.is_some();
        let names: Vec<&str> = hpa.spec.metrics.iter().map(MetricSpec::metric_name).collect();
        let mut decisions = autoscaler.decisions.lock();
        let decisions = decisions.get_or_insert_with(Box::<Decisions>::default);
        let limit_bytes = self.bytes_per_autoscaler(sources.autoscalers.len());
        decisions.record(run, &sample, &names, limit_bytes);
    }
}

fn decision(hpa: &HorizontalPodAutoscaler, conclusion: &Conclusion) -> Decision {
    let Conclusion { explanation, scaled_to, error, .. } = conclusion;
    let has_scale = !matches!(
        error,
        Some(
            ReconcileError::InvalidApiVersion(_)
                | ReconcileError::UnknownKind(_)
                | ReconcileError::ReadScale { .. }
        )
    );
    let is_decided = explanation.reason() != Reason::Failed;
    Decision {
        current_replicas: has_scale.then_some(explanation.current_replicas),
        desired_replicas: is_decided.then_some(explanation.desired_replicas),
        scaled_to: *scaled_to,
        proposed_replicas: explanation.proposed_replicas,
        reason: reason_name(explanation.reason()),
        sentence: sentence(hpa, explanation),
        unschedulable_pods: explanation.unschedulable_pods,
        unready_pods: explanation.unready_pods,
        error: error.as_ref().map(ToString::to_string),
    }
}

/// The decision in one sentence, with the metrics that failed while others decided and the pods
/// that can't be scheduled or are not ready.
fn sentence(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> String {
    let sentence = explanation.sentence(hpa);
    let failures = explanation.failures(hpa).map(|failures| one_line(&failures).into_owned());
    let failures = failures.filter(|failures| !sentence.contains(failures));
    let unschedulable = explanation.unschedulable_pods.map(|pods| pods.to_string());
    let unready = explanation.unready_pods.map(none_ready_text);
    let clauses = [Some(sentence), failures, unschedulable, unready].into_iter().flatten();
    clauses.collect::<Vec<_>>().join("; ")
}

/// A hash that is equal for all decisions of a run. It excludes the measured values, because they
/// differ with each reconcile, and the errors of failed metrics, because they may contain times.
fn outcome_hash(decision: &Decision, explanation: &Explanation) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Decision { current_replicas, desired_replicas, scaled_to, reason, error, .. } = decision;
    (current_replicas, desired_replicas, scaled_to, reason, error.is_some()).hash(&mut hasher);
    let failures = || explanation.metrics.iter().map(|metric| metric.failure);
    failures().for_each(|failure| failure.hash(&mut hasher));
    if failures().all(|failure| failure.is_none()) {
        error.hash(&mut hasher);
    }
    hasher.finish()
}

/// The value that is compared with the target.
fn comparable_value(metric: &MetricExplanation) -> Option<i64> {
    let percent = metric.utilization.map(i64::from);
    percent.or(metric.usage.map(MilliValue::as_milli))
}

fn reason_name(reason: Reason) -> String {
    serde_json::to_value(reason)
        .ok()
        .and_then(|name| name.as_str().map(ToOwned::to_owned))
        .unwrap_or_default()
}

fn json(value: &impl Serialize) -> Option<Box<str>> {
    serde_json::to_string(value).ok().map(String::into_boxed_str)
}
