//! Leader changes between whole controllers, in virtual time.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a wrong assumption fails the test"
)]
#![allow(clippy::manual_range_contains, reason = "one bound is too early, the other too late")]

mod cluster;
mod untrusted_history;

use std::sync::atomic::Ordering;

use futures::FutureExt;
use hpa_controller::{LeaderTask, Telemetry};
use hpa_tests::harness::{TestbedExt, objects};
use rstest::rstest;
use serde_json::{Value, json};

use crate::cluster::{Cluster, LEASE, SYNC, WINDOW, exported_value};

/// The second of the scale-down, if the load falls at 200 and the leader is killed at `killed`.
async fn scale_down_after_a_kill(killed: i64, keep_history: bool) -> i64 {
    let cluster = Cluster::new(Value::Null, keep_history);
    let (leader, _standby) = cluster.start_leader_and_standby().await;
    assert!(cluster.wait_until_scaled_to(10).await < 60);
    cluster.load_at(200, 4).await;
    cluster.at(killed).await;
    leader.kill().await;
    let (scaled, replicas) = cluster.wait_until_scaled_from(10).await;
    assert_eq!(replicas, 4);
    let maps = cluster.api.config_map_write_seconds.lock();
    assert!(maps.windows(2).all(|pair| pair[1] - pair[0] >= 60), "{maps:?}");
    assert_eq!(maps.is_empty(), !keep_history);
    scaled
}

#[tokio::test(start_paused = true)]
async fn lease_names_the_autoscalers_of_its_holder() {
    let cluster = Cluster::new(Value::Null, false);
    let (leader, _standby) = cluster.start_leader_and_standby().await;
    cluster.at(10).await;
    let all = |holder: &str| Some(json!({ "holder": holder, "apis": ["core"] }));
    let scope = async || {
        let annotation = cluster.instance_scope().await;
        annotation.and_then(|text| serde_json::from_str::<Value>(&text).ok())
    };
    assert_eq!(scope().await, all("a"));
    leader.stop().await;
    cluster.at(20).await;
    assert_eq!(scope().await, all("b"));
}

#[tokio::test(start_paused = true)]
async fn stabilization_window_survives_a_killed_leader() {
    for killed in [217, 230, 300, 400, 470] {
        let scaled = scale_down_after_a_kill(killed, true).await;
        // The last recommendation of 10 was at most a sync period before the load fell.
        assert!(scaled >= 200 - SYNC + WINDOW, "killed at {killed}: early, at {scaled}");
        assert!(scaled <= 200 + WINDOW + SYNC + 1, "killed at {killed}: late, at {scaled}");
    }
}

