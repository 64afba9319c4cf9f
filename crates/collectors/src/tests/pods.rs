//! Tests of the collector that reads pods.

use std::time::Duration;

use hpa_metrics::describe;
use rstest::rstest;

use super::*;
use crate::Limits;

/// Values by pod, in thousandths.
fn values(fetched: &Values) -> Vec<(&str, i64)> {
    let samples = fetched.samples.iter();
    samples.map(|sample| (sample.pod.as_deref().unwrap(), sample.value.as_milli())).collect()
}

#[tokio::test]
async fn each_ready_pod_is_read_with_path_and_raw_query() {
    let server = Server::start(|_| ok(r#"{"http": {"rps": 1.5}}"#)).await;
    let plan = pod_plan(&[
        ("json-key", "$.http.rps"),
        ("port", &server.port()),
        ("path", "metrics/a b"),
        ("raw-query", "x=1&y=%20"),
    ]);
    let pods = [pod("b", "127.0.0.1"), pod("a", "127.0.0.1")];
    let fetched = fetch(settings(), with_pods(&pods), &plan).await.unwrap();
    assert_eq!(values(&fetched), [("a", 1500), ("b", 1500)]);
    assert!(fetched.failures.is_empty());
    assert!(fetched.samples.iter().all(|sample| sample.at >= now()));
    let request = &server.requests()[0];
    assert!(request.starts_with("GET /metrics/a%20b?x=1&y=%20 HTTP/1.1\r\n"), "{request}");
    let host = format!("host: {}\r\n", server.address);
    assert!(request.contains(&host), "{request}");
}

#[tokio::test]
async fn pod_is_read_by_its_ipv6_address() {
    let server = Server::start_on("[::1]:0", None, |_| ok("[7]")).await;
    let port = server.port();
    let plan = pod_plan(&[("json-key", "$[0]"), ("port", &port)]);
    let fetched = fetch(settings(), with_pods(&[pod("six", "::1")]), &plan).await.unwrap();
    assert_eq!(values(&fetched), [("six", 7000)]);
    assert!(server.requests()[0].contains(&format!("host: [::1]:{port}\r\n")));
}

#[tokio::test]
async fn unready_terminating_and_young_pods_are_skipped() {
    let server = Server::start(|_| ok("1")).await;
    let port = server.port();
    let plan = pod_plan(&[("json-key", "$"), ("port", &port), ("min-pod-ready-age", "20s")]);
    let pods = [
        pod("ready", "127.0.0.1"),
        Pod { ready_since: None, ..pod("unready", "127.0.0.1") },
        Pod { is_terminating: true, ..pod("terminating", "127.0.0.1") },
        Pod { ready_since: Some(now() - 19.seconds()), ..pod("young", "127.0.0.1") },
        Pod { ready_since: Some(now() - 20.seconds()), ..pod("old-enough", "127.0.0.1") },
    ];
    let fetched = fetch(settings(), with_pods(&pods), &plan).await.unwrap();
    assert_eq!(values(&fetched), [("old-enough", 1000), ("ready", 1000)]);
    assert_eq!(server.requests().len(), 2);
    let fetched = fetch(settings(), with_pods(&pods[1..2]), &plan).await.unwrap();
    assert!(fetched.samples.is_empty() && fetched.failures.is_empty());
}

#[tokio::test]
async fn pod_that_became_ready_in_the_future_is_read_without_a_minimum_age() {
    let server = Server::start(|_| ok("1")).await;
    let plan = pod_plan(&[("json-key", "$"), ("port", &server.port())]);
    let skewed = Pod { ready_since: Some(now() + 5.seconds()), ..pod("a", "127.0.0.1") };
    assert_eq!(milli(fetch(settings(), with_pods(&[skewed]), &plan).await), 1000);
}

#[tokio::test]
async fn failing_pods_do_not_affect_others() {
    let server = Server::start(|_| ok("[3, 5]")).await;
    let plan = pod_plan(&[("json-key", "$"), ("aggregator", "max"), ("port", &server.port())]);
    // The second pod doesn't listen, the third one has no address.
    let pods = [pod("a", "127.0.0.1"), pod("b", "::1"), pod("c", "")];
    let fetched = fetch(settings(), with_pods(&pods), &plan).await.unwrap();
    assert_eq!(values(&fetched), [("a", 5000)]);
    let failures: Vec<_> = fetched
        .failures
        .iter()
        .map(|failure| format!("{}: {}", failure.pod, describe(&failure.error)))
        .collect();
    assert!(failures[0].starts_with("b: the request to http://[::1]:"), "{failures:?}");
    assert!(failures[0].contains("unable to connect to ::1"), "{failures:?}");
    assert_eq!(failures[1], "c: the pod has no IP address");
    let error = error(fetch(settings(), with_pods(&pods[2..]), &plan).await);
    assert_eq!(error, "none of 1 pod has a value; c: the pod has no IP address");
}

#[tokio::test]
async fn pod_with_a_refused_address_is_not_connected_to() {
    let server = Server::start(|_| ok("1")).await;
    let plan = pod_plan(&[("json-key", "$"), ("port", &server.port())]);
    for ip in ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "::1"] {
        let error = fetch(Settings::default(), with_pods(&[pod("a", ip)]), &plan).await;
        assert!(is_refused(&error.unwrap_err()), "{ip}");
    }
    assert!(server.requests().is_empty());
}

#[rstest]
#[case::nothing(Reply::Stall(Vec::new()), "no response within 0.05 s")]
#[case::part_of_the_head(
    Reply::Stall(b"HTTP/1.1 200 OK\r\n".to_vec()),
    "no response within 0.05 s"
)]
#[case::part_of_the_body(
    Reply::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1".to_vec()),
    "the response took longer than 0.05 s"
)]
#[tokio::test]
async fn slow_pod_fails_after_its_request_timeout(#[case] reply: Reply, #[case] expected: &str) {
    let server = Server::start(move |_| reply.clone()).await;
    let port = server.port();
    let plan = pod_plan(&[("json-key", "$"), ("port", &port), ("request-timeout", "50ms")]);
    let error = error(fetch(settings(), with_pods(&[pod("a", "127.0.0.1")]), &plan).await);
    assert!(error.ends_with(expected), "{error}");
}

