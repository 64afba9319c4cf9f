//! Callbacks on reconciles, for metrics, reports and demos.

use std::{sync::Arc, time::Duration};

use hpa_calc::{Settings, api::HorizontalPodAutoscaler, conclude::Conclusion, history::Direction};
use jiff::Timestamp;

use crate::{cache::ErrorClass, key::HpaKey, shadow::ComparisonResult};

/// A reconcile after its scale write, if it has one, and before its status write.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileBeforeStatusWrite<'a> {
    pub key: &'a HpaKey,
    /// The autoscaler at the start of the reconcile. In dry run, the decision may use an earlier
    /// status of the peer.
    pub hpa: &'a HorizontalPodAutoscaler,
    /// The autoscaler's effective settings; in dry run, those of the flags.
    pub settings: &'a Settings,
    pub conclusion: &'a Conclusion,
    /// The time of the decision.
    pub at: Timestamp,
    /// The time from the start of the reconcile to its conclusion.
    pub duration: Duration,
    /// The duration of each metric's read, by metric index; zero for metrics that weren't read.
    pub read_durations: &'a [Duration],
}

/// A reconcile that has ended, including the status write.
#[derive(Clone, Copy, Debug)]
pub struct FinishedReconcile<'a> {
    pub key: &'a HpaKey,
    /// The direction of the scaling, if the target was scaled.
    pub scaled: Option<Direction>,
    /// `None` if the replicas were not decided or the status could not be written.
    pub desired_replicas: Option<i32>,
    /// A failed status write counts as [`ErrorClass::Internal`], an undecodable autoscaler as
    /// [`ErrorClass::Spec`].
    pub error: Option<ErrorClass>,
    pub duration: Duration,
}

impl<'a> FinishedReconcile<'a> {
    /// A reconcile that ended without a decision.
    pub(super) fn undecided(
        key: &'a HpaKey,
        error: Option<ErrorClass>,
        duration: Duration,
    ) -> Self {
        Self { key, scaled: None, desired_replicas: None, error, duration }
    }
}

/// Callbacks on reconciles. The workers call them, so they must not block.
pub trait Observer: Send + Sync {
    /// Called when a reconcile has reached its conclusion, before its status is written.
    fn concluded(&self, concluded: &ReconcileBeforeStatusWrite<'_>);

    /// Called when the decision for an autoscaler in dry run has been compared with the peer's.
    fn compared(&self, _key: &HpaKey, _result: ComparisonResult) {}

    /// Called when a reconcile finds that a peer wrote the status since the last reconcile. Not
    /// called in dry run, where the peer is expected to write.
    fn peer_wrote(&self, _key: &HpaKey) {}

    /// Called when a reconcile has ended, also if it left the autoscaler to a peer. Not called if
    /// the autoscaler changed or was deleted during the reconcile.
    fn finished(&self, _finished: &FinishedReconcile<'_>) {}
}

/// Ignores everything.
impl Observer for () {
    fn concluded(&self, _: &ReconcileBeforeStatusWrite<'_>) {}
}

/// Calls each observer, in order.
impl Observer for Vec<Arc<dyn Observer>> {
    fn concluded(&self, concluded: &ReconcileBeforeStatusWrite<'_>) {
        for observer in self {
            observer.concluded(concluded);
        }
    }

    fn compared(&self, key: &HpaKey, result: ComparisonResult) {
        for observer in self {
            observer.compared(key, result);
        }
    }

    fn peer_wrote(&self, key: &HpaKey) {
        for observer in self {
            observer.peer_wrote(key);
        }
    }

    fn finished(&self, finished: &FinishedReconcile<'_>) {
        for observer in self {
            observer.finished(finished);
        }
    }
}
