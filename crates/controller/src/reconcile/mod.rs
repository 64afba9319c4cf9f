//! One reconcile: the I/O around the engine's three calls.

mod attempt;
pub mod observer;
mod read;
mod shadowed;
pub(crate) mod status;

use std::sync::Arc;

use hpa_calc::{
    api::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
    conclude::Conclusion,
    decide::ReconcileError,
    event::{Event, EventReason, EventType},
    history::Direction,
    settings::Settings,
};
use hpa_metrics_client::{MetricsClient, describe};
use kube::{
    Client,
    api::{GetParams, Patch, PatchParams},
};
use tracing::{debug, info, warn};

use self::{
    attempt::{Attempt, Outcome},
    status::StatusPatch,
};
use crate::{
    annotations::AnnotationSettings,
    cache::Pods,
    cache::SelectorIndex,
    cache::{Autoscaler, Autoscalers, FailureChange, desired_state_eq},
    clock::Clock,
    events::{EventRecorder, ObjectReference, RecordedEvent},
    informer::ScaleInformers,
    k8s::{HpaResponse, StoredHpa},
    key::HpaKey,
    reconcile::observer::{ErrorClass, Finished, Observer, Reconciled},
    scale_target::{RestMapper, ScaleClient},
    trace::TARGET,
};

/// The field manager of our writes.
const FIELD_MANAGER: &str = "hpa-controller";

/// What reconciles share.
pub struct Reconciler {
    /// For statuses.
    pub client: Client,
    /// The engine's settings.
    pub settings: Settings,
    /// The autoscalers that are known.
    pub autoscalers: Arc<Autoscalers>,
    /// The pods that are known.
    pub pods: Arc<Pods>,
    /// Which autoscalers select which pods.
    pub selectors: Arc<SelectorIndex>,
    /// Kinds to resources.
    pub mapper: Arc<RestMapper>,
    /// Scale subresources.
    pub scales: ScaleClient,
    /// Scales that need not be read. If `None`, each reconcile reads its target's scale.
    pub scale_informers: Option<ScaleInformers>,
    /// The metrics APIs.
    pub metrics: Arc<dyn MetricsClient>,
    /// Kubernetes events.
    pub events: EventRecorder,
    /// By which it is decided.
    pub clock: Arc<dyn Clock>,
    /// Is told of every reconcile.
    pub observer: Arc<dyn Observer>,
    /// Whether nothing is written for any autoscaler: decisions are compared with another controller's.
    pub dry_run: bool,
}

impl Reconciler {
    /// Reconciles an autoscaler once; does nothing if it is gone. Failures end as conditions, events and logs of
    /// that autoscaler.
    #[tracing::instrument(name = "reconcile", skip_all, fields(hpa = %key))]
    pub async fn reconcile(&self, key: &HpaKey) {
        if self.reconcile_once(key).await {
            // If it changes yet again, the next reconcile will do.
            self.reconcile_once(key).await;
        }
    }

    /// Whether the spec turned out to be another than what was decided on, and is known by now: nobody else tells of it.
    async fn reconcile_once(&self, key: &HpaKey) -> bool {
        let Some(autoscaler) = self.known(key).await else { return false };
        let begun = self.clock.instants().monotonic;
        let hpa = autoscaler.object();
        let AnnotationSettings { pause, invalid, dry_run } = AnnotationSettings::from_hpa(&hpa);
        if dry_run || self.dry_run {
            self.look(key, &autoscaler, &hpa).await;
            return false;
        }
        if autoscaler.set_invalid_annotations(invalid.as_deref()) {
            let (event_type, reason) = (EventType::Warning, EventReason::InvalidAnnotation);
            self.record(
                key,
                &hpa,
                Event { event_type, reason, message: invalid.unwrap_or_default() },
            );
        }
        let mut attempt = Attempt::new(self, key, &hpa, &autoscaler, pause);
        let outcome = attempt.run().await;
        let Some(Outcome { conclusion, decided, reads }) = outcome else {
            debug!("the autoscaler was changed or deleted meanwhile");
            if attempt.zero_premarked {
                // It did not come to pass.
                let _stored = self.store(key, attempt.stored(), hpa.status.clone()).await;
            }
            return !desired_state_eq(&autoscaler.object(), &hpa);
        };
        report(&conclusion, &autoscaler);
        if conclusion.error.is_some() {
            autoscaler.set_scale_trusted(false);
        }
        let took = self.clock.instants().monotonic.saturating_sub(begun);
        self.observer.reconciled(&Reconciled {
            key,
            hpa: &hpa,
            conclusion: &conclusion,
            took,
            reads: &reads,
        });
        let Conclusion { status, events, history, explanation, scaled_to, error } = conclusion;
        autoscaler.set_history(history, decided);
        for event in events {
            self.record(key, &hpa, event);
        }
        let mut status = status::as_stored(status);
        if attempt.zero_premarked && attempt.scale_write_uncertain {
            // It may be at zero: whose doing that is must not be lost.
            status::keep_scaled_to_zero(&mut status, &attempt.stored().status);
        }
        let stored = self.store(key, attempt.stored(), status).await;
        let (current, desired) = (explanation.current_replicas, explanation.desired_replicas);
        let is_decided = stored && matches!(error, None | Some(ReconcileError::SomeMetrics(_)));
        let error =
            if stored { error.as_ref().map(ErrorClass::from) } else { Some(ErrorClass::Internal) };
        self.observer.finished(&Finished {
            key,
            scaled: scaled_to.map(|to| if to > current { Direction::Up } else { Direction::Down }),
            desired_replicas: is_decided.then_some(desired),
            error,
            took: self.clock.instants().monotonic.saturating_sub(begun),
        });
        false
    }

