//! The dashboard's server, with a testbed as the API server.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

mod http;
mod inactivity;
mod outage;
mod records;
mod rows;

use std::{sync::Arc, time::Duration};

use hpa_controller::k8s::{ClientLimits, Clients};
use hpa_dashboard::{Dashboard, Options, RecordSource};
use hpa_testbed::{Config, Fault, Faults, Testbed};
use hpa_tests::harness::{NAMESPACE, SettableMetrics, TestbedExt, objects};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

use self::http::{HttpClient, Stream};

/// The interval between reads of the metrics.
const SYNC_PERIOD: Duration = Duration::from_secs(2);

/// A testbed with the autoscaler `web` at 90 % of its target, and a dashboard.
struct Cluster {
    testbed: Testbed,
    metrics: Arc<SettableMetrics>,
    faults: Arc<Faults>,
    client: HttpClient,
    dashboard: Dashboard,
}

fn options() -> Options {
    Options { title: "a testbed".to_owned(), sync_period: SYNC_PERIOD, ..Options::default() }
}

fn hpa(name: &str) -> Value {
    objects::hpa(name, 2..=10, [objects::cpu_metric(60)])
}

fn with_status(mut hpa: Value, current: i64, desired: i64) -> Value {
    hpa["status"] = json!({ "currentReplicas": current, "desiredReplicas": desired,
        "conditions": [
            { "type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale" },
            { "type": "ScalingActive", "status": "True", "reason": "ValidMetricFound" } ] });
    hpa
}

fn forbidden_effect() -> Value {
    json!({ "status": { "code": 403, "reason": "Forbidden", "message": "you may not" } })
}

impl Cluster {
    async fn new() -> Self {
        Self::with_options(options()).await
    }

    async fn with_faults(faults: &[Value]) -> Self {
        Self::start(None, faults, options()).await
    }

    async fn with_custom_api() -> Self {
        let definition = hpa_calc::crd::definition().expect("a definition");
        Self::start(Some(definition), &[], options()).await
    }

    async fn with_records(records: Arc<dyn RecordSource>) -> Self {
        Self::with_options(Options { records: Some(records), ..options() }).await
    }

    async fn with_options(options: Options) -> Self {
        Self::start(None, &[], options).await
    }

    async fn start(definition: Option<Value>, faults: &[Value], options: Options) -> Self {
        let metrics = Arc::new(SettableMetrics::new(54, 40));
        let injected = Arc::new(Faults::new(1));
        for fault in faults {
            injected.add(Fault::from_json(fault).expect("a fault"));
        }
        let testbed = Testbed::new(Config {
            metrics: Some(metrics.clone()),
            interceptor: Some(injected.clone()),
            ..Config::default()
        });
        testbed.apply_all(definition);
        testbed.apply_all([objects::namespace(), objects::running_deployment("web", 4)]);
        testbed.apply_all((0..4).map(|index| objects::pod("web", index)));
        testbed.apply_all([with_status(hpa("web"), 4, 4)]);
        let clients = Clients::from_service(testbed.service(), &ClientLimits::default());
        let dashboard = Dashboard::start(&clients, options).await.expect("a port");
        let client = HttpClient::open(&dashboard.url()).await;
        Self { testbed, metrics, faults: injected, client, dashboard }
    }

    async fn open_list(&self) -> Stream {
        self.client.stream("/api/autoscalers").await
    }

    /// A `SuccessfulRescale` event about an autoscaler.
    fn event(&self, name: &str, message: &str) -> Value {
        let kind = "HorizontalPodAutoscaler";
        let object = self.testbed.get("autoscaling/v2", kind, NAMESPACE, name);
        let uid = object.map(|object| object["metadata"]["uid"].clone());
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": format!("{name}.1"), "namespace": NAMESPACE },
            "involvedObject": { "kind": kind, "name": name, "namespace": NAMESPACE,
                "apiVersion": "autoscaling/v2", "uid": uid },
            "type": "Normal", "reason": "SuccessfulRescale", "message": message, "count": 2,
            "lastTimestamp": "2026-01-01T00:00:00Z",
        })
    }

    async fn open_detail(&self, name: &str) -> Stream {
        self.client.stream(&format!("/api/autoscaler?id=core%2F{NAMESPACE}%2F{name}")).await
    }
}

/// Another user of the machine opens more connections than the server allows, and sends nothing.
#[tokio::test]
async fn idle_connections_do_not_block_the_page() {
    let cluster = Cluster::new().await;
    let mut list = cluster.open_list().await;
    let mut idle = Vec::new();
    for _ in 0..260 {
        idle.push(TcpStream::connect(&cluster.client.host).await.expect("a server"));
    }
    assert_eq!(cluster.client.get("/").await.status, 200);
    let oldest = timeout(Duration::from_secs(10), idle[0].read(&mut [0])).await;
    assert!(matches!(oldest, Ok(Ok(0) | Err(_))), "the oldest connection is closed");
    cluster.testbed.apply_all([with_status(hpa("late"), 4, 4)]);
    list.until(|rows| rows.to_string().contains("late")).await;
}

