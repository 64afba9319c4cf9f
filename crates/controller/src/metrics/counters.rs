//! Counters and histograms that are updated when something happens.

use std::time::Duration;

use hpa_calc::readings::MetricsApi;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, core::Collector,
    exponential_buckets,
};

use crate::shadow::ComparisonResult;

/// The prefix of the reference's own metrics.
pub(super) const REFERENCE_PREFIX: &str = "horizontal_pod_autoscaler_controller";

/// The label `name` of the `workqueue_*` metrics.
pub(super) const QUEUE_NAME: &str = "horizontalpodautoscaler";

/// client-go's buckets of request durations.
const REQUEST_SECONDS_BUCKETS: [f64; 12] =
    [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// The buckets of KEP-6003.
const DELAY_RATIO_BUCKETS: [f64; 8] = [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0];

/// The buckets of sample ages: from below a metrics server's usual resolution to a stalled
/// pipeline.
const AGE_SECONDS_BUCKETS: [f64; 12] =
    [5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1800.0];

#[derive(Debug)]
pub(super) struct Counters {
    pub(super) registry: Registry,
    pub(super) reconciliations: IntCounterVec,
    pub(super) reconciliation_seconds: HistogramVec,
    pub(super) computations: IntCounterVec,
    pub(super) computation_seconds: HistogramVec,
    pub(super) delay_ratio: HistogramVec,
    pub(super) queue_seconds: HistogramVec,
    pub(super) work_seconds: HistogramVec,
    pub(super) requests: IntCounterVec,
    pub(super) request_seconds: HistogramVec,
    pub(super) shadow_decisions: IntCounterVec,
    pub(super) peer_writes: IntCounter,
    sample_age: HistogramVec,
}

impl Default for Counters {
    fn default() -> Self {
        let registry = Registry::new();
        let counter = |name: &str, help, labels: &[&str]| {
            register(&registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let histogram = |name: &str, help, labels: &[&str], buckets: &[f64]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            register(&registry, HistogramVec::new(options, labels))
        };
        let reference_name = |name: &str| format!("{REFERENCE_PREFIX}_{name}");
        // 1 ms to 16.384 s, and 10 ns to 10 s.
        let seconds = exponential_buckets(0.001, 2.0, 15).unwrap_or_default();
        let queue_seconds = exponential_buckets(10e-9, 10.0, 10).unwrap_or_default();
        Self {
            reconciliations: counter(
                &reference_name("reconciliations_total"),
                "Number of reconciliations of HPA controller. The label 'action' should be either \
                 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either \
                 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen \
                 during a reconciliation, the first one to occur is reported in `error` label.",
                &["action", "error"],
            ),
            reconciliation_seconds: histogram(
                &reference_name("reconciliation_duration_seconds"),
                "The time(seconds) that the HPA controller takes to reconcile once. The label \
                 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label \
                 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec \
                 and internal errors happen during a reconciliation, the first one to occur is \
                 reported in `error` label.",
                &["action", "error"],
                &seconds,
            ),
            computations: counter(
                &reference_name("metric_computation_total"),
                "Number of metric computations. The label 'action' should be either 'scale_down', \
                 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', \
                 'internal', or 'none'. The label 'metric_type' corresponds to \
                 HPA.spec.metrics[*].type",
                &["action", "error", "metric_type"],
            ),
            computation_seconds: histogram(
                &reference_name("metric_computation_duration_seconds"),
                "The time(seconds) that the HPA controller takes to calculate one metric. The \
                 label 'action' should be either 'scale_down', 'scale_up', or 'none'. The label \
                 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' \
                 corresponds to HPA.spec.metrics[*].type",
                &["action", "error", "metric_type"],
                &seconds,
            ),
            delay_ratio: histogram(
                &reference_name("reconciliation_delay_ratio"),
                "The time between two periodic reconciliations of an autoscaler, as a multiple of \
                 its period: 1 is on time.",
                &["period_source"],
                &DELAY_RATIO_BUCKETS,
            ),
            queue_seconds: histogram(
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
                &["name"],
                &queue_seconds,
            ),
            work_seconds: histogram(
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
                &["name"],
                &queue_seconds,
            ),
            requests: counter(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "host", "method"],
            ),
            request_seconds: histogram(
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                &["host", "verb"],
                &REQUEST_SECONDS_BUCKETS,
            ),
            shadow_decisions: shadow_decisions(&registry),
            peer_writes: register(
                &registry,
                IntCounter::new(
                    "hpa_controller_peer_writes_total",
                    "Reconciles that found a status written by another controller since the last \
                     reconcile of the autoscaler.",
                ),
            ),
            sample_age: histogram(
                "hpa_controller_metric_sample_age_seconds",
                "Age of the oldest sample in a response of a metrics API.",
                &["api"],
                &AGE_SECONDS_BUCKETS,
            ),
            registry,
        }
    }
}

impl Counters {
    /// Records the age of the oldest sample in a response of a metrics API.
    pub(super) fn observe_sample_age(&self, api: MetricsApi, age: Duration) {
        let api = match api {
            MetricsApi::Resource => "resource",
            MetricsApi::Custom => "custom",
            MetricsApi::External => "external",
        };
        self.sample_age.with_label_values(&[api]).observe(age.as_secs_f64());
    }
}

/// A counter with a series for each result, also before the first comparison.
fn shadow_decisions(registry: &Registry) -> IntCounterVec {
    use ComparisonResult::{Different, Same, Unsettled};

    let help = "Decisions that were compared with another controller's instead of written. \
                'result' is 'same', 'different', or 'unsettled' for a difference that has not \
                persisted long enough to count.";
    let options = Opts::new("hpa_shadow_decisions_total", help);
    let decisions = register(registry, IntCounterVec::new(options, &["result"]));
    for result in [Same, Unsettled, Different] {
        decisions.with_label_values(&[result.as_str()]);
    }
    decisions
}

#[expect(clippy::expect_used, reason = "names and labels are constants, and a test renders all")]
fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: prometheus::Result<C>,
) -> C {
    let collector = collector.expect("valid name and labels");
    registry.register(Box::new(collector.clone())).expect("unique name");
    collector
}
