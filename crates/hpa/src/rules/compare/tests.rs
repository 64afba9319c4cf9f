//! Tests that compare two servers with given responses.

use std::{
    collections::HashMap,
    fs,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Json, Router, extract::State, http::StatusCode};
use http::Uri;
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::*;

/// The responses to each path and query, in order. The last one repeats.
type Responses = HashMap<&'static str, Vec<(u16, Value)>>;

/// A server of the metrics APIs.
#[derive(Clone, Default)]
struct FakeServer {
    responses: Arc<Mutex<Responses>>,
    authorization: Arc<Mutex<Option<String>>>,
    requests: Arc<AtomicUsize>,
}

impl FakeServer {
    fn with_response(self, path: &'static str, status: u16, body: Value) -> Self {
        self.responses.lock().entry(path).or_default().push((status, body));
        self
    }

    fn with_custom_metrics(self, names: &[&str]) -> Self {
        self.with_response("/apis/custom.metrics.k8s.io/v1beta1", 200, resource_list(names))
    }

    fn with_pod_values(self, values: &[(&str, &str)]) -> Self {
        let item = |(name, value): &(&str, &str)| {
            json!({
                "describedObject": {"kind": "Pod", "name": name, "namespace": "shop"},
                "metricName": "rps",
                "value": value,
            })
        };
        let items: Vec<Value> = values.iter().map(item).collect();
        self.with_response(RPS, 200, json!({"kind": "MetricValueList", "items": items}))
    }

    async fn start(&self, tasks: &mut JoinSet<()>) -> Uri {
        let router = Router::new().fallback(respond).with_state(self.clone());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        url.parse().unwrap()
    }
}

async fn respond(
    State(fake): State<FakeServer>,
    request: axum::extract::Request,
) -> (StatusCode, Json<Value>) {
    fake.requests.fetch_add(1, Ordering::Relaxed);
    let authorization =
        request.headers().get("authorization").map(|v| v.to_str().unwrap().to_owned());
    *fake.authorization.lock() = authorization;
    let path = request.uri().path_and_query().unwrap().as_str();
    let mut responses = fake.responses.lock();
    let (status, body) = match responses.get_mut(path) {
        Some(responses) if responses.len() > 1 => responses.remove(0),
        Some(responses) => responses[0].clone(),
        None => (404, json!({"message": "not found"})),
    };
    (StatusCode::from_u16(status).unwrap(), Json(body))
}

fn resource_list(names: &[&str]) -> Value {
    let resources: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"resources": resources})
}

const CUSTOM_V1BETA2: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const RPS: &str = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/rps";
const RPS_V1BETA2: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/rps";

fn autoscaler(metrics: Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
            "metrics": metrics,
        },
    })
}

fn rps() -> Value {
    json!([pods_metric("rps")])
}

fn pods_metric(name: &str) -> Value {
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    json!({"type": "Pods", "pods": {"metric": {"name": name}, "target": target}})
}

fn queue_metric() -> Value {
    let target = json!({"type": "Value", "value": "1"});
    json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": target}})
}

