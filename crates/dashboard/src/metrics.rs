//! Where the metrics of a decision are read.

use async_trait::async_trait;
use hpa_calc::{Inputs, Readings};
use hpa_metrics::{Coalescing, KubeMetricsClient, read_all};

/// Reads metrics.
#[async_trait]
pub trait MetricReader: Send + Sync {
    /// Answers the queries of a decision, of which `inputs` has everything else.
    ///
    /// The texts say what is wrong with the source of the metrics itself, without a full stop.
    async fn read(&self, inputs: &Inputs) -> (Readings, Vec<String>);
}

/// The metrics APIs.
#[async_trait]
impl MetricReader for Coalescing<KubeMetricsClient> {
    async fn read(&self, inputs: &Inputs) -> (Readings, Vec<String>) {
        (read_all(self, inputs).await, Vec::new())
    }
}
