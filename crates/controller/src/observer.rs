//! Who is told of every reconcile.

use std::{sync::Arc, time::Duration};

use hpa_calc::{api::HorizontalPodAutoscaler, conclude::Conclusion};

use crate::selectors::HpaKey;

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
}

/// Is told of every reconcile, before its status is written: the place for metrics, reports and demonstrations. It is
/// called by the workers, so it must not block.
pub trait Observer: Send + Sync {
    /// A reconcile came to a conclusion.
    fn reconciled(&self, reconciled: &Reconciled<'_>);
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
}
