//! Whole controllers that follow each other, in virtual time: what the next one knows of the past.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may stop where it was misled"
)]
#![allow(
    clippy::manual_range_contains,
    reason = "one end is when it is early, the other when it is late"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use hpa_calc::settings::Settings;
use hpa_controller::{
    clock::{Clock, Instants},
    controller::{Dependencies, Options, RunError, run},
    k8s::Clients,
    leader_election::{Election, ElectionConfig},
};
use hpa_testbed::{
    ApiError, Config, ExternalMetric, ExternalMetricQuery, MetricsProvider, Testbed,
};
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// `--horizontal-pod-autoscaler-sync-period`.
const SYNC: i64 = 15;
/// The default stabilization window.
const WINDOW: i64 = 300;
/// The lease duration: how long nobody decides after a leader was killed.
const LEASE: i64 = 15;

#[derive(Clone, Copy)]
struct Virtual(Instant);

impl Clock for Virtual {
    fn instants(&self) -> Instants {
        let running = self.0.elapsed();
        let start = Timestamp::from_second(1_800_000_000).expect("a time");
        Instants {
            wall: start + SignedDuration::try_from(running).expect("short"),
            monotonic: running,
        }
    }
}

/// The external metric: with a target of one per replica, how many replicas are wanted.
struct Load(Arc<AtomicI64>);

impl MetricsProvider for Load {
    fn external(&self, _: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let value = self.0.load(Ordering::SeqCst).to_string();
        Ok(vec![ExternalMetric { metric_name: "load".into(), value, ..ExternalMetric::default() }])
    }
}

/// What is written.
#[derive(Default)]
struct Written {
    /// The seconds at which a `ConfigMap` was.
    maps: Mutex<Vec<i64>>,
    /// What tells of a scaling is not written: statuses, `ConfigMaps`.
    tells_nothing: AtomicBool,
}

struct Scene {
    start: Instant,
    testbed: Testbed,
    load: Arc<AtomicI64>,
    written: Arc<Written>,
    keep_history: bool,
}

impl Scene {
    /// A Deployment of two, and an autoscaler of it with this behavior, of a load of 10.
    fn new(behavior: Value, keep_history: bool) -> Self {
        let start = Instant::now();
        let load = Arc::new(AtomicI64::new(10));
        let clock = Virtual(start);
        let testbed = Testbed::new(Config {
            metrics: Some(Arc::new(Load(load.clone()))),
            clock: Arc::new(move || clock.now()),
            ..Config::default()
        });
        for object in objects(behavior) {
            testbed.apply(object).expect("an object that the API takes");
        }
        Self { start, testbed, load, written: Arc::default(), keep_history }
    }

    /// Starts a controller. It waits for the lease if there is a leader.
    fn controller(&self, name: &str) -> JoinHandle<Result<(), RunError>> {
        let options = Options {
            settings: Settings::default(),
            sync_period: Duration::from_secs(SYNC.unsigned_abs()),
            workers: 2,
            namespaces: Vec::new(),
            shutdown_grace: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
            watch_scales: true,
        };
        let config = ElectionConfig {
            namespace: "kube-system".into(),
            name: "hpa-controller".into(),
            identity: name.into(),
            lease_duration: Duration::from_secs(LEASE.unsigned_abs()),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            keep_history: self.keep_history,
        };
        let client = self.client();
        let clients = Clients { api: client.clone(), metrics: client.clone() };
        let parts = Dependencies {
            clock: Arc::new(Virtual(self.start)),
            election: Some(Election { client, config }),
            ..Dependencies::new(clients, &options)
        };
        tokio::spawn(run(parts, options, CancellationToken::new()))
    }

    fn client(&self) -> Client {
        let (server, written, start) = (self.testbed.client(), self.written.clone(), self.start);
        let record = service_fn(move |request: Request<Body>| {
            let (server, written) = (server.clone(), written.clone());
            async move {
                let (is_read, path) =
                    (request.method() == Method::GET, request.uri().path().to_owned());
                let tells = path.ends_with("/status") || path.contains("/configmaps");
                if !is_read && tells && written.tells_nothing.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let answer = server.send(request).await?;
                let now = i64::try_from(start.elapsed().as_secs()).expect("short");
                if !is_read && answer.status().is_success() && path.contains("/configmaps") {
                    written.maps.lock().push(now);
                }
                Ok::<_, kube::Error>(answer)
            }
        });
        Client::new(record, "default")
    }

