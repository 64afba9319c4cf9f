//! The interface that a controller reads metrics through.

use async_trait::async_trait;
use futures::{StreamExt, stream};
use hpa_calc::{
    Inputs, Readings,
    readings::{MetricQuery, ReadError, Reading},
    selector::Selector,
};

/// Limit for concurrent reads of one autoscaler's metrics.
const MAX_CONCURRENT_READS: usize = 8;

/// Answers the metric queries of autoscalers.
///
/// As in the reference controller, the error is [`ReadError::Fetch`] if the metric can't be read,
/// or if the response to a query for an object doesn't have exactly one value. It is
/// [`ReadError::Empty`] if the response to any other query has no items.
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

/// Answers all queries that a decision on `inputs` needs, at most eight at a time. If it needs
/// none, the result is empty.
pub async fn read_all(client: &dyn MetricsClient, inputs: &Inputs) -> Readings {
    let plan = inputs.plan();
    let Some(selector) = plan.selector() else { return Readings::new() };
    let namespace = &inputs.hpa.metadata.namespace;
    let reads = plan.queries().map(|(index, query)| async move {
        (index, client.read(namespace, selector, query).await)
    });
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffer_unordered(MAX_CONCURRENT_READS).collect().await
}
