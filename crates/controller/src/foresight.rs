//! Metrics whose values are known in advance, such as those of scaling schedules.

use hpa_calc::HorizontalPodAutoscaler;
use jiff::Timestamp;

/// Says when metrics change, so that the controller reconciles at that time.
pub trait Foresight: Send + Sync {
    /// The first time after `now` at which a metric of the autoscaler is known to change.
    fn next_change(&self, hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Option<Timestamp>;
}

/// Knows nothing in advance.
impl Foresight for () {
    fn next_change(&self, _: &HorizontalPodAutoscaler, _: Timestamp) -> Option<Timestamp> {
        None
    }
}
