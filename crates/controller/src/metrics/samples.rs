//! Age of the samples in responses of the metrics APIs.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::readings::MetricsApi;
use hpa_lease::Clock;
use hpa_metrics::{FetchError, Items, MetricsSource, Request};
use jiff::Timestamp;

use super::Telemetry;

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
    async fn fetch(&self, request: &Request) -> Result<Items, FetchError> {
        let response = self.source.fetch(request).await;
        if !matches!(response, Err(FetchError::Timeout { .. } | FetchError::Transport { .. })) {
            self.telemetry.health.responded();
        }
        let items = response?;
        let api = request.api();
        match &items {
            Items::PodMetrics(items) => self.observe(api, items, |item| item.timestamp),
            Items::Values(items) => self.observe(api, items, |item| item.timestamp),
            Items::ExternalValues(items) => self.observe(api, items, |item| item.timestamp),
        }
        Ok(items)
    }
}
