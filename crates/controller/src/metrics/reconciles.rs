//! What reconciles add to the metrics.

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    api::{HorizontalPodAutoscaler, MetricSourceType},
    explain::MetricExplanation,
    history::Direction,
};
use tokio::time::Instant;

use super::{Telemetry, autoscaler::reconcile_detail, counters::QUEUE};
use crate::{
    cache::Autoscaler,
    key::HpaKey,
    reconcile::observer::{ErrorClass, Finished, Observer, Reconciled},
    shadow::Verdict,
};

impl Observer for Telemetry {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        let Reconciled { key, hpa, conclusion, reads, .. } = *reconciled;
        // Of a path that needs no metrics there are no explanations.
        for (index, metric) in conclusion.explanation.metrics.iter().enumerate() {
            let took = reads.get(index).copied().unwrap_or_default();
            self.computed(hpa, index, metric, took);
        }
        if self.options.per_autoscaler {
            let detail = Box::new(reconcile_detail(hpa, &conclusion.explanation));
            if let Some(autoscaler) = self.autoscaler(key) {
                autoscaler.last_reconcile.lock().detail = Some(detail);
            }
        }
    }

    fn compared(&self, _: &HpaKey, verdict: Verdict) {
        self.counters.shadow_decisions.with_label_values(&[verdict.as_str()]).inc();
    }

    fn finished(&self, finished: &Finished<'_>) {
        let Finished { key, scaled, desired_replicas, error, took } = *finished;
        let labels = [action(scaled), class(error)];
        self.counters.reconciliations.with_label_values(&labels).inc();
        self.counters.reconciliation_seconds.with_label_values(&labels).observe(took.as_secs_f64());
        // What was deleted meanwhile has no series.
        let Some(autoscaler) = self.autoscaler(key) else { return };
        let mut observed = autoscaler.last_reconcile.lock();
        observed.error = error;
        observed.finished = Instant::now();
        if desired_replicas.is_some() {
            observed.desired_replicas = desired_replicas;
        }
    }
}

impl Telemetry {
    fn autoscaler(&self, key: &HpaKey) -> Option<Arc<Autoscaler>> {
        self.sources.lock().autoscalers.get(key)
    }

    /// A metric was computed. As in the reference, its proposal is compared with the replicas of the last status.
    fn computed(
        &self,
        hpa: &HorizontalPodAutoscaler,
        index: usize,
        metric: &MetricExplanation,
        took: Duration,
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
        let labels = [action(direction), class(error), metric_type.as_str()];
        self.counters.computations.with_label_values(&labels).inc();
        self.counters.computation_seconds.with_label_values(&labels).observe(took.as_secs_f64());
    }

    /// A worker took an autoscaler that had been due for so long.
    pub(crate) fn taken(&self, key: &HpaKey, lateness: Duration, period: Duration) {
        self.counters.queue_seconds.with_label_values(&[QUEUE]).observe(lateness.as_secs_f64());
        let Some(due) =
            self.autoscaler(key).and_then(|autoscaler| autoscaler.last_reconcile.lock().next_due)
        else {
            return;
        };
        let now = Instant::now();
        // One that was taken before its time was changed, and not late or early.
        if now.checked_sub(lateness).is_some_and(|since| since >= due) && !period.is_zero() {
            let delay = now.duration_since(due).as_secs_f64();
            let ratio = 1.0 + delay / period.as_secs_f64();
            self.counters.delay_ratio.with_label_values(&["global"]).observe(ratio);
        }
    }

    /// The next reconcile of an autoscaler by its period is due then.
    pub(crate) fn scheduled(&self, key: &HpaKey, due: Instant) {
        if let Some(autoscaler) = self.autoscaler(key) {
            autoscaler.last_reconcile.lock().next_due = Some(due);
        }
    }

    /// A worker was at an autoscaler for so long.
    pub(crate) fn worked(&self, time: Duration) {
        self.counters.work_seconds.with_label_values(&[QUEUE]).observe(time.as_secs_f64());
    }
}

fn action(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Up) => "scale_up",
        Some(Direction::Down) => "scale_down",
        None => "none",
    }
}

pub(super) fn class(error: Option<ErrorClass>) -> &'static str {
    match error {
        Some(ErrorClass::Spec) => "spec",
        Some(ErrorClass::Internal) => "internal",
        None => "none",
    }
}
