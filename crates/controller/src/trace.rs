//! The spans of a reconcile's steps, for traces.
//!
//! The span `reconcile` is for logs and traces alike. Its steps are spans of the level debug and a target of their own,
//! [`TARGET`]: whoever wants traces enables that, and nobody else pays for them or reads them in the log. A step that
//! fails has an event whose only field is `error`.

use hpa_calc::readings::MetricQuery;
use tracing::{Span, debug_span};

/// The target of the steps' spans and of their errors.
pub const TARGET: &str = "hpa_controller::trace";

/// The span of a metric that is read.
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
