//! Failures of Prometheus, for a controller with rules (`hpa run --metrics-config`) and an adapter.
//!
//! In each test, the load changes while Prometheus fails. The controller must not scale on bad
//! data, must report the reason, and must scale when Prometheus works again. Everything runs in one
//! process and in virtual time.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a failed step fails the test")]

mod cluster;
mod prometheus;

use std::time::Duration;

use jiff::SignedDuration;
use rstest::rstest;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, NAMED_POD_PATH, PERIOD, PODS_PATH, QUEUE_PATH, RELIST_INTERVAL},
    prometheus::{Fault, Prometheus},
};

/// A cluster that has scaled `web` to 6 and `mail` to 3 replicas, as its load requires.
async fn scaled_up_cluster() -> Cluster {
    let prometheus = Prometheus::default();
    prometheus.set_value("http_requests_total", 30.0);
    prometheus.set_value("queue_length", 30.0);
    let cluster = Cluster::start(&prometheus);
    cluster.wait_for_replicas("web", 6).await;
    cluster.wait_for_replicas("mail", 3).await;
    cluster
}

/// Changes the load: `web` and `mail` need one replica, `cpu` needs four.
fn change_load(cluster: &Cluster) {
    cluster.prometheus.set_value("http_requests_total", 5.0);
    cluster.prometheus.set_value("queue_length", 5.0);
    cluster.cpu.set_cpu_percent(200);
}

/// Ends the fault, and checks that autoscalers scale, the adapter responds, and discovery reports
/// no problem.
async fn recover_and_check(cluster: &Cluster) {
    cluster.prometheus.recover();
    cluster.wait_for_replicas("web", 1).await;
    cluster.wait_for_replicas("mail", 1).await;
    assert_eq!(adapter_values(cluster, PODS_PATH).await, ["5", "5"]);
    assert_eq!(adapter_values(cluster, QUEUE_PATH).await, ["5"]);
    cluster.wait_for_no_problems().await;
}

/// The values in the adapter's response for a path.
async fn adapter_values(cluster: &Cluster, path: &str) -> Vec<String> {
    let (status, body) = cluster.get(path).await;
    assert_eq!(status, 200, "{path}: {body}");
    let items = body["items"].as_array().into_iter().flatten();
    items.map(|item| item["value"].as_str().unwrap_or_default().to_owned()).collect()
}

const EXECUTION: &str = r#"{"status":"error","errorType":"execution","error":"secret detail"}"#;
const UNAVAILABLE: &str = r#"{"status":"error","errorType":"unavailable","error":"not ready"}"#;

#[rstest]
#[case::refused(
    Fault::Refused,
    "the request to Prometheus at prometheus:80 failed: connection refused"
)]
#[case::hangs(Fault::Hangs, "no response from Prometheus at ")]
#[case::unprocessable(Fault::Status(422, EXECUTION), "execution: secret detail")]
#[case::unavailable(Fault::Status(503, UNAVAILABLE), "unavailable: not ready")]
#[case::html(Fault::Status(503, "<html>"), "the response isn't a response of Prometheus")]
#[case::broken_proxy(Fault::Status(502, ""), "unknown response code 502")]
#[case::expired_token(Fault::Status(401, ""), "unknown response code 401: check the credentials")]
#[case::cut(Fault::Cut, "the response isn't a response of Prometheus: EOF")]
#[case::reset(Fault::Reset, "the response ended early: ")]
#[tokio::test(start_paused = true)]
async fn failed_requests_scale_nothing(#[case] fault: Fault, #[case] expected: &str) {
    let cluster = scaled_up_cluster().await;
    cluster.prometheus.fail(fault);
    change_load(&cluster);

    let message = cluster.wait_for_failure("web", "FailedGetPodsMetric").await;
    assert!(message.contains(expected), "{message}");
    let message = cluster.wait_for_failure("mail", "FailedGetExternalMetric").await;
    assert!(message.contains(expected), "{message}");
    for path in [PODS_PATH, NAMED_POD_PATH, QUEUE_PATH] {
        assert_is_fetch_error(&cluster.get(path).await);
    }
    // Discovery fails too, but the rules keep their series.
    let problems = cluster.wait_for_problems().await;
    assert!(problems[0].starts_with("rules[0]: "), "{problems:?}");
    assert!(problems[1].starts_with("externalRules[0]: "), "{problems:?}");
    assert_eq!(cluster.get("/readyz").await.0, 200);
    sleep(4 * PERIOD).await;
    assert_eq!((cluster.replicas("web"), cluster.replicas("mail")), (6, 3));
    assert_eq!(cluster.replicas("cpu"), 4, "autoscalers of other metrics are still scaled");

    recover_and_check(&cluster).await;
}

