//! The target that Prometheus scrapes.
//!
//! The samples of the first scrape are almost [`HISTORY`] old. Those of each later scrape are
//! [`STEP`] newer, until they reach the present. Rates over minutes are therefore available after
//! seconds. The rates are exact, because counters increase linearly.

use std::{fmt::Write as _, net::SocketAddr, sync::Arc};

use axum::{Router, extract::State, routing::get};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

const HISTORY: SignedDuration = SignedDuration::from_mins(8);
const STEP: SignedDuration = SignedDuration::from_secs(10);

/// A series that exists once the samples have reached the present.
pub(crate) const COMPLETE: &str = "fixture_complete";

/// Counters, and their increase per second.
const COUNTERS: &[(&str, f64)] = &[
    // A histogram with 20 requests per second at `web-1` and 30 at `web-2`.
    (
        r#"http_request_duration_seconds_bucket{namespace="shop",pod="web-1",service="web",le="0.1"}"#,
        10.0,
    ),
    (
        r#"http_request_duration_seconds_bucket{namespace="shop",pod="web-1",service="web",le="0.5"}"#,
        20.0,
    ),
    (
        r#"http_request_duration_seconds_bucket{namespace="shop",pod="web-1",service="web",le="+Inf"}"#,
        20.0,
    ),
    (r#"http_request_duration_seconds_count{namespace="shop",pod="web-1",service="web"}"#, 20.0),
    (
        r#"http_request_duration_seconds_bucket{namespace="shop",pod="web-2",service="web",le="0.1"}"#,
        15.0,
    ),
    (
        r#"http_request_duration_seconds_bucket{namespace="shop",pod="web-2",service="web",le="0.5"}"#,
        30.0,
    ),
    (
        r#"http_request_duration_seconds_bucket{namespace="shop",pod="web-2",service="web",le="+Inf"}"#,
        30.0,
    ),
    (r#"http_request_duration_seconds_count{namespace="shop",pod="web-2",service="web"}"#, 30.0),
    (r#"http_request_duration_seconds_count{namespace="pay",pod="web-1",service="web"}"#, 1000.0),
    (
        r#"nginx_ingress_controller_requests{exported_namespace="shop",ingress="shop",status="200"}"#,
        90.0,
    ),
    (
        r#"nginx_ingress_controller_requests{exported_namespace="shop",ingress="shop",status="500"}"#,
        10.0,
    ),
    (
        r#"nginx_ingress_controller_requests{exported_namespace="shop",ingress="admin",status="200"}"#,
        7.0,
    ),
    (r#"http_requests_total{namespace="shop",deployment="web",pod="web-1"}"#, 20.0),
    (r#"http_requests_total{namespace="shop",deployment="web",pod="web-2"}"#, 30.0),
    (r#"http_requests_total{namespace="shop",deployment="api",pod="api-1"}"#, 3.0),
    // cAdvisor: `POD` is the container that holds the pod's network.
    (r#"container_cpu_usage_seconds_total{namespace="shop",pod="web-1",container="app"}"#, 0.25),
    (r#"container_cpu_usage_seconds_total{namespace="shop",pod="web-1",container="POD"}"#, 4.0),
    (
        r#"container_network_receive_bytes_total{namespace="shop",pod="web-1",interface="eth0"}"#,
        1000.0,
    ),
    (r#"process_cpu_seconds_total{namespace="shop",pod="web-1"}"#, 0.5),
    // skipper writes `_` for the dots of a host.
    (r#"skipper_serve_host_duration_seconds_count{host="a_shop_example"}"#, 30.0),
    (r#"skipper_serve_host_duration_seconds_count{host="a_shop_example",code="500"}"#, 10.0),
    (r#"skipper_serve_host_duration_seconds_count{host="b_shop_example"}"#, 12.0),
    (r#"skipper_serve_host_duration_seconds_count{host="*_shop_example"}"#, 8.0),
    (r#"skipper_serve_host_duration_seconds_count{host="other_example"}"#, 1000.0),
];

const GAUGES: &[(&str, f64)] = &[
    (r#"rabbitmq_queue_messages_ready{namespace="shop",queue="orders",node="rabbit-1"}"#, 120.0),
    (r#"rabbitmq_queue_messages_ready{namespace="shop",queue="orders",node="rabbit-2"}"#, 120.0),
    (r#"rabbitmq_queue_messages_ready{namespace="shop",queue="mails",node="rabbit-1"}"#, 7.0),
    (r#"rabbitmq_queue_messages_ready{namespace="pay",queue="orders",node="rabbit-1"}"#, 999.0),
    (r#"worker_threads_busy{namespace="shop",pod="web-1"}"#, 6.0),
    (r#"worker_threads{namespace="shop",pod="web-1"}"#, 8.0),
    (r#"worker_threads_busy{namespace="shop",pod="web-2"}"#, 2.0),
    (r#"worker_threads{namespace="shop",pod="web-2"}"#, 8.0),
    // A pod without workers: 0 / 0.
    (r#"worker_threads_busy{namespace="shop",pod="web-3"}"#, 0.0),
    (r#"worker_threads{namespace="shop",pod="web-3"}"#, 0.0),
    (r#"jvm_memory_used_bytes{namespace="shop",pod="web-1",area="heap",id="Eden"}"#, 200.0),
    (r#"jvm_memory_used_bytes{namespace="shop",pod="web-1",area="heap",id="Old"}"#, 400.0),
    (r#"jvm_memory_used_bytes{namespace="shop",pod="web-1",area="nonheap",id="Code"}"#, 999.0),
    (r#"jvm_memory_max_bytes{namespace="shop",pod="web-1",area="heap",id="Eden"}"#, -1.0),
    (r#"jvm_memory_max_bytes{namespace="shop",pod="web-1",area="heap",id="Old"}"#, 800.0),
    (r#"DCGM_FI_DEV_GPU_UTIL{exported_namespace="shop",exported_pod="web-1",gpu="0"}"#, 90.0),
    (r#"DCGM_FI_DEV_GPU_UTIL{exported_namespace="shop",exported_pod="web-1",gpu="1"}"#, 70.0),
    (r#"tenant_jobs_waiting{namespace="platform",tenant="acme",queue="a"}"#, 4.0),
    (r#"tenant_jobs_waiting{namespace="platform",tenant="acme",queue="b"}"#, 8.0),
    (r#"tenant_jobs_waiting{namespace="platform",tenant="other",queue="a"}"#, 3.0),
    (r#"kube_pod_labels{namespace="shop",pod="web-1",label_app="web"}"#, 1.0),
    (r#"kube_pod_labels{namespace="shop",pod="web-2",label_app="web"}"#, 1.0),
    (r#"kube_pod_labels{namespace="shop",pod="api-1",label_app="api"}"#, 1.0),
    (r#"open_connections{namespace="shop",pod="web-1"}"#, 40.0),
    (r#"open_connections{namespace="shop",pod="web-2"}"#, 25.0),
    (r#"open_connections{namespace="shop",pod="api-1"}"#, 99.0),
    (r#"container_memory_working_set_bytes{namespace="shop",pod="web-1",container="app"}"#, 4096.0),
    (r#"container_memory_working_set_bytes{namespace="shop",pod="web-1",container="POD"}"#, 1.0),
    // Without the label of the namespace.
    (r#"unlabeled_requests{pod="web-1"}"#, 5.0),
    (r#"request_latency_ms{namespace="shop",pod="web-1"}"#, 250.0),
    // A gauge with the name of a counter.
    (r#"sessions_total{namespace="shop",pod="web-1"}"#, 12.0),
    (r#"queue_length{namespace="shop",service="web"}"#, 3.0),
    (r#"queue_length{namespace="shop",service="api"}"#, 5.0),
];

/// A counter of a removed target.
const STOPPED_COUNTER: &str = r#"stopped_requests_total{namespace="shop",pod="web-1"}"#;
/// The time for which the counter was scraped. Its last sample is older than five minutes, so that
/// instant queries don't return it.
const STOPPED_AFTER: SignedDuration = SignedDuration::from_secs(150);

/// The times of the first and the last samples.
struct SampleTimes {
    first: Timestamp,
    last: Timestamp,
}

/// Serves the target until the runtime ends.
pub(crate) async fn serve() -> SocketAddr {
    let first = Timestamp::now() - HISTORY;
    let times = Arc::new(Mutex::new(SampleTimes { first, last: first }));
    hpa_tests::harness::serve(Router::new().route("/metrics", get(scrape)).with_state(times)).await
}

async fn scrape(State(times): State<Arc<Mutex<SampleTimes>>>) -> String {
    let (age, last, is_complete) = {
        let mut times = times.lock();
        let next = times.last + STEP;
        if next <= Timestamp::now() {
            times.last = next;
        }
        let is_complete = times.last + STEP > Timestamp::now();
        (times.last.duration_since(times.first), times.last, is_complete)
    };
    exposition(age, last, is_complete)
}

fn exposition(age: SignedDuration, time: Timestamp, is_complete: bool) -> String {
    let mut text = "# TYPE sessions_total gauge\n".to_owned();
    let mut add = |series: &str, value: f64| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{series} {value} {}", time.as_millisecond());
    };
    for (series, rate) in COUNTERS {
        // The value must be far from zero, because Prometheus extrapolates less for a counter near
        // zero.
        add(series, rate * (3600.0 + age.as_secs_f64()));
    }
    for (series, value) in GAUGES {
        add(series, *value);
    }
    if age <= STOPPED_AFTER {
        add(STOPPED_COUNTER, 3600.0 + age.as_secs_f64());
    }
    if is_complete {
        add(COMPLETE, 1.0);
    }
    text
}
