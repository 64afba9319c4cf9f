//! Sends traces to an OpenTelemetry collector: a span per reconcile and per step of it.
//!
//! ```text
//! spans of hpa-controller ─▶ layer ─▶ queue ─▶ batches, on a thread ─▶ exporter ─▶ collector
//!     outcome ─▶ attributes, status                                       └ client
//! ```
//!
//! Reconciles never wait for it: if the queue is full, spans are dropped.

mod client;
mod exporter;
mod outcome;
mod settings;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use hpa_controller::{Observer, trace};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::{Level, Metadata, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::FilterFn};

use self::{
    client::CollectorClient,
    exporter::{ExportStatus, ReportingExporter},
    outcome::OutcomeObserver,
};
use crate::{args::TraceArguments, logging::TraceLayer};

/// Timeout for the last batch at exit.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The exporter of traces, while the controller runs.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    status: Arc<ExportStatus>,
}

impl Traces {
    /// Starts to export traces, or returns `None` if no endpoint is configured. Requests run on
    /// `runtime`.
    pub(crate) fn start(
        arguments: &TraceArguments,
        runtime: &Handle,
    ) -> anyhow::Result<Option<Self>> {
        if !settings::is_enabled(arguments) {
            return Ok(None);
        }
        settings::check_sampler()?;
        let status = Arc::new(ExportStatus::default());
        let client = CollectorClient::new(runtime.clone(), status.clone())?;
        let builder = SpanExporter::builder().with_http().with_http_client(client);
        let builder = builder.with_protocol(Protocol::HttpBinary);
        let builder = match &arguments.otlp_endpoint {
            Some(endpoint) => {
                builder.with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            }
            None => builder,
        };
        let exporter = builder.build().context("unable to export traces")?;
        let exporter = ReportingExporter { exporter, status: status.clone() };
        // The SDK reads sampler, limits and batch sizes from the environment.
        let provider = SdkTracerProvider::builder()
            .with_resource(settings::resource())
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider, status }))
    }

    /// The layer that exports `tracing` spans as traces.
    pub(crate) fn layer(&self) -> TraceLayer {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("hpa-controller"))
            // Nothing reads the current OpenTelemetry context, and the attributes describe a span
            // better than its source location and thread.
            .with_context_activation(false)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(FilterFn::new(is_traced).with_max_level_hint(LevelFilter::DEBUG))
            .boxed()
    }

    /// The observer that adds outcomes to spans.
    pub(crate) fn observer() -> Arc<dyn Observer> {
        Arc::new(OutcomeObserver)
    }

    /// Sends the remaining spans. It blocks, so don't call it on a thread of the runtime.
    pub(crate) fn finish(&self) {
        if self.provider.shutdown_with_timeout(FLUSH_TIMEOUT).is_err() {
            self.status.record_failure("no response for the last spans before the exit");
        }
    }
}

/// Selects the spans of reconciles, their log lines, and the spans of all steps.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let is_step = metadata.target() == trace::TARGET;
    is_step || (metadata.target().starts_with("hpa_controller") && *metadata.level() <= Level::INFO)
}
