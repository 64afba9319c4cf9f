//! Logs go to standard error, or to a file where that is in use otherwise.

use std::{fs::File, io::IsTerminal, sync::Mutex};

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::args::{LogArguments, LogFormat};

/// The client logs every failed request of its own accord; what matters of it is logged where it was asked.
const QUIET: &str = "kube_client=off,kube_runtime=off,hyper=warn,rustls=warn,tower=warn";

/// Starts logging.
pub(crate) fn start(arguments: &LogArguments) -> anyhow::Result<()> {
    let color = std::io::stderr().is_terminal();
    subscriber(arguments, std::io::stderr, color)?.try_init()?;
    Ok(())
}

/// Starts logging as text to a file.
pub(crate) fn start_to_file(level: &str, file: File) -> anyhow::Result<()> {
    let arguments = LogArguments { log_level: level.to_owned(), log_format: LogFormat::Text };
    subscriber(&arguments, Mutex::new(file), false)?.try_init()?;
    Ok(())
}

/// What writes the log. A JSON line about an autoscaler has its name as `span.hpa`.
fn subscriber<W>(arguments: &LogArguments, writer: W, color: bool) -> anyhow::Result<impl Subscriber>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // The later directive wins: what is asked for by module overrides the quiet ones.
    let filter = EnvFilter::builder().parse(format!("{QUIET},{}", arguments.log_level))?;
    let layer = fmt::layer().with_writer(writer);
    let layer = match arguments.log_format {
        LogFormat::Text => layer.with_ansi(color).with_target(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
    };
    Ok(tracing_subscriber::registry().with(filter).with(layer))
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

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
        let lines = Lines::default();
        let arguments = LogArguments { log_level: "info".into(), log_format };
        let writer = lines.clone();
        let subscriber = subscriber(&arguments, move || writer.clone(), false).expect("a filter");
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("reconcile", hpa = "shop/web").entered();
            tracing::info!(desired = 4, "scaled");
            tracing::debug!("not asked for");
        });
        let bytes = lines.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn autoscaler_is_a_field_of_a_json_line() {
        let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json)).expect("one line");
        assert_eq!(line["span"]["hpa"], "shop/web");
        assert_eq!((&line["desired"], &line["message"]), (&4.into(), &"scaled".into()));
    }

    #[test]
    fn text_names_the_autoscaler() {
        let line = logged(LogFormat::Text);
        assert!(line.ends_with("INFO reconcile{hpa=\"shop/web\"}: scaled desired=4\n"), "{line}");
    }
}
