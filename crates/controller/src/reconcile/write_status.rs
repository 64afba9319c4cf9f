//! Reads the stored autoscaler and writes its status.

use std::time::Duration;

use hpa_calc::{
    api::{ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
    event::EventReason,
    settings::Tolerances,
};
use kube::api::{GetParams, Patch, PatchParams};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{
    attempt::Attempt,
    metric_values::differ_slightly,
    reconciler::Reconciler,
    status_patch::{as_stored, copy_scaled_to_zero, patch, set_targets, with_unknown_fields_of},
};
use crate::{
    cache::{Autoscaler, FailureChange},
    k8s::{HpaResponse, KubeError, StoredHpa},
    key::{AutoscalerApi, HpaKey},
};

/// The slack of the status interval. Reconciles start some milliseconds early or late: without a
/// slack, an interval that is a multiple of the sync period would often take a period more.
const TIME_SLACK: Duration = Duration::from_secs(1);

/// The maximum number of status writes in one reconcile, not counting a premarked zero. A conflict
/// makes another one necessary.
const MAX_STATUS_WRITES: usize = 3;

/// The reason why a status was not written.
pub(super) enum StatusWriteError {
    /// The autoscaler was deleted or re-created.
    Gone,
    Failed(KubeError),
}

impl Attempt<'_> {
    /// Writes the status of the conclusion. Returns `false` if that failed.
    pub(super) async fn write_status(&self, status: HorizontalPodAutoscalerStatus) -> bool {
        let mut status = as_stored(status);
        if self.zero_premarked && self.scale_write_uncertain {
            // The target may be at zero, so `ScaledToZero=True` must stay.
            copy_scaled_to_zero(&mut status, &self.stored().status);
        }
        if self.may_skip_write(&status) {
            return true;
        }
        // The time of the write matters only with an interval.
        let has_interval = !self.reconciler.status_interval.is_zero();
        let is_new = has_interval && self.stored().status != status;
        let (key, autoscaler) = (self.key, self.autoscaler);
        let is_stored = self.reconciler.store_status(key, autoscaler, self.stored(), status).await;
        if is_new && is_stored {
            *self.autoscaler.status_written_at.lock() = Some(self.started);
        }
        is_stored
    }

    /// Whether the status needs no write yet: only metric values changed, by no more than the
    /// tolerance, and the last write was less than the status interval ago.
    fn may_skip_write(&self, status: &HorizontalPodAutoscalerStatus) -> bool {
        let interval = self.reconciler.status_interval;
        let is_recent = |at: Duration| self.started.saturating_sub(at) + TIME_SLACK < interval;
        let Tolerances { up, down } = Tolerances::for_spec(&self.hpa.spec, self.settings);
        let metrics = &self.hpa.spec.metrics;
        !interval.is_zero()
            && self.autoscaler.status_written_at.lock().is_some_and(is_recent)
            && differ_slightly(&self.stored().status, status, metrics, up.min(down))
    }
}

impl Reconciler {
    /// Writes the status if it differs from the stored one. Returns `false` if that failed; an
    /// autoscaler that is gone needs no status.
    pub(super) async fn store_status(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        stored: &HorizontalPodAutoscaler,
        mut status: HorizontalPodAutoscalerStatus,
    ) -> bool {
        if key.api == AutoscalerApi::Custom {
            set_targets(stored, &mut status);
        }
        match self.patch_status(key, stored, &status).await {
            Ok(None) => {
                autoscaler.set_status_stored();
                true
            }
            Ok(Some(stored)) => {
                // The next reconcile must not depend on the watch to deliver the status.
                self.autoscalers.apply_own_write(key, stored);
                log_status_write(autoscaler, None);
                true
            }
            Err(StatusWriteError::Gone) => {
                debug!("the autoscaler was deleted, its status is not written");
                true
            }
            Err(StatusWriteError::Failed(error)) => {
                let error = error.to_string();
                log_status_write(autoscaler, Some(&error));
                self.record_warning(key, stored, EventReason::FailedUpdateStatus, error);
                false
            }
        }
    }

