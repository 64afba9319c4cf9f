//! Logs go to standard error.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::args::{LogArguments, LogFormat};

/// The client logs every failed request of its own accord; what matters of it is logged where it was asked.
const QUIET: &str = "kube_client=off,kube_runtime=off,hyper=warn,rustls=warn,tower=warn";

/// Starts logging.
pub(crate) fn start(arguments: &LogArguments) -> anyhow::Result<()> {
    // The later directive wins: what is asked for by module overrides the quiet ones.
    let filter = EnvFilter::builder().parse(format!("{QUIET},{}", arguments.log_level))?;
    let registry = tracing_subscriber::registry().with(filter);
    match arguments.log_format {
        LogFormat::Text => {
            let layer = fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_target(false);
            registry.with(layer.with_writer(std::io::stderr)).try_init()?;
        }
        LogFormat::Json => {
            let layer = fmt::layer().json().flatten_event(true).with_span_list(false);
            registry.with(layer.with_writer(std::io::stderr)).try_init()?;
        }
    }
    Ok(())
}