#[tokio::test]
async fn collection_with_slow_pods_has_a_time_limit() {
    let server = Server::start(|_| Reply::Stall(Vec::new())).await;
    let port = server.port();
    let plan = pod_plan(&[("json-key", "$"), ("port", &port), ("request-timeout", "100ms")]);
    let limits = Limits { connections_per_collection: 2, ..Limits::default() };
    let pods: Vec<_> = (0..50).map(|index| pod(&format!("p{index}"), "127.0.0.1")).collect();
    let start = std::time::Instant::now();
    let result = fetch(Settings { limits, ..settings() }, with_pods(&pods), &plan).await;
    assert!(error(result).starts_with("none of 50 pods has a value; p0: "));
    // The limit is 0.2 s. Reading all pods, two at a time, would take 2.5 s.
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    // The limit is two. The server detects a closed connection a little later than the client.
    assert!(server.max_open() <= 4, "{}", server.max_open());
}

#[rstest]
#[case("port", "0", "invalid port config value: 0")]
#[case("port", "65536", "invalid port config value: 65536")]
#[case("scheme", "gopher", "invalid scheme config value: gopher")]
#[tokio::test]
async fn invalid_setting_is_an_error_of_the_collection(
    #[case] key: &str,
    #[case] value: &str,
    #[case] expected: &str,
) {
    let plan = pod_plan(&[("json-key", "$"), ("port", "80"), (key, value)]);
    let error = error(fetch(settings(), with_pods(&[pod("a", "127.0.0.1")]), &plan).await);
    assert_eq!(error, expected);
}

#[tokio::test]
async fn connections_of_all_collections_are_bounded() {
    let server = Server::start(|_| ok("1")).await;
    let plan = pod_plan(&[("json-key", "$"), ("port", &server.port())]);
    let limits = Limits { connections: 5, connections_per_collection: 4, ..Limits::default() };
    let pods: Vec<_> = (0..100).map(|index| pod(&format!("p{index}"), "127.0.0.1")).collect();
    let clients = Clients::new(Settings { limits, ..settings() }, Arc::new(with_pods(&pods)));
    let clients = clients.unwrap();
    let fetched = futures::future::join_all((0..4).map(|_| fetch_with(&clients, &plan))).await;
    for fetched in fetched {
        assert_eq!(fetched.unwrap().samples.len(), 100);
    }
    // One namespace gets three of five connections. The server detects a closed connection a little
    // later than the client.
    assert!((2..=10).contains(&server.max_open()), "{}", server.max_open());
}

/// The plan of a metric of pods, or the error in its settings.
fn parse(values: &[(&str, &str)], compat: Compat) -> Result<CollectorPlan, String> {
    let config = config(pods_metric(), "pods.m.json-path", values, compat);
    let plan = CollectorPlan::new(&config, &Environment { compat, ..Environment::default() });
    plan.map_err(|error| error.to_string())
}

#[test]
fn missing_port_is_an_error_unless_compatible() {
    let values = [("json-key", "$.v")];
    assert_eq!(parse(&values, Compat::Off).unwrap_err(), "config value port not found");
    parse(&values, Compat::Reference).unwrap();
}

#[test]
fn interval_below_a_second_is_an_error_unless_compatible() {
    let interval_of = |text, compat| {
        let plan = parse(&[("json-key", "$.v"), ("port", "80"), ("interval", text)], compat);
        plan.map(|plan| plan.interval_nanos)
    };
    for interval in ["-30s", "1ns", "999ms"] {
        let error = interval_of(interval, Compat::Off).unwrap_err();
        assert_eq!(error, "the interval must be at least 1s");
        interval_of(interval, Compat::Reference).unwrap();
    }
    assert_eq!(interval_of("1s", Compat::Off), Ok(1_000_000_000));
    assert_eq!(interval_of("-30s", Compat::Reference), Ok(-30_000_000_000));
}
