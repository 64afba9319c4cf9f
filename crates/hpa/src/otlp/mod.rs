//! Traces: a span for each reconcile and for each of its steps, sent to an OpenTelemetry collector.
//!
//! ```text
//! spans of hpa-controller ─▶ layer ─▶ queue ─▶ a thread: batches ─▶ exporter ─▶ collector
//!     outcome ─▶ attributes, status                                    └ client: kube's hyper and rustls
//! ```
//!
//! A reconcile waits for none of it: what the queue has no room for is dropped.

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
    exporter::{Collector, ReportingExporter},
    outcome::Outcomes,
};
use crate::{args::TraceArguments, logging::TraceLayer};

/// How long the collector may take for what is left at the end.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);

/// Traces that are sent.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    collector: Arc<Collector>,
}

impl Traces {
    /// Begins to send traces by a runtime, if it is said where to.
    pub(crate) fn start(
        arguments: &TraceArguments,
        runtime: &Handle,
    ) -> anyhow::Result<Option<Self>> {
        if !settings::is_wanted(arguments) {
            return Ok(None);
        }
        settings::check_sampler()?;
        let collector = Arc::new(Collector::default());
        let client = CollectorClient::new(runtime.clone(), collector.clone())?;
        let builder = SpanExporter::builder().with_http().with_http_client(client);
        let builder = builder.with_protocol(Protocol::HttpBinary);
        let builder = match &arguments.otlp_endpoint {
            Some(endpoint) => {
                builder.with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            }
            None => builder,
        };
        let exporter = builder.build().context("cannot send traces")?;
        let exporter = ReportingExporter { exporter, collector: collector.clone() };
        // Sampler, limits and batches are as the environment says.
        let provider = SdkTracerProvider::builder()
            .with_resource(settings::resource())
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider, collector }))
    }

    /// What makes traces of spans.
    pub(crate) fn layer(&self) -> TraceLayer {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("hpa-controller"))
            // Nobody else asks for the current context, and what a span is about is said by its attributes.
            .with_context_activation(false)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(FilterFn::new(is_traced).with_max_level_hint(LevelFilter::DEBUG))
            .boxed()
    }

    /// Is to be told of every reconcile.
    pub(crate) fn observer() -> Arc<dyn Observer> {
        Arc::new(Outcomes)
    }

    /// Sends what is left. Blocks the thread, which must not be one of the runtime's.
    pub(crate) fn finish(&self) {
        if self.provider.shutdown_with_timeout(FLUSH_LIMIT).is_err() {
            self.collector.failed("the last ones were not taken in time");
        }
    }
}

/// The span of a reconcile and what the log says in it, and all of its steps.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let is_step = metadata.target() == trace::TARGET;
    is_step || (metadata.target().starts_with("hpa_controller") && *metadata.level() <= Level::INFO)
}
