//! The source of the metrics for a decision.

use async_trait::async_trait;
use hpa_calc::{Inputs, Readings};
use hpa_metrics::{Coalescing, KubeMetricsClient, read_all};

/// A source of the metrics for decisions.
#[async_trait]
pub trait DecisionMetrics: Send + Sync {
    /// Reads the metrics for a decision. `inputs` has all its other inputs.
    ///
    /// Also returns problems of the source itself, as sentences without a full stop.
    async fn read(&self, inputs: &Inputs) -> (Readings, Vec<String>);
}

/// The metrics APIs.
#[async_trait]
impl DecisionMetrics for Coalescing<KubeMetricsClient> {
    async fn read(&self, inputs: &Inputs) -> (Readings, Vec<String>) {
        (read_all(self, inputs).await, Vec::new())
    }
}