#[tokio::test(start_paused = true)]
async fn stabilization_window_can_end_without_a_leader() {
    let scaled = scale_down_after_a_kill(490, true).await;
    assert!(scaled >= 490 && scaled <= 490 + LEASE + 1, "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn stabilization_window_restarts_without_stored_histories() {
    let scaled = scale_down_after_a_kill(400, false).await;
    assert!(scaled >= 400 + WINDOW && scaled <= 400 + LEASE + WINDOW + 2 * SYNC, "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn unwritten_change_delays_a_scale_down_by_at_most_a_minute() {
    let cluster = Cluster::new(Value::Null, true);
    let (leader, _standby) = cluster.start_leader_and_standby().await;
    cluster.load_at(200, 6).await;
    cluster.load_at(220, 4).await;
    cluster.at(250).await;
    leader.kill().await;
    let scaled = cluster.wait_until_scaled_to(6).await;
    assert!(scaled >= 200 - SYNC + WINDOW && scaled <= 200 + WINDOW + SYNC + 1, "{scaled}");
    let scaled = cluster.wait_until_scaled_to(4).await;
    assert!(scaled >= 220 - SYNC + WINDOW && scaled <= 220 + 60 + WINDOW + SYNC + 1, "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn hanging_reconcile_does_not_prevent_the_last_write() {
    let cluster = Cluster::new(Value::Null, true);
    let (leader, _standby) = cluster.start_leader_and_standby().await;
    cluster.load_at(200, 6).await;
    cluster.load_at(220, 4).await;
    // After the reconcile that reads the 4, and within a minute of the last write.
    cluster.at(220 + SYNC).await;
    cluster.api.hang_metrics.store(true, Ordering::SeqCst);
    while !cluster.api.has_hung.load(Ordering::SeqCst) {
        cluster.at(cluster.second() + 1).await;
    }
    leader.stop().await;
    let stopped = cluster.second();
    cluster.api.hang_metrics.store(false, Ordering::SeqCst);
    assert_eq!(cluster.api.config_map_write_seconds.lock().last(), Some(&stopped));
    let scaled = cluster.wait_until_scaled_to(4).await;
    assert!(scaled >= 220 - SYNC + WINDOW && scaled <= 220 + WINDOW + SYNC + 1, "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn unchanged_recommendation_holds_until_the_end_of_the_leader() {
    let cluster = Cluster::new(Value::Null, true);
    let (leader, _standby) = cluster.start_leader_and_standby().await;
    cluster.load_at(200, 6).await;
    // The unchanged recommendation is written once.
    cluster.at(470).await;
    assert!(cluster.api.config_map_write_seconds.lock().iter().all(|second| *second < 270));
    leader.kill().await;
    cluster.load_at(471, 4).await;
    let (down, replicas) = cluster.wait_until_scaled_from(10).await;
    assert_eq!(replicas, 6);
    assert!(down >= 200 - SYNC + WINDOW && down <= 200 + WINDOW + SYNC + 1, "{down}");
    let down = cluster.wait_until_scaled_to(4).await;
    assert!(down >= 470 - SYNC + WINDOW && down <= 470 + WINDOW + SYNC + 1, "{down}");
}

#[tokio::test(start_paused = true)]
async fn scale_up_that_was_not_stored_is_not_undone() {
    let cluster = Cluster::new(Value::Null, true);
    let (leader, _standby) = cluster.start_leader_and_standby().await;
    cluster.load_at(200, 11).await;
    assert!(cluster.wait_until_scaled_to(11).await < 220);
    // Within a minute of the last write.
    cluster.load_at(220, 20).await;
    let scaled = cluster.wait_until_scaled_to(20).await;
    let stored = cluster.api.config_map_write_seconds.lock().last().copied().expect("a write");
    assert!(stored < scaled, "stored at {stored}, scaled at {scaled}");
    leader.kill().await;
    cluster.load_at(scaled + 1, 3).await;
    let (down, replicas) = cluster.wait_until_scaled_from(20).await;
    assert_eq!(replicas, 3);
    assert!(down >= scaled + WINDOW, "early, at {down}: scaled up at {scaled}");
    assert!(down <= scaled + WINDOW + LEASE + SYNC, "late, at {down}: scaled up at {scaled}");
}

#[tokio::test(start_paused = true)]
async fn scale_up_without_any_record_is_not_undone() {
    let cluster = Cluster::new(Value::Null, true);
    let (leader, _standby) = cluster.start_leader_and_standby().await;
    cluster.wait_until_scaled_to(10).await;
    cluster.at(200).await;
    // The leader is killed between its scale write and its status write.
    cluster.api.hang_status_and_history_writes.store(true, Ordering::SeqCst);
    cluster.load_at(200, 20).await;
    let scaled = cluster.wait_until_scaled_to(20).await;
    leader.kill().await;
    cluster.api.hang_status_and_history_writes.store(false, Ordering::SeqCst);
    cluster.load_at(scaled + 1, 10).await;
    let (down, replicas) = cluster.wait_until_scaled_from(20).await;
    assert_eq!(replicas, 10);
    assert!(down >= scaled + WINDOW, "early, at {down}: scaled up at {scaled}");
    assert!(down <= scaled + LEASE + WINDOW + 2 * SYNC, "late, at {down}: scaled up at {scaled}");
}

#[tokio::test(start_paused = true)]
async fn policies_count_scale_events_of_the_last_leader() {
    let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": 300 });
    let behavior =
        json!({ "scaleDown": { "stabilizationWindowSeconds": 0, "policies": [policy] } });
    for keep_history in [true, false] {
        let cluster = Cluster::new(behavior.clone(), keep_history);
        let (leader, _standby) = cluster.start_leader_and_standby().await;
        cluster.wait_until_scaled_to(10).await;
        // The policy counts from the replicas before the scale-up, until its period has passed.
        cluster.load_at(600, 4).await;
        let first = cluster.wait_until_scaled_to(9).await;
        cluster.at(first + 20).await;
        leader.kill().await;
        let second = cluster.wait_until_scaled_to(8).await;
        if keep_history {
            assert!(
                second >= first + 300 && second <= first + 300 + SYNC,
                "{first}, then {second}"
            );
        } else {
            // Without a history, the policy allows another pod at once, as in the reference.
            assert!(second <= first + 20 + LEASE + 2 * SYNC, "{first}, then {second}");
        }
    }
}

/// A cluster whose autoscaler has a fallback, due two minutes after the external metric fails.
fn failing_cluster() -> Cluster {
    let cluster = Cluster::new(Value::Null, true);
    let fallback = json!({ "replicas": 14, "failureDurationSeconds": 120 }).to_string();
    let mut hpa = objects::hpa("web", 1..=20, [objects::external_metric("load", "1")]);
    hpa["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/fallback": fallback });
    cluster.testbed.apply_all([hpa]);
    cluster
}

/// Status and transition time of the condition of fallbacks.
fn fallback_condition(cluster: &Cluster) -> Value {
    let hpa = cluster.testbed.hpa("web").expect("the autoscaler");
    let mut conditions = hpa["status"]["conditions"].as_array().expect("conditions").iter();
    let active = conditions.find(|it| it["type"] == "ExternalMetricFallbackActive");
    active.map(|it| json!([it["status"], it["lastTransitionTime"]])).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn active_fallback_survives_leader_changes() {
    let cluster = failing_cluster();
    let (leader, standby) = cluster.start_leader_and_standby().await;
    cluster.wait_until_scaled_to(10).await;
    cluster.at(200).await;
    cluster.metrics.start_external_outage();
    let scaled = cluster.wait_until_scaled_to(14).await;
    assert!(scaled >= 320 - SYNC && scaled <= 320 + SYNC, "{scaled}");
    cluster.at(400).await;
    let active = fallback_condition(&cluster);
    assert_eq!(active[0], "True");
    leader.kill().await;
    // An active fallback restores the replicas after a user changes them.
    cluster.at(450).await;
    let mut web = cluster.testbed.deployment("web").expect("the target");
    web["spec"]["replicas"] = json!(9);
    cluster.testbed.apply_all([web]);
    let restored = cluster.wait_until_scaled_to(14).await;
    assert!(restored <= 450 + SYNC + 1, "{restored}");
    assert_eq!(fallback_condition(&cluster), active, "it is not a new failure");
    // No controller runs for a while.
    standby.kill().await;
    cluster.at(700).await;
    let _next = cluster.start_controller("c");
    cluster.at(750).await;
    assert_eq!((cluster.replicas(), fallback_condition(&cluster)), (14, active));
    // The failure ends once the metric was read for 30 s.
    cluster.at(800).await;
    cluster.metrics.end_external_outage();
    cluster.at(800 + 30 - 1).await;
    assert_eq!(fallback_condition(&cluster)[0], "True");
    cluster.at(800 + 30 + 2 * SYNC).await;
    assert_eq!(fallback_condition(&cluster)[0], "False");
}

#[tokio::test(start_paused = true)]
async fn failure_before_a_leader_change_counts_for_the_fallback() {
    let cluster = failing_cluster();
    let (leader, _standby) = cluster.start_leader_and_standby().await;
    cluster.wait_until_scaled_to(10).await;
    cluster.at(200).await;
    cluster.metrics.start_external_outage();
    cluster.at(290).await;
    leader.kill().await;
    let scaled = cluster.wait_until_scaled_to(14).await;
    assert!(scaled >= 320 - SYNC && scaled <= 320 + LEASE + 2 * SYNC, "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn time_without_a_controller_shortens_no_window() {
    for (started, earliest, latest) in [
        // The window continues.
        (305, 200 + WINDOW - SYNC, 200 + WINDOW + SYNC + 1),
        // The recommendations of the time without a controller are unknown, so it starts again.
        (450, 450 + WINDOW, 450 + WINDOW + LEASE + 2 * SYNC),
        (1200, 1200 + WINDOW, 1200 + WINDOW + LEASE + 2 * SYNC),
    ] {
        let cluster = Cluster::new(Value::Null, true);
        let leader = cluster.start_controller("a");
        cluster.load_at(200, 4).await;
        cluster.at(300).await;
        leader.kill().await;
        cluster.at(started).await;
        let _next = cluster.start_controller("b");
        let scaled = cluster.wait_until_scaled_to(4).await;
        assert!(
            (earliest..=latest).contains(&scaled),
            "started at {started}, scaled down at {scaled}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn master_status_is_0_on_a_standby_and_after_the_lease_was_lost() {
    const MASTER: &str = "leader_election_master_status{name=\"hpa-controller\"}";
    let cluster = Cluster::new(Value::Null, true);
    let (first, of_first) = cluster.start_controller_with_telemetry("a");
    cluster.at(5).await;
    let (second, of_second) = cluster.start_controller_with_telemetry("b");
    cluster.at(60).await;
    assert_eq!((exported_value(&of_first, MASTER), exported_value(&of_second, MASTER)), (1, 0));
    first.stop().await;
    cluster.at(70).await;
    assert_eq!((exported_value(&of_first, MASTER), exported_value(&of_second, MASTER)), (0, 1));
    cluster.take_lease("c").await;
    cluster.at(90).await;
    assert!(second.is_finished(), "it lost the lease");
    assert_eq!(exported_value(&of_second, MASTER), 0);
}

#[tokio::test(start_paused = true)]
async fn standby_has_an_empty_work_queue() {
    let queue = |telemetry: &Telemetry, metric: &str| {
        exported_value(
            telemetry,
            &format!("workqueue_{metric}{{name=\"horizontalpodautoscaler\"}}"),
        )
    };
    let cluster = Cluster::new(Value::Null, true);
    let (leader, _) = cluster.start_controller_with_telemetry("a");
    cluster.at(5).await;
    let (_standby, telemetry) = cluster.start_controller_with_telemetry("b");
    cluster.at(60).await;
    let hpa = objects::hpa("api", 1..=20, [objects::external_metric("load", "1")]);
    cluster.testbed.apply_all([hpa]);
    cluster.at(100).await;
    for metric in ["depth", "adds_total", "retries_total"] {
        assert_eq!(queue(&telemetry, metric), 0, "{metric}");
    }
    leader.stop().await;
    cluster.at(120).await;
    assert!(queue(&telemetry, "adds_total") >= 2, "both are reconciled");
}

/// If the leader went on, nothing would do the task's work, and no other instance could lead.
#[rstest]
#[case::history_store(Some("/configmaps"), "the history store panicked")]
#[case::event_writer(Some("/events"), "the event writer panicked")]
#[case::leader_task(None, "the test task panicked")]
#[tokio::test(start_paused = true)]
async fn panic_of_a_task_ends_the_leader(
    #[case] panicking_writes: Option<&'static str>,
    #[case] expected: &str,
) {
    let mut cluster = Cluster::new(Value::Null, true);
    *cluster.api.panicking_writes.lock() = panicking_writes;
    if panicking_writes.is_none() {
        let start = |_| async { panic!("a bug") }.boxed();
        cluster.leader_tasks.push(LeaderTask::new("test task", start));
    }
    let error = cluster.start_controller("a").wait_for_exit().await.expect_err("a panic");
    assert_eq!(error.to_string(), expected);
    let lease =
        cluster.testbed.get("coordination.k8s.io/v1", "Lease", "kube-system", "hpa-controller");
    let holder = lease.expect("a lease")["spec"]["holderIdentity"].clone();
    assert!(holder.as_str().is_none_or(str::is_empty), "not released: {holder}");
}
