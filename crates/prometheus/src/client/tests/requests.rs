//! Requests and the handling of responses.

use std::{
    convert::Infallible,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::rules::{
    Compat,
    results::{QueryResult, Sample},
};
use futures::StreamExt;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use rstest::rstest;
use tokio::sync::Semaphore;
use tokio_util::bytes::Bytes;

use crate::client::{
    Client, InstantQuery, QueryFailure, Settings, TimeoutParameter, Verb, parse_header,
};

pub(super) const VECTOR: &str = r#"{"status":"success","data":{"resultType":"vector","result":[
    {"metric":{"pod":"a"},"value":[1,"2"]}]}}"#;

#[derive(Debug)]
pub(super) struct SentRequest {
    method: Method,
    pub(super) uri: String,
    headers: HeaderMap,
    pub(super) body: String,
}

/// A server that sends the same response to all requests. Each request takes a permit of the gate.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) sent: Arc<Mutex<Vec<SentRequest>>>,
    gate: Arc<Semaphore>,
    in_flight: Arc<AtomicUsize>,
    max_in_flight: Arc<AtomicUsize>,
    status: u16,
    body: Arc<str>,
}

impl Server {
    pub(super) fn new(status: u16, body: &str) -> Self {
        Self {
            sent: Arc::default(),
            gate: Arc::new(Semaphore::new(1000)),
            in_flight: Arc::default(),
            max_in_flight: Arc::default(),
            status,
            body: body.into(),
        }
    }

    /// A server that doesn't respond until the gate gets permits.
    pub(super) fn with_closed_gate(body: &str) -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), ..Self::new(200, body) }
    }

    pub(super) fn client(&self, settings: Settings) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.respond(request).await) }
        });
        Client::from_kube_client(settings, kube::Client::new(service, "default"))
    }

    async fn respond(&self, request: Request<Body>) -> Response<Body> {
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        self.sent.lock().push(SentRequest {
            method: parts.method,
            uri: parts.uri.to_string(),
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        });
        self.gate.acquire().await.unwrap().forget();
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let body = Body::from(self.body.as_bytes().to_vec());
        let is_html = self.body.starts_with('<');
        let content_type = if is_html { "text/html" } else { "application/json; charset=utf-8" };
        let response = Response::builder().status(self.status).header("content-type", content_type);
        response.body(body).unwrap()
    }
}

pub(super) fn settings() -> Settings {
    Settings::new("main", "http://prometheus/?tenant=a").unwrap()
}

fn query(text: &str) -> InstantQuery {
    InstantQuery { query: text.to_owned(), timeout: TimeoutParameter::Limit }
}

/// Replaces the number after `time=` by `T`.
fn mask_time(text: &str) -> String {
    let Some((before, after)) = text.split_once("time=") else { return text.to_owned() };
    let end = after.find(|char: char| !char.is_ascii_digit() && char != '.');
    format!("{before}time=T{}", &after[end.unwrap_or(after.len())..])
}

