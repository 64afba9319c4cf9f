//! Two instances of the real binary against one testbed. The leader is repeatedly killed, suspended
//! and disconnected. Only the lease holder may write, every scaling happens exactly once, and a
//! stabilization window survives a leader change.
//!
//! ```sh
//! cargo test --test availability -- --nocapture     # 10 leader changes, prints takeover times
//! HPA_LONG_TESTS=1 cargo test --test availability   # 30 leader changes
//! ```
//!
//! The binary is not built here: see [`hpa_tests::harness::hpa_binary`]. The lease duration is
//! shorter than the default, to keep the test fast. All times are real, and bounds are generous
//! for busy machines.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]
#![allow(clippy::print_stdout, reason = "reports takeover times")]

mod collectors;
mod instances;
mod log;
mod proxy;

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, sync::Arc, time::Duration};

use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{SettableMetrics, TestbedExt, are_long_tests_enabled, objects};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    instances::Instances,
    log::{Events, InstanceId, Log},
};

const LEASE_DURATION: Duration = Duration::from_secs(3);
const ELECTION_FLAGS: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2500ms",
    "--leader-elect-retry-period=200ms",
];
/// Number of leader changes: each fault once with a scale-up and once with a scale-down.
const ROUND_COUNT: usize = 10;
/// Number of leader changes with `HPA_LONG_TESTS`.
const LONG_ROUND_COUNT: usize = 30;

struct Cluster {
    testbed: Testbed,
    metrics: Arc<SettableMetrics>,
    log: Arc<Log>,
    instances: Instances,
}

impl Cluster {
    /// Starts two instances, with autoscaled Deployments of five replicas and a load of five.
    fn new(autoscaler_count: usize, flags: &[&str]) -> Self {
        let metrics = Arc::new(SettableMetrics::new(0, 5));
        let testbed = Testbed::new(Config { metrics: Some(metrics.clone()), ..Config::default() });
        testbed.apply_all([objects::namespace()]);
        for name in (0..autoscaler_count).map(name) {
            let metric = objects::external_metric("load", "1");
            testbed.apply_all([
                objects::running_deployment(&name, 5),
                objects::hpa(&name, 1..=20, [metric]),
            ]);
        }
        let log = Arc::new(Log::new(LEASE_DURATION));
        let flags: Vec<&str> = ELECTION_FLAGS.iter().chain(flags).copied().collect();
        let instances = Instances::start(2, &testbed, &log, &flags);
        Self { testbed, metrics, log, instances }
    }

    fn replicas(&self, index: usize) -> i64 {
        self.testbed.replicas(&name(index))
    }

    /// The latest stored recommendation of each autoscaler.
    fn stored_recommendations(&self) -> Vec<i64> {
        let maps = self.testbed.list("v1", "ConfigMap");
        let entries = maps.iter().filter_map(|map| map["data"].as_object()).flatten();
        let entries =
            entries.filter_map(|(_, entry)| serde_json::from_str::<Value>(entry.as_str()?).ok());
        entries
            .filter_map(|entry| entry["recommendations"].as_array()?.last()?[0].as_i64())
            .collect()
    }

    /// Waits until one instance reconciles and the other waits for the lease. Returns the leader.
    async fn wait_for_leader(&self) -> InstanceId {
        let is_settled = |events: &Events| {
            let leader = events.lease.as_ref()?.instance;
            let has_reconciled = events.metric_reads.get(&leader).is_some_and(|reads| *reads >= 2);
            let standby =
                |instance: &InstanceId| *instance != leader && !events.exits.contains_key(instance);
            (has_reconciled && events.lease_readers.iter().any(standby)).then_some(leader)
        };
        self.log.wait("a leader and a standby", is_settled).await
    }

    /// Waits until the next leader has completed two reconciles, because the first one doesn't
    /// scale down: as in the reference, the current replicas are its first recommendation.
    async fn wait_for_successor(&self, leader: InstanceId) -> InstanceId {
        let next_leader = |events: &Events| {
            let next = events.lease.as_ref().filter(|lease| lease.instance != leader)?.instance;
            events.metric_reads.get(&next).is_some_and(|reads| *reads > 2).then_some(next)
        };
        self.log.wait("the next leader", next_leader).await
    }

