//! Metrics about Prometheus and the rules.

use std::{sync::Arc, time::Duration};

use hpa_adapter::{Metrics, metrics::MetricsError};
use hpa_prometheus::{QueryFailure, RequestObserver};
use hpa_provider::PrometheusProvider;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::query_exports::QueryCollector;

/// Counts requests to Prometheus.
pub(super) struct Exports {
    /// The name is that of prometheus-adapter.
    request_seconds: HistogramVec,
    failures: IntCounterVec,
}

impl Exports {
    pub(super) fn new(metrics: &Metrics) -> Result<Self, MetricsError> {
        let exports = Self {
            request_seconds: HistogramVec::new(
                HistogramOpts::new(
                    "prometheus_adapter_prometheus_client_request_duration_seconds",
                    "Prometheus client query latency in seconds.  Broken down by target \
                     prometheus endpoint and target server",
                ),
                &["path", "server"],
            )?,
            failures: IntCounterVec::new(
                Opts::new(
                    "hpa_adapter_prometheus_request_failures_total",
                    "Failed requests to Prometheus by path and server",
                ),
                &["path", "server"],
            )?,
        };
        metrics.register(exports.request_seconds.clone())?;
        metrics.register(exports.failures.clone())?;
        Ok(exports)
    }
}

/// Exports the state of each rule.
pub(super) fn observe_rules(
    metrics: &Metrics,
    provider: Arc<PrometheusProvider>,
) -> Result<(), MetricsError> {
    metrics.register(QueryCollector::for_provider("hpa_adapter", provider.clone())?)?;
    metrics.register(RuleCollector::new(provider)?)
}

impl RequestObserver for Exports {
    fn observe(
        &self,
        server: &str,
        path: &'static str,
        duration: Duration,
        failure: Option<&QueryFailure>,
    ) {
        let labels = [path, server];
        self.request_seconds.with_label_values(&labels).observe(duration.as_secs_f64());
        if failure.is_some() {
            self.failures.with_label_values(&labels).inc();
        }
    }
}

/// The state of the rules when metrics are read.
struct RuleCollector {
    provider: Arc<PrometheusProvider>,
    series: GaugeVec,
    metrics: GaugeVec,
    last_success: GaugeVec,
    failures: GaugeVec,
}

impl RuleCollector {
    fn new(provider: Arc<PrometheusProvider>) -> Result<Self, MetricsError> {
        let gauge = |name: &str, help: &str| {
            GaugeVec::new(Opts::new(format!("hpa_adapter_rule_{name}"), help), &["rule", "server"])
        };
        Ok(Self {
            provider,
            series: gauge("series", "Series that a rule matches")?,
            metrics: gauge("metrics", "Metrics that a rule has")?,
            last_success: gauge(
                "last_success_timestamp_seconds",
                "When the series of a rule were last read",
            )?,
            failures: gauge("failures", "How often the series of a rule could not be read")?,
        })
    }

    fn gauges(&self) -> [&GaugeVec; 4] {
        [&self.series, &self.metrics, &self.last_success, &self.failures]
    }
}

impl Collector for RuleCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges().into_iter().flat_map(|gauge| gauge.desc()).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "the format has floats only")]
    fn collect(&self) -> Vec<MetricFamily> {
        self.gauges().into_iter().for_each(GaugeVec::reset);
        for rule in self.provider.rule_status() {
            let labels = [rule.rule.as_str(), rule.server.as_str()];
            self.series.with_label_values(&labels).set(rule.series as f64);
            self.metrics.with_label_values(&labels).set(rule.metrics as f64);
            self.failures.with_label_values(&labels).set(rule.failures as f64);
            if let Some(time) = rule.last_success {
                self.last_success.with_label_values(&labels).set(time.as_second() as f64);
            }
        }
        self.gauges().into_iter().flat_map(Collector::collect).collect()
    }
}
