//! Pods that the target's selector matches, but that the target doesn't own.
//!
//! For example, the reference counts the pods of a Job that has the labels of a Deployment
//! (kubernetes#124307, KEP-5325). The setting `pods` leaves such pods out. Without the setting, a
//! condition reports them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{ConditionReason, ConditionType, Pod, Scale},
    decision::Decision,
    explain::counted,
    replicas::pod_count,
    settings::PodSelection,
};

/// The longest rollout, by the default of a Deployment's `progressDeadlineSeconds`. During a
/// rollout, the selector may match more pods than the target has.
const MAX_ROLLOUT: SignedDuration = SignedDuration::from_mins(10);

impl Decision<'_> {
    /// Sets the condition `SelectorMatchesExtraPods` once the selector has matched more active pods
    /// than the target has, for longer than [`MAX_ROLLOUT`]. Until then, the condition stays as it
    /// is. Removes the condition if the selector matches no extra pods, or if only owned pods
    /// count. Decisions don't depend on it.
    pub(crate) fn report_extra_pods(&mut self, pods: &[Arc<Pod>], scale: &Scale, now: Timestamp) {
        let active = pods.iter().filter(|pod| pod.is_active()).count();
        let replicas = pod_count(scale.status_replicas);
        if self.settings.pods != PodSelection::Selected || active <= replicas {
            self.history.extra_pods_since = None;
            self.draft.remove(&ConditionType::SelectorMatchesExtraPods);
            return;
        }
        let since = *self.history.extra_pods_since.get_or_insert(now);
        if now.duration_since(since) <= MAX_ROLLOUT {
            return;
        }
        let target = &self.hpa.spec.scale_target_ref;
        let message = format!(
            "the selector {} matches {}, but {}/{} has {replicas}: pods of other owners also \
             count. Change the labels, or set autoscaling.hpa-rs.dev/pods=owned",
            scale.selector,
            counted(active, "pod"),
            target.kind,
            target.name
        );
        let reason = ConditionReason::PodsOfOthers;
        self.draft.set(ConditionType::SelectorMatchesExtraPods, true, reason, message);
    }
}