#[rstest]
#[case::post(
    Verb::Post,
    Compat::Off,
    "/api/v1/query?tenant=a",
    "query=up%7Ba%3D%22b+c%22%7D&timeout=10000ms"
)]
#[case::get(
    Verb::Get,
    Compat::Off,
    "/api/v1/query?tenant=a&query=up%7Ba%3D%22b+c%22%7D&timeout=10000ms",
    ""
)]
#[case::get_of_prometheus_adapter(
    Verb::Get,
    Compat::Reference,
    "/api/v1/query?query=up%7Ba%3D%22b+c%22%7D&time=T&timeout=10000ms",
    ""
)]
#[tokio::test]
async fn query_is_sent_by_verb(
    #[case] verb: Verb,
    #[case] compat: Compat,
    #[case] uri: &str,
    #[case] body: &str,
) {
    let server = Server::new(200, VECTOR);
    let client = server.client(Settings { verb, compat, ..settings() });
    let result = client.query(&query(r#"up{a="b c"}"#)).await.unwrap();
    let labels = [("pod".to_owned(), "a".to_owned())].into();
    let samples = vec![Sample { labels, timestamp_ms: 1000, value: 2.0 }];
    assert_eq!(*result, QueryResult::Vector(Some(samples)));
    let sent = server.sent.lock().remove(0);
    assert_eq!((mask_time(&sent.uri), mask_time(&sent.body)), (uri.into(), body.into()));
    let (method, form) = match verb {
        Verb::Get => ("GET", None),
        Verb::Post => ("POST", Some("application/x-www-form-urlencoded")),
    };
    let content_type = sent.headers.get("content-type").map(|value| value.to_str().unwrap());
    assert_eq!((sent.method.as_str(), content_type), (method, form));
}

#[tokio::test]
async fn long_query_is_sent_with_post() {
    let server = Server::new(200, VECTOR);
    let settings = Settings { verb: Verb::Get, ..settings() };
    let client = server.client(settings);
    for (length, method) in [(60_000, Method::GET), (70_000, Method::POST)] {
        let text = "a".repeat(length);
        client.query(&query(&text)).await.unwrap();
        let sent = server.sent.lock().pop().unwrap();
        assert_eq!(sent.method, method);
        assert!(sent.uri.contains(&text) != sent.body.contains(&text));
    }
}

#[rstest]
#[case::limit(TimeoutParameter::Limit, "query=up&timeout=10000ms")]
#[case::empty(TimeoutParameter::Empty, "query=up&timeout=")]
#[case::absent(TimeoutParameter::Absent, "query=up")]
#[tokio::test]
async fn timeout_parameter_is_sent(#[case] timeout: TimeoutParameter, #[case] expected: &str) {
    let server = Server::new(200, VECTOR);
    let client = server.client(settings());
    client.query(&InstantQuery { query: "up".to_owned(), timeout }).await.unwrap();
    assert_eq!(mask_time(&server.sent.lock()[0].body), expected);
}

#[tokio::test]
async fn header_can_have_several_values() {
    let server = Server::new(200, VECTOR);
    let headers = ["X-Tenant=a=b", "X-Tenant=c", "X-Empty"];
    let headers = headers.map(|header| parse_header(header).unwrap()).to_vec();
    server.client(Settings { headers, ..settings() }).query(&query("up")).await.unwrap();
    let sent = server.sent.lock().remove(0);
    assert_eq!(sent.headers.get_all("x-tenant").iter().collect::<Vec<_>>(), ["a=b", "c"]);
    assert_eq!(sent.headers["x-empty"], "");
}

#[rstest]
#[case::bad_request_with_success(400, VECTOR, None)]
#[case::partial(206, VECTOR, None)]
#[case::error(
    422,
    r#"{"status":"error","errorType":"execution","error":"boom"}"#,
    Some("execution: boom")
)]
#[case::success_of_a_proxy(
    200,
    "<html>",
    Some("isn't a response of Prometheus: it isn't a JSON object, but may be a login page")
)]
#[case::error_of_a_proxy(503, "<html>", Some("unknown response code 503"))]
#[case::too_long_for_get(414, "", Some("unknown response code 414: the query is too long for GET"))]
#[case::proxy_with_tls(
    400,
    "<html>",
    Some("unknown response code 400: the server may require TLS; use https://")
)]
#[case::other(500, VECTOR, Some("Prometheus at http://prometheus: unknown response code 500"))]
#[case::server_error(
    500,
    r#"{"status":"error","errorType":"internal","error":"boom"}"#,
    Some("Prometheus at http://prometheus: unknown response code 500: internal: boom")
)]
#[case::rate_limit(
    429,
    r#"{"status":"error","errorType":"too_many_requests","error":"rate limited"}"#,
    Some("unknown response code 429: too_many_requests: rate limited")
)]
#[case::credentials(
    403,
    r#"{"status":"error","errorType":"forbidden","error":"tenant a"}"#,
    Some("unknown response code 403: forbidden: tenant a: check the credentials")
)]
#[case::nothing(204, "", Some("isn't a response of Prometheus"))]
#[tokio::test]
async fn responses_are_accepted_by_status_and_body(
    #[case] status: u16,
    #[case] body: &str,
    #[case] expected: Option<&str>,
) {
    let result = Server::new(status, body).client(settings()).query(&query("up")).await;
    match (result, expected) {
        (Ok(_), None) => {}
        (Err(error), Some(expected)) => {
            assert!(error.to_string().contains(expected), "{error}");
            let reason = error.reason_with_server("http://prometheus");
            assert!(!reason.contains("boom") && !reason.contains("rate limited"), "{reason}");
        }
        (result, expected) => panic!("{result:?} instead of {expected:?}"),
    }
}