    /// Waits until that second.
    async fn at(&self, second: i64) {
        sleep_until(self.start + Duration::from_secs(second.unsigned_abs())).await;
    }

    async fn load_at(&self, second: i64, load: i64) {
        self.at(second).await;
        self.load.store(load, Ordering::SeqCst);
    }

    fn replicas(&self) -> i64 {
        let deployment =
            self.testbed.get("apps/v1", "Deployment", "shop", "web").expect("the deployment");
        deployment["spec"]["replicas"].as_i64().expect("replicas")
    }

    /// Waits until there are so many replicas; when that was.
    async fn scaled_to(&self, replicas: i64) -> i64 {
        let mut second = i64::try_from(self.start.elapsed().as_secs()).expect("short");
        while self.replicas() != replicas {
            assert!(second < 5000, "still {} replicas, not {replicas}", self.replicas());
            second += 1;
            self.at(second).await;
        }
        second
    }

    /// Waits until there are not so many replicas any more; when that was, and how many there are.
    async fn scaled_from(&self, replicas: i64) -> (i64, i64) {
        let mut second = i64::try_from(self.start.elapsed().as_secs()).expect("short");
        while self.replicas() == replicas {
            assert!(second < 5000, "still {replicas} replicas");
            second += 1;
            self.at(second).await;
        }
        (second, self.replicas())
    }
}

fn objects(behavior: Value) -> Vec<Value> {
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } } },
            "status": { "replicas": 2 },
        }),
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 1, "maxReplicas": 20, "behavior": behavior,
                "metrics": [{ "type": "External", "external": { "metric": { "name": "load" },
                    "target": { "type": "AverageValue", "averageValue": "1" } } }] },
        }),
    ]
}

/// The load falls at 200; the leader is killed then. When it is scaled down.
async fn scaled_down_after_a_kill(killed: i64, keep_history: bool) -> i64 {
    let scene = Scene::new(Value::Null, keep_history);
    let leader = scene.controller("a");
    scene.at(1).await;
    let _standby = scene.controller("b");
    assert!(scene.scaled_to(10).await < 60);
    scene.load_at(200, 4).await;
    scene.at(killed).await;
    leader.abort();
    let (scaled, replicas) = scene.scaled_from(10).await;
    assert_eq!(replicas, 4);
    let maps = scene.written.maps.lock();
    assert!(maps.windows(2).all(|pair| pair[1] - pair[0] >= 60), "{maps:?}");
    assert_eq!(maps.is_empty(), !keep_history);
    scaled
}

#[tokio::test(start_paused = true)]
async fn window_goes_on_when_the_leader_is_killed_within_it() {
    for killed in [217, 230, 300, 400, 470] {
        let scaled = scaled_down_after_a_kill(killed, true).await;
        // The last recommendation of 10 was at most a period before the load fell.
        assert!(scaled >= 200 - SYNC + WINDOW, "killed at {killed}: early, at {scaled}");
        assert!(scaled <= 200 + WINDOW + SYNC + 1, "killed at {killed}: late, at {scaled}");
    }
}

