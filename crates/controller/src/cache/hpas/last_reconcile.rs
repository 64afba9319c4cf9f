//! The outcome of an autoscaler's last reconcile, for metrics.

use std::time::Duration;

use hpa_calc::decide::ReconcileError;
use tokio::time::Instant;

/// The class of an error of a reconcile or of a metric's computation: the `error` label of the
/// reference's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The spec can't be decoded, or has an invalid target `apiVersion` or an unknown metric type.
    Spec,
    /// Any other error.
    Internal,
}

impl From<&ReconcileError> for ErrorClass {
    fn from(error: &ReconcileError) -> Self {
        if error.is_invalid_spec() { Self::Spec } else { Self::Internal }
    }
}

/// The outcome of an autoscaler's last reconcile. It is stored in the autoscaler: when that is
/// deleted, its series disappear.
#[derive(Debug)]
pub(crate) struct LastReconcile {
    /// Desired replicas of the last reconcile that succeeded.
    pub(crate) desired_replicas: Option<i32>,
    pub(crate) error: Option<ErrorClass>,
    /// The time when it finished. Before the first reconcile, the time when the autoscaler was
    /// cached.
    pub(crate) finished: Instant,
    /// The excess of the autoscaler's sync period over the controller's. Zero if it is not longer.
    pub(crate) period_excess: Duration,
    /// The due time of the next periodic reconcile.
    pub(crate) next_due: Option<Instant>,
    /// Only recorded for per-autoscaler metrics.
    pub(crate) detail: Option<Box<ReconcileDetail>>,
}

impl Default for LastReconcile {
    fn default() -> Self {
        Self {
            desired_replicas: None,
            error: None,
            finished: Instant::now(),
            period_excess: Duration::ZERO,
            next_due: None,
            detail: None,
        }
    }
}

impl LastReconcile {
    /// The time from which the age of the last reconcile counts: its end plus the excess of the
    /// autoscaler's own sync period, so that a long period doesn't look late.
    pub(crate) fn age_start(&self) -> Instant {
        self.finished + self.period_excess
    }
}

/// The details of a decision.
#[derive(Debug)]
pub(crate) struct ReconcileDetail {
    pub(crate) proposals: Vec<MetricProposal>,
    /// The condition reason of stabilization, if it changed the proposal.
    pub(crate) stabilized_by: Option<String>,
    /// The condition reason of the policy or bound that changed the proposal, if one did.
    pub(crate) limited_by: Option<String>,
}

/// The replicas that one metric proposes.
#[derive(Debug)]
pub(crate) struct MetricProposal {
    /// The metric's index in `spec.metrics`.
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) metric_type: String,
    pub(crate) replicas: i32,
}
