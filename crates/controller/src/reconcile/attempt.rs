//! The state of one reconcile, from the first read to the last write.

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    SelectedPods,
    api::{HorizontalPodAutoscaler, Pod},
    settings::Settings,
};
use hpa_lease::Instants;
use jiff::Timestamp;

use super::{observer::FinishedReconcile, reconciler::Reconciler, worker_slot::WorkerSlot};
use crate::{cache::Autoscaler, key::HpaKey};

/// The maximum number of scale writes in one attempt. A conflict makes another one necessary.
pub(super) const MAX_SCALE_WRITES: usize = 5;

/// One reconcile of one autoscaler.
pub(super) struct Attempt<'a> {
    pub(super) reconciler: &'a Reconciler,
    pub(super) key: &'a HpaKey,
    /// The autoscaler that the decision is made for.
    pub(super) hpa: &'a HorizontalPodAutoscaler,
    pub(super) autoscaler: &'a Arc<Autoscaler>,
    /// The autoscaler's effective settings.
    pub(super) settings: &'a Settings,
    /// Start of the reconcile, in monotonic time.
    pub(super) started: Duration,
    /// The worker slot, which is free for other reconciles while this one waits for metrics or for
    /// slow requests.
    pub(super) slot: &'a WorkerSlot,
    /// The autoscaler as this attempt last read or wrote it. `hpa` comes from the cache: it may be
    /// stale, or lack a write of this controller whose response was lost.
    pub(super) latest: Option<HorizontalPodAutoscaler>,
    /// Whether `ScaledToZero=True` was persisted before the scale write.
    pub(super) zero_premarked: bool,
    /// Whether the scale write failed in a way that leaves open if the API server applied it.
    pub(super) scale_write_uncertain: bool,
    pub(super) scale_writes_left: usize,
    /// The target's pods from a list request, if the pod cache was incomplete or may be outdated.
    pub(super) listed_pods: Option<Vec<Arc<Pod>>>,
    /// The pods that the target owns, if only those count.
    pub(super) owned_pods: Option<SelectedPods>,
}

/// The outcome of an attempt.
pub(super) enum Outcome<'a> {
    /// The autoscaler was decided on, and its status was written or the write failed.
    Finished(FinishedReconcile<'a>),
    /// The autoscaler changed or was deleted, so the decision was discarded.
    Superseded,
}

impl Attempt<'_> {
    /// The autoscaler as the API server stores it, as far as this attempt has read or written it.
    pub(super) fn stored(&self) -> &HorizontalPodAutoscaler {
        self.latest.as_ref().unwrap_or(self.hpa)
    }

    /// The wall-clock time now, without the clock steps since `earlier`.
    pub(super) fn now_since(&self, earlier: Instants) -> Timestamp {
        let elapsed = self.reconciler.elapsed_since(earlier.monotonic);
        earlier.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// The duration of the reconcile so far.
    pub(super) fn duration(&self) -> Duration {
        self.reconciler.elapsed_since(self.started)
    }

    /// The time left to read metrics, or to repeat the scale write or the decision.
    pub(super) fn time_left(&self) -> Duration {
        self.reconciler.timeout.saturating_sub(self.duration())
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.time_left().is_zero()
    }
}
