//! Tracing spans for the steps of a reconcile.
//!
//! The span `reconcile` serves logs and traces: it names the autoscaler on each log line. It has
//! level error, so that it exists whenever a line within it is logged. The spans of its steps have level debug and their
//! own target, [`TARGET`], which is off unless traces are exported: without an exporter they cost
//! nothing and don't appear in the log. A failed step has an event whose only field is `error`.

use hpa_calc::readings::MetricQuery;
use tracing::{Span, debug_span, error_span};

use crate::key::HpaKey;

/// The target of the spans of steps, and of their error events.
pub const TARGET: &str = "hpa_controller::trace";

/// The span of all work on one autoscaler.
pub fn reconcile(key: &HpaKey) -> Span {
    error_span!(target: "hpa_controller::reconcile", "reconcile", hpa = %key)
}

/// The span of one metric query.
pub(crate) fn read_metric(query: &MetricQuery) -> Span {
    let (kind, api, metric) = match query {
        MetricQuery::Resource { resource, container: None } => {
            ("Resource", "metrics.k8s.io", resource.as_str())
        }
        MetricQuery::Resource { resource, .. } => {
            ("ContainerResource", "metrics.k8s.io", resource.as_str())
        }
        MetricQuery::Pods { metric, .. } => ("Pods", "custom.metrics.k8s.io", metric.as_str()),
        MetricQuery::Object { metric, .. } => ("Object", "custom.metrics.k8s.io", metric.as_str()),
        MetricQuery::External { metric, .. } => {
            ("External", "external.metrics.k8s.io", metric.as_str())
        }
    };
    debug_span!(target: TARGET, "read_metric", kind, api, metric)
}
