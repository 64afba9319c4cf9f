//! Log lines and events of a reconcile.

use std::sync::Arc;

use hpa_calc::{
    api::HorizontalPodAutoscaler,
    conclude::Conclusion,
    event::{Event, EventReason, EventType},
};
use tracing::{debug, info, warn};

use super::reconciler::Reconciler;
use crate::{
    cache::{Autoscaler, FailureChange, PeerWrite},
    events::{ObjectReference, RecordedEvent},
    k8s::StatusWrite,
    key::HpaKey,
};

/// What two controllers of one autoscaler do.
const CONSEQUENCE: &str = "two controllers of one autoscaler overwrite each other's decisions";

impl Reconciler {
    /// Records an event for invalid annotations, once per text.
    pub(super) fn report_invalid_annotations(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        hpa: &HorizontalPodAutoscaler,
        invalid: Option<String>,
    ) {
        if autoscaler.set_invalid_annotations(invalid.as_deref()) {
            let message = invalid.unwrap_or_default();
            self.record_warning(key, hpa, EventReason::InvalidAnnotation, message);
        }
    }

    /// Reports a peer's status write since the last reconcile. A log line covers all autoscalers,
    /// an event is recorded once per autoscaler and peer.
    pub(super) fn report_peer_write(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        hpa: &HorizontalPodAutoscaler,
    ) {
        let Some(PeerWrite { write, is_first }) = autoscaler.take_peer_write() else { return };
        self.observer.peer_wrote(key);
        if let Some(writes) = self.peer_warnings.count(self.clock.instants().monotonic) {
            let StatusWrite { manager, at } = &write;
            warn!(manager, %at, writes, "another controller writes the status too: {CONSEQUENCE}");
        }
        if is_first {
            let message =
                format!("{} wrote the status at {}: {CONSEQUENCE}", write.manager, write.at);
            self.record_warning(key, hpa, EventReason::ConflictingController, message);
        }
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

/// Logs what changed: a scaling, a failure that is new or differs from the last, its end.
/// Everything else is logged at debug.
pub(super) fn log_conclusion(conclusion: &Conclusion, autoscaler: &Autoscaler) {
    let Conclusion { explanation, scaled_to, error, .. } = conclusion;
    let failure = autoscaler.set_failure(error.as_ref().map(ToString::to_string));
    match (scaled_to, error, failure) {
        (Some(replicas), ..) => {
            let current = explanation.current_replicas;
            info!(current, desired = replicas, decision = %explanation, "scaled");
        }
        (None, Some(error), FailureChange::New) => {
            warn!(%error, decision = %explanation, "reconcile failed");
        }
        (None, Some(error), _) => debug!(%error, decision = %explanation, "reconcile failed again"),
        (None, None, FailureChange::Ended) => {
            info!(decision = %explanation, "reconcile succeeds again");
        }
        (None, None, _) => debug!(decision = %explanation, "kept the current replicas"),
    }
}
