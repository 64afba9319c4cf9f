//! Writes the scale, after checks that the decision still holds.

use std::{sync::Arc, time::Duration};

use hpa_calc::{Decision, Scale, ScaleWriteError, explain::MetricExplanation, pods::PodCounts};

use super::{
    attempt::Attempt, read::Target, status_patch::as_stored, write_status::StatusWriteError,
};
use crate::{cache::desired_state_eq, scale_target::ScaleError};

/// If the pod watch was last confirmed this long ago, the pods are listed before a scale-down.
pub const MAX_POD_AGE: Duration = Duration::from_mins(1);

/// The outcome of a scale write.
pub(super) enum ScaleWrite {
    /// The scale was written, or the write failed for good. The error becomes part of the condition
    /// `AbleToScale` and of an event, so it includes the cause.
    Done(Result<(), ScaleWriteError>),
    /// An input of the decision is out of date, for the given reason. The scale was not written.
    Outdated(&'static str),
    /// The scale in the cache may be stale: the API server refused a write against it, or a GET
    /// returned another scale or failed. The scale was not written.
    CachedScaleDoubtful,
    /// The autoscaler changed or was deleted. The scale was not written.
    HpaChanged,
}

impl Attempt<'_> {
    /// Verifies that the decision may be carried out, then writes the replicas.
    pub(super) async fn verify_and_scale(
        &mut self,
        decision: &Decision<'_>,
        target: &mut Target,
        replicas: i32,
    ) -> ScaleWrite {
        // Taken, because listed pods are for one decision only.
        if self.listed_pods.take().is_none()
            && let Some(reason) = self.reason_to_list_pods(decision, &target.scale_object.scale)
        {
            return self
                .list_pods_to_decide_again(&target.scale_object.scale.selector, reason)
                .await;
        }
        if !self.confirm_cached_scale(target).await {
            return ScaleWrite::CachedScaleDoubtful;
        }
        if let Err(outcome) = self.verify_hpa_unchanged().await {
            return outcome;
        }
        if let Err(outcome) = self.premark_zero(decision).await {
            return outcome;
        }
        self.write_scale(target, replicas).await
    }