    /// The autoscaler, if it is known what it asks for. One that could not be decoded is read once more: what was garbled
    /// on its way is whole the next time, and the watch lists ever less often because of it.
    async fn known(&self, key: &HpaKey) -> Option<Arc<Autoscaler>> {
        let autoscaler = self.autoscalers.get(key)?;
        if autoscaler.is_suspended() {
            autoscaler.refresh(self.get(key).await.ok()?.ok()?);
        }
        Some(autoscaler).filter(|autoscaler| !autoscaler.is_suspended())
    }

    /// Stores the status if it differs from what is known to be stored. Whether nothing is left to be done: a status
    /// of an autoscaler that is gone needs no storing.
    async fn store(
        &self,
        key: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        status: HorizontalPodAutoscalerStatus,
    ) -> bool {
        match self.patch_status(key, hpa, &status).await {
            Ok(None) => {}
            // The next reconcile is not to depend on the watch having caught up.
            Ok(Some(stored)) => _ = self.autoscalers.apply_own_write(key, stored),
            Err(StatusError::Gone) => debug!("the autoscaler is gone"),
            Err(StatusError::Failed(message)) => {
                warn!(error = message, "failed to update the status");
                let (event_type, reason) = (EventType::Warning, EventReason::FailedUpdateStatus);
                self.record(key, hpa, Event { event_type, reason, message });
                return false;
            }
        }
        true
    }

    /// Makes `status` of the stored object's status; the object as it is then, `None` if it was so already.
    async fn patch_status(
        &self,
        key: &HpaKey,
        stored: &HorizontalPodAutoscaler,
        status: &HorizontalPodAutoscalerStatus,
    ) -> Result<Option<StoredHpa>, StatusError> {
        let failed = |error: &dyn std::fmt::Display| StatusError::Failed(error.to_string());
        let Some(patch) = status::patch(stored, status) else { return Ok(None) };
        match self.write_status(key, patch).await {
            Ok(stored) => stored.map(Some).map_err(|error| failed(&error)),
            Err(kube::Error::Api(status)) if is_of_another(&status) => Err(StatusError::Gone),
            Err(kube::Error::Api(status)) => Err(StatusError::Failed(status.message)),
            Err(error) => Err(StatusError::Failed(describe(&error))),
        }
    }

    #[tracing::instrument(level = "debug", target = TARGET, skip_all, err(level = "debug"))]
    async fn write_status(&self, key: &HpaKey, patch: StatusPatch<'_>) -> Answer {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let request = key.api.request(&key.namespace);
        self.ask(key, request.patch_subresource("status", &key.name, &params, &Patch::Merge(patch)))
            .await
    }

    /// The autoscaler as the API server has it now.
    #[tracing::instrument(name = "read_autoscaler", level = "debug", target = TARGET, skip_all, err(level = "debug"))]
    async fn get(&self, key: &HpaKey) -> Answer {
        self.ask(key, key.api.request(&key.namespace).get(&key.name, &GetParams::default())).await
    }

    /// Sends a request whose answer is the autoscaler. kube's `Api` would copy spec and status out of the answer, and a
    /// status is written with every reconcile.
    async fn ask(
        &self,
        key: &HpaKey,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Answer {
        let text = self.client.request_text(request.map_err(kube::Error::BuildRequest)?).await?;
        let answered: HpaResponse<'_> =
            serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        let spec_hash = answered.spec_hash();
        let known_spec =
            self.autoscalers.get(key).and_then(|known| known.spec_with_hash(spec_hash));
        let object = answered.decode(known_spec).map_err(|error| error.to_string());
        Ok(object.map(|object| StoredHpa { object, spec_hash }))
    }

    fn record(&self, key: &HpaKey, hpa: &HorizontalPodAutoscaler, event: Event) {
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

/// What the API server answered about an autoscaler, and whether that can be decoded.
type Answer = Result<Result<StoredHpa, String>, kube::Error>;

/// Why a status was not stored.
enum StatusError {
    /// The autoscaler is gone, or another of its name is there.
    Gone,
    /// What the API said.
    Failed(String),
}

/// Whether a status was refused because the autoscaler is gone, or another of its name is there.
fn is_of_another(status: &kube::core::Status) -> bool {
    status.is_not_found() || (status.is_invalid() && status.message.contains("metadata.uid"))
}

/// One line for what changes: a scaling, a failure that begins or reads otherwise than the last, its end. All else at
/// debug.
fn report(conclusion: &Conclusion, autoscaler: &Autoscaler) {
    let Conclusion { explanation, scaled_to, error, .. } = conclusion;
    let failure = autoscaler.set_failure(error.as_ref().map(ToString::to_string));
    match (scaled_to, error, failure) {
        (Some(replicas), ..) => {
            info!(current = explanation.current_replicas, desired = replicas, decision = %explanation, "scaled");
        }
        (None, Some(error), FailureChange::New) => {
            warn!(%error, decision = %explanation, "reconcile failed")
        }
        (None, Some(error), _) => debug!(%error, decision = %explanation, "reconcile failed again"),
        (None, None, FailureChange::Ended) => {
            info!(decision = %explanation, "reconcile works again")
        }
        (None, None, _) => debug!(decision = %explanation, "kept"),
    }
}
