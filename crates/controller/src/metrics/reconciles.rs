//! Metrics of reconciles and workers.

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    Explanation,
    api::{HorizontalPodAutoscaler, MetricSourceType},
    explain::MetricExplanation,
    history::Direction,
};
use http::{Method, StatusCode};
use tokio::time::Instant;

use super::{MAX_METRICS_PER_AUTOSCALER, Telemetry, counters::QUEUE_NAME};
use crate::{
    cache::{Autoscaler, ErrorClass, MetricProposal, ReconcileDetail},
    k8s::RequestObserver,
    key::HpaKey,
    reconcile::{FinishedReconcile, Observer, ReconcileBeforeStatusWrite},
    settings::SyncPeriod,
    shadow::ComparisonResult,
};

impl Observer for Telemetry {
    fn concluded(&self, concluded: &ReconcileBeforeStatusWrite<'_>) {
        let ReconcileBeforeStatusWrite { key, hpa, conclusion, read_durations, .. } = *concluded;
        for (index, metric) in conclusion.explanation.metrics.iter().enumerate() {
            let duration = read_durations.get(index).copied().unwrap_or_default();
            self.metric_computed(hpa, index, metric, duration);
        }
        if self.options.per_autoscaler {
            let detail = Box::new(reconcile_detail(hpa, &conclusion.explanation));
            if let Some(autoscaler) = self.autoscaler(key) {
                autoscaler.last_reconcile.lock().detail = Some(detail);
            }
        }
    }

    fn compared(&self, _: &HpaKey, result: ComparisonResult) {
        self.counters.shadow_decisions.with_label_values(&[result.as_str()]).inc();
    }

    fn peer_wrote(&self, _: &HpaKey) {
        self.counters.peer_writes.inc();
    }

    fn finished(&self, finished: &FinishedReconcile<'_>) {
        let FinishedReconcile { key, scaled, desired_replicas, error, duration } = *finished;
        let labels = [action_label(scaled), error_label(error)];
        self.counters.reconciliations.with_label_values(&labels).inc();
        let seconds = duration.as_secs_f64();
        self.counters.reconciliation_seconds.with_label_values(&labels).observe(seconds);
        let Some(autoscaler) = self.autoscaler(key) else { return };
        let mut last = autoscaler.last_reconcile.lock();
        last.error = error;
        last.finished = Instant::now();
        if desired_replicas.is_some() {
            last.desired_replicas = desired_replicas;
        }
    }
}

impl Telemetry {
    fn autoscaler(&self, key: &HpaKey) -> Option<Arc<Autoscaler>> {
        self.sources.lock().autoscalers.get(key)
    }

    /// Counts the computation of a metric. The label `action` compares its proposal with the
    /// replicas in the last status, as in the reference.
    fn metric_computed(
        &self,
        hpa: &HorizontalPodAutoscaler,
        index: usize,
        metric: &MetricExplanation,
        duration: Duration,
    ) {
        let Some(spec) = hpa.spec.metrics.get(index) else { return };
        let error = metric.error.as_ref().map(|_| match spec.source_type {
            MetricSourceType::Other(_) => ErrorClass::Spec,
            _ => ErrorClass::Internal,
        });
        let current = hpa.status.current_replicas;
        let direction = match metric.proposed_replicas.filter(|_| error.is_none()) {
            Some(proposed) if proposed > current => Some(Direction::Up),
            Some(proposed) if proposed < current => Some(Direction::Down),
            _ => None,
        };
        let metric_type = spec.source_type.to_string();
        let labels = [action_label(direction), error_label(error), metric_type.as_str()];
        self.counters.computations.with_label_values(&labels).inc();
        let seconds = duration.as_secs_f64();
        self.counters.computation_seconds.with_label_values(&labels).observe(seconds);
    }

    /// Records that a worker took an autoscaler from the queue, `lateness` after it was due there.
    pub(crate) fn record_dequeued(&self, key: &HpaKey, lateness: Duration, period: SyncPeriod) {
        self.counters
            .queue_seconds
            .with_label_values(&[QUEUE_NAME])
            .observe(lateness.as_secs_f64());
        let Some(due) =
            self.autoscaler(key).and_then(|autoscaler| autoscaler.last_reconcile.lock().next_due)
        else {
            return;
        };
        let now = Instant::now();
        // An autoscaler that was queued before its periodic reconcile, for example because it
        // changed, has no delay.
        if now.checked_sub(lateness).is_some_and(|was_due| was_due >= due)
            && !period.length().is_zero()
        {
            let delay = now.duration_since(due).as_secs_f64();
            let ratio = 1.0 + delay / period.length().as_secs_f64();
            let source = if period.is_own() { "spec" } else { "global" };
            self.counters.delay_ratio.with_label_values(&[source]).observe(ratio);
        }
    }

    /// Records the due time of an autoscaler's next periodic reconcile.
    pub(crate) fn record_scheduled(&self, key: &HpaKey, due: Instant, period: SyncPeriod) {
        if let Some(autoscaler) = self.autoscaler(key) {
            let mut last = autoscaler.last_reconcile.lock();
            last.next_due = Some(due);
            last.period_excess = period.excess();
        }
    }

    /// Records that a worker finished an autoscaler.
    pub(crate) fn record_processed(&self, duration: Duration) {
        self.counters.work_seconds.with_label_values(&[QUEUE_NAME]).observe(duration.as_secs_f64());
    }
}

fn action_label(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Up) => "scale_up",
        Some(Direction::Down) => "scale_down",
        None => "none",
    }
}

pub(super) fn error_label(error: Option<ErrorClass>) -> &'static str {
    match error {
        Some(ErrorClass::Spec) => "spec",
        Some(ErrorClass::Internal) => "internal",
        None => "none",
    }
}

pub(super) fn reconcile_detail(
    hpa: &HorizontalPodAutoscaler,
    explanation: &Explanation,
) -> ReconcileDetail {
    let metrics = hpa.spec.metrics.iter().zip(&explanation.metrics).enumerate();
    let proposals =
        metrics.take(MAX_METRICS_PER_AUTOSCALER).filter_map(|(index, (spec, metric))| {
            let name = spec.metric_name().to_owned();
            let metric_type = spec.source_type.to_string();
            Some(MetricProposal { index, name, metric_type, replicas: metric.proposed_replicas? })
        });
    ReconcileDetail {
        proposals: proposals.collect(),
        stabilized_by: explanation.stabilized_by.as_ref().map(ToString::to_string),
        limited_by: explanation.limited_by.as_ref().map(ToString::to_string),
    }
}

impl RequestObserver for Telemetry {
    fn request_finished(
        &self,
        host: &str,
        method: &Method,
        status: Option<StatusCode>,
        duration: Duration,
    ) {
        // A response to a GET may be an informer's, which says nothing about the workers.
        if status.is_some() && *method != Method::GET {
            self.record_response();
        }
        let (counters, verb) = (&self.counters, method.as_str());
        counters.request_seconds.with_label_values(&[host, verb]).observe(duration.as_secs_f64());
        let code = status.as_ref().map_or("<error>", StatusCode::as_str);
        counters.requests.with_label_values(&[code, host, verb]).inc();
    }
}