#[tokio::test]
async fn requests_without_a_valid_token_are_refused() {
    let cluster = Cluster::new().await;
    let (client, data) = (&cluster.client, "/api/autoscalers");
    assert_eq!(client.get("/").await.status, 200);
    for path in ["/", data, "/dashboard.js", "/api/about"] {
        let anonymous = client.request("GET", path, &client.host, "").await;
        assert_eq!(anonymous.status, 403, "{path}");
        assert!(!anonymous.text.contains("web"), "{}", anonymous.text);
        let forged = format!("{}x", client.cookie);
        assert_eq!(client.request("GET", path, &client.host, &forged).await.status, 403, "{path}");
    }
    let refused = client.request("GET", "/?token=guess", &client.host, "").await;
    assert_eq!((refused.status, refused.header("set-cookie")), (403, None));
    let granted = client.get(&format!("/?autoscaler=core/shop/web&token={}", client.token)).await;
    assert_eq!(
        (granted.status, granted.header("location")),
        (303, Some("/?autoscaler=core/shop/web"))
    );
    // Only `/` accepts the token, in exchange for a cookie.
    let path = format!("{data}?token={}", client.token);
    assert_eq!(client.request("GET", &path, &client.host, "").await.status, 403);
}

#[tokio::test]
async fn host_names_other_than_loopback_are_refused() {
    let client = &Cluster::new().await.client;
    for host in ["attacker.example", "127.0.0.1.attacker.example", "", "10.0.0.1"] {
        let with_token = format!("/?token={}", client.token);
        for path in ["/", "/api/about", &with_token] {
            let refused = client.request("GET", path, host, &client.cookie).await;
            assert_eq!(
                (refused.status, refused.header("set-cookie")),
                (421, None),
                "{host} {path}"
            );
        }
    }
    assert_eq!(client.request("GET", "/", "localhost:1", &client.cookie).await.status, 200);
}

