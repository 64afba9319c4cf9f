//! Records the age of samples, and reports responses of metric sources to the liveness check.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::readings::MetricsApi;
use hpa_lease::Clock;
use hpa_metrics::{Catalog, MetricError, MetricSource, Query, Values};
use jiff::Timestamp;

use super::Telemetry;

/// A metric source that records the age of the oldest sample of each response, and reports each
/// response to the liveness check. It belongs below the coalescing, to record each response once.
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
impl<S: MetricSource> MetricSource for ObservedSource<S> {
    fn catalog(&self) -> &dyn Catalog {
        self.source.catalog()
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        let response = self.source.read(query).await;
        if !matches!(response, Err(MetricError::Timeout { .. } | MetricError::Transport { .. })) {
            self.telemetry.record_response();
        }
        let values = response?;
        let api = query.api();
        match &values {
            Values::PodMetrics(pods) => self.observe(api, &pods.items, |item| item.timestamp),
            Values::NodeMetrics(nodes) => self.observe(api, &nodes.items, |item| item.timestamp),
            Values::Custom(values) => self.observe(api, &values.items, |item| item.timestamp),
            Values::External(values) => self.observe(api, &values.items, |item| item.timestamp),
        }
        Ok(values)
    }
}