#[tokio::test]
async fn equal_concurrent_queries_share_a_request() {
    let server = Server::with_closed_gate(VECTOR);
    let client = server.client(settings());
    let query = query("up");
    let both = async { tokio::join!(client.query(&query), client.query(&query)) };
    let open = async { server.gate.add_permits(1) };
    let ((first, second), ()) = tokio::join!(both, open);
    assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
    assert_eq!(server.sent.lock().len(), 1);
    server.gate.add_permits(1);
    client.query(&query).await.unwrap();
    assert_eq!(server.sent.lock().len(), 2, "a later query has a request of its own");
}

#[tokio::test]
async fn concurrent_requests_are_limited() {
    let server = Server::with_closed_gate(VECTOR);
    let concurrency = NonZeroUsize::new(2).unwrap();
    let client = server.client(Settings { concurrency, ..settings() });
    let queries: Vec<InstantQuery> = (0..5).map(|index| query(&format!("up{index}"))).collect();
    let all = futures::future::join_all(queries.iter().map(|query| client.query(query)));
    let open = async {
        while server.in_flight.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        server.gate.add_permits(5);
    };
    let (results, ()) = tokio::join!(all, open);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(server.max_in_flight.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn refused_connection_names_the_server_and_its_cause_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let settings = Settings::new("p", &format!("http://me:hunter2@{address}/path")).unwrap();
    let client = Client::new(settings, Arc::new(())).unwrap();
    let error = client.query(&query("up")).await.unwrap_err();
    let expected = format!("the request to Prometheus at {address} failed: Connection refused");
    assert_eq!(error.to_string(), expected);
    assert!(std::error::Error::source(&error).is_none());
    assert_eq!(error.reason(), "the request failed");
}

#[rstest]
#[case::path(404, None, ": check the path of the URL")]
#[case::other_server(
    302,
    Some("https://me:hunter2@login:8443/start?token=hunter2"),
    ": the server redirects to https://login:8443; configure that URL, or credentials if it is a \
     login page"
)]
#[case::same_server(
    301,
    Some("http://prometheus:9090/hunter2/"),
    ": the server redirects to another path; configure it"
)]
#[case::relative(307, Some("/hunter2/"), ": the server redirects to another path; configure it")]
#[tokio::test]
async fn error_of_a_status_has_no_credentials_path_or_query(
    #[case] status: u16,
    #[case] location: Option<&'static str>,
    #[case] hint: &str,
) {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        let mut response = Response::builder().status(status);
        if let Some(location) = location {
            response = response.header("location", location);
        }
        Ok::<_, Infallible>(response.body(Body::empty()).unwrap())
    });
    let url = "http://me:hunter2@prometheus:9090/path?tenant=hunter2";
    let settings = Settings::new("p", url).unwrap();
    let client = Client::from_kube_client(settings, kube::Client::new(service, "default"));
    let error = client.query(&query("up")).await.unwrap_err();
    let start = format!("Prometheus at http://prometheus:9090: unknown response code {status}");
    assert_eq!(error.to_string(), format!("{start}{hint}"));
    // The path of the operator's own URL may be wrong.
    let url = "http://prometheus:9090/path";
    let described = format!("Prometheus at {url}: unknown response code {status}{hint}");
    assert_eq!(error.describe_with_server(url), described);
}

