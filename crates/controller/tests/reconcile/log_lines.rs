//! What a reconcile logs.

use std::{
    io,
    sync::{Arc, Mutex as StdMutex},
};

use async_trait::async_trait;
use hpa_calc::{
    readings::{MetricQuery, MetricsApi, ReadError, Reading},
    selector::Selector,
};
use hpa_controller::reconcile::Reconciler;
use hpa_metrics_client::MetricsClient;
use parking_lot::Mutex;

use crate::{
    fixture::{key, reconciler, server, usage},
    server::Server,
};

#[derive(Clone, Default)]
struct Lines(Arc<StdMutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that the reconciles of a reconciler log, without time.
async fn logged(reconcilers: &[Reconciler]) -> Vec<String> {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    for reconciler in reconcilers {
        reconciler.reconcile(&key()).await;
    }
    drop(guard);
    let text = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("text");
    text.lines().map(|line| line.trim_start().to_owned()).collect()
}

async fn logged_by(server: Server, metrics: impl MetricsClient + 'static) -> Vec<String> {
    let server = Arc::new(Mutex::new(server));
    logged(&[Reconciler { metrics: Arc::new(metrics), ..reconciler(&server) }]).await
}

/// A metrics API that is down.
struct Down;

#[async_trait]
impl MetricsClient for Down {
    async fn read(&self, _: &str, _: &Selector, _: &MetricQuery) -> Result<Reading, ReadError> {
        let message = "the server is currently unable to handle the request".to_owned();
        Err(ReadError::Fetch { api: MetricsApi::Resource, message })
    }
}

#[tokio::test]
async fn scaling_is_logged_with_a_sentence() {
    assert_eq!(
        logged_by(server(), usage(100)).await,
        ["INFO reconcile{hpa=shop/web}: scaled current=2 desired=4 \
          decision=\"cpu is at 100% of requests, target 50%\""]
    );
}

#[tokio::test]
async fn failed_metric_is_logged_with_its_cause_once() {
    let lines = logged_by(server(), Down).await;
    assert_eq!(
        lines,
        ["WARN reconcile{hpa=shop/web}: reconcile failed error=\"cpu cannot be read: the \
          server is currently unable to handle the request\""]
    );
}

#[tokio::test]
async fn failed_read_of_the_scale_is_logged_with_its_cause_once() {
    let lines = logged_by(Server { scale_is_served: false, ..server() }, usage(100)).await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    let prefix = "WARN reconcile{hpa=shop/web}: reconcile failed error=\"failed to query scale \
                  subresource for Deployment/shop/web: ";
    let cause = line.strip_prefix(prefix).expect("the error");
    assert!(!cause.contains("failed to query") && !line.contains("decision"), "{line}");
}
