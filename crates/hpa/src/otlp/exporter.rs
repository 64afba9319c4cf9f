//! A collector that takes nothing is told of once, and once more when it takes traces again.

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

/// What is known of the collector.
#[derive(Debug, Default)]
pub(super) struct Collector {
    is_failing: AtomicBool,
    /// Why the last request failed, if it did.
    fault: Mutex<Option<String>>,
}

impl Collector {
    /// Takes down why a request failed, or that it did not.
    pub(super) fn answered(&self, fault: Option<String>) {
        *self.fault.lock() = fault;
    }

    /// Traces were lost.
    pub(super) fn failed(&self, cause: &str) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            let error = self.fault.lock().clone().unwrap_or_else(|| cause.to_owned());
            warn!(error, "traces are lost: the collector does not take them");
        }
    }

    /// Traces were taken.
    fn took(&self) {
        if self.is_failing.swap(false, Ordering::Relaxed) {
            info!("the collector takes traces again");
        }
    }
}

/// An exporter that is watched.
#[derive(Debug)]
pub(super) struct ReportingExporter {
    pub(super) exporter: SpanExporter,
    pub(super) collector: Arc<Collector>,
}

impl Export for ReportingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let outcome = self.exporter.export(batch).await;
        match &outcome {
            Ok(()) => self.collector.took(),
            Err(error) => self.collector.failed(&error.to_string()),
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
