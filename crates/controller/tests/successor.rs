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
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hpa_controller::{Clock, Dependencies, k8s::Clients};
use hpa_test_harness::{
    RunningController, SettableMetrics, TestbedExt, VirtualClock, election, objects, options,
};
use hpa_testbed::{Config, Testbed};
use http::{Method, Request};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::service_fn;

/// `--horizontal-pod-autoscaler-sync-period`.
const SYNC: i64 = 15;
/// The default stabilization window.
const WINDOW: i64 = 300;
/// The lease duration: how long nobody decides after a leader was killed.
const LEASE: i64 = 15;

/// What is written.
#[derive(Default)]
struct Written {
    /// The seconds at which a `ConfigMap` was.
    maps: Mutex<Vec<i64>>,
    /// What tells of a scaling is not written: statuses, `ConfigMaps`.
    tells_nothing: AtomicBool,
}

struct Scene {
    clock: VirtualClock,
    testbed: Testbed,
    metrics: Arc<SettableMetrics>,
    written: Arc<Written>,
    keep_history: bool,
}

impl Scene {
    /// A Deployment of two, and an autoscaler with this behavior that wants ten.
    fn new(behavior: Value, keep_history: bool) -> Self {
        let clock = VirtualClock::start();
        let metrics = Arc::new(SettableMetrics::new(0, 10));
        let server_clock = clock.clone();
        let testbed = Testbed::new(Config {
            metrics: Some(metrics.clone()),
            clock: Arc::new(move || server_clock.now()),
            ..Config::default()
        });
        let mut hpa = objects::hpa("web", 1..=20, [objects::external_metric("load", "1")]);
        hpa["spec"]["behavior"] = behavior;
        testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2), hpa]);
        Self { clock, testbed, metrics, written: Arc::default(), keep_history }
    }

    /// Starts a controller, which waits for the lease if there is a leader.
    fn controller(&self, name: &str) -> RunningController {
        let client = self.client();
        let clients = Clients { api: client.clone(), metrics: client.clone() };
        let mut election = election(client, "kube-system", name);
        election.config.keep_history = self.keep_history;
        let options = options();
        let dependencies = Dependencies {
            clock: Arc::new(self.clock.clone()),
            election: Some(election),
            ..Dependencies::new(clients, &options)
        };
        RunningController::start(dependencies, options)
    }

    /// Whole seconds since the start.
    fn second(&self) -> i64 {
        i64::try_from(self.clock.age().as_secs()).expect("a short test")
    }

    fn client(&self) -> Client {
        let (server, written, clock) =
            (self.testbed.client(), self.written.clone(), self.clock.clone());
        let record = service_fn(move |request: Request<Body>| {
            let (server, written, clock) = (server.clone(), written.clone(), clock.clone());
            async move {
                let (is_read, path) =
                    (request.method() == Method::GET, request.uri().path().to_owned());
                let tells = path.ends_with("/status") || path.contains("/configmaps");
                if !is_read && tells && written.tells_nothing.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let answer = server.send(request).await?;
                let now = i64::try_from(clock.age().as_secs()).expect("a short test");
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
        self.clock.until(Duration::from_secs(second.unsigned_abs())).await;
    }

    async fn load_at(&self, second: i64, load: i64) {
        self.at(second).await;
        self.metrics.set_value(load);
    }

    fn replicas(&self) -> i64 {
        self.testbed.replicas("web")
    }

    /// Waits until there are so many replicas; when that was.
    async fn scaled_to(&self, replicas: i64) -> i64 {
        let mut second = self.second();
        while self.replicas() != replicas {
            assert!(second < 5000, "still {} replicas, not {replicas}", self.replicas());
            second += 1;
            self.at(second).await;
        }
        second
    }

    /// Waits until there are not so many replicas any more; when that was, and how many there are.
    async fn scaled_from(&self, replicas: i64) -> (i64, i64) {
        let mut second = self.second();
        while self.replicas() == replicas {
            assert!(second < 5000, "still {replicas} replicas");
            second += 1;
            self.at(second).await;
        }
        (second, self.replicas())
    }
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
    leader.kill().await;
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
    leader.kill().await;
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
    leader.kill().await;
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
    leader.kill().await;
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
    leader.kill().await;
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
        leader.kill().await;
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
        leader.kill().await;
        scene.at(started).await;
        let _next = scene.controller("b");
        let scaled = scene.scaled_to(4).await;
        assert!(
            (earliest..=latest).contains(&scaled),
            "started at {started}, scaled down at {scaled}"
        );
    }
}
