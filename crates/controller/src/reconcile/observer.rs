//! Who is told of every reconcile.

use std::{sync::Arc, time::Duration};

use hpa_calc::{api::HorizontalPodAutoscaler, conclude::Conclusion, history::Direction};

pub use crate::cache::ErrorClass;
use crate::{key::HpaKey, shadow::Verdict};

/// A reconcile that came to a conclusion.
#[derive(Clone, Copy, Debug)]
pub struct Reconciled<'a> {
    /// The autoscaler's name.
    pub key: &'a HpaKey,
    /// The autoscaler as it was decided on.
    pub hpa: &'a HorizontalPodAutoscaler,
    /// What was decided, why, and how its write went.
    pub conclusion: &'a Conclusion,
    /// How long it took, reading and writing included, the write of the status not.
    pub took: Duration,
    /// How long each metric of the spec took to be read; zero where it was not asked for.
    pub reads: &'a [Duration],
}

/// A reconcile that has ended, the write of the status included.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// The autoscaler's name.
    pub key: &'a HpaKey,
    /// Which way the target was scaled, if it was.
    pub scaled: Option<Direction>,
    /// The replicas decided on, if any were.
    pub desired_replicas: Option<i32>,
    /// How it failed, if it did. A status that could not be stored is a failure.
    pub error: Option<ErrorClass>,
    /// How long it took.
    pub took: Duration,
}

/// Is told of every reconcile: the place for metrics, reports and demonstrations. It is called by the workers, so it
/// must not block.
pub trait Observer: Send + Sync {
    /// A reconcile came to a conclusion. Its status is not stored yet.
    fn reconciled(&self, reconciled: &Reconciled<'_>);

    /// An autoscaler that another controller handles was compared.
    fn compared(&self, key: &HpaKey, verdict: Verdict) {
        let _ = (key, verdict);
    }

    /// A reconcile ended. Of one whose autoscaler was changed or deleted meanwhile nothing is told.
    fn finished(&self, finished: &Finished<'_>) {
        let _ = finished;
    }
}

/// Observes nothing.
impl Observer for () {
    fn reconciled(&self, _: &Reconciled<'_>) {}
}

/// Each is told, in order.
impl Observer for Vec<Arc<dyn Observer>> {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        for observer in self {
            observer.reconciled(reconciled);
        }
    }

    fn compared(&self, key: &HpaKey, verdict: Verdict) {
        for observer in self {
            observer.compared(key, verdict);
        }
    }

    fn finished(&self, finished: &Finished<'_>) {
        for observer in self {
            observer.finished(finished);
        }
    }
}
