//! Age of the samples in responses of the metrics APIs.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::{api::CrossVersionObjectReference, readings::MetricsApi, selector::Selector};
use hpa_metrics_client::{
    FetchError, MetricsSource,
    wire::{ExternalMetricValue, MetricValue, PodMetrics},
};
use jiff::Timestamp;

use super::Telemetry;
use crate::clock::Clock;

/// A metrics source that records the age of samples. It belongs below the coalescing, to record
/// each response once.
pub struct ObservedSource<S> {
    source: S,
    telemetry: Arc<Telemetry>,
    clock: Arc<dyn Clock>,
}

impl<S> ObservedSource<S> {
    pub fn new(source: S, telemetry: Arc<Telemetry>, clock: Arc<dyn Clock>) -> Self {
        Self { source, telemetry, clock }
    }

    fn observe<I>(&self, api: MetricsApi, items: &[I], timestamp: impl Fn(&I) -> Timestamp) {
        // Go's zero time, in the year 1, means no timestamp.
        let times = items.iter().map(timestamp).filter(|time| *time > Timestamp::UNIX_EPOCH);
        let Some(oldest) = times.min() else { return };
        // The clock of the metrics server may be ahead.
        let age = self.clock.now().duration_since(oldest).try_into().unwrap_or(Duration::ZERO);
        self.telemetry.counters.observe_sample_age(api, age);
    }
}

#[async_trait]
impl<S: MetricsSource> MetricsSource for ObservedSource<S> {
    async fn pod_metrics(
        &self,
        namespace: &str,
        pods: &Selector,
    ) -> Result<Vec<PodMetrics>, FetchError> {
        let items = self.source.pod_metrics(namespace, pods).await?;
        self.observe(MetricsApi::Resource, &items, |item| item.timestamp);
        Ok(items)
    }

    async fn pod_values(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MetricValue>, FetchError> {
        let items = self.source.pod_values(namespace, pods, metric, metric_selector).await?;
        self.observe(MetricsApi::Custom, &items, |item| item.timestamp);
        Ok(items)
    }

    async fn object_values(
        &self,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<MetricValue>, FetchError> {
        let items = self.source.object_values(namespace, object, metric, metric_selector).await?;
        self.observe(MetricsApi::Custom, &items, |item| item.timestamp);
        Ok(items)
    }

    async fn external_values(
        &self,
        namespace: &str,
        metric: &str,
        metric_selector: &Selector,
    ) -> Result<Vec<ExternalMetricValue>, FetchError> {
        let items = self.source.external_values(namespace, metric, metric_selector).await?;
        self.observe(MetricsApi::External, &items, |item| item.timestamp);
        Ok(items)
    }
}
