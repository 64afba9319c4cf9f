//! Tests of the collector that reads HTTP endpoints, with the limits and credentials of requests.

use rstest::rstest;

use super::*;
use crate::Limits;

fn endpoint(url: &str) -> CollectorPlan {
    external("json-path", &[("endpoint", url), ("json-key", "$.v")])
}

#[tokio::test]
async fn number_of_a_document_is_the_value() {
    let server = Server::start(|_| ok(r#"{"v": [1, 2.5]}"#)).await;
    let url = server.url("/stats?x=y z#part");
    // The operator permits the loopback address.
    let plan = external("json-path", &[("endpoint", &url), ("json-eval", "sum($.v) + 1")]);
    assert_eq!(milli(fetch(settings(), FakeCluster::default(), &plan).await), 4500);
    let request = &server.requests()[0];
    assert!(request.starts_with("GET /stats?x=y%20z HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("connection: close\r\n"), "{request}");
    assert!(!request.to_lowercase().contains("authorization"), "{request}");
}

#[rstest]
#[case::not_found(with_status(404, r#"{"v": 1}"#), "unsuccessful response: 404 Not Found")]
#[case::created(with_status(201, r#"{"v": 1}"#), "unsuccessful response: 201 Created")]
#[case::empty(ok(""), "the response can't be read as JSON: ")]
#[case::text(ok("hello secret"), "can't be read as JSON: unexpected character at byte 0")]
#[case::string(ok(r#"{"v": "1"}"#), "the value is a string, not a number")]
#[case::null(ok(r#"{"v": null}"#), "the value is null, not a number")]
#[case::object(ok(r#"{"v": {}}"#), "the value is an object, not a number")]
#[case::missing(ok(r#"{"w": 1}"#), "the path selects nothing")]
#[case::several(ok(r#"{"v": [1, 2]}"#), "several values, but no aggregator")]
#[case::infinite(ok(r#"{"v": 1e300}"#), "is out of range")]
#[case::too_large(ok(r#"{"v": 1e999}"#), "the number is too large")]
#[case::no_http(Reply::Bytes(b"SSH-2.0-OpenSSH secret\r\n".to_vec()), "the connection failed")]
#[case::closed(Reply::Bytes(Vec::new()), "the connection failed")]
#[case::half(
    Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"v\": 1}".to_vec()),
    "the connection failed"
)]
#[case::compressed(
    Reply::Bytes(
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx".to_vec()
    ),
    "the response has a content encoding"
)]
#[tokio::test]
async fn invalid_response_is_an_error_without_its_content(
    #[case] reply: Reply,
    #[case] expected: &str,
) {
    let server = Server::start(move |_| reply.clone()).await;
    let plan = endpoint(&server.url("/"));
    let error = error(fetch(settings(), FakeCluster::default(), &plan).await);
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[rstest]
#[case::announced(Reply::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".to_vec()))]
#[case::endless(Reply::Flood(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()))]
#[tokio::test]
async fn too_long_body_is_an_error(#[case] reply: Reply) {
    let server = Server::start(move |_| reply.clone()).await;
    let limits = Limits { response_bytes: 100_000, ..Limits::default() };
    let settings = Settings { limits, ..settings() };
    let error = error(fetch(settings, FakeCluster::default(), &endpoint(&server.url("/"))).await);
    assert!(error.ends_with("the response is longer than 100000 bytes"), "{error}");
}

#[tokio::test]
async fn endless_head_is_an_error() {
    let server = Server::start(|_| Reply::Flood(b"HTTP/1.1 200 OK\r\nx: ".to_vec())).await;
    let error = error(fetch(settings(), FakeCluster::default(), &endpoint(&server.url("/"))).await);
    assert!(error.contains("the connection failed"), "{error}");
}

#[tokio::test]
async fn large_document_is_decoded() {
    let body = format!("{}{}", " ".repeat(200_000), r#"{"v": 3}"#);
    let server = Server::start(move |_| ok(&body)).await;
    let plan = endpoint(&server.url("/"));
    assert_eq!(milli(fetch(settings(), FakeCluster::default(), &plan).await), 3000);
}

#[tokio::test]
async fn redirections_are_followed_within_bounds() {
    let server = Server::start(|request| match request.split(' ').nth(1).unwrap() {
        "/once" => redirect("target?x=1"),
        "/target?x=1" => ok(r#"{"v": 1}"#),
        _ => redirect("/again"),
    })
    .await;
    let plan = endpoint(&server.url("/once"));
    assert_eq!(milli(fetch(settings(), FakeCluster::default(), &plan).await), 1000);
    let plan = endpoint(&server.url("/again"));
    let error = error(fetch(settings(), FakeCluster::default(), &plan).await);
    assert!(error.ends_with("the redirection exceeds the limit of five redirections"), "{error}");
    assert_eq!(server.requests().len(), 2 + 6);
}

#[tokio::test]
async fn credential_is_sent_to_its_origin_only() {
    let other = Server::start(|_| ok(r#"{"v": 1}"#)).await;
    let target = other.url("/");
    let server = Server::start(move |_| redirect(&target)).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "t0k\n").unwrap();
    let credentials = [(server.url(""), Credential::File(file.path().to_owned()))].into();
    let settings = Settings { credentials, ..settings() };
    let plan = endpoint(&server.url("/"));
    assert_eq!(milli(fetch(settings, FakeCluster::default(), &plan).await), 1000);
    assert!(server.requests()[0].contains("authorization: Bearer t0k\r\n"));
    assert!(!other.requests()[0].contains("authorization"));
}

#[test]
fn invalid_origin_of_a_credential_is_refused() {
    for origin in ["https://a.org/x", "a.org", "ftp://a.org", "https://u@a.org", "https://"] {
        let credentials = [(origin.to_owned(), Credential::Text(Secret::new("t")))].into();
        let settings = Settings { credentials, ..Settings::default() };
        Clients::new(settings, Arc::new(FakeCluster::default())).unwrap_err();
    }
}

#[test]
fn secret_is_not_printed() {
    let credential = Credential::Text(Secret::new("hunter2"));
    assert!(!format!("{credential:?}").contains("hunter2"));
}

#[tokio::test]
async fn request_without_a_free_connection_is_an_error() {
    let server = Server::start(|request| match request.split(' ').nth(1).unwrap() {
        "/stall" => Reply::Stall(Vec::new()),
        _ => ok(r#"{"v": 1}"#),
    })
    .await;
    let queue_timeout = std::time::Duration::from_millis(50);
    let limits = Limits { connections: 1, queue_timeout, ..Limits::default() };
    let settings = Settings { limits, ..settings() };
    let clients = Clients::new(settings, Arc::new(FakeCluster::default())).unwrap();
    let (stalled, plan) = (endpoint(&server.url("/stall")), endpoint(&server.url("/")));
    let second_request = async {
        let busy = error(fetch_with(&clients, &plan).await);
        assert!(busy.contains("no free connection within 0.05 s"), "{busy}");
    };
    // Dropping a collection closes its connection.
    tokio::select! {
        biased;
        result = fetch_with(&clients, &stalled) => panic!("{result:?}"),
        () = second_request => {}
    }
    assert_eq!(milli(fetch_with(&clients, &plan).await), 1000);
}

/// Serves a large response (of more than 64 KiB), and stalls at `/stall` before its end.
async fn stalling_server() -> Server {
    let large = format!("{}{}", " ".repeat(200_000), r#"{"v": 3}"#);
    let stalled = format!("HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n{large}");
    Server::start(move |request| match request.split(' ').nth(1).unwrap() {
        "/stall" => Reply::Stall(stalled.clone().into()),
        _ => ok(&large),
    })
    .await
}

#[tokio::test]
async fn stalled_large_response_does_not_block_others() {
    let server = stalling_server().await;
    let clients = Clients::new(settings(), Arc::new(FakeCluster::default())).unwrap();
    let (stalled, plan) = (endpoint(&server.url("/stall")), endpoint(&server.url("/")));
    tokio::select! {
        biased;
        result = fetch_with(&clients, &stalled) => panic!("{result:?}"),
        value = fetch_with(&clients, &plan) => assert_eq!(milli(value), 3000),
    }
}

#[tokio::test]
async fn wait_for_other_large_responses_is_not_a_slow_response() {
    let server = stalling_server().await;
    let objects = FakeCluster { pods: vec![pod("a", "127.0.0.1")], ..FakeCluster::default() };
    let clients = Clients::new(settings(), Arc::new(objects)).unwrap();
    let stalled = endpoint(&server.url("/stall"));
    let all = futures::future::join_all((0..8).map(|_| fetch_with(&clients, &stalled)));
    let port = server.port();
    let values = [("json-key", "$.v"), ("port", &*port), ("request-timeout", "500ms")];
    let plan = pod_plan(&values);
    // Succeeds until the stalled responses have all permits of the namespace.
    let failure = async {
        loop {
            let fetched = fetch_with(&clients, &plan).await;
            if fetched.is_err() {
                break error(fetched);
            }
        }
    };
    tokio::select! {
        biased;
        results = all => panic!("{results:?}"),
        error = failure => {
            let expected = "a response of more than 64 KiB could not be read within 0.5 s";
            assert!(error.contains(expected), "{error}");
        }
    }
}

/// A namespace gets at most half of the 16 permits for large responses, so others can still read.
#[tokio::test]
async fn stalled_large_responses_of_a_namespace_do_not_block_others() {
    let server = stalling_server().await;
    let clients = Clients::new(settings(), Arc::new(FakeCluster::default())).unwrap();
    let (stalled, plan) = (endpoint(&server.url("/stall")), endpoint(&server.url("/")));
    let all = futures::future::join_all((0..20).map(|_| fetch_with(&clients, &stalled)));
    let (target, time) = (target(), now());
    let other = async {
        while server.requests().len() < 20 {
            tokio::task::yield_now().await;
        }
        plan.read(&Context::new(&clients, "other", &target, time)).await
    };
    tokio::select! {
        biased;
        results = all => panic!("{results:?}"),
        value = other => assert_eq!(milli(value), 3000),
    }
}

/// kube-metrics-adapter returns the smallest integer.
#[tokio::test]
async fn infinite_value_is_an_error_unless_compatible() {
    let server = Server::start(|_| ok("[]")).await;
    let url = server.url("/");
    let plan =
        external("json-path", &[("endpoint", &url), ("json-key", "$"), ("aggregator", "max")]);
    let text = error(fetch(settings(), FakeCluster::default(), &plan).await);
    assert_eq!(text, "the value -inf is out of range");
    let compat = Settings { compat: Compat::Reference, ..settings() };
    assert_eq!(milli(fetch(compat, FakeCluster::default(), &plan).await), i64::MIN);
}
