//! Logs when exporting traces starts to fail, and when it works again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter as Export},
};
use parking_lot::Mutex;
use tracing::{info, warn};

/// Whether exports fail, and why. The client records the errors of requests, the exporter records
/// the outcomes of batches.
#[derive(Debug, Default)]
pub(super) struct ExportStatus {
    is_failing: AtomicBool,
    /// Why the last request failed, if it did.
    last_error: Mutex<Option<String>>,
}

impl ExportStatus {
    /// Records why a request failed, or `None` if it succeeded.
    pub(super) fn record_response(&self, error: Option<String>) {
        *self.last_error.lock() = error;
    }

    /// Records that a batch was dropped.
    pub(super) fn record_failure(&self, error: &str) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            let error = self.last_error.lock().clone().unwrap_or_else(|| error.to_owned());
            warn!(error, "dropping traces: unable to send them to the collector");
        }
    }

    /// Records that the collector accepted a batch.
    fn record_success(&self) {
        if self.is_failing.swap(false, Ordering::Relaxed) {
            info!("sending traces to the collector again");
        }
    }
}

/// An exporter that records the outcome of each export.
#[derive(Debug)]
pub(super) struct ReportingExporter {
    pub(super) exporter: SpanExporter,
    pub(super) status: Arc<ExportStatus>,
}

impl Export for ReportingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let outcome = self.exporter.export(batch).await;
        match &outcome {
            Ok(()) => self.status.record_success(),
            Err(error) => self.status.record_failure(&error.to_string()),
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
