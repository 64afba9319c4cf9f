//! Log lines and events of a reconcile.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use hpa_calc::{
    api::HorizontalPodAutoscaler,
    conclude::Conclusion,
    decide::ReconcileError,
    event::{Event, EventReason, EventType},
    explain::{Explanation, one_line},
    go_text,
    settings::Settings,
};
use hpa_metrics::LogLimit;
use tracing::{debug, info, warn};

use super::reconciler::Reconciler;
use crate::{
    cache::{Autoscaler, FailureChange, PeerWrite},
    events::{ObjectReference, RecordedEvent},
    k8s::StatusWrite,
    key::HpaKey,
};

/// The maximum number of characters of a failure or a decision in the log. The names of metrics and
/// objects in the spec may be longer than the names of objects that exist.
const MAX_LOGGED_CHARS: usize = 2000;

/// The consequence of a peer's status writes, for the log and the event.
const CONSEQUENCE: &str = "two controllers of one autoscaler overwrite each other's decisions";

impl Reconciler {
    /// Records an event for settings that are ignored or not used as written, each time the text
    /// changes.
    pub(super) fn report_invalid_settings(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
    ) {
        let problems = settings.summary.as_ref().map(|own| own.problems.as_str());
        let problems = problems.filter(|problems| !problems.is_empty());
        if autoscaler.replace_invalid_annotations(problems) {
            let message = problems.unwrap_or_default().to_owned();
            self.record_warning(key, hpa, EventReason::InvalidAnnotation, message);
        }
    }

    /// Reports a peer's status write since the last reconcile. One log line a minute covers all
    /// autoscalers. An event is recorded for an autoscaler's first such write, and when another
    /// peer writes.
    pub(super) fn report_peer_write(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        hpa: &HorizontalPodAutoscaler,
    ) {
        let Some(PeerWrite { write, is_first }) = autoscaler.peer_writes.take_new() else { return };
        self.observer.peer_wrote(key);
        let writes = count_peer_write(&self.peer_log_limit, &self.unlogged_peer_writes);
        if let Some(writes) = writes {
            let StatusWrite { manager, at } = &write;
            warn!(manager, %at, writes, "another controller also writes the status: {CONSEQUENCE}");
        }
        if is_first {
            let message =
                format!("{} wrote the status at {}: {CONSEQUENCE}", write.manager, write.at);
            self.record_warning(key, hpa, EventReason::ConflictingController, message);
        }
    }

    /// Whether a peer may handle the autoscaler. If so, this controller must not write it now.
    /// Another Helm release of hpa-rs doesn't count.
    pub(super) fn is_left_to_peer(&self, autoscaler: &Autoscaler, settings: &Settings) -> bool {
        let Some(window) = self.peer_window else { return false };
        let write = autoscaler.peer_writes.last().filter(|write| !write.is_by_hpa_rs());
        write.is_some_and(|write| window.includes(&write, settings, self.clock.now()))
    }

    /// Reports that another client changes the target's replicas after each scaling. Only this
    /// check detects an autoscaler of another API with the same target, because this controller
    /// doesn't watch that API.
    pub(super) fn report_overwritten_replicas(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        hpa: &HorizontalPodAutoscaler,
        replicas: i32,
    ) {
        let written = autoscaler.overwritten_replicas.lock().observe(replicas, self.clock.now());
        let Some(written) = written else { return };
        let target = &hpa.spec.scale_target_ref;
        let message = format!(
            "another client changes the replicas of {}/{} after each scaling, now from {written} \
             to {replicas}: another autoscaler of this target, in any API, or a deployment tool",
            target.kind, target.name
        );
        warn!("{message}");
        self.record_warning(key, hpa, EventReason::ReplicasOverwritten, message);
    }

    pub(super) fn record_warning(
        &self,
        key: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        reason: EventReason,
        message: String,
    ) {
        self.record(key, hpa, Event { event_type: EventType::Warning, reason, message });
    }

