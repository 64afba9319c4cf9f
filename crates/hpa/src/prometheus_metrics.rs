//! Metrics about Prometheus and the rules, for `hpa run` and `hpa adapter`.

use std::{sync::Arc, time::Duration};

use hpa_prometheus::client::{QueryFailure, RequestObserver};
use hpa_prometheus::source::PrometheusSource;
use parking_lot::Mutex;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Counts requests to Prometheus, and measures their duration. Clones share the metrics.
#[derive(Clone)]
pub(crate) struct RequestMetrics {
    /// Has the name that prometheus-adapter uses.
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

/// Exported metrics. Some are computed on each scrape.
pub(crate) struct ComputedMetrics {
    metrics: Vec<Box<dyn Collector>>,
    /// Computes the metrics. Locked while a scrape collects them: another one would reset them in
    /// between.
    update: Mutex<Box<dyn Fn() + Send>>,
}

impl ComputedMetrics {
    /// Gauges that are reset before `set` sets all of their series.
    pub(crate) fn from_gauges<const N: usize>(
        gauges: [GaugeVec; N],
        set: impl Fn([&GaugeVec; N]) + Send + 'static,
    ) -> Self {
        let metrics = gauges.iter().map(|gauge| Box::new(gauge.clone()) as _).collect();
        let update = move || {
            gauges.iter().for_each(GaugeVec::reset);
            set(gauges.each_ref());
        };
        Self { metrics, update: Mutex::new(Box::new(update)) }
    }

    /// Adds metrics that are updated on events instead of on each scrape.
    pub(crate) fn with_counters(
        mut self,
        others: impl IntoIterator<Item = Box<dyn Collector>>,
    ) -> Self {
        self.metrics.extend(others);
        self
    }
}

impl Collector for ComputedMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.metrics.iter().flat_map(|metric| metric.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let update = self.update.lock();
        update();
        self.metrics.iter().flat_map(|metric| metric.collect()).collect()
    }
}

/// Metrics about the state of the rules.
#[expect(clippy::cast_precision_loss, reason = "the format has floats only")]
pub(crate) fn rule_metrics(source: Arc<PrometheusSource>) -> prometheus::Result<ComputedMetrics> {
    let gauge = |name: &str, help: &str| {
        GaugeVec::new(Opts::new(format!("hpa_adapter_rule_{name}"), help), &["rule", "server"])
    };
    let refused = Opts::new(
        "hpa_adapter_rules_file_refused",
        "1 while the rules file is invalid or unreadable and previous rules are in use, else 0",
    );
    let gauges = [
        GaugeVec::new(refused, &[])?,
        gauge("series", "Series that a rule matches")?,
        gauge("metrics", "Metrics that a rule has")?,
        gauge("failures", "How often the series of a rule could not be read")?,
        gauge("last_success_timestamp_seconds", "When the series of a rule were last read")?,
    ];
    Ok(ComputedMetrics::from_gauges(gauges, move |gauges| {
        let [refused, series, metrics, failures, last_success] = gauges;
        refused.with_label_values::<&str>(&[]).set(f64::from(u8::from(source.has_refused_file())));
        for rule in source.rule_status() {
            let labels = [rule.rule.as_str(), rule.server.as_str()];
            series.with_label_values(&labels).set(rule.series_count as f64);
            metrics.with_label_values(&labels).set(rule.metric_count as f64);
            failures.with_label_values(&labels).set(rule.failures as f64);
            if let Some(time) = rule.last_success {
                last_success.with_label_values(&labels).set(time.as_second() as f64);
            }
        }
    }))
}

/// Metrics about the number of queries for custom metrics. The names of the metrics start with
/// `prefix`.
pub(crate) fn query_metrics(
    prefix: &str,
    source: Arc<PrometheusSource>,
) -> prometheus::Result<ComputedMetrics> {
    let counter = |name: &str, help: &str, labels: &[&str]| {
        IntCounterVec::new(Opts::new(format!("{prefix}_prometheus_{name}"), help), labels)
    };
    let queries = counter(
        "queries_total",
        "Queries of custom metrics by rule, for the objects of a request or for all of a namespace",
        &["rule", "scope", "server"],
    )?;
    let reused = counter(
        "shared_answers_total",
        "Requests that were answered from the result of an earlier query for the namespace",
        &["rule", "server"],
    )?;
    let metrics: Vec<Box<dyn Collector>> =
        vec![Box::new(queries.clone()), Box::new(reused.clone())];
    let update = move || {
        for counts in source.query_counts() {
            let (rule, server) = (counts.rule.as_str(), counts.server.as_str());
            let raise = |counter: &IntCounterVec, labels: &[&str], value: u64| {
                let counter = counter.with_label_values(labels);
                counter.inc_by(value.saturating_sub(counter.get()));
            };
            raise(&queries, &[rule, "request", server], counts.single);
            raise(&queries, &[rule, "namespace", server], counts.shared);
            raise(&reused, &[rule, server], counts.reused);
        }
    };
    Ok(ComputedMetrics { metrics, update: Mutex::new(Box::new(update)) })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn concurrent_scrapes_have_all_series() {
        let gauge = GaugeVec::new(Opts::new("age", "An age"), &["name"]).expect("a gauge");
        let metrics = ComputedMetrics::from_gauges([gauge], |[gauge]| {
            thread::sleep(Duration::from_millis(1));
            gauge.with_label_values(&["web"]).set(1.0);
        });
        let scrape = || {
            for _ in 0..20 {
                let families = metrics.collect();
                assert_eq!(families[0].get_metric().len(), 1);
            }
        };
        thread::scope(|scope| {
            scope.spawn(scrape);
            scrape();
        });
    }
}