#[tokio::test]
async fn dashboard_is_read_only_and_its_responses_are_closed_to_other_sites() {
    let client = &Cluster::new().await.client;
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let response = client.request(method, "/api/about", &client.host, &client.cookie).await;
        assert_eq!(response.status, 405, "{method}");
    }
    for path in ["/", "/dashboard.js", "/api/about", "/missing"] {
        let response = client.get(path).await;
        let policy = response.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(response.header("access-control-allow-origin"), None);
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(client.get("/missing").await.status, 404);
    assert_eq!(
        client.get("/dashboard.js").await.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert_eq!(client.get("/api/autoscaler?id=core/x").await.status, 400);
}

#[tokio::test]
async fn list_stream_reports_changed_and_deleted_autoscalers() {
    let cluster = Cluster::new().await;
    let mut list = cluster.open_list().await;
    let first = list.until(|changes| changes["isReading"] == false).await;
    let row = &first["rows"][0];
    assert_eq!((&row["id"], &row["state"]), (&json!("core/shop/web"), &json!("steady")));
    assert_eq!((&row["min"], &row["max"]), (&json!(2), &json!(10)));
    cluster.testbed.apply_all([with_status(hpa("web"), 4, 6), hpa("new")]);
    let mut seen = Vec::new();
    list.until(|changes| {
        assert_eq!(changes["reset"], false);
        let rows = changes["rows"].as_array().expect("rows").iter();
        seen.extend(rows.map(|row| format!("{} {}", row["name"], row["state"])));
        seen.contains(&r#""web" "scaling""#.to_owned())
            && seen.contains(&r#""new" "new""#.to_owned())
    })
    .await;
    cluster
        .testbed
        .delete("autoscaling/v2", "HorizontalPodAutoscaler", NAMESPACE, "new")
        .expect("deleted");
    let changes = list.until(|changes| changes["deleted"] != json!([])).await;
    assert_eq!(changes["deleted"], json!(["core/shop/new"]));
}

#[tokio::test]
async fn change_of_pods_events_or_status_updates_the_page() {
    // The sync period is so long that only changes cause reads.
    let options = Options { sync_period: 1000 * SYNC_PERIOD, ..options() };
    let cluster = Cluster::with_options(options).await;
    let mut custom_api_event = cluster.event("web", "of the custom API");
    custom_api_event["metadata"]["name"] = json!("web.2");
    custom_api_event["involvedObject"]["apiVersion"] = json!("autoscaling.hpa-rs.dev/v2");
    custom_api_event["involvedObject"]["uid"] = json!("of the custom API");
    let events = [cluster.event("web", "New size: 4"), cluster.event("other", "not mine")];
    cluster.testbed.apply_all(events);
    cluster.testbed.apply_all([custom_api_event]);
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"]["metrics"][0]["podList"] != Value::Null).await;
    let sentence = view["report"]["sentence"].as_str().expect("a sentence");
    assert!(
        sentence.starts_with("stays at 4: cpu is at 54% of requests, target 60%"),
        "{sentence}"
    );
    assert_eq!(view["report"]["metrics"][0]["podList"].as_array().map(Vec::len), Some(4));
    assert_eq!(view["reportLines"]["metrics"].as_array().map(Vec::len), Some(1));
    assert_eq!(view["events"].as_array().map(Vec::len), Some(1));
    assert_eq!(view["events"][0]["message"], "New size: 4");
    assert_eq!(view["areEventsKnown"], true);
    assert_eq!(view["series"]["metrics"][0]["targetMilli"], 60_000);
    let missing = view["missing"].to_string();
    assert!(missing.contains("Only the controller knows past"), "{missing}");
    // A pod fails.
    let mut pod = objects::pod("web", 3);
    pod["status"]["phase"] = json!("Failed");
    cluster.testbed.apply_all([pod]);
    let view =
        detail.until(|view| view["report"]["metrics"][0]["podList"][3]["class"] == "ignored").await;
    assert_eq!(view["report"]["metrics"][0]["podList"][3]["why"], "has failed");
    cluster.testbed.apply_all([cluster.event("web", "New size: 5")]);
    detail.until(|view| view["events"][0]["message"] == "New size: 5").await;
    cluster.testbed.apply_all([with_status(hpa("web"), 4, 3)]);
    // The state comes from the decision here, not from the status.
    let view = detail.until(|view| view["row"]["desired"] == 3).await;
    assert_eq!(view["row"]["state"], "steady");
    // If stabilization may have raised the replicas, the state comes from the status: the page
    // doesn't know the past.
    cluster.testbed.apply_all([with_status(hpa("web"), 4, 6)]);
    let view = detail.until(|view| view["row"]["desired"] == 6).await;
    assert_eq!(view["row"]["state"], "scaling");
}

#[tokio::test]
async fn pod_that_can_not_be_scheduled_has_the_message_of_the_scheduler() {
    let cluster = Cluster::new().await;
    let mut pod = objects::pod("web", 3);
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/5 nodes are available: 5 Insufficient cpu.",
    });
    pod["status"] = json!({ "phase": "Pending", "conditions": [condition] });
    cluster.testbed.apply_all([pod]);
    let clause = "; 1 of 4 pods can't be scheduled (0/5 nodes are available: 5 Insufficient cpu)";
    let has_clause = |view: &Value| {
        view["report"]["sentence"].as_str().is_some_and(|sentence| sentence.contains(clause))
    };
    cluster.open_detail("web").await.until(has_clause).await;
}

#[tokio::test]
async fn metrics_are_read_again_in_each_sync_period() {
    let cluster = Cluster::new().await;
    let mut detail = cluster.open_detail("web").await;
    detail.until(|view| view["report"]["metrics"][0]["utilization"] == 54).await;
    cluster.metrics.set_cpu_percent(90);
    let view = detail.until(|view| view["report"]["scaleTo"] == 6).await;
    let samples = view["series"]["samples"].as_array().expect("samples");
    assert_eq!(samples.last().expect("a sample")[3], 6, "{samples:?}");
}

#[tokio::test]
async fn absent_autoscaler_is_reported_until_it_exists() {
    let cluster = Cluster::new().await;
    let mut detail = cluster.open_detail("late").await;
    let view = detail.until(|view| view["isReading"] == false).await;
    assert_eq!((view.get("row"), &view["isComplete"]), (None, &json!(true)));
    cluster.testbed.apply_all([hpa("late")]);
    let view = detail.until(|view| view.get("row").is_some()).await;
    assert_eq!(view["row"]["state"], "failing");
    let sentence = view["report"]["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with("can't decide: "), "{sentence}");
}

#[tokio::test]
async fn default_namespace_is_shown_if_listing_all_is_forbidden() {
    let fault = json!({
        "match": { "resources": ["horizontalpodautoscalers"], "namespaces": [""] },
        "effect": forbidden_effect(),
    });
    let cluster = Cluster::with_faults(&[fault]).await;
    let mut own = hpa("own");
    own["metadata"]["namespace"] = json!("default");
    cluster.testbed.apply_all([own]);
    let mut list = cluster.open_list().await;
    let changes = list.until(|changes| changes["problems"] != json!([])).await;
    let problems = changes["problems"].to_string();
    let expected = "You may not list horizontalpodautoscalers.autoscaling in all namespaces, so \
                    only those of the namespace default are shown.";
    assert!(problems.contains(expected), "{problems}");
    assert_eq!(changes["outage"], Value::Null);
    let mut list = cluster.open_list().await;
    let changes =
        list.until(|changes| changes["rows"].as_array().is_some_and(|all| all.len() == 1)).await;
    assert_eq!(changes["rows"][0]["id"], "core/default/own");
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["isReading"] == false).await;
    assert_eq!((view.get("row"), &view["isComplete"]), (None, &json!(false)), "not shown");
}
