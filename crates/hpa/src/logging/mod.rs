//! Logs to standard error, or to a file while the demo draws on the terminal.

mod one_line;

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::args::{LogArguments, LogFormat};
use one_line::OneLine;

/// kube and the verifier of certificates log every failed request, which the callers report
/// themselves. The spans of the reconcile steps are for traces only.
const DEFAULT_DIRECTIVES: &str = "kube_client=off,kube_runtime=off,hyper=warn,rustls=warn,\
    rustls_platform_verifier=off,tower=warn,hpa_controller::trace=off";

/// A layer that exports spans as traces, with a filter of its own.
pub(crate) type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging, and exporting traces if `traces` is set.
pub(crate) fn start(arguments: &LogArguments, traces: Option<TraceLayer>) -> anyhow::Result<()> {
    let color = std::io::stderr().is_terminal();
    match traces {
        Some(traces) => traced_subscriber(arguments, std::io::stderr, color, traces)?.try_init()?,
        None => subscriber(arguments, std::io::stderr, color)?.try_init()?,
    }
    Ok(())
}

/// Starts logging as text to a file.
#[cfg(feature = "demo")]
pub(crate) fn start_to_file(level: &str, file: std::fs::File) -> anyhow::Result<()> {
    let arguments = LogArguments { log_level: level.to_owned(), log_format: LogFormat::Text };
    subscriber(&arguments, std::sync::Mutex::new(file), false)?.try_init()?;
    Ok(())
}

/// Builds the subscriber that writes the log.
fn subscriber<W>(
    arguments: &LogArguments,
    writer: W,
    color: bool,
) -> anyhow::Result<impl Subscriber>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = lines(arguments, writer, color);
    Ok(tracing_subscriber::registry().with(filter(arguments)?).with(lines))
}

/// Builds the subscriber that writes the log and exports traces. Traces don't change the log.
fn traced_subscriber<W>(
    arguments: &LogArguments,
    writer: W,
    color: bool,
    traces: TraceLayer,
) -> anyhow::Result<impl Subscriber>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = lines(arguments, writer, color).with_filter(filter(arguments)?);
    Ok(tracing_subscriber::registry().with(traces).with(lines))
}

fn filter(arguments: &LogArguments) -> anyhow::Result<EnvFilter> {
    // The last directive wins, so the user can override the defaults.
    Ok(EnvFilter::builder().parse(format!("{DEFAULT_DIRECTIVES},{}", arguments.log_level))?)
}

/// Writes a line per event. In JSON, the autoscaler is the field `span.hpa`.
fn lines<S, W>(arguments: &LogArguments, writer: W, color: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // A reader of standard error that is gone would be a panic.
    let layer = fmt::layer().log_internal_errors(false);
    match arguments.log_format {
        LogFormat::Text => {
            layer.with_writer(OneLine(writer)).with_ansi(color).with_target(false).boxed()
        }
        LogFormat::Json => {
            layer.with_writer(writer).json().flatten_event(true).with_span_list(false).boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use hpa_controller::HpaKey;
    use rstest::rstest;
    use tracing::{
        level_filters::LevelFilter,
        span::{Attributes, Id},
    };
    use tracing_subscriber::layer::Context;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(log_format: LogFormat) -> String {
        logged_by("info", log_format, reconcile)
    }

    fn logged_by(level: &str, log_format: LogFormat, work: impl FnOnce()) -> String {
        let lines = Lines::default();
        let arguments = LogArguments { log_level: level.into(), log_format };
        let writer = lines.clone();
        let subscriber = subscriber(&arguments, move || writer.clone(), false).expect("a filter");
        tracing::subscriber::with_default(subscriber, work);
        lines.text()
    }

    /// Logs from within a step of a reconcile.
    fn reconcile() {
        let _span = hpa_controller::trace::reconcile(&HpaKey::new("shop", "web")).entered();
        let _step =
            tracing::debug_span!(target: hpa_controller::trace::TARGET, "write_scale").entered();
        tracing::debug!(target: hpa_controller::trace::TARGET, error = "refused");
        tracing::info!(desired = 4, "scaled");
        tracing::trace!("below the log level");
    }

    impl Lines {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
        }
    }

    /// Counts the spans that reach the trace layer.
    #[derive(Clone, Default)]
    struct Spans(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Spans {
        fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn traces_do_not_change_the_log() {
        for log_format in [LogFormat::Text, LogFormat::Json] {
            let arguments = LogArguments { log_level: "debug".into(), log_format };
            let (lines, spans) = (Lines::default(), Spans::default());
            let writer = lines.clone();
            let traces = spans.clone().with_filter(LevelFilter::DEBUG).boxed();
            let subscriber = traced_subscriber(&arguments, move || writer.clone(), false, traces)
                .expect("a filter");
            tracing::subscriber::with_default(subscriber, reconcile);
            let (text, expected) = (lines.text(), logged(log_format));
            let without_time =
                |line: &str| line.split_once("INFO").map(|(_, rest)| rest.to_owned());
            assert!(without_time(&text).is_some() && text.lines().count() == 1, "{text}");
            assert_eq!(without_time(&text), without_time(&expected));
            assert_eq!(spans.0.load(Ordering::Relaxed), 2, "both are traced");
        }
    }

    #[test]
    fn json_line_has_the_autoscaler_as_a_field() {
        let line: serde_json::Value =
            serde_json::from_str(&logged(LogFormat::Json)).expect("one line");
        assert_eq!(line["span"]["hpa"], "shop/web");
        assert_eq!((&line["desired"], &line["message"]), (&4.into(), &"scaled".into()));
    }

    #[test]
    fn text_line_names_the_autoscaler() {
        let line = logged(LogFormat::Text);
        assert!(line.ends_with("INFO reconcile{hpa=shop/web}: scaled desired=4\n"), "{line}");
    }

    #[test]
    fn line_breaks_in_values_do_not_forge_lines() {
        let work = || {
            let forged =
                "queue\n2026-01-01T00:00:00Z  INFO reconcile{hpa=shop/web}: scaled\r\u{85}";
            let _span = hpa_controller::trace::reconcile(&HpaKey::new("shop", forged)).entered();
            tracing::warn!(quoted = forged, plain = %forged, "failed: {forged}");
        };
        let text = logged_by("info", LogFormat::Text, work);
        let lines = text.split(['\n', '\r', '\u{85}']).filter(|line| !line.is_empty());
        assert_eq!(lines.count(), 1, "{text}");
        assert!(text.ends_with('\n'), "{text}");
        assert_eq!(logged_by("info", LogFormat::Json, work).lines().count(), 1);
    }

    #[rstest]
    #[case::error("error", 1)]
    #[case::warn("warn", 2)]
    #[case::info("info", 3)]
    #[case::debug("debug", 4)]
    #[case::one_module("error,hpa::logging=debug", 4)]
    fn line_of_any_level_names_the_autoscaler(#[case] level: &str, #[case] count: usize) {
        let work = || {
            let _span = hpa_controller::trace::reconcile(&HpaKey::new("shop", "web")).entered();
            tracing::error!("one");
            tracing::warn!("two");
            tracing::info!("three");
            tracing::debug!("four");
        };
        let text = logged_by(level, LogFormat::Text, work);
        assert_eq!(text.matches(" reconcile{hpa=shop/web}: ").count(), count, "{text}");
        let json = logged_by(level, LogFormat::Json, work);
        assert_eq!(json.matches(r#""span":{"hpa":"shop/web","#).count(), count, "{json}");
    }
}
