//! What a reconcile came to, as attributes and status of its span.

use hpa_controller::{Finished, Observer, Reconciled};
use opentelemetry::trace::{Status, TraceContextExt};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Tells the span of each reconcile what came of it.
pub(super) struct Outcomes;

impl Observer for Outcomes {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        let span = Span::current();
        // The texts of one that is not sampled would be for nobody.
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
        // A description that is there already stays.
        if finished.error.is_some() {
            Span::current().set_status(Status::error(""));
        }
    }
}