    async fn wait_for_exit(&self, instance: InstanceId) -> ExitStatus {
        let exit = |events: &Events| events.exits.get(&instance).copied();
        self.log.wait("the exit of the old leader", exit).await
    }

    /// Waits until an instance exits because it lost the lease.
    async fn wait_for_exit_after_lease_loss(&self, instance: InstanceId) {
        let status = self.wait_for_exit(instance).await;
        assert_eq!(status.code(), Some(1), "{status}");
    }
}

fn name(index: usize) -> String {
    format!("web-{index}")
}

/// The failure of the leader.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL, then the load changes.
    Kill,
    /// The load changes, then SIGKILL while the leader is deciding.
    KillInReconcile,
    /// The load changes, then SIGKILL right after the scale write.
    KillAfterScale,
    /// The load changes, then SIGSTOP while the leader is deciding, and SIGCONT after its successor
    /// has scaled.
    Suspend,
    /// Disconnected from the API server until another instance leads.
    Disconnect,
}

impl Cluster {
    /// Applies a fault to the leader, changes the load, and waits for the successor.
    async fn run_round(&self, fault: Fault, leader: InstanceId, load: i64) {
        let change_load = || self.metrics.set_value(load);
        match fault {
            Fault::Kill => {
                self.instances.signal(leader, Signal::KILL);
                change_load();
                self.wait_for_successor(leader).await;
            }
            Fault::KillInReconcile => {
                self.delay_reconcile(leader, change_load).await;
                self.instances.signal(leader, Signal::KILL);
                self.wait_for_successor(leader).await;
            }
            Fault::KillAfterScale => {
                let before = self.log.read(|events| events.scale_writes.len());
                change_load();
                let is_scaled =
                    |events: &Events| (events.scale_writes.len() > before).then_some(());
                self.log.wait("the scale", is_scaled).await;
                self.instances.signal(leader, Signal::KILL);
                self.wait_for_successor(leader).await;
            }
            Fault::Suspend => {
                self.delay_reconcile(leader, change_load).await;
                self.instances.suspend(leader);
                // The response waits in the socket of the suspended process.
                self.instances.deliver_metrics(leader);
                self.wait_for_successor(leader).await;
                self.instances.signal(leader, Signal::CONT);
                self.wait_for_exit_after_lease_loss(leader).await;
            }
            Fault::Disconnect => {
                self.instances.disconnect(leader);
                change_load();
                self.wait_for_successor(leader).await;
                self.instances.reconnect(leader);
                self.wait_for_exit_after_lease_loss(leader).await;
            }
        }
    }

    /// Changes the load, and waits until the leader is waiting for the delayed metric.
    async fn delay_reconcile(&self, leader: InstanceId, change_load: impl FnOnce()) {
        self.instances.delay_metrics(leader);
        change_load();
        let is_waiting = |events: &Events| events.waiting_instances.contains(&leader).then_some(());
        self.log.wait("a reconcile", is_waiting).await;
    }
}

#[tokio::test]
async fn every_scaling_happens_exactly_once_despite_leader_failures() {
    let flags = [
        "--horizontal-pod-autoscaler-sync-period=100ms",
        "--horizontal-pod-autoscaler-downscale-stabilization=0s",
    ];
    let cluster = Cluster::new(1, &flags);
    let faults = [
        Fault::Kill,
        Fault::Suspend,
        Fault::KillInReconcile,
        Fault::Disconnect,
        Fault::KillAfterScale,
    ];
    let rounds = if are_long_tests_enabled() { LONG_ROUND_COUNT } else { ROUND_COUNT };
    for round in 0..rounds {
        let leader = cluster.wait_for_leader().await;
        let (fault, load) = (faults[round % faults.len()], if round % 2 == 0 { 8 } else { 5 });
        let before = cluster.log.read(|events| events.scale_writes.len());
        cluster.run_round(fault, leader, load).await;
        assert_eq!(cluster.replicas(0), load, "round {round}, {fault:?}");
        let scaled = cluster.log.read(|events| events.scale_writes[before..].to_vec());
        assert_eq!(scaled.len(), 1, "round {round}, {fault:?}: {scaled:?}");
        let unauthorized_writes = cluster.log.read(|events| events.unauthorized_writes.clone());
        assert!(
            unauthorized_writes.is_empty(),
            "round {round}, {fault:?}: {unauthorized_writes:#?}"
        );
    }
    let mut takeovers = cluster.log.read(|events| events.takeovers.clone());
    takeovers.sort();
    assert!(takeovers.len() >= rounds, "{takeovers:?}");
    let (median, longest) = (takeovers[takeovers.len() / 2], takeovers[takeovers.len() - 1]);
    println!(
        "{} takeovers, time from a free lease to the first reconcile: median {median:?}, \
         longest {longest:?}",
        takeovers.len()
    );
    // On an idle machine, a takeover takes milliseconds. A takeover that waits for another expiry
    // takes longer than the lease duration.
    assert!(median < LEASE_DURATION, "{takeovers:?}");
}