#[tokio::test(start_paused = true)]
async fn slow_server_is_a_timeout() {
    let client = Server::with_closed_gate(VECTOR).client(settings());
    let start = tokio::time::Instant::now();
    let error = client.query(&query("up")).await.unwrap_err();
    assert!(matches!(error, QueryFailure::Timeout { .. }), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn slow_body_of_a_response_is_not_a_missing_response() {
    let service = tower::service_fn(async |_: Request<Body>| {
        let start = futures::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("{")))]);
        Ok::<_, Infallible>(Response::new(StreamBody::new(start.chain(futures::stream::pending()))))
    });
    let client = Client::from_kube_client(settings(), kube::Client::new(service, "default"));
    let error = client.query(&query("up")).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the response of Prometheus at "), "{text}");
    assert!(text.ends_with(" took longer than 10 s"), "{text}");
    assert_eq!(error.reason(), "the response took longer than 10 s");
    assert!(error.is_access_failure() && !error.is_caused_by_query());
}

#[tokio::test]
async fn too_long_response_is_an_error() {
    let settings = Settings { max_response_bytes: VECTOR.len() - 1, ..settings() };
    let error = Server::new(200, VECTOR).client(settings).query(&query("up")).await.unwrap_err();
    assert!(matches!(error, QueryFailure::TooLong(_)), "{error}");
}

/// A response of about 2 MiB in three chunks. The last two take permits of the gate.
fn large_response(
    gate: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
) -> Response<impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static> {
    let chunks = futures::stream::iter([false, true, true]).then(move |is_rest| {
        let (gate, waiting) = (gate.clone(), waiting.clone());
        async move {
            if is_rest {
                waiting.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
            }
            Ok(Frame::data(Bytes::from(" ".repeat(700 << 10))))
        }
    });
    Response::new(StreamBody::new(chunks))
}

#[tokio::test]
async fn large_responses_are_read_one_after_the_other() {
    let gate = Arc::new(Semaphore::new(2));
    let waiting = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn({
        let (gate, waiting) = (gate.clone(), waiting.clone());
        move |_: Request<Body>| {
            let response = large_response(gate.clone(), waiting.clone());
            async move { Ok::<_, Infallible>(response) }
        }
    });
    let client = Client::from_kube_client(settings(), kube::Client::new(service, "default"));
    let queries = [query("a"), query("b")];
    let both = async { tokio::join!(client.query(&queries[0]), client.query(&queries[1])) };
    let open = async {
        // Both responses exceed the limit for concurrent reads: one waits for its third chunk, the
        // other for the permit.
        while waiting.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(waiting.load(Ordering::SeqCst), 3);
        gate.add_permits(2);
    };
    let ((first, second), ()) = tokio::join!(both, open);
    for result in [first, second] {
        assert!(matches!(result, Err(QueryFailure::Decode(_))), "{result:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_large_responses_has_its_own_error() {
    // The second chunk of the first response arrives when the second response is being read.
    let delay = AtomicU64::new(2);
    let service = tower::service_fn(move |_: Request<Body>| {
        let delay = delay.swap(0, Ordering::SeqCst);
        let chunks = futures::stream::iter([0, delay]).then(|seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from(" ".repeat(700 << 10))))
        });
        let body = StreamBody::new(chunks.chain(futures::stream::pending()));
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let client = Client::from_kube_client(settings(), kube::Client::new(service, "default"));
    let queries = [query("a"), query("b")];
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.query(&queries[1]).await
    };
    let (first, later) = tokio::join!(client.query(&queries[0]), later);
    let error = first.unwrap_err();
    let text = "a response of more than 1 MiB could not be read within 10 s: other large responses \
                were read first, one at a time. Select fewer series, or raise \
                --prometheus-query-timeout";
    assert_eq!(error.to_string(), text);
    assert_eq!(error.reason(), "other large responses were read for 10 s");
    assert!(!error.is_access_failure() && !error.is_caused_by_query());
    assert!(matches!(later, Err(QueryFailure::SlowResponse { .. })), "{later:?}");
}
