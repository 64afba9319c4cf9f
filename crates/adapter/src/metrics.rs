//! Metrics of the server itself.

use std::time::Duration;

use hpa_metrics_api::Group;
use jiff::Timestamp;
use parking_lot::RwLock;
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder, core::Collector,
};

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics that the server exports.
pub struct Metrics {
    registry: RwLock<Registry>,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    authentications: IntCounterVec,
    accesses: IntCounterVec,
    /// The name is that of the reference.
    freshness: HistogramVec,
    pub(crate) requests_in_flight: IntGauge,
}

/// The metrics can't be registered, because two have the same name.
#[derive(Debug, thiserror::Error)]
#[error("unable to register a metric")]
pub struct MetricsError(#[from] prometheus::Error);

/// Bounds of the age of values: 20 buckets, each 1.364 times the one before, as in the reference.
fn freshness_buckets() -> Vec<f64> {
    std::iter::successors(Some(1.0), |bound| Some(bound * 1.364)).take(20).collect()
}

impl Metrics {
    /// Registers all metrics.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new("hpa_adapter_requests_total", "Requests by API group, verb and code"),
                &["group", "verb", "code"],
            )?,
            request_seconds: HistogramVec::new(
                HistogramOpts::new(
                    "hpa_adapter_request_duration_seconds",
                    "Duration of requests by API group",
                ),
                &["group"],
            )?,
            authentications: IntCounterVec::new(
                Opts::new("hpa_adapter_authentications_total", "Authentications by result"),
                &["result"],
            )?,
            accesses: IntCounterVec::new(
                Opts::new("hpa_adapter_authorizations_total", "Authorizations by result"),
                &["result"],
            )?,
            freshness: HistogramVec::new(
                HistogramOpts::new(
                    "metrics_apiserver_metric_freshness_seconds",
                    "Freshness of metrics exported",
                )
                .buckets(freshness_buckets()),
                &["group"],
            )?,
            requests_in_flight: IntGauge::new(
                "hpa_adapter_requests_in_flight",
                "Requests that are being answered",
            )?,
            registry: RwLock::new(registry),
        };
        metrics.register(metrics.requests.clone())?;
        metrics.register(metrics.request_seconds.clone())?;
        metrics.register(metrics.authentications.clone())?;
        metrics.register(metrics.accesses.clone())?;
        metrics.register(metrics.freshness.clone())?;
        metrics.register(metrics.requests_in_flight.clone())?;
        Ok(metrics)
    }

    /// Adds metrics of other components.
    pub fn register(&self, collector: impl Collector + 'static) -> Result<(), MetricsError> {
        Ok(self.registry.read().register(Box::new(collector))?)
    }

    /// The metrics in Prometheus' text format.
    pub fn render(&self) -> Result<String, MetricsError> {
        let families = self.registry.read().gather();
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub(crate) fn observe_request(&self, group: &str, verb: &str, code: u16, elapsed: Duration) {
        self.requests.with_label_values(&[group, verb, &code.to_string()]).inc();
        self.request_seconds.with_label_values(&[group]).observe(elapsed.as_secs_f64());
    }

    pub(crate) fn observe_authentication(&self, result: &str) {
        self.authentications.with_label_values(&[result]).inc();
    }

    pub(crate) fn observe_access(&self, result: &str) {
        self.accesses.with_label_values(&[result]).inc();
    }

    /// The age of values that are returned.
    pub(crate) fn observe_freshness(
        &self,
        group: Group,
        now: Timestamp,
        times: impl Iterator<Item = Timestamp>,
    ) {
        let freshness: Histogram = self.freshness.with_label_values(&[group.name()]);
        for time in times {
            freshness.observe(now.duration_since(time).as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_has_the_buckets_of_the_reference() {
        let metrics = Metrics::new().unwrap();
        let now = Timestamp::from_second(100).unwrap();
        let times = [Timestamp::from_second(99).unwrap(), Timestamp::from_second(40).unwrap()];
        metrics.observe_freshness(Group::Custom, now, times.into_iter());
        let text = metrics.render().unwrap();
        let line = |bound: &str, count: u32| {
            format!(
                "metrics_apiserver_metric_freshness_seconds_bucket\
                 {{group=\"custom.metrics.k8s.io\",le=\"{bound}\"}} {count}\n"
            )
        };
        assert!(text.contains(&line("1", 1)), "{text}");
        assert!(text.contains(&line("1.364", 1)), "{text}");
        assert!(text.contains(&line("+Inf", 2)), "{text}");
    }
}
