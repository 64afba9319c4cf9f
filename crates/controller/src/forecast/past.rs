//! The source of past loads.

use futures::future::BoxFuture;
use hpa_calc::HorizontalPodAutoscaler;
use hpa_forecast::Trace;
use jiff::Timestamp;

/// The time range to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastRange {
    pub from: Timestamp,
    pub until: Timestamp,
    /// The seconds between two samples.
    pub step: u32,
}

/// An error when reading the past of a metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PastError {
    /// The source doesn't have this metric. What this process has seen is its past.
    #[error("{0}")]
    Unknown(String),
    /// The source failed.
    #[error("{0}")]
    Failed(String),
}

/// The past loads of metrics, in the unit of [`hpa_calc::Plan::loads`].
pub trait PastLoads: Send + Sync {
    /// The load of the metric at an index of `spec.metrics`. The number of samples and the bytes
    /// that are read for them must be limited.
    fn load<'a>(
        &'a self,
        hpa: &'a HorizontalPodAutoscaler,
        metric: usize,
        range: PastRange,
    ) -> BoxFuture<'a, Result<Trace, PastError>>;
}
