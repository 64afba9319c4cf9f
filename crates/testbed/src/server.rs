//! From a request to its answer.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::{
    config::Config,
    discovery,
    error::ApiError,
    faults,
    interceptor::Action,
    metrics, names,
    registry::Registry,
    render,
    request::Call,
    rest::{self, Target, write},
    restart::Lifecycle,
    store::Store,
};

/// What changes: the objects, and with the definitions the resources.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}

/// The server.
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) state: Mutex<State>,
    /// A new value ends the watches that run.
    pub(crate) watches_dropped: watch::Sender<u64>,
    pub(crate) lifecycle: Lifecycle,
}

/// The connection broke: there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection broke")]
pub struct Disconnected;

impl Server {
    /// A server with the namespaces that every cluster has.
    pub(crate) fn new(config: Config) -> Self {
        let registry = Registry::new(config.autoscalers_count_generations);
        let store = Store::new(config.log_limit, config.listener.clone());
        let state = Mutex::new(State { registry, store });
        let watches_dropped = watch::Sender::new(0);
        let server = Self { config, state, watches_dropped, lifecycle: Lifecycle::new() };
        server.create_namespaces();
        server
    }

    /// Creates the namespaces that every cluster has.
    pub(crate) fn create_namespaces(&self) {
        for name in ["default", "kube-system"] {
            self.create_namespace(name);
        }
    }

    fn create_namespace(&self, name: &str) {
        let mut state = self.state.lock();
        let Some(resource) = state.registry.find("", "v1", "namespaces").cloned() else { return };
        let target = Target {
            resource,
            version: "v1".to_owned(),
            namespace: String::new(),
            name: String::new(),
        };
        let body = json!({ "metadata": { "name": name } });
        // It cannot be refused: the server is new.
        let _ = write::create(&mut state, &self.config, &target, body, false);
    }

    /// The time in the API's form.
    pub(crate) fn now(&self) -> String {
        names::time((self.config.clock)())
    }
}

/// Answers a request of a client that may have a name.
pub(crate) async fn handle<B>(
    server: Arc<Server>,
    client: Option<Arc<str>>,
    request: Request<B>,
) -> Result<Response<Body>, Disconnected>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    if server.lifecycle.is_down() {
        return Err(Disconnected);
    }
    let (parts, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            return Ok(render::error(&ApiError::bad_request(format!(
                "the body broke off: {error}"
            ))));
        }
    };
    let mut call = Call::new(parts.method, &parts.uri, &parts.headers, body);
    if let Some(client) = client {
        (*client).clone_into(&mut call.info.client);
    }
    let action = server.config.interceptor.as_ref().map(|one| one.intercept(&call.info));
    let action = action.unwrap_or_default();
    if let Action::Hold(gate) = &action {
        gate.clone().pass().await;
    }
    let met = action.into_faults();
    if met.is_empty() {
        return Ok(route(&server, &call).unwrap_or_else(|error| render::error(&error)));
    }
    // Apart, so that a request without faults does not carry its state.
    Box::pin(faults::answer(&server, call, met)).await
}

/// Answers over HTTP: a body that fails at once makes the server close the connection.
pub(crate) async fn handle_http(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    handle(server, None, request).await.unwrap_or_else(|broken| {
        let body = futures::stream::once(async move { Err::<Bytes, _>(broken) });
        Response::new(Body::from_stream(body))
    })
}

/// Answers a request that meets no fault.
pub(crate) fn route(server: &Arc<Server>, call: &Call) -> Result<Response<Body>, ApiError> {
    if call.info.resource.is_empty() {
        return discovery::answer(server, call).unwrap_or_else(|| Ok(no_page()));
    }
    if metrics::is_metrics_group(&call.info.group) {
        return metrics::answer(server, call);
    }
    if !server
        .state
        .lock()
        .registry
        .versions(&call.info.group)
        .contains(&call.info.version.as_str())
    {
        return Ok(no_page());
    }
    rest::answer(server, call)
}

/// The answer where there is not even a group and version.
pub(crate) fn no_page() -> Response<Body> {
    let mut response = plain("404 page not found\n");
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// An answer in plain text.
pub(crate) fn plain(text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
