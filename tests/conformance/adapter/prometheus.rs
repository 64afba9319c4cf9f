//! A Prometheus with recorded responses.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Collected, Full};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::normalize::sort_alternatives;

/// A running server. Dropping the handle stops it.
pub(crate) struct Prometheus {
    pub(crate) address: SocketAddr,
    exchanges: Arc<Mutex<Exchanges>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Exchanges {
    /// Recorded requests with their responses.
    recorded: Vec<Value>,
    /// The received requests, in the form of the recorded ones.
    received: Vec<Value>,
}

impl Prometheus {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let exchanges = Arc::<Mutex<Exchanges>>::default();
        let mut tasks = JoinSet::new();
        let shared = exchanges.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                connections.spawn(async move {
                    let service = service_fn(|request| respond(shared.clone(), request));
                    // Fails if the recorded response is a closed connection.
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, exchanges, _tasks: tasks })
    }

    /// Sets the requests to expect, with their responses.
    pub(crate) fn expect(&self, recorded: &Value) {
        let recorded = recorded.as_array().cloned().unwrap_or_default();
        *self.exchanges.lock() = Exchanges { recorded, received: Vec::new() };
    }

    /// The requests received since [`Self::expect`].
    pub(crate) fn received(&self) -> Vec<Value> {
        self.exchanges.lock().received.clone()
    }
}

async fn respond(
    exchanges: Arc<Mutex<Exchanges>>,
    request: Request<Incoming>,
) -> std::io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let mut params = normalized_params(head.uri.query().unwrap_or_default());
    params.extend(normalized_params(&String::from_utf8_lossy(&body)));
    let mut request = json!({
        "method": head.method.as_str(), "path": head.uri.path(), "params": params,
    });
    let headers = recorded_headers(&head.method, &head.headers);
    if headers.as_object().is_some_and(|headers| !headers.is_empty()) {
        request["headers"] = headers;
    }
    let mut exchanges = exchanges.lock();
    let find =
        |one: &&Value| selections(one) == selections(&request) && one["path"] == request["path"];
    let response = exchanges.recorded.iter().find(find).map(|one| one["response"].clone());
    exchanges.received.push(request);
    let response = response.unwrap_or_else(|| json!({ "status": 404, "body": "unexpected" }));
    if response["closed"] == true {
        // The error makes the server close the connection.
        return Err(std::io::ErrorKind::ConnectionReset.into());
    }
    let text = match &response["body"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let mut reply = Response::new(Full::from(text));
    let status = response["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    *reply.status_mut() = status.and_then(|status| status.try_into().ok()).unwrap_or_default();
    // All recorded redirects lead to /login.
    if reply.status().is_redirection() {
        let login = http::HeaderValue::from_static("/login");
        reply.headers_mut().insert(http::header::LOCATION, login);
    }
    let json = http::HeaderValue::from_static("application/json");
    reply.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(reply)
}

/// The queries or series selectors of a request, which determine its response.
fn selections(exchange: &Value) -> Vec<String> {
    let params = exchange["params"].as_array().into_iter().flatten();
    let selections = params.filter(|pair| pair[0] == "query" || pair[0] == "match[]");
    selections.filter_map(|pair| pair[1].as_str()).map(sort_alternatives).collect()
}

/// The decoded query parameters. `time` and `start` are relative to now.
fn normalized_params(text: &str) -> Vec<[String; 2]> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        hpa_adapter::metrics_api::query::decode(&text).unwrap_or(text)
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .map(|(key, value)| {
            let (key, value) = (decode(key), decode(value));
            let value = match key.as_str() {
                "time" | "start" => relative_to_now(&value),
                _ => value,
            };
            [key, value]
        })
        .collect()
}

fn relative_to_now(value: &str) -> String {
    let Ok(seconds) = value.parse::<f64>() else { return value.to_owned() };
    #[expect(clippy::cast_precision_loss, reason = "a time of this century")]
    let offset = (Timestamp::now().as_second() as f64 - seconds).round();
    // All recorded intervals are multiples of ten seconds.
    let tens = (offset / 10.0).round() * 10.0;
    if offset.abs() <= 5.0 { "now".to_owned() } else { format!("now-{tens}s") }
}

/// The headers that recorded requests contain: those that flags set, and the type of a body.
fn recorded_headers(method: &Method, headers: &HeaderMap) -> Value {
    let mut chosen = serde_json::Map::new();
    let mut add = |name: &str| {
        let values = headers.get_all(name).iter();
        let values: Vec<_> =
            values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        if !values.is_empty() {
            chosen.insert(name.to_owned(), json!(values));
        }
    };
    for name in ["Authorization", "X-Scope-Orgid", "X-Tenant", "X-Empty"] {
        add(name);
    }
    if *method == Method::POST {
        add("Content-Type");
    }
    chosen.into()
}
