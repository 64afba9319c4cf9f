//! From a request to its answer.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::{
    config::Config,
    discovery,
    error::ApiError,
    interceptor::Action,
    metrics, names,
    registry::Registry,
    render,
    request::Call,
    rest::{self, Target, write},
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
}

impl Server {
    /// A server with the namespaces that every cluster has.
    pub(crate) fn new(config: Config) -> Self {
        let registry = Registry::new(config.autoscalers_count_generations);
        let store = Store::new(config.log_limit, config.listener.clone());
        let state = Mutex::new(State { registry, store });
        let server = Self { config, state, watches_dropped: watch::Sender::new(0) };
        for name in ["default", "kube-system"] {
            server.create_namespace(name);
        }
        server
    }

    fn create_namespace(&self, name: &str) {
        let mut state = self.state.lock();
        let Some(resource) = state.registry.find("", "v1", "namespaces").cloned() else { return };
        let target =
            Target { resource, version: "v1".to_owned(), namespace: String::new(), name: String::new() };
        let body = json!({ "metadata": { "name": name } });
        // It cannot be refused: the server is new.
        let _ = write::create(&mut state, &self.config, &target, body, false);
    }

    /// The time in the API's form.
    pub(crate) fn now(&self) -> String {
        names::time((self.config.clock)())
    }
}

/// Answers a request.
pub(crate) async fn handle<B>(server: Arc<Server>, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let (parts, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return render::error(&ApiError::bad_request(format!("the body broke off: {error}"))),
    };
    let call = Call::new(parts.method, &parts.uri, &parts.headers, body);
    let mut watch_limit = None;
    let action = server.config.interceptor.as_ref().map(|one| one.intercept(&call.info));
    match action.unwrap_or_default() {
        Action::Pass => {}
        Action::Delay(time) => tokio::time::sleep(time).await,
        Action::DropWatchAfter(events) => watch_limit = Some(events),
        Action::Status { code, reason, message, retry_after } => {
            return render::error(&ApiError { retry_after, ..ApiError::new(code, reason, message) });
        }
    }
    route(&server, &call, watch_limit).unwrap_or_else(|error| render::error(&error))
}

fn route(server: &Arc<Server>, call: &Call, watch_limit: Option<usize>) -> Result<Response<Body>, ApiError> {
    if call.info.resource.is_empty() {
        return discovery::answer(server, call).unwrap_or_else(|| Err(ApiError::no_such_path()));
    }
    if metrics::is_metrics_group(&call.info.group) {
        return metrics::answer(server, call);
    }
    rest::answer(server, call, watch_limit)
}

/// An answer in plain text.
pub(crate) fn plain(text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
