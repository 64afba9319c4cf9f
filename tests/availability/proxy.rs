//! The proxy of one instance: logs its requests, and can disconnect it.

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

/// A proxy to the testbed for one instance.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// Blocks both directions.
    pub(crate) cut: watch::Sender<bool>,
    /// Delays metrics responses: after one, the instance writes the scale.
    pub(crate) hold: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether a path reads the autoscalers' metric, as each reconcile does. Scales are watched
/// instead.
fn is_metric(path: &str) -> bool {
    path.contains("/external.metrics.k8s.io/v1beta1/namespaces/")
}

#[derive(Clone)]
struct Guard {
    instance: InstanceId,
    testbed: Testbed,
    log: Arc<Log>,
    cut: watch::Receiver<bool>,
    hold: watch::Receiver<bool>,
}

impl Proxy {
    pub(crate) async fn open(instance: InstanceId, testbed: Testbed, log: Arc<Log>) -> Self {
        let (cut, hold) = (watch::Sender::new(false), watch::Sender::new(false));
        let guard = Guard { instance, testbed, log, cut: cut.subscribe(), hold: hold.subscribe() };
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            Router::new().fallback(move |request: Request<Body>| guard.clone().pass(request));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, cut, hold, task }
    }
}

impl Guard {
    async fn pass(mut self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        if *self.cut.borrow() {
            pending::<()>().await;
        }
        let is_write = method != Method::GET;
        if is_write && !path.contains("/leases") {
            self.log.check_write(self.instance, &format!("{method} {path}"));
        }
        let request = Request::from_parts(parts, Body::from(body.clone()));
        // Atomic with the check above: the test has one thread, and the testbed does not wait.
        let response = self.testbed.service().call(request).await.unwrap();
        if response.status().is_success() {
            self.record(is_write, &path, &body);
        }
        if is_metric(&path) && *self.hold.borrow() {
            self.log.add(|events| events.held.push(self.instance));
            self.hold.wait_for(|hold| !hold).await.ok();
        }
        self.stream(response)
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

    /// The response as a stream that stalls once the instance is disconnected.
    fn stream(&self, response: Response<Body>) -> Response<Body> {
        let (parts, body) = response.into_parts();
        let data = (body.into_data_stream(), self.cut.clone());
        let body = stream::unfold(data, |(mut data, mut cut)| async move {
            let is_cut = async { drop(cut.wait_for(|cut| *cut).await) };
            let next = tokio::select! {
                next = data.next() => next?,
                () = is_cut => pending().await,
            };
            Some((next, (data, cut)))
        });
        Response::from_parts(parts, Body::from_stream(body))
    }
}
