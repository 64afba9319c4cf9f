//! Metrics about the queries of custom metrics.

use std::sync::Arc;

use hpa_prometheus::source::{PrometheusProvider, QueryCounts};
use prometheus::{
    IntCounterVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Exports the counts of queries when metrics are read.
pub(crate) struct QueryCollector {
    counts: Box<dyn Fn() -> Vec<QueryCounts> + Send + Sync>,
    queries: IntCounterVec,
    reused: IntCounterVec,
}

impl QueryCollector {
    /// The names of the metrics start with `prefix`.
    pub(crate) fn new(
        prefix: &str,
        counts: impl Fn() -> Vec<QueryCounts> + Send + Sync + 'static,
    ) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(format!("{prefix}_prometheus_{name}"), help), labels)
        };
        Ok(Self {
            counts: Box::new(counts),
            queries: counter(
                "queries_total",
                "Queries of custom metrics by rule, for the objects of a request or for all of a \
                 namespace",
                &["rule", "scope", "server"],
            )?,
            reused: counter(
                "shared_answers_total",
                "Requests that were answered from the result of an earlier query for the namespace",
                &["rule", "server"],
            )?,
        })
    }

    /// The counts of a provider.
    pub(crate) fn for_provider(
        prefix: &str,
        provider: Arc<PrometheusProvider>,
    ) -> prometheus::Result<Self> {
        Self::new(prefix, move || provider.query_counts())
    }
}

impl Collector for QueryCollector {
    fn desc(&self) -> Vec<&Desc> {
        [self.queries.desc(), self.reused.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for counts in (self.counts)() {
            let (rule, server) = (counts.rule.as_str(), counts.server.as_str());
            let set = |counter: &IntCounterVec, labels: &[&str], value: u64| {
                let counter = counter.with_label_values(labels);
                counter.inc_by(value.saturating_sub(counter.get()));
            };
            set(&self.queries, &[rule, "request", server], counts.single);
            set(&self.queries, &[rule, "namespace", server], counts.shared);
            set(&self.reused, &[rule, server], counts.reused);
        }
        [self.queries.collect(), self.reused.collect()].concat()
    }
}