/// Expects prometheus-adapter's message with a short reason, without details of the server.
fn assert_is_fetch_error((status, body): &(u16, Value)) {
    assert_eq!(*status, 500, "{body}");
    let message = body["message"].as_str().unwrap_or_default();
    let reason = message.strip_prefix("Internal error occurred: unable to fetch metrics (");
    let has_server = message.contains("http");
    assert!(!has_server && reason.is_some_and(|text| text.contains("Prometheus")), "{body}");
}

#[tokio::test(start_paused = true)]
async fn result_of_200_megabytes_is_refused() {
    let cluster = scaled_up_cluster().await;
    cluster.prometheus.fail_matching("http_requests_total", Fault::Oversized);
    change_load(&cluster);
    let message = cluster.wait_for_failure("web", "FailedGetPodsMetric").await;
    assert!(message.contains("the response is longer than 4194304 bytes"), "{message}");
    let before = cluster.prometheus.sent_bytes();
    assert_is_fetch_error(&cluster.get(PODS_PATH).await);
    let read = cluster.prometheus.sent_bytes() - before;
    assert!(read < 5 << 20, "{read} bytes of a response were read");
    sleep(4 * PERIOD).await;
    assert_eq!((cluster.replicas("web"), cluster.replicas("cpu")), (6, 4));
    recover_and_check(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn failed_query_of_one_rule_affects_no_other() {
    let cluster = scaled_up_cluster().await;
    cluster.prometheus.fail_matching("http_requests_total", Fault::Status(422, EXECUTION));
    change_load(&cluster);
    cluster.wait_for_failure("web", "FailedGetPodsMetric").await;
    cluster.wait_for_replicas("mail", 1).await;
    assert_eq!(adapter_values(&cluster, QUEUE_PATH).await, ["5"]);
    assert_is_fetch_error(&cluster.get(PODS_PATH).await);
    let problems = cluster.wait_for_problems().await;
    assert_eq!(problems, ["rules[0]: execution: secret detail"]);
    assert_eq!(cluster.replicas("web"), 6);
    recover_and_check(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn slow_responses_are_used() {
    let cluster = scaled_up_cluster().await;
    cluster.prometheus.fail(Fault::Slow(Duration::from_secs(9)));
    change_load(&cluster);
    cluster.wait_for_replicas("web", 1).await;
    cluster.wait_for_replicas("mail", 1).await;
    sleep(2 * RELIST_INTERVAL).await;
    assert_eq!(cluster.source.problems(), [""; 0]);
}

/// Prometheus fails every other 20 s, and the API server every other 30 s: alone, together and in
/// both orders.
#[tokio::test(start_paused = true)]
async fn flapping_prometheus_and_api_server_scale_nothing() {
    let cluster = scaled_up_cluster().await;
    let before = ["web", "mail", "cpu"].map(|name| cluster.replicas(name));
    for second in 0..300 {
        match second % 40 {
            0 => cluster.prometheus.fail(Fault::Refused),
            20 => cluster.prometheus.recover(),
            _ => {}
        }
        match second % 60 {
            0 => cluster.fail_api_server(),
            30 => cluster.recover_api_server(),
            _ => {}
        }
        sleep(Duration::from_secs(1)).await;
        let now = ["web", "mail", "cpu"].map(|name| cluster.replicas(name));
        assert_eq!(now, before, "after {second} s");
    }
    cluster.recover_api_server();
    change_load(&cluster);
    recover_and_check(&cluster).await;
    cluster.wait_for_replicas("cpu", 4).await;
}

#[tokio::test(start_paused = true)]
async fn metrics_are_served_once_prometheus_starts() {
    let prometheus = Prometheus::default();
    prometheus.fail(Fault::Refused);
    prometheus.set_value("http_requests_total", 30.0);
    prometheus.set_value("queue_length", 30.0);
    let cluster = Cluster::start(&prometheus);
    let message = cluster.wait_for_failure("web", "FailedGetPodsMetric").await;
    assert!(message.contains("the metrics of rules are not discovered yet"), "{message}");
    let (status, body) = cluster.get("/readyz").await;
    assert_eq!(status, 500, "{body}");
    assert!(body.to_string().contains("rules[0]"), "{body}");
    let (status, body) = cluster.get(PODS_PATH).await;
    assert_eq!(status, 503, "{body}");
    assert!(body.to_string().contains("have not been read yet"), "{body}");
    sleep(RELIST_INTERVAL).await;
    assert_eq!((cluster.replicas("web"), cluster.replicas("mail")), (2, 2));
    prometheus.recover();
    cluster.wait_for_replicas("web", 6).await;
    cluster.wait_for_replicas("mail", 3).await;
    assert_eq!(cluster.get("/readyz").await.0, 200);
}

/// The query divides by zero, for example.
#[rstest]
#[case::nan("NaN")]
#[case::infinite("+Inf")]
#[case::negative_infinite("-Inf")]
#[tokio::test(start_paused = true)]
async fn value_that_is_not_a_finite_number_scales_nothing(#[case] value: &'static str) {
    let cluster = scaled_up_cluster().await;
    cluster.prometheus.fail_matching("sum", Fault::Value(value));
    change_load(&cluster);
    cluster.wait_for_failure("web", "FailedGetPodsMetric").await;
    cluster.wait_for_failure("mail", "FailedGetExternalMetric").await;
    assert_eq!(adapter_values(&cluster, PODS_PATH).await, [""; 0]);
    assert_eq!(adapter_values(&cluster, QUEUE_PATH).await, [""; 0]);
    assert_eq!(cluster.get(NAMED_POD_PATH).await.0, 404);
    sleep(4 * PERIOD).await;
    assert_eq!((cluster.replicas("web"), cluster.replicas("mail")), (6, 3));
    assert_eq!(cluster.replicas("cpu"), 4, "autoscalers of other metrics are still scaled");
    recover_and_check(&cluster).await;
}

/// Prometheus has lost its data, or doesn't scrape.
#[tokio::test(start_paused = true)]
async fn lost_series_scale_nothing() {
    let cluster = scaled_up_cluster().await;
    cluster.prometheus.fail(Fault::Empty);
    change_load(&cluster);
    cluster.wait_for_failure("web", "FailedGetPodsMetric").await;
    cluster.wait_for_failure("mail", "FailedGetExternalMetric").await;
    sleep(2 * RELIST_INTERVAL).await;
    assert_eq!((cluster.replicas("web"), cluster.replicas("mail")), (6, 3));
    assert_eq!(cluster.get(PODS_PATH).await.0, 404);
    recover_and_check(&cluster).await;
}

/// Each object has two samples, for example because two servers scrape the same pods. The order of
/// the samples doesn't matter.
#[rstest]
#[tokio::test(start_paused = true)]
async fn largest_duplicate_is_used(#[values(true, false)] is_first: bool) {
    let cluster = scaled_up_cluster().await;
    let duplicate = Fault::Duplicate { value: "20", is_first };
    cluster.prometheus.fail_matching("sum(rate(http_requests_total", duplicate);
    change_load(&cluster);
    cluster.wait_for_replicas("web", 4).await;
    assert_eq!(adapter_values(&cluster, PODS_PATH).await, ["20", "20"]);
    assert_eq!(adapter_values(&cluster, NAMED_POD_PATH).await, ["20"]);
    cluster.prometheus.set_value("http_requests_total", 30.0);
    cluster.wait_for_replicas("web", 6).await;
}

#[rstest]
#[case::ahead(SignedDuration::from_mins(1))]
#[case::behind(-SignedDuration::from_mins(1))]
#[tokio::test(start_paused = true)]
async fn clock_skew_of_a_minute_changes_nothing(#[case] offset: SignedDuration) {
    let cluster = scaled_up_cluster().await;
    cluster.prometheus.set_clock_offset(offset);
    sleep(3 * RELIST_INTERVAL).await;
    assert_eq!((cluster.replicas("web"), cluster.replicas("mail")), (6, 3));
    change_load(&cluster);
    recover_and_check(&cluster).await;
}