    pub(super) fn record(&self, key: &HpaKey, hpa: &HorizontalPodAutoscaler, event: Event) {
        let object = ObjectReference {
            api_version: key.api.api_version().into(),
            kind: "HorizontalPodAutoscaler".into(),
            namespace: hpa.metadata.namespace.clone(),
            name: hpa.metadata.name.clone(),
            uid: hpa.metadata.uid.clone(),
            resource_version: hpa.metadata.resource_version.clone(),
        };
        self.events.record(RecordedEvent {
            object: Arc::new(object),
            event_type: event.event_type,
            reason: event.reason.as_str().into(),
            message: event.message,
            at: self.clock.now(),
        });
    }
}

/// Counts a status write of a peer. If a log line is due, returns the number of writes since the
/// last one.
fn count_peer_write(limit: &LogLimit, unlogged: &AtomicU64) -> Option<u64> {
    unlogged.fetch_add(1, Ordering::Relaxed);
    limit.try_acquire().then(|| unlogged.swap(0, Ordering::Relaxed))
}

/// Logs changes: a scaling, a failure that is new or differs from the last one, and the end of a
/// failure. Everything else is logged at debug level, with all details.
pub(super) fn log_conclusion(
    conclusion: &Conclusion,
    hpa: &HorizontalPodAutoscaler,
    autoscaler: &Autoscaler,
) {
    let Conclusion { explanation, scaled_to, error, .. } = conclusion;
    let failure = autoscaler.replace_failure(error.as_ref().map(ReconcileError::problem));
    let current = explanation.current_replicas;
    match (error, failure) {
        (Some(error), FailureChange::New) => {
            // Texts are printed with `%`: the log would escape strings again.
            let text = describe_failure(error, explanation, hpa);
            if error.is_partial() {
                warn!(error = %text, "metrics failed, deciding on the others or on fallbacks");
            } else {
                warn!(error = %text, "reconcile failed");
            }
        }
        (Some(error), _) => {
            debug!(error = %describe_failure(error, explanation, hpa), "reconcile failed again");
        }
        (None, FailureChange::Ended) => info!("reconcile succeeds again"),
        (None, _) => {}
    }
    let is_decided = error.as_ref().is_none_or(ReconcileError::is_partial);
    let sentence = || go_text::truncate(explanation.sentence(hpa), MAX_LOGGED_CHARS);
    if let Some(desired) = scaled_to {
        info!(current, desired, decision = %sentence(), "scaled");
    } else if is_decided {
        debug!(current, decision = %sentence(), "kept the current replicas");
    }
    debug!(details = %explanation, "decided");
}

/// Describes an error, escaped and shortened. For a metric error, lists the failed metrics with
/// their reasons, because the text of kube-controller-manager repeats the rest of the log line.
fn describe_failure(
    error: &ReconcileError,
    explanation: &Explanation,
    hpa: &HorizontalPodAutoscaler,
) -> String {
    let is_metric_error =
        matches!(error, ReconcileError::ComputeReplicas { .. } | ReconcileError::SomeMetrics(_));
    let description = if is_metric_error {
        // The span names the autoscaler, so the text before the cause adds nothing.
        explanation.failures(hpa).unwrap_or_else(|| one_line(error.cause()).into_owned())
    } else {
        one_line(&error.to_string()).into_owned()
    };
    go_text::truncate(description, MAX_LOGGED_CHARS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn log_line_has_the_number_of_peer_writes_since_the_last_one() {
        let (limit, unlogged) = (LogLimit::default(), AtomicU64::new(0));
        let mut counts = Vec::new();
        // At the seconds 0, 1, 59, 60, 61 and 130.
        for delay in [0, 1, 58, 1, 1, 69] {
            tokio::time::advance(Duration::from_secs(delay)).await;
            counts.push(count_peer_write(&limit, &unlogged));
        }
        assert_eq!(counts, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
