//! Records the outcome of a reconcile in its span.

use hpa_controller::{Finished, Observer, Reconciled};
use opentelemetry::trace::{Status, TraceContextExt};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Sets attributes and status of the reconcile's span.
pub(super) struct OutcomeObserver;

impl Observer for OutcomeObserver {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        let span = Span::current();
        // Don't format texts for a span that is not sampled.
        if !span.context().span().is_recording() {
            return;
        }
        let conclusion = reconciled.conclusion;
        let outcome = match (&conclusion.scaled_to, &conclusion.error) {
            (Some(_), _) => "scaled",
            (None, Some(_)) => "failed",
            (None, None) => "kept",
        };
        span.set_attribute("outcome", outcome);
        span.set_attribute("decision", conclusion.explanation.to_string());
        span.set_attribute("current_replicas", i64::from(conclusion.explanation.current_replicas));
        span.set_attribute("desired_replicas", i64::from(conclusion.explanation.desired_replicas));
        if let Some(error) = &conclusion.error {
            span.set_status(Status::error(error.to_string()));
        }
    }

    fn finished(&self, finished: &Finished<'_>) {
        // The SDK keeps a description that was set before.
        if finished.error.is_some() {
            Span::current().set_status(Status::error(""));
        }
    }
}
