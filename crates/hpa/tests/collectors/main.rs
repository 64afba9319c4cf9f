//! `hpa run --collectors`: autoscalers on documents of pods and of an endpoint, and on services,
//! over real sockets.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

mod cases;
mod services;

use std::{
    net::SocketAddr,
    pin::pin,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::get};
use futures::StreamExt;
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{NAMESPACE, ServedTestbed, TestbedExt, objects};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::{process::Child, time::timeout};

/// Timeout of the wait for an event, more than ten times the expected duration.
const TIMEOUT: Duration = Duration::from_secs(100);

const FLAGS: [&str; 4] = [
    "--collectors",
    // Collectors may connect to this address, which pods and endpoint have.
    "--collector-address=127.0.0.1",
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=0s",
];

/// The value in the served document.
type DocumentValue = Arc<AtomicU64>;

async fn document(State(value): State<DocumentValue>) -> Json<Value> {
    Json(json!({ "stats": { "rps": value.load(Ordering::SeqCst) } }))
}

async fn serve_document(value: &DocumentValue) -> SocketAddr {
    let router = Router::new().route("/metrics", get(document)).with_state(value.clone());
    hpa_tests::harness::serve(router).await
}

/// A testbed with two Deployments: `web` is scaled by a metric of its pods, `mail` by a metric of
/// an endpoint.
struct Cluster {
    testbed: Testbed,
    served: ServedTestbed,
}

impl Cluster {
    async fn new(address: SocketAddr) -> Self {
        let testbed = Testbed::new(Config::default());
        let pod = |index| {
            let mut pod = objects::pod("web", index);
            pod["status"]["podIP"] = "127.0.0.1".into();
            pod
        };
        let (port, endpoint) = (address.port().to_string(), format!("http://{address}/metrics"));
        let pods = [
            ("pods.rps.json-path/json-key", "$.stats.rps"),
            ("pods.rps.json-path/path", "/metrics"),
            ("pods.rps.json-path/port", port.as_str()),
            ("pods.rps.json-path/interval", "1s"),
        ];
        let external = [
            ("external.mails.json-path/json-key", "$.stats.rps"),
            ("external.mails.json-path/endpoint", endpoint.as_str()),
            ("external.mails.json-path/interval", "1s"),
        ];
        let mut mails = objects::external_metric("mails", "10");
        mails["external"]["metric"]["selector"]["matchLabels"]["type"] = "json-path".into();
        let web = objects::hpa("web", 1..=9, [objects::pods_metric("rps", "10")]);
        testbed.apply_all([
            objects::namespace(),
            objects::running_deployment("web", 2),
            objects::running_deployment("mail", 2),
            pod(0),
            pod(1),
            objects::with_collector_annotations(web, &pods),
            objects::with_collector_annotations(objects::hpa("mail", 1..=9, [mails]), &external),
        ]);
        let served = ServedTestbed::new(&testbed).await;
        Self { testbed, served }
    }

    /// Starts a controller without leader election.
    fn start_controller(&self) -> Child {
        self.served.start_hpa(env!("CARGO_BIN_EXE_hpa"), &FLAGS, &[])
    }

    /// Starts a controller that takes part in the leader election.
    fn start_electing_controller(&self) -> Child {
        let election = [
            "run",
            "--metrics-port=0",
            "--leader-elect-resource-namespace=shop",
            "--leader-elect-lease-duration=3s",
            "--leader-elect-renew-deadline=2s",
            "--leader-elect-retry-period=500ms",
        ];
        let flags: Vec<_> = election.into_iter().chain(FLAGS).collect();
        let mut command = self.served.command(env!("CARGO_BIN_EXE_hpa"), &flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the program starts")
    }

    /// Creates an autoscaler whose annotation has an invalid port.
    fn apply_invalid_annotation(&self) {
        let port = ("pods.rps.json-path/port", "http");
        let key = ("pods.rps.json-path/json-key", "$.rps");
        let broken = objects::hpa("broken", 1..=9, [objects::pods_metric("rps", "10")]);
        self.testbed.apply_all([
            objects::running_deployment("broken", 2),
            objects::with_collector_annotations(broken, &[port, key]),
        ]);
    }

    async fn wait_for_replicas(&self, name: &str, expected: i64) {
        self.served.wait_for_replicas(name, expected).await;
    }

    /// Waits for an event with a reason, and returns its message.
    async fn wait_for_event(&self, reason: &str) -> String {
        let events: Api<Event> = Api::namespaced(self.testbed.client(), NAMESPACE);
        let mut events = pin!(watcher(events, watcher::Config::default()).applied_objects());
        let found = async {
            loop {
                let event = events.next().await.unwrap().unwrap();
                if event.reason.as_deref() == Some(reason) {
                    return event.message.unwrap_or_default();
                }
            }
        };
        timeout(TIMEOUT, found).await.unwrap_or_else(|_| panic!("{}", self.served.log()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_pods_and_of_an_endpoint_scale_both_ways() {
    let value = DocumentValue::new(30.into());
    let cluster = Cluster::new(serve_document(&value).await).await;
    let _controller = cluster.start_controller();
    tokio::join!(cluster.wait_for_replicas("web", 6), cluster.wait_for_replicas("mail", 3));
    value.store(5, Ordering::SeqCst);
    tokio::join!(cluster.wait_for_replicas("web", 1), cluster.wait_for_replicas("mail", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn next_leader_collects_and_reports() {
    let value = DocumentValue::new(30.into());
    let cluster = Cluster::new(serve_document(&value).await).await;
    let mut leader = cluster.start_electing_controller();
    tokio::join!(cluster.wait_for_replicas("web", 6), cluster.wait_for_replicas("mail", 3));
    let _standby = cluster.start_electing_controller();
    // The leader crashes, so it doesn't release the lease.
    leader.kill().await.unwrap();
    value.store(5, Ordering::SeqCst);
    tokio::join!(cluster.wait_for_replicas("web", 1), cluster.wait_for_replicas("mail", 1));
    cluster.apply_invalid_annotation();
    assert!(cluster.wait_for_event("CreateNewMetricsCollector").await.contains("parsing \"http\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_annotation_is_an_event_of_its_autoscaler() {
    let value = DocumentValue::new(30.into());
    let cluster = Cluster::new(serve_document(&value).await).await;
    let _controller = cluster.start_controller();
    cluster.apply_invalid_annotation();
    let message = cluster.wait_for_event("CreateNewMetricsCollector").await;
    assert_eq!(
        message,
        "Failed to create new metrics collector: annotations metric-config.pods.rps.json-path/*: \
         strconv.Atoi: parsing \"http\": invalid syntax"
    );
    cluster.wait_for_replicas("web", 6).await;
}
