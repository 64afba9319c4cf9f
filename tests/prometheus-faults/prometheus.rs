//! A Prometheus in this process with settable faults.

use std::{
    collections::HashMap,
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use hpa_prometheus::client::{Client, Settings};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The body of a response, which can fail.
type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A fault of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Refuses connections.
    Refused,
    /// Responds after a delay.
    Slow(Duration),
    /// Never responds.
    Hangs,
    /// Responds with a status and a body.
    Status(u16, &'static str),
    /// The body ends in the middle.
    Cut,
    /// The connection is reset in the middle of the body.
    Reset,
    /// Each query has a result of 200 MiB.
    Oversized,
    /// All samples have this value.
    Value(&'static str),
    /// Each object has a second sample with this value, before or after the real one.
    Duplicate { value: &'static str, is_first: bool },
    /// There are no series.
    Empty,
}

const OVERSIZED_BYTES: usize = 200 << 20;
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Default)]
struct State {
    /// The fault of requests whose query or selector contains a text.
    fault: Option<(&'static str, Fault)>,
    values: HashMap<&'static str, f64>,
    /// The offset of the server's clock from the clock of this process.
    clock_offset: SignedDuration,
}

/// The server. Two pods `web-0` and `web-1` have `http_requests_total`, and a queue `mail` has
/// `queue_length`. Each series has a sample of now, whose value is settable.
#[derive(Clone, Default)]
pub(crate) struct Prometheus {
    state: Arc<Mutex<State>>,
    sent_bytes: Arc<AtomicUsize>,
}

impl Prometheus {
    /// Applies the fault to all requests.
    pub(crate) fn fail(&self, fault: Fault) {
        self.fail_matching("", fault);
    }

    /// Applies the fault to requests whose query or selector contains a text.
    pub(crate) fn fail_matching(&self, text: &'static str, fault: Fault) {
        self.state.lock().fault = Some((text, fault));
    }

    pub(crate) fn recover(&self) {
        self.state.lock().fault = None;
    }

    /// Sets the value of the series with a name.
    pub(crate) fn set_value(&self, series: &'static str, value: f64) {
        self.state.lock().values.insert(series, value);
    }

    pub(crate) fn set_clock_offset(&self, offset: SignedDuration) {
        self.state.lock().clock_offset = offset;
    }

    /// The number of bytes that clients have read from oversized responses.
    pub(crate) fn sent_bytes(&self) -> usize {
        self.sent_bytes.load(Ordering::SeqCst)
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| {
            let server = server.clone();
            async move { server.respond(request).await }
        });
        let settings = Settings::new("prometheus", "http://prometheus").expect("a URL");
        Client::from_kube_client(settings, kube::Client::new(service, "default"))
    }

    async fn respond(&self, request: Request<Body>) -> std::io::Result<Response<ResponseBody>> {
        let is_query = request.uri().path().ends_with("/query");
        let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
        let form = Form::parse(&body);
        let fault = self.state.lock().fault;
        let fault = fault.filter(|(text, _)| form.text.contains(text)).map(|(_, fault)| fault);
        match fault {
            Some(Fault::Refused) => return Err(ErrorKind::ConnectionRefused.into()),
            Some(Fault::Hangs) => return std::future::pending().await,
            Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
            Some(Fault::Status(status, body)) => {
                let response =
                    Response::builder().status(status).body(complete_body(body.to_owned()));
                return response.map_err(std::io::Error::other);
            }
            Some(Fault::Oversized) if is_query => return Ok(self.oversized_response()),
            _ => {}
        }
        let data =
            if is_query { self.vector(&form.text, fault) } else { self.series(&form, fault) };
        let body = json!({ "status": "success", "data": data }).to_string();
        let first_half = Bytes::copy_from_slice(&body.as_bytes()[..body.len() / 2]);
        Ok(match fault {
            Some(Fault::Cut) => streamed_response(stream::iter([Ok(first_half)])),
            Some(Fault::Reset) => {
                let reset = Err(ErrorKind::ConnectionReset.into());
                streamed_response(stream::iter([Ok(first_half), reset]))
            }
            _ => Response::new(complete_body(body)),
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::now() + self.state.lock().clock_offset
    }

    /// The series that have samples since `start`.
    fn series(&self, form: &Form, fault: Option<Fault>) -> Value {
        let start = form.start.expect("discovery has a start");
        #[expect(clippy::cast_precision_loss, reason = "a time of this century")]
        let last_sample = self.now().as_second() as f64;
        if last_sample < start || matches!(fault, Some(Fault::Empty)) {
            return json!([]);
        }
        match series_name(&form.text) {
            "http_requests_total" => ["web-0", "web-1"]
                .map(|pod| {
                    json!({ "__name__": "http_requests_total", "namespace": "shop", "pod": pod })
                })
                .into(),
            name => json!([{ "__name__": name, "queue": "mail" }]),
        }
    }

    fn vector(&self, query: &str, fault: Option<Fault>) -> Value {
        let name = series_name(query);
        let value = self.state.lock().values.get(name).copied().unwrap_or_default().to_string();
        let objects: &[Value] = match name {
            _ if matches!(fault, Some(Fault::Empty)) => &[],
            "http_requests_total" => &[json!({ "pod": "web-0" }), json!({ "pod": "web-1" })],
            _ => &[json!({ "queue": "mail" })],
        };
        let now = self.now().as_second();
        let sample =
            |labels: &Value, value: &str| json!({ "metric": labels, "value": [now, value] });
        let samples = objects.iter().flat_map(|labels| match fault {
            Some(Fault::Value(value)) => vec![sample(labels, value)],
            Some(Fault::Duplicate { value: other, is_first: true }) => {
                vec![sample(labels, other), sample(labels, &value)]
            }
            Some(Fault::Duplicate { value: other, is_first: false }) => {
                vec![sample(labels, &value), sample(labels, other)]
            }
            _ => vec![sample(labels, &value)],
        });
        json!({ "resultType": "vector", "result": samples.collect::<Vec<_>>() })
    }

    /// A response of [`OVERSIZED_BYTES`], which are counted when they are read.
    fn oversized_response(&self) -> Response<ResponseBody> {
        let sent = self.sent_bytes.clone();
        let sample = br#"{"metric":{"pod":"web-0"},"value":[1,"1"]},"#;
        let chunk = Bytes::from(sample.repeat(CHUNK_BYTES / sample.len()));
        let head = r#"{"status":"success","data":{"resultType":"vector","result":["#;
        let chunks = std::iter::repeat_n(chunk, OVERSIZED_BYTES / CHUNK_BYTES);
        let all = std::iter::once(Bytes::from(head)).chain(chunks);
        streamed_response(stream::iter(all).map(move |chunk| {
            sent.fetch_add(chunk.len(), Ordering::SeqCst);
            Ok(chunk)
        }))
    }
}

/// The parameters of a request.
struct Form {
    /// The query or the selector.
    text: String,
    start: Option<f64>,
}

impl Form {
    fn parse(body: &[u8]) -> Self {
        let pairs: HashMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
        let text = pairs.get("query").or_else(|| pairs.get("match[]"));
        Self {
            text: text.cloned().unwrap_or_default(),
            start: pairs.get("start").and_then(|start| start.parse().ok()),
        }
    }
}

fn series_name(text: &str) -> &'static str {
    if text.contains("queue_length") { "queue_length" } else { "http_requests_total" }
}

fn complete_body(body: String) -> ResponseBody {
    Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync()
}

fn streamed_response(
    chunks: impl futures::Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> Response<ResponseBody> {
    let frames = chunks.map(|chunk| chunk.map(Frame::data));
    Response::new(StreamBody::new(frames).boxed_unsync())
}
