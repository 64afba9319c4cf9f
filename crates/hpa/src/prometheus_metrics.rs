//! Metrics about Prometheus and the rules, for `hpa run` and `hpa adapter`.

use std::{sync::Arc, time::Duration};

use hpa_prometheus::client::{QueryFailure, RequestObserver};
use hpa_prometheus::source::PrometheusProvider;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Counts requests to Prometheus. Clones share the counts.
#[derive(Clone)]
pub(crate) struct RequestMetrics {
    /// The name is that of prometheus-adapter.
    seconds: HistogramVec,
    failures: IntCounterVec,
}

impl RequestMetrics {
    pub(crate) fn new() -> prometheus::Result<Self> {
        let labels = ["path", "server"];
        let seconds = HistogramOpts::new(
            "prometheus_adapter_prometheus_client_request_duration_seconds",
            "Prometheus client query latency in seconds.  Broken down by target prometheus \
             endpoint and target server",
        );
        let failures = Opts::new(
            "hpa_adapter_prometheus_request_failures_total",
            "Failed requests to Prometheus by path and server",
        );
        Ok(Self {
            seconds: HistogramVec::new(seconds, &labels)?,
            failures: IntCounterVec::new(failures, &labels)?,
        })
    }
}

impl RequestObserver for RequestMetrics {
    fn observe(
        &self,
        server: &str,
        path: &'static str,
        duration: Duration,
        failure: Option<&QueryFailure>,
    ) {
        let labels = [path, server];
        self.seconds.with_label_values(&labels).observe(duration.as_secs_f64());
        if failure.is_some() {
            self.failures.with_label_values(&labels).inc();
        }
    }
}

impl Collector for RequestMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [self.seconds.desc(), self.failures.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        [self.seconds.collect(), self.failures.collect()].concat()
    }
}

/// The state of the rules when metrics are read.
pub(crate) struct RuleMetrics {
    provider: Arc<PrometheusProvider>,
    series: GaugeVec,
    metrics: GaugeVec,
    last_success: GaugeVec,
    failures: GaugeVec,
}

impl RuleMetrics {
    pub(crate) fn new(provider: Arc<PrometheusProvider>) -> prometheus::Result<Self> {
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

impl Collector for RuleMetrics {
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