#[tokio::test]
async fn sigterm_releases_the_lease_for_an_immediate_takeover() {
    let cluster = Cluster::new(1, &["--horizontal-pod-autoscaler-sync-period=100ms"]);
    for _ in 0..3 {
        let leader = cluster.wait_for_leader().await;
        cluster.instances.signal(leader, Signal::TERM);
        cluster.wait_for_successor(leader).await;
        let status = cluster.wait_for_exit(leader).await;
        assert!(status.success() && status.signal().is_none(), "{status}");
    }
    let (releases, takeovers) =
        cluster.log.read(|events| (events.releases, events.takeovers.clone()));
    println!("takeovers after SIGTERM: {takeovers:?}");
    assert_eq!(releases, 3);
    assert!(
        takeovers.len() >= 3 && takeovers.iter().all(|takeover| *takeover < LEASE_DURATION),
        "{takeovers:?}"
    );
    assert_eq!(cluster.log.read(|events| events.unauthorized_writes.clone()), [""; 0]);
}

#[tokio::test]
async fn stabilization_window_survives_the_leader() {
    const WINDOW: Duration = Duration::from_secs(20);
    // The tolerated deviation on a busy machine.
    const SLACK: Duration = Duration::from_secs(5);
    // With a dozen autoscalers, the history is stored every five seconds.
    const AUTOSCALER_COUNT: usize = 12;
    let flags = [
        "--horizontal-pod-autoscaler-sync-period=250ms",
        "--horizontal-pod-autoscaler-downscale-stabilization=20s",
    ];
    let cluster = Cluster::new(AUTOSCALER_COUNT, &flags);
    let leader = cluster.wait_for_leader().await;
    let all_recommend = |replicas| {
        (cluster.stored_recommendations() == [replicas; AUTOSCALER_COUNT])
            .then(std::time::Instant::now)
    };
    let load_dropped = cluster.log.wait("stored recommendations of 5", |_| all_recommend(5)).await;
    cluster.metrics.set_value(3);
    cluster.log.wait("stored recommendations of 3", |_| all_recommend(3)).await;
    let last_renewal_in_second_half = |events: &Events| {
        let lease = events.lease.as_ref().filter(|lease| lease.instance == leader)?;
        (lease.renewed_at.duration_since(load_dropped) > WINDOW / 2).then_some(lease.renewed_at)
    };
    let last_renewal =
        cluster.log.wait("the middle of the window", last_renewal_in_second_half).await;
    cluster.instances.signal(leader, Signal::KILL);
    let scale_downs = cluster.log.wait("all to be scaled down", |events| {
        (events.scale_writes.len() >= AUTOSCALER_COUNT).then(|| events.scale_writes.clone())
    });
    let scale_downs = scale_downs.await;
    for write in &scale_downs {
        let after = write.at.duration_since(load_dropped);
        assert!(
            write.instance != leader && after + SLACK > WINDOW,
            "scaled down too early: after {after:?}"
        );
        // A restarted window would end later by the elapsed time.
        assert!(
            write.at < last_renewal + WINDOW && after < WINDOW + LEASE_DURATION + SLACK,
            "too late: after {after:?}"
        );
    }
    assert_eq!(scale_downs.len(), AUTOSCALER_COUNT);
    assert!((0..AUTOSCALER_COUNT).all(|index| cluster.replicas(index) == 3));
    let last = scale_downs[AUTOSCALER_COUNT - 1].at.duration_since(load_dropped);
    let killed = last_renewal.duration_since(load_dropped);
    println!(
        "a window of {WINDOW:?}: leader killed after {killed:?}, last target scaled down after \
         {last:?}"
    );
}