fn endpoint(name: &'static str, url: Uri) -> Endpoint<'static> {
    Endpoint { name, url, token_file: None, ca_file: None, server_name: None, is_insecure: false }
}

fn server(name: &'static str, url: Uri) -> anyhow::Result<Server> {
    Server::new(&endpoint(name, url))
}

async fn report(left: &FakeServer, right: &FakeServer, metrics: Value) -> anyhow::Result<Report> {
    let mut tasks = JoinSet::new();
    let left = server("left", left.start(&mut tasks).await)?;
    let right = server("right", right.start(&mut tasks).await)?;
    compare_servers(&left, &right, &[decode(&autoscaler(metrics))?], 0.1).await
}

#[tokio::test]
async fn equal_servers_have_no_differences() {
    let left = FakeServer::default()
        .with_custom_metrics(&["pods/rps"])
        .with_pod_values(&[("web-1", "20"), ("web-2", "30")]);
    let right = FakeServer::default()
        .with_custom_metrics(&["pods/rps"])
        .with_pod_values(&[("web-1", "21"), ("web-2", "30500m")]);
    let report = report(&left, &right, rps()).await.unwrap();
    assert_eq!((report.difference_count(), report.compared_value_count()), (0, 2));
    assert_eq!(
        report.to_string(),
        "no differences: 2 values compared\n\
         custom.metrics.k8s.io/v1beta1: both list 1 metric, only left 0, only right 0\n\
         custom.metrics.k8s.io/v1beta2: neither server has it\n\
         external.metrics.k8s.io/v1beta1: neither server has it\n\
         metrics.k8s.io/v1beta1: neither server has it\n\
         1 request for the metrics of 1 autoscaler, 2 values: differences in 0 requests\n"
    );
}

#[tokio::test]
async fn different_values_and_metrics_are_reported() {
    let left = FakeServer::default()
        .with_custom_metrics(&["pods/rps", "pods/old", "scalingschedules.zalando.org/now"])
        .with_pod_values(&[("web-1", "20"), ("web-2", "0"), ("web-3", "5")]);
    let right = FakeServer::default()
        .with_custom_metrics(&["pods/rps", "services/new"])
        .with_pod_values(&[("web-1", "30"), ("web-4", "1")]);
    let report = report(&left, &right, rps()).await.unwrap();
    assert_eq!(report.difference_count(), 3);
    let text = report.to_string();
    let expected = [
        "3 differences (2 in lists of metrics, 1 in values): 3 values compared\n\
         custom.metrics.k8s.io/v1beta1: both list 1 metric, only left 1, only right 1\n",
        "  only left: pods/old\n  only right: services/new\n",
        "1 request for the metrics of 1 autoscaler, 3 values: differences in 1 request\n",
        "  /apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/rps (shop/web)\n\
         \x20   pod web-1: left 20, right 30\n\
         \x20   pod web-2: left 0, right has no value (prometheus-adapter reports NaN as 0)\n\
         \x20   pod web-3: left 5, right has no value\n\
         \x20   pod web-4: left has no value, right 1\n",
    ];
    for part in expected {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[tokio::test]
async fn values_that_agree_on_the_second_read_are_equal() {
    let left = FakeServer::default().with_pod_values(&[("web-1", "20")]);
    let right = FakeServer::default()
        .with_pod_values(&[("web-1", "30")])
        .with_pod_values(&[("web-1", "20")]);
    let report = report(&left, &right, rps()).await.unwrap();
    assert_eq!(report.difference_count(), 0);
    // Four lists of APIs, and two reads of the value.
    assert_eq!(right.requests.load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn missing_api_and_error_are_reported() {
    let left = FakeServer::default().with_custom_metrics(&[]).with_pod_values(&[("web-1", "20")]);
    let error = json!({"message": "unable to fetch metrics"});
    let right = FakeServer::default().with_response(RPS, 500, error);
    let report = report(&left, &right, rps()).await.unwrap();
    assert_eq!(report.difference_count(), 2);
    let text = report.to_string();
    assert!(text.contains("  right does not serve it: 404: not found\n"), "{text}");
    let expected = "    left has 1 value, right answers 500: unable to fetch metrics\n";
    assert!(text.contains(expected), "{text}");
    assert!(report.compared_nothing());
    assert!(text.starts_with("the right server serves none of the metrics APIs (404): nothing"));
}

/// A server with one metric of pods, which has this value.
fn server_with_rps(value: &str) -> FakeServer {
    FakeServer::default().with_custom_metrics(&["pods/rps"]).with_pod_values(&[("web-1", value)])
}

/// A server with both versions of the custom metrics API, whose v1beta2 has a metric with a value.
fn server_with_v1beta2(value: &str) -> FakeServer {
    let item = json!({"describedObject": {"kind": "Pod", "name": "web-1"}, "value": value});
    let values = json!({"kind": "MetricValueList", "items": [item]});
    server_with_rps("20")
        .with_response(CUSTOM_V1BETA2, 200, resource_list(&["pods/rps"]))
        .with_response(RPS_V1BETA2, 200, values)
}

#[tokio::test]
async fn each_version_that_both_servers_have_is_compared() {
    let report = report(&server_with_v1beta2("20"), &server_with_v1beta2("40"), rps()).await;
    let report = report.unwrap();
    assert_eq!((report.difference_count(), report.compared_value_count()), (1, 2));
    let text = report.to_string();
    for expected in [
        "custom.metrics.k8s.io/v1beta1: both list 1 metric, only left 0, only right 0\n",
        "custom.metrics.k8s.io/v1beta2: both list 1 metric, only left 0, only right 0\n",
        "  /apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/rps (shop/web)\n    pod \
         web-1: left 20, right 40\n",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
}

#[rstest]
#[case::equal("20", "no differences: 1 value compared\n")]
#[case::different("40", "2 differences (1 in lists of metrics, 1 in values): 1 value compared\n")]
#[tokio::test]
async fn metric_with_the_same_result_in_both_versions_counts_once(
    #[case] value: &str,
    #[case] first: &str,
) {
    let values = json!({"kind": "MetricValueList", "items": [
        {"describedObject": {"kind": "Pod", "name": "web-1"}, "value": value},
    ]});
    let names: &[&str] = if value == "20" { &["pods/rps"] } else { &["pods/rps", "pods/new"] };
    let right = FakeServer::default()
        .with_custom_metrics(names)
        .with_response(CUSTOM_V1BETA2, 200, resource_list(names))
        .with_response(RPS, 200, values.clone())
        .with_response(RPS_V1BETA2, 200, values);
    let report = report(&server_with_v1beta2("20"), &right, rps()).await.unwrap();
    let text = report.to_string();
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("\n1 request for the metrics of 1 autoscaler, 1 value: "), "{text}");
}

#[tokio::test]
async fn version_of_one_server_is_not_compared() {
    let report = report(&server_with_rps("20"), &server_with_v1beta2("40"), rps()).await.unwrap();
    assert_eq!((report.difference_count(), report.compared_value_count()), (0, 1));
    let expected = "\ncustom.metrics.k8s.io/v1beta2: not compared\n  left does not serve it: 404: \
                    not found\n";
    let text = report.to_string();
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn resource_metrics_of_one_server_are_not_compared() {
    let pod_usage = json!({"resources": [{"name": "pods"}]});
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let metrics = json!([pods_metric("rps"), {"type": "Resource", "resource": cpu}]);
    let left = server_with_rps("20").with_response("/apis/metrics.k8s.io/v1beta1", 200, pod_usage);
    let report = report(&left, &server_with_rps("20"), metrics).await.unwrap();
    assert_eq!((report.difference_count(), report.compared_value_count()), (0, 1));
    let text = report.to_string();
    let expected = "metrics.k8s.io/v1beta1: not compared\n  right does not serve it: 404: not \
                    found\n1 request for the metrics of 1 autoscaler, 1 value: differences in 0 \
                    requests\n";
    assert!(text.ends_with(expected), "{text}");
    assert!(text.starts_with("no differences: 1 value compared\n"), "{text}");
}

#[tokio::test]
async fn refused_token_is_the_first_line_of_the_report() {
    let body = json!({"message": "Unauthorized"});
    let mut right = FakeServer::default().with_response(RPS, 401, body.clone());
    for path in [
        "/apis/custom.metrics.k8s.io/v1beta1",
        CUSTOM_V1BETA2,
        "/apis/external.metrics.k8s.io/v1beta1",
        "/apis/metrics.k8s.io/v1beta1",
    ] {
        right = right.with_response(path, 401, body.clone());
    }
    let mut report = report(&server_with_rps("20"), &right, rps()).await.unwrap();
    assert!(report.compared_nothing());
    assert_eq!(report.compared_value_count(), 0);
    let first = |report: &Report| report.to_string().lines().next().unwrap().to_owned();
    let expected = "the right server refuses requests without valid credentials (401): nothing \
                    was compared";
    assert_eq!(first(&report), expected);
    report.right = ServerSummary::new("the right server".to_owned(), true);
    report.right.statuses.insert(401);
    let expected = "the right server refuses the token (401): nothing was compared";
    assert_eq!(first(&report), expected);
}

#[tokio::test]
async fn only_status_404_means_that_an_api_is_not_served() {
    let denied = || {
        let body = json!({"message": "Unauthorized"});
        FakeServer::default().with_response("/apis/metrics.k8s.io/v1beta1", 401, body)
    };
    let both = report(&denied(), &denied(), rps()).await.unwrap();
    let expected = "\nmetrics.k8s.io/v1beta1: not compared\n  left answers 401: Unauthorized\n  \
                    right answers 401: Unauthorized\n";
    assert!(both.to_string().contains(expected), "{both}");
    assert_eq!(both.difference_count(), 0);
    let served = json!({"resources": [{"name": "pods"}]});
    let left = FakeServer::default().with_response("/apis/metrics.k8s.io/v1beta1", 200, served);
    let one = report(&left, &denied(), rps()).await.unwrap();
    let expected = "\nmetrics.k8s.io/v1beta1: not compared\n  right answers 401: Unauthorized\n";
    assert!(one.to_string().contains(expected), "{one}");
    assert_eq!(one.difference_count(), 1);
}

#[rstest]
#[case::alone(false, Outcome::Inconclusive, "no differences: 1 value compared")]
#[case::beside_a_difference(true, Outcome::Failure, "1 difference: 1 value compared")]
#[tokio::test]
async fn request_that_a_server_could_not_answer_is_no_difference(
    #[case] differs: bool,
    #[case] outcome: Outcome,
    #[case] compared: &str,
) {
    let external = "/apis/external.metrics.k8s.io/v1beta1";
    let unavailable = json!({"message": "the server is currently unable to handle the request"});
    let left = server_with_rps("20").with_response(external, 503, unavailable);
    let metrics = json!([pods_metric("rps"), queue_metric()]);
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue";
    let left = left.with_response(path, 503, json!({}));
    let right = server_with_rps(if differs { "40" } else { "20" });
    let report = report(&left, &right, metrics).await.unwrap();
    assert_eq!(report.outcome(), outcome, "{report}");
    let text = report.to_string();
    let expected = format!("{compared}; 2 requests not compared (429, 502, 503 or 504)\n");
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("    left answers 503, right answers 404: not found\n"), "{text}");
}

#[rstest]
#[case::of_one_server(200, false, Outcome::Inconclusive, "no differences: 1 value compared")]
#[case::of_both_servers(403, false, Outcome::Inconclusive, "no differences: 1 value compared")]
#[case::beside_a_difference(200, true, Outcome::Failure, "1 difference: 1 value compared")]
#[tokio::test]
async fn forbidden_request_is_no_difference_and_names_the_needed_right(
    #[case] left_status: u16,
    #[case] differs: bool,
    #[case] outcome: Outcome,
    #[case] compared: &str,
) {
    let list = "/apis/external.metrics.k8s.io/v1beta1";
    let queue = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue";
    let forbidden = || json!({"message": "forbidden"});
    let names = json!({"resources": [{"name": "queue"}]});
    let values = json!({"kind": "ExternalMetricValueList", "items": []});
    let values = if left_status == 200 { values } else { forbidden() };
    let left = server_with_rps("20").with_response(list, 200, names);
    let left = left.with_response(queue, left_status, values);
    let right = server_with_rps(if differs { "40" } else { "20" });
    let right = right.with_response(list, 403, forbidden()).with_response(queue, 403, forbidden());
    let metrics = json!([pods_metric("rps"), queue_metric()]);
    let report = report(&left, &right, metrics).await.unwrap();
    assert_eq!(report.outcome(), outcome, "{report}");
    let text = report.to_string();
    let first = format!("{compared}; 2 requests could not be compared: forbidden (403)\n");
    assert!(text.starts_with(&first), "{text}");
    for expected in [
        "  right answers 403: forbidden\n",
        "  needed right: get /apis/external.metrics.k8s.io/v1beta1\n",
        "    needed right: list queue in the API group external.metrics.k8s.io, namespace shop\n",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
}

#[rstest]
#[case::of_pods("namespaces/shop/pods/*/rps?metricLabelSelector=a%3Db", "get pods/rps")]
#[case::of_the_namespace("namespaces/shop/metrics/lag", "get metrics")]
#[case::escaped("namespaces/shop/services/web/job%3Arps", "get services/job:rps")]
fn needed_right_of_a_request_is_that_of_a_role(#[case] path: &str, #[case] right: &str) {
    let path = format!("/apis/custom.metrics.k8s.io/v1beta1/{path}");
    let request = MetricRequest { path, autoscalers: <_>::default() };
    let expected = format!("{right} in the API group custom.metrics.k8s.io, namespace shop");
    assert_eq!(request.needed_right(), expected);
}

#[tokio::test]
async fn equal_errors_are_no_difference() {
    let report = report(&FakeServer::default(), &FakeServer::default(), rps()).await.unwrap();
    assert_eq!((report.difference_count(), report.compared_value_count()), (0, 0));
}

#[tokio::test]
async fn metric_that_neither_server_has_is_named() {
    let metrics = json!([pods_metric("rps"), pods_metric("nosuch")]);
    let report = report(&server_with_rps("20"), &server_with_rps("20"), metrics).await.unwrap();
    assert_eq!(report.outcome(), Outcome::Success);
    let text = report.to_string();
    let first = "no differences: 1 value compared; 1 request without a value on both\n";
    assert!(text.starts_with(first), "{text}");
    let line = "/pods/*/nosuch (shop/web)\n    neither server has a value\n";
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn token_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "secret\n").unwrap();
    let (fake, mut tasks) = (FakeServer::default(), JoinSet::new());
    let endpoint = endpoint("right", fake.start(&mut tasks).await);
    let server = Server::new(&Endpoint { token_file: Some(&token), ..endpoint });
    assert_eq!(server.unwrap().get("/apis").await.unwrap().status, 404);
    assert_eq!(fake.authorization.lock().as_deref(), Some("Bearer secret"));
}

#[rstest]
#[case::clear_text("http://adapter.example.com", false)]
#[case::unverified("https://adapter.example.com", true)]
fn token_is_sent_over_verified_tls_only(#[case] url: &str, #[case] is_insecure: bool) {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "secret").unwrap();
    let endpoint = endpoint("right", url.parse().unwrap());
    let server = Server::new(&Endpoint { token_file: Some(&token), is_insecure, ..endpoint });
    let error = server.err().unwrap().to_string();
    let expected =
        "the token for the right server is only sent over TLS with a verified certificate";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn error_names_the_server_and_the_request() {
    let server = server("right", "http://127.0.0.1:1".parse().unwrap());
    let error = server.unwrap().get("/apis/metrics.k8s.io/v1beta1").await.err().unwrap();
    let error = format!("{error:#}");
    let expected = "right: GET /apis/metrics.k8s.io/v1beta1 failed: unable to connect to \
                    http://127.0.0.1:1/: Connection refused";
    assert!(error.starts_with(expected), "{error}");
}

#[rstest]
#[case::list(
    "/apis/metrics.k8s.io/v1beta1",
    json!({}),
    "left: /apis/metrics.k8s.io/v1beta1: the response has no list of resources"
)]
#[case::values(
    RPS,
    json!({"kind": "Table", "items": []}),
    "the comparison is incomplete: left: \
     /apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/rps: unknown kind \"Table\""
)]
#[tokio::test]
async fn error_about_a_response_names_the_server_and_the_path(
    #[case] path: &'static str,
    #[case] body: Value,
    #[case] expected: &str,
) {
    let left = FakeServer::default().with_response(path, 200, body);
    let error = report(&left, &FakeServer::default(), rps()).await.err().unwrap();
    assert_eq!(format!("{error:#}"), expected);
}

#[test]
fn long_message_of_a_response_is_cut_off() {
    let body = json!({"message": "x".repeat(5000)});
    let text = MetricsResponse { status: 500, body }.to_string();
    assert_eq!(text.chars().count(), "500: ".len() + 2000 + 1, "with an ellipsis");
}

#[test]
fn each_metric_of_the_autoscalers_is_requested_once() {
    let selector = json!({"matchLabels": {"queue": "orders"}});
    let target = json!({"type": "Value", "value": "1"});
    let object = |kind, version, name| {
        let described = json!({"apiVersion": version, "kind": kind, "name": name});
        let metric = json!({"name": "m"});
        let source = json!({"describedObject": described, "metric": metric, "target": target});
        json!({"type": "Object", "object": source})
    };
    let metric = |name: &str| json!({"name": name, "selector": selector});
    let metrics = json!([
        {"type": "Pods", "pods": {"metric": metric("rps"), "target": target}},
        object("Ingress", "networking.k8s.io/v1", "main"),
        object("Service", "v1", "web"),
        object("Namespace", "v1", "elsewhere"),
        object("Namespace", "example.com/v1", "main"),
        {"type": "External", "external": {"metric": metric("Q"), "target": target}},
        {"type": "Resource", "resource": {"name": "cpu", "target": target}},
        {"type": "ContainerResource",
         "containerResource": {"name": "cpu", "container": "app", "target": target}},
    ]);
    let autoscaler = decode(&autoscaler(metrics)).unwrap();
    let requests = requests::requests_for(&[autoscaler.clone(), autoscaler]);
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    let [v1beta1, v1beta2] = ["v1beta1", "v1beta2"]
        .map(|version| format!("/apis/custom.metrics.k8s.io/{version}/namespaces/shop"));
    assert_eq!(
        paths,
        [
            &*format!("{v1beta1}/ingresses.networking.k8s.io/main/m"),
            &*format!("{v1beta1}/metrics/m"),
            &*format!("{v1beta1}/namespaces.example.com/main/m"),
            &*format!("{v1beta1}/pods/*/rps?metricLabelSelector=queue%3Dorders"),
            &*format!("{v1beta1}/services/web/m"),
            &*format!("{v1beta2}/ingresses.networking.k8s.io/main/m"),
            &*format!("{v1beta2}/metrics/m"),
            &*format!("{v1beta2}/namespaces.example.com/main/m"),
            &*format!("{v1beta2}/pods/*/rps?metricLabelSelector=queue%3Dorders"),
            &*format!("{v1beta2}/services/web/m"),
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/q?labelSelector=queue%3Dorders",
            "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
        ]
    );
}

#[test]
fn external_and_pod_metrics_are_read() {
    let external = json!({"kind": "ExternalMetricValueList", "items": [
        {"metricLabels": {"queue": "a", "tenant": "b"}, "value": "1500m"},
        {"metricLabels": null, "value": "2"},
    ]});
    let pods = json!({"kind": "PodMetricsList", "items": [
        {"metadata": {"name": "web-1"}, "containers": [{"name": "app", "usage": {"cpu": "1m"}}]},
    ]});
    let lines = |body| {
        let values = values::parse(&MetricsResponse { status: 200, body }).unwrap().unwrap();
        values.into_iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>()
    };
    assert_eq!(lines(external), ["queue=a,tenant=b 1500m", "without labels 2"]);
    assert_eq!(lines(pods), ["pod web-1, container app: cpu 1m"]);
}

/// The custom API may be absent, or the user may not list its autoscalers.
#[rstest]
#[case::served(200, 200, 2)]
#[case::absent(404, 404, 1)]
#[case::forbidden(200, 403, 1)]
#[tokio::test]
async fn autoscalers_of_both_apis_are_compared(
    #[case] api_status: u16,
    #[case] list_status: u16,
    #[case] count: usize,
) {
    let core = "/apis/autoscaling/v2/horizontalpodautoscalers?limit=500";
    let custom = "/apis/autoscaling.hpa-rs.dev/v2/horizontalpodautoscalers?limit=500";
    let list = json!({"metadata": {}, "items": [autoscaler(rps())]});
    let cluster = FakeServer::default()
        .with_response(core, 200, list.clone())
        .with_response("/apis/autoscaling.hpa-rs.dev/v2", api_status, json!({}))
        .with_response(custom, list_status, list);
    let mut tasks = JoinSet::new();
    let cluster = server("cluster", cluster.start(&mut tasks).await).unwrap();
    assert_eq!(list_autoscalers(&cluster).await.unwrap().len(), count);
}

#[test]
fn autoscalers_of_all_documents_of_a_file_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("autoscalers.yaml");
    let document = autoscaler(rps());
    let list = json!({"kind": "List", "items": [{"kind": "Pod"}, document]});
    let mut item = document.clone();
    item.as_object_mut().unwrap().retain(|field, _| field != "apiVersion" && field != "kind");
    let of_custom_api = json!({
        "apiVersion": "autoscaling.hpa-rs.dev/v2", "kind": "HorizontalPodAutoscalerList",
        "items": [item],
    });
    let documents = format!("{document}\n---\nkind: Pod\n---\n{list}\n---\n{of_custom_api}\n");
    fs::write(&path, documents).unwrap();
    let names = read_autoscalers(&path).unwrap().into_iter().map(|(name, _)| name);
    assert_eq!(names.collect::<Vec<_>>(), ["shop/web", "shop/web", "rhpa/shop/web"]);
    let invalid = json!({
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"}, "spec": {"maxReplicas": "3"},
    });
    fs::write(&path, format!("{document}\n---\n{invalid}\n")).unwrap();
    let error = format!("{:#}", read_autoscalers(&path).unwrap_err());
    let expected = format!("{}:3: unable to decode HorizontalPodAutoscaler web: ", path.display());
    assert!(error.starts_with(&expected), "{error}");
    fs::write(&path, format!("{document}\n---\na: [\n")).unwrap();
    let error = read_autoscalers(&path).unwrap_err().to_string();
    assert!(
        error.contains("autoscalers.yaml:") && error.contains(": unable to read YAML: "),
        "{error}"
    );
}
