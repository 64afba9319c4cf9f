//! Settings whose effect depends on time, in virtual time.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a wrong assumption fails the test"
)]

use std::{sync::Arc, time::Duration};

use hpa_controller::{Clock, Dependencies};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    NAMESPACE, RunningController, SettableMetrics, TestbedExt, VirtualClock, clients,
    controller_options, objects,
};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

/// The time when the autoscaler is created. The controller starts at 0.
const CREATED_MS: u64 = 20_000;

/// A running controller, and an autoscaler of a target with 2 replicas.
struct Cluster {
    clock: VirtualClock,
    metrics: Arc<SettableMetrics>,
    testbed: Testbed,
    controller: RunningController,
}

impl Cluster {
    async fn start(annotations: Value) -> Self {
        let clock = VirtualClock::start();
        let server_clock = clock.clone();
        let metrics = Arc::new(SettableMetrics::new(0, 2));
        let testbed = Testbed::new(Config {
            metrics: Some(metrics.clone()),
            clock: Arc::new(move || server_clock.now()),
            ..Config::default()
        });
        testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2)]);
        let dependencies = Dependencies {
            clock: Arc::new(clock.clone()),
            ..Dependencies::new(clients(testbed.client()), &controller_options())
        };
        let controller = RunningController::start(dependencies, controller_options());
        let cluster = Self { clock, metrics, testbed, controller };
        cluster.at(0).await;
        cluster.annotate(annotations);
        cluster
    }

    /// Creates the autoscaler, or replaces its annotations.
    fn annotate(&self, annotations: Value) {
        let mut hpa = objects::hpa("web", 1..=20, [objects::external_metric("load", "1")]);
        hpa["metadata"]["annotations"] = annotations;
        self.testbed.apply_all([hpa]);
    }

    /// Waits until this many milliseconds after the creation.
    async fn at(&self, millis: u64) {
        self.clock.wait_until_age(Duration::from_millis(CREATED_MS + millis)).await;
    }

    /// Sets the metric at `set`, and checks that the target is scaled to it between 0.1 s before
    /// and 1 s after `scaled`.
    async fn check_reaction(&self, set: u64, value: i64, scaled: u64) {
        self.at(set).await;
        self.metrics.set_value(value);
        let before = self.testbed.replicas("web");
        self.at(scaled - 100).await;
        assert_eq!(self.testbed.replicas("web"), before, "before {scaled}");
        self.at(scaled + 1000).await;
        assert_eq!(self.testbed.replicas("web"), value, "after {scaled}");
    }
}

fn sync_period(text: &str) -> Value {
    json!({ "autoscaling.hpa-rs.dev/sync-period": text })
}

#[rstest]
#[case::shorter("5s", 11_000, 15_000)]
#[case::longer("1m", 16_000, 60_000)]
#[case::below_the_floor("3s", 11_000, 15_000)]
#[tokio::test(start_paused = true)]
async fn autoscaler_is_reconciled_with_its_own_period(
    #[case] text: &str,
    #[case] set: u64,
    #[case] scaled: u64,
) {
    let cluster = Cluster::start(sync_period(text)).await;
    cluster.check_reaction(set, 3, scaled).await;
    cluster.controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changed_period_takes_effect_at_once() {
    let cluster = Cluster::start(sync_period("1h")).await;
    cluster.at(20_000).await;
    cluster.annotate(sync_period("5s"));
    cluster.check_reaction(21_000, 3, 25_000).await;
    cluster.controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bounds_change_is_reconciled_at_its_minute() {
    let cluster = Cluster::start(json!({})).await;
    // The bounds change at the start of the minute after the next one.
    let delay = 120 - cluster.clock.now().as_second().rem_euclid(60);
    let start = cluster.clock.now() + SignedDuration::from_secs(delay);
    let time = |at: Timestamp| at.strftime("%H:%M").to_string();
    let end = start + SignedDuration::from_secs(600);
    let entry = json!([{ "start": time(start), "end": time(end), "minReplicas": 6 }]);
    let annotations = json!({
        "autoscaling.hpa-rs.dev/bounds": entry.to_string(),
        "autoscaling.hpa-rs.dev/sync-period": "1h",
    });
    cluster.annotate(annotations);
    let delay = u64::try_from(delay).expect("positive") * 1000;
    cluster.at(delay - 500).await;
    assert_eq!(cluster.testbed.replicas("web"), 2);
    cluster.at(delay + 500).await;
    assert_eq!(cluster.testbed.replicas("web"), 6);
    cluster.controller.stop().await;
}

/// Creates two pods of the Deployment, and one of another workload with the same labels.
fn create_pods_of_two_workloads(cluster: &Cluster) {
    let owner = |kind: &str, name: &str, uid: &Value| {
        json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid,
            "controller": true }])
    };
    let existing_owner = |kind: &str, name: &str| {
        let object = cluster.testbed.get("apps/v1", kind, NAMESPACE, name).expect("the object");
        owner(kind, name, &object["metadata"]["uid"])
    };
    let mut replica_set = objects::deployment("web-1", 2);
    replica_set["kind"] = json!("ReplicaSet");
    replica_set["metadata"]["ownerReferences"] = existing_owner("Deployment", "web");
    cluster.testbed.apply_all([replica_set]);
    let of_web = existing_owner("ReplicaSet", "web-1");
    // This ReplicaSet is gone, so its pod can't be of the Deployment.
    let of_other = owner("ReplicaSet", "other", &json!("other-uid"));
    for (index, owners) in [&of_web, &of_web, &of_other].into_iter().enumerate() {
        let mut pod = objects::pod("web", i64::try_from(index).expect("small"));
        pod["metadata"]["ownerReferences"] = owners.clone();
        cluster.testbed.apply_all([pod]);
    }
}

/// A value of 4/3 of the target asks for 4/3 of the pods that count.
#[rstest]
#[case::all_pods_of_the_selector(json!({}), 4)]
#[case::only_owned_pods(json!({ "autoscaling.hpa-rs.dev/pods": "owned" }), 3)]
#[tokio::test(start_paused = true)]
async fn pods_of_another_workload_count_unless_only_owned_pods_do(
    #[case] annotations: Value,
    #[case] replicas: i64,
) {
    let cluster = Cluster::start(json!({ "autoscaling.hpa-rs.dev/pause": "true" })).await;
    create_pods_of_two_workloads(&cluster);
    let mut metric = objects::external_metric("load", "1");
    metric["external"]["target"] = json!({ "type": "Value", "value": "1500m" });
    let mut hpa = objects::hpa("web", 1..=20, [metric]);
    hpa["metadata"]["annotations"] = annotations;
    cluster.at(1_000).await;
    cluster.testbed.apply_all([hpa]);
    cluster.at(2_000).await;
    assert_eq!(cluster.testbed.replicas("web"), replicas);
    cluster.controller.stop().await;
}
