//! Logs to standard error, or to a file while the demo draws on the terminal.

mod escaping_writer;

use std::io::{IsTerminal, Write};

use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, Layer, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use self::escaping_writer::EscapingWriter;
use crate::args::{LogArguments, LogFormat};

/// Turns off the logs of kube and of the certificate verifier about failed requests, because
/// callers report them. Turns off h2's warnings, because any client of a server can cause them.
/// Limits other libraries to warnings.
const DEFAULT_DIRECTIVES: &str = "h2=off,kube_client=off,kube_runtime=off,hyper=warn,rustls=warn,\
    rustls_platform_verifier=off,tower=warn";

/// Starts logging to standard error.
pub(crate) fn start(arguments: &LogArguments) -> anyhow::Result<()> {
    subscriber(arguments, std::io::stderr, std::io::stderr().is_terminal())?.try_init()?;
    Ok(())
}

/// Starts logging as text to a file.
#[cfg(feature = "demo")]
pub(crate) fn start_to_file(level: &str, file: std::fs::File) -> anyhow::Result<()> {
    let arguments = LogArguments { log_level: level.to_owned(), log_format: LogFormat::Text };
    let file = std::sync::Arc::new(file);
    subscriber(&arguments, move || file.clone(), false)?.try_init()?;
    Ok(())
}

/// Builds the subscriber. It writes a line per event; in JSON, the autoscaler is the field
/// `span.hpa`.
fn subscriber<W: Write + 'static>(
    arguments: &LogArguments,
    writer: impl Fn() -> W + Send + Sync + 'static,
    has_color: bool,
) -> anyhow::Result<impl Subscriber> {
    // Of equal targets, the last directive wins, so the user can override each default by its
    // target.
    let directives = format!("{DEFAULT_DIRECTIVES},{}", arguments.log_level);
    let registry = tracing_subscriber::registry().with(EnvFilter::builder().parse(directives)?);
    // If standard error is closed, reporting the failed write there would panic.
    let layer = fmt::layer().log_internal_errors(false);
    Ok(registry.with(match arguments.log_format {
        LogFormat::Text => {
            let writer = move || EscapingWriter(writer());
            layer.with_writer(writer).with_ansi(has_color).with_target(false).boxed()
        }
        LogFormat::Json => {
            layer.with_writer(writer).json().flatten_event(true).with_span_list(false).boxed()
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use hpa_controller::HpaKey;
    use rstest::rstest;

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log_of(level: &str, log_format: LogFormat, work: impl FnOnce()) -> String {
        let buffer = LogBuffer::default();
        let arguments = LogArguments { log_level: level.into(), log_format };
        let writer = buffer.clone();
        let subscriber = subscriber(&arguments, move || writer.clone(), false).expect("a filter");
        tracing::subscriber::with_default(subscriber, work);
        let bytes = buffer.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("text")
    }

    /// Logs from within a reconcile.
    fn reconcile() {
        let _span = HpaKey::new("shop", "web").span().entered();
        tracing::info!(desired = 4, "scaled");
        tracing::trace!("below the log level");
    }

    #[test]
    fn json_line_has_the_autoscaler_as_a_field() {
        let line = log_of("info", LogFormat::Json, reconcile);
        let line: serde_json::Value = serde_json::from_str(&line).expect("one line");
        assert_eq!(line["span"]["hpa"], "shop/web");
        assert_eq!((&line["desired"], &line["message"]), (&4.into(), &"scaled".into()));
    }

    #[test]
    fn text_line_names_the_autoscaler() {
        let line = log_of("info", LogFormat::Text, reconcile);
        assert!(line.ends_with("INFO reconcile{hpa=shop/web}: scaled desired=4\n"), "{line}");
    }

    #[test]
    fn warnings_of_h2_are_logged_only_on_request() {
        let work = || tracing::warn!(target: "h2::proto::streams::recv", "reset");
        assert_eq!(log_of("info", LogFormat::Text, work), "");
        assert!(log_of("info,h2=warn", LogFormat::Text, work).ends_with("reset\n"));
    }

    #[test]
    fn line_breaks_in_values_do_not_forge_lines() {
        let work = || {
            let forged =
                "queue\n2026-01-01T00:00:00Z  INFO reconcile{hpa=shop/web}: scaled\r\u{85}";
            let _span = HpaKey::new("shop", forged).span().entered();
            tracing::warn!(quoted = forged, plain = %forged, "failed: {forged}");
        };
        let text = log_of("info", LogFormat::Text, work);
        let lines = text.split(['\n', '\r', '\u{85}']).filter(|line| !line.is_empty());
        assert_eq!(lines.count(), 1, "{text}");
        assert!(text.ends_with('\n'), "{text}");
        assert_eq!(log_of("info", LogFormat::Json, work).lines().count(), 1);
    }

    #[rstest]
    #[case::error("error", 1)]
    #[case::warn("warn", 2)]
    #[case::info("info", 3)]
    #[case::debug("debug", 4)]
    #[case::one_module("error,hpa::logging=debug", 4)]
    fn line_of_any_level_names_the_autoscaler(#[case] level: &str, #[case] count: usize) {
        let work = || {
            let _span = HpaKey::new("shop", "web").span().entered();
            tracing::error!("one");
            tracing::warn!("two");
            tracing::info!("three");
            tracing::debug!("four");
        };
        let text = log_of(level, LogFormat::Text, work);
        assert_eq!(text.matches(" reconcile{hpa=shop/web}: ").count(), count, "{text}");
        let json = log_of(level, LogFormat::Json, work);
        assert_eq!(json.matches(r#""span":{"hpa":"shop/web","#).count(), count, "{json}");
    }
}
