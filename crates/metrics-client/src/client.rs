//! The interface that a controller reads metrics through.

use async_trait::async_trait;
use hpa_calc::{
    readings::{MetricQuery, ReadError, Reading},
    selector::Selector,
};

/// Answers the metric queries of autoscalers.
///
/// Errors match the reference controller: [`ReadError::Fetch`] if the request failed, and
/// [`ReadError::Empty`] if the response has no items.
#[async_trait]
pub trait MetricsClient: Send + Sync {
    /// Answers a query of a [`Plan`](hpa_calc::plan::Plan).
    ///
    /// `pods` is the selector of the scale target. Queries for objects and external metrics ignore
    /// it.
    async fn read(
        &self,
        namespace: &str,
        pods: &Selector,
        query: &MetricQuery,
    ) -> Result<Reading, ReadError>;
}