    /// The reason why the cached pods don't suffice for this decision. A scale-down because of
    /// missing pods, or of pods whose readiness is outdated, could remove pods that carry load.
    fn reason_to_list_pods(&self, decision: &Decision<'_>, scale: &Scale) -> Option<&'static str> {
        let is_down = decision.scale_to().is_some_and(|to| to < scale.spec_replicas);
        if !is_down || decision.explanation().metrics.is_empty() {
            return None;
        }
        let index = self.reconciler.pods.index(&self.key.namespace)?;
        if index.watch_age().age().is_none_or(|age| age >= MAX_POD_AGE) {
            return Some("the pods in the cache may be outdated");
        }
        has_fewer_pods(decision, scale)
            .then_some("the cache has fewer pods than the target reports")
    }

    async fn list_pods_to_decide_again(
        &mut self,
        selector: &str,
        reason: &'static str,
    ) -> ScaleWrite {
        match self.reconciler.list_pods(&self.key.namespace, selector).await {
            Ok(pods) => {
                self.listed_pods = Some(pods);
                ScaleWrite::Outdated(reason)
            }
            Err(error) => not_sent(format!("failed to list the pods of the target: {error}")),
        }
    }

    /// If `target` has the cached scale of a custom resource, reads the scale, and replaces the
    /// cached one with it if both are equal. Returns `false` if they differ or the read fails.
    /// After the paths in the definition have changed, the scales differ although their resource
    /// versions are equal.
    async fn confirm_cached_scale(&self, target: &mut Target) -> bool {
        let Target { mapping, scale_object: cached, is_cached } = target;
        if !*is_cached || mapping.is_builtin_workload() {
            return true;
        }
        let namespace = &self.hpa.metadata.namespace;
        let name = &self.hpa.spec.scale_target_ref.name;
        let Ok(read) = self.reconciler.scales.get(namespace, mapping, name).await else {
            // The next read reports the failure.
            return false;
        };
        self.reconciler.observe_response(self.hpa, mapping, &read);
        let is_current = read.uid == cached.uid
            && read.scale.spec_replicas == cached.scale.spec_replicas
            && read.scale.selector == cached.scale.selector;
        if is_current {
            let mapping = mapping.clone();
            *target = Target { mapping, scale_object: read, is_cached: false };
        }
        is_current
    }

    /// Reads the autoscaler before a scale is written, and compares it with the version that was
    /// decided on. The watch may be behind, and replicas by an outdated spec may be out of bounds.
    async fn verify_hpa_unchanged(&mut self) -> Result<(), ScaleWrite> {
        let latest = match self.reconciler.read_hpa(self.key).await {
            Ok(latest) => latest,
            // A 404 can also mean that the API group is briefly not served. Only the watch reports
            // deletions.
            Err(error) if error.is_not_found() => return Err(ScaleWrite::HpaChanged),
            Err(error) => {
                return Err(not_sent(format!(
                    "failed to verify the autoscaler before the write: {error}"
                )));
            }
        };
        let object = latest.object.clone();
        self.autoscaler.apply_read(latest);
        if object.metadata.uid != self.hpa.metadata.uid || !desired_state_eq(&object, self.hpa) {
            return Err(ScaleWrite::HpaChanged);
        }
        self.latest = Some(object);
        Ok(())
    }

    /// Stores `ScaledToZero=True` before a scale to zero; see [`Decision::status_before_scale`].
    async fn premark_zero(&mut self, decision: &Decision<'_>) -> Result<(), ScaleWrite> {
        let Some(status) = decision.status_before_scale() else { return Ok(()) };
        let status = as_stored(status);
        match self.reconciler.patch_status(self.key, self.stored(), &status).await {
            // An earlier reconcile stored the condition, but could not write the scale.
            Ok(None) => {}
            Ok(Some(stored)) => {
                self.latest = Some(stored.object.clone());
                // The next reconcile needs the condition even if this one fails.
                self.reconciler.autoscalers.apply_own_write(self.key, stored);
            }
            Err(StatusWriteError::Gone) => return Err(ScaleWrite::HpaChanged),
            Err(StatusWriteError::Failed(error)) => {
                return Err(not_sent(format!(
                    "failed to store the condition ScaledToZero before the write: {error}"
                )));
            }
        }
        self.zero_premarked = true;
        Ok(())
    }

    /// Whether the cache still has the spec and annotations that were decided on.
    fn is_hpa_current(&self) -> bool {
        let cached = self.reconciler.autoscalers.get(self.key);
        cached.is_some_and(|cached| {
            Arc::ptr_eq(&cached, self.autoscaler)
                && !cached.is_undecodable()
                && desired_state_eq(&cached.object(), self.hpa)
        })
    }

    /// Writes the replicas.
    ///
    /// After a conflict, reads the scale. If the replicas are still those that were decided on,
    /// writes against the new resource version, else the decision is outdated. If the scale is from
    /// the cache, any refusal makes it doubtful instead.
    async fn write_scale(&mut self, target: &mut Target, replicas: i32) -> ScaleWrite {
        let namespace = &self.hpa.metadata.namespace;
        let name = &self.hpa.spec.scale_target_ref.name;
        let scales = &self.reconciler.scales;
        loop {
            if !self.is_hpa_current() {
                return ScaleWrite::HpaChanged;
            }
            self.scale_writes_left = self.scale_writes_left.saturating_sub(1);
            let Target { mapping, scale_object, is_cached } = target;
            let written = scales.update(namespace, mapping, name, scale_object, replicas).await;
            let error = match written {
                Ok(written) => {
                    self.reconciler.observe_response(self.hpa, mapping, &written);
                    return ScaleWrite::Done(Ok(()));
                }
                Err(error) => error,
            };
            if *is_cached && error.is_refusal() {
                return ScaleWrite::CachedScaleDoubtful;
            }
            let may_repeat = self.scale_writes_left > 0 && !self.is_overdue();
            if !matches!(error, ScaleError::Conflict(_)) || !may_repeat {
                self.scale_write_uncertain = !error.is_refusal();
                self.autoscaler.distrust_scale();
                return ScaleWrite::Done(Err(ScaleWriteError::failed(error)));
            }
            let Ok(latest) = scales.get(namespace, mapping, name).await else {
                return ScaleWrite::Done(Err(ScaleWriteError::failed(error)));
            };
            let decided_on = std::mem::replace(scale_object, latest);
            // A re-created target has another UID and was not decided on.
            if decided_on.scale.spec_replicas != scale_object.scale.spec_replicas
                || decided_on.uid != scale_object.uid
            {
                return ScaleWrite::Outdated("the target's replicas changed");
            }
        }
    }
}

fn not_sent(error: String) -> ScaleWrite {
    ScaleWrite::Done(Err(ScaleWriteError::NotSent(error)))
}

/// Whether a decision is based on fewer pods than the target reports. The cause may be an
/// interrupted pod watch. Then the load looks low, because the usage of some pods is missing.
fn has_fewer_pods(decision: &Decision<'_>, scale: &Scale) -> bool {
    let counted = |metric: &MetricExplanation| metric.pods.as_ref().map(PodCounts::total);
    let status_replicas = usize::try_from(scale.status_replicas).unwrap_or(0);
    let metrics = &decision.explanation().metrics;
    metrics.iter().filter_map(counted).any(|pods| pods < status_replicas)
}