    /// Patches the status. Returns the object as stored after that, or `None` if `stored` already
    /// has this status. If the autoscaler changed since it was read, reads it and tries again: even
    /// if a user edited it, the status is the outcome of this reconcile. Nothing is written if the
    /// autoscaler has scaled to zero since `stored` was read.
    pub(super) async fn patch_status(
        &self,
        key: &HpaKey,
        stored: &HorizontalPodAutoscaler,
        status: &HorizontalPodAutoscalerStatus,
    ) -> Result<Option<StoredHpa>, StatusWriteError> {
        let Some(changes) = patch(stored, status) else { return Ok(None) };
        let mut written = self.send_status_patch(key, changes).await;
        for _ in 1..MAX_STATUS_WRITES {
            if !matches!(&written, Err(error) if error.is_conflict()) {
                break;
            }
            let latest = self.read_after_conflict(key, &stored.metadata.uid).await?;
            // The decision treated the target as scaled to zero by a user. It must not remove the
            // condition: the next reconcile decides with it.
            let at_zero = ConditionType::ScaledToZero;
            if latest.object.status.is_true(&at_zero) && !stored.status.is_true(&at_zero) {
                return Ok(Some(latest));
            }
            let status = with_unknown_fields_of(status.clone(), &latest.object.status);
            let Some(changes) = patch(&latest.object, &status) else { return Ok(Some(latest)) };
            written = self.send_status_patch(key, changes).await;
        }
        match written {
            Ok(stored) => Ok(Some(stored)),
            Err(error) if is_gone(&error) => Err(StatusWriteError::Gone),
            Err(error) => Err(StatusWriteError::Failed(error)),
        }
    }

    async fn read_after_conflict(
        &self,
        key: &HpaKey,
        uid: &str,
    ) -> Result<StoredHpa, StatusWriteError> {
        match self.read_hpa(key).await {
            Ok(latest) if latest.object.metadata.uid == uid => Ok(latest),
            Ok(_) => Err(StatusWriteError::Gone),
            Err(error) if error.is_not_found() => Err(StatusWriteError::Gone),
            Err(error) => Err(StatusWriteError::Failed(error)),
        }
    }

    async fn send_status_patch(&self, key: &HpaKey, patch: Value) -> Result<StoredHpa, KubeError> {
        let field_manager = Some(self.field_manager.as_str().to_owned());
        let params = PatchParams { field_manager, ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        let request = key.api.request(&key.namespace);
        let request = request.patch_subresource("status", &key.name, &params, &patch);
        // Many reconciles may wait for responses at once, and the request has the patch as text.
        drop(patch);
        self.send(key, request).await
    }

    /// Reads the autoscaler from the API server.
    pub(super) async fn read_hpa(&self, key: &HpaKey) -> Result<StoredHpa, KubeError> {
        let request = key.api.request(&key.namespace);
        self.send(key, request.get(&key.name, &GetParams::default())).await
    }

    /// Sends a request whose response is the autoscaler. kube's `Api` would copy spec and status
    /// out of each response, and every reconcile may write a status.
    async fn send(
        &self,
        key: &HpaKey,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<StoredHpa, KubeError> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let cached = self.autoscalers.get(key);
        let known = cached.as_ref().map(|cached| cached.object());
        let sent = Instant::now();
        let text = self.client.request_text(request).await?;
        let response: HpaResponse<'_> =
            serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        let spec_hash = response.spec_hash();
        let cached_spec = cached.and_then(|cached| cached.spec_with_hash(spec_hash));
        let object = response.decode(cached_spec)?;
        if let Some(known) = known {
            let (known, response) =
                (&known.metadata.resource_version, &object.metadata.resource_version);
            let resource = "horizontalpodautoscalers";
            self.watch_ages.detect_rewind(resource, known, response, sent);
        }
        Ok(StoredHpa { object, spec_hash })
    }
}

/// Whether the API server refused a patch because the autoscaler doesn't exist, or was re-created:
/// the patch has the old UID, and a UID can't be changed.
fn is_gone(error: &KubeError) -> bool {
    let KubeError::Refused(status) = error else { return false };
    status.is_not_found() || (status.is_invalid() && status.message.contains("metadata.uid"))
}

/// Logs a failure to write the status when it starts or changes, and its end.
fn log_status_write(autoscaler: &Autoscaler, error: Option<&str>) {
    match (error, autoscaler.replace_status_failure(error.map(ToOwned::to_owned))) {
        (Some(error), FailureChange::New) => warn!(error, "failed to update the status"),
        (Some(error), _) => debug!(error, "failed to update the status again"),
        (None, FailureChange::Ended) => info!("updating the status succeeds again"),
        (None, _) => {}
    }
}
