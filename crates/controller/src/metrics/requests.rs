//! Metrics of requests to the API server, with client-go's names.

use std::time::Duration;

use http::{Method, StatusCode};

use super::Telemetry;
use crate::k8s::RequestObserver;

impl RequestObserver for Telemetry {
    fn request_finished(
        &self,
        host: &str,
        method: &Method,
        status: Option<StatusCode>,
        duration: Duration,
    ) {
        // Reads may be of an informer or of the lease, which say nothing about the workers.
        if status.is_some() && *method != Method::GET {
            self.health.responded();
        }
        let (counters, verb) = (&self.counters, method.as_str());
        counters.request_seconds.with_label_values(&[host, verb]).observe(duration.as_secs_f64());
        let code = status.as_ref().map_or("<error>", StatusCode::as_str);
        counters.requests.with_label_values(&[code, host, verb]).inc();
    }
}
