//! The proxy between one instance and the testbed: logs requests, and can disconnect the instance.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
};
use futures::{StreamExt, future::pending, stream};
use hpa_testbed::Testbed;
use http::{Method, Request, Response};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tower::Service;

use crate::log::{InstanceId, Log, ScaleWrite};

/// A running proxy. Dropping the handle stops it.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// Blocks both directions if true.
    pub(crate) is_disconnected: watch::Sender<bool>,
    /// Delays metrics responses while true. An instance writes the scale only after such a
    /// response.
    pub(crate) delays_metrics: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether a path is that of the autoscalers' metric, which each reconcile reads. Reconciles don't
/// read the scale, because scales are watched.
fn is_metric(path: &str) -> bool {
    path.contains("/external.metrics.k8s.io/v1beta1/namespaces/")
}

/// Handles the requests of the instance.
#[derive(Clone)]
struct Handler {
    instance: InstanceId,
    testbed: Testbed,
    log: Arc<Log>,
    is_disconnected: watch::Receiver<bool>,
    delays_metrics: watch::Receiver<bool>,
}

impl Proxy {
    pub(crate) async fn open(instance: InstanceId, testbed: Testbed, log: Arc<Log>) -> Self {
        let (is_disconnected, delays_metrics) =
            (watch::Sender::new(false), watch::Sender::new(false));
        let handler = Handler {
            instance,
            testbed,
            log,
            is_disconnected: is_disconnected.subscribe(),
            delays_metrics: delays_metrics.subscribe(),
        };
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            Router::new().fallback(move |request: Request<Body>| handler.clone().handle(request));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, is_disconnected, delays_metrics, task }
    }
}

impl Handler {
    async fn handle(mut self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        if *self.is_disconnected.borrow() {
            pending::<()>().await;
        }
        let is_write = method != Method::GET;
        if is_write && !path.contains("/leases") {
            self.log.record_if_unauthorized(self.instance, &format!("{method} {path}"));
        }
        let request = Request::from_parts(parts, Body::from(body.clone()));
        // No other request comes between the check above and this call: the test has one thread,
        // and the testbed handles a request without waiting.
        let response = self.testbed.service().call(request).await.unwrap();
        if response.status().is_success() {
            self.record(is_write, &path, &body);
        }
        if is_metric(&path) && *self.delays_metrics.borrow() {
            self.log.add(|events| events.waiting_instances.push(self.instance));
            self.delays_metrics.wait_for(|delays| !delays).await.ok();
        }
        self.with_stalling_body(response)
    }

    fn record(&self, is_write: bool, path: &str, body: &Bytes) {
        let instance = self.instance;
        match (is_write, path) {
            (true, path) if path.contains("/leases") => {
                let lease: Value = serde_json::from_slice(body).unwrap_or_default();
                self.log.record_lease_write(
                    instance,
                    lease["spec"]["holderIdentity"].as_str().unwrap_or_default(),
                );
            }
            (false, path) if path.contains("/leases") => {
                self.log.add(|events| events.lease_readers.push(instance));
            }
            (true, path) if path.ends_with("/scale") => {
                self.log.add(|events| {
                    events.scale_writes.push(ScaleWrite { instance, at: Instant::now() });
                });
            }
            (false, path) if is_metric(path) => self.log.record_metric_read(instance),
            _ => {}
        }
    }

    /// The response with a body that stalls once the instance is disconnected.
    fn with_stalling_body(&self, response: Response<Body>) -> Response<Body> {
        let (parts, body) = response.into_parts();
        let data = (body.into_data_stream(), self.is_disconnected.clone());
        let body = stream::unfold(data, |(mut data, mut is_disconnected)| async move {
            let disconnected = async { drop(is_disconnected.wait_for(|value| *value).await) };
            let next = tokio::select! {
                next = data.next() => next?,
                () = disconnected => pending().await,
            };
            Some((next, (data, is_disconnected)))
        });
        Response::from_parts(parts, Body::from_stream(body))
    }
}