#[tokio::test(start_paused = true)]
async fn window_ends_while_nobody_leads() {
    let scaled = scaled_down_after_a_kill(490, true).await;
    assert!(scaled >= 490 && scaled <= 490 + LEASE + 1, "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn without_kept_history_the_window_begins_anew() {
    let scaled = scaled_down_after_a_kill(400, false).await;
    assert!(scaled >= 400 + WINDOW && scaled <= 400 + LEASE + WINDOW + 2 * SYNC, "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn what_changed_again_before_it_was_written_is_late_by_less_than_a_minute() {
    let scene = Scene::new(Value::Null, true);
    let leader = scene.controller("a");
    scene.at(1).await;
    let _standby = scene.controller("b");
    scene.load_at(200, 6).await;
    scene.load_at(220, 4).await;
    scene.at(250).await;
    leader.abort();
    let scaled = scene.scaled_to(6).await;
    assert!(scaled >= 200 - SYNC + WINDOW && scaled <= 200 + WINDOW + SYNC + 1, "{scaled}");
    let scaled = scene.scaled_to(4).await;
    assert!(scaled >= 220 - SYNC + WINDOW && scaled <= 220 + 60 + WINDOW + SYNC + 1, "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn what_was_recommended_for_long_counts_until_the_end_of_the_leader() {
    let scene = Scene::new(Value::Null, true);
    let leader = scene.controller("a");
    scene.at(1).await;
    let _standby = scene.controller("b");
    scene.load_at(200, 6).await;
    // It is written then, and never again.
    scene.at(470).await;
    assert!(scene.written.maps.lock().iter().all(|second| *second < 270));
    leader.abort();
    scene.load_at(471, 4).await;
    let (down, replicas) = scene.scaled_from(10).await;
    assert_eq!(replicas, 6);
    assert!(down >= 200 - SYNC + WINDOW && down <= 200 + WINDOW + SYNC + 1, "{down}");
    let down = scene.scaled_to(4).await;
    assert!(down >= 470 - SYNC + WINDOW && down <= 470 + WINDOW + SYNC + 1, "{down}");
}

#[tokio::test(start_paused = true)]
async fn scale_up_that_was_not_kept_is_not_undone() {
    let scene = Scene::new(Value::Null, true);
    let leader = scene.controller("a");
    scene.at(1).await;
    let _standby = scene.controller("b");
    scene.load_at(200, 11).await;
    assert!(scene.scaled_to(11).await < 220);
    // Within a minute of the last write.
    scene.load_at(220, 20).await;
    let scaled = scene.scaled_to(20).await;
    let kept = scene.written.maps.lock().last().copied().expect("kept");
    assert!(kept < scaled, "kept at {kept}, scaled at {scaled}");
    leader.abort();
    scene.load_at(scaled + 1, 3).await;
    let (down, replicas) = scene.scaled_from(20).await;
    assert_eq!(replicas, 3);
    assert!(down >= scaled + WINDOW, "early, at {down}: it was scaled up at {scaled}");
    assert!(
        down <= scaled + WINDOW + LEASE + SYNC,
        "late, at {down}: it was scaled up at {scaled}"
    );
}

#[tokio::test(start_paused = true)]
async fn scale_up_that_nothing_tells_of_is_not_undone() {
    let scene = Scene::new(Value::Null, true);
    let leader = scene.controller("a");
    scene.at(1).await;
    let _standby = scene.controller("b");
    scene.scaled_to(10).await;
    scene.at(200).await;
    // It is killed between its writes of the scale and of the status.
    scene.written.tells_nothing.store(true, Ordering::SeqCst);
    scene.load_at(200, 20).await;
    let scaled = scene.scaled_to(20).await;
    leader.abort();
    scene.written.tells_nothing.store(false, Ordering::SeqCst);
    scene.load_at(scaled + 1, 10).await;
    let (down, replicas) = scene.scaled_from(20).await;
    assert_eq!(replicas, 10);
    assert!(down >= scaled + WINDOW, "early, at {down}: it was scaled up at {scaled}");
    assert!(
        down <= scaled + LEASE + WINDOW + 2 * SYNC,
        "late, at {down}: it was scaled up at {scaled}"
    );
}

#[tokio::test(start_paused = true)]
async fn policy_counts_what_the_last_leader_did() {
    let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": 300 });
    let behavior =
        json!({ "scaleDown": { "stabilizationWindowSeconds": 0, "policies": [policy] } });
    for keep_history in [true, false] {
        let scene = Scene::new(behavior.clone(), keep_history);
        let leader = scene.controller("a");
        scene.at(1).await;
        let _standby = scene.controller("b");
        scene.scaled_to(10).await;
        // A policy counts from what there was before the scale-up, so that has to be over.
        scene.load_at(600, 4).await;
        let first = scene.scaled_to(9).await;
        scene.at(first + 20).await;
        leader.abort();
        let second = scene.scaled_to(8).await;
        if keep_history {
            assert!(
                second >= first + 300 && second <= first + 300 + SYNC,
                "{first}, then {second}"
            );
        } else {
            // The reference does not remember: that is what the history is kept for.
            assert!(second <= first + 20 + LEASE + 2 * SYNC, "{first}, then {second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pause_without_any_controller_shortens_no_window() {
    for (started, earliest, latest) in [
        // The window was nearly over, and is not begun anew.
        (450, 200 + WINDOW - SYNC, 200 + WINDOW + SYNC + 1),
        // Nobody knows what was in the last five minutes.
        (1200, 1200 + WINDOW, 1200 + WINDOW + LEASE + 2 * SYNC),
    ] {
        let scene = Scene::new(Value::Null, true);
        let leader = scene.controller("a");
        scene.load_at(200, 4).await;
        scene.at(300).await;
        leader.abort();
        scene.at(started).await;
        let _next = scene.controller("b");
        let scaled = scene.scaled_to(4).await;
        assert!(
            (earliest..=latest).contains(&scaled),
            "started at {started}, scaled down at {scaled}"
        );
    }
}
