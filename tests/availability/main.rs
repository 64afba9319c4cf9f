//! Two instances of the real binary against one API server in memory: the leader is killed, stopped and cut off, again
//! and again. Never do two write, no scaling is lost or done twice, and a stabilization window goes on.
//!
//! ```sh
//! cargo test --test availability -- --nocapture   # prints how long the takeovers took
//! ```
//!
//! The binary is built first; `HPA_BINARY` names another one to test. The lease is much shorter than in life, to be done
//! in a minute or so.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "the report of the suite")]

mod door;
mod instances;
mod log;

use std::{os::unix::process::ExitStatusExt, sync::Arc, time::Duration};

use hpa_test_harness::{SettableMetrics, TestbedExt, objects};
use hpa_testbed::{Config, Testbed};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    instances::Instances,
    log::{Events, Log, Who},
};

const LEASE: Duration = Duration::from_secs(1);
const ELECTION: [&str; 3] = [
    "--leader-elect-lease-duration=1s",
    "--leader-elect-renew-deadline=700ms",
    "--leader-elect-retry-period=100ms",
];
/// How many times the leader is done away with.
const ROUNDS: usize = 50;

/// A cluster and the instances in it.
struct Cluster {
    testbed: Testbed,
    metrics: Arc<SettableMetrics>,
    log: Arc<Log>,
    instances: Instances,
}

impl Cluster {
    /// So many Deployments of five with an autoscaler each, a load of five, and two instances.
    fn new(autoscalers: usize, flags: &[&str]) -> Self {
        let metrics = Arc::new(SettableMetrics::new(0, 5));
        let testbed = Testbed::new(Config { metrics: Some(metrics.clone()), ..Config::default() });
        testbed.apply_all([objects::namespace()]);
        for name in (0..autoscalers).map(name) {
            let metric = objects::external_metric("load", "1");
            testbed.apply_all([
                objects::running_deployment(&name, 5),
                objects::hpa(&name, 1..=20, [metric]),
            ]);
        }
        let log = Arc::new(Log::new(LEASE));
        let flags: Vec<&str> = ELECTION.iter().chain(flags).copied().collect();
        let instances = Instances::start(2, &testbed, &log, &flags);
        Self { testbed, metrics, log, instances }
    }

    fn replicas(&self, index: usize) -> i64 {
        self.testbed.replicas(&name(index))
    }

    /// The last recommendation of each history that is kept.
    fn kept(&self) -> Vec<i64> {
        let maps = self.testbed.list("v1", "ConfigMap");
        let entries = maps.iter().filter_map(|map| map["data"].as_object()).flatten();
        let entries =
            entries.filter_map(|(_, entry)| serde_json::from_str::<Value>(entry.as_str()?).ok());
        entries
            .filter_map(|entry| entry["recommendations"].as_array()?.last()?[0].as_i64())
            .collect()
    }

    /// Waits until one instance reconciles and the other waits for the lease; who leads.
    async fn leader(&self) -> Who {
        let is_settled = |events: &Events| {
            let leader = events.term.as_ref()?.who;
            let reconciles =
                events.reconciles.get(&leader).is_some_and(|reconciles| *reconciles >= 2);
            let standby = |who: &Who| *who != leader && !events.exits.contains_key(who);
            (reconciles && events.looked.iter().any(standby)).then_some(leader)
        };
        self.log.wait("a leader and a standby", is_settled).await
    }

    /// Waits until the next leader has reconciled twice and begins again: without a window the first recommendation is
    /// that of the replicas that it found, as in the reference.
    async fn successor(&self, of: Who) -> Who {
        let found = |events: &Events| {
            let leader = events.term.as_ref().filter(|term| term.who != of)?.who;
            events
                .reconciles
                .get(&leader)
                .is_some_and(|reconciles| *reconciles > 2)
                .then_some(leader)
        };
        self.log.wait("the next leader", found).await
    }

    /// Waits until an instance has ended, which had to be because it lost the lease.
    async fn gives_up(&self, who: Who) {
        let status = self
            .log
            .wait("the end of the old leader", |events| events.exits.get(&who).copied())
            .await;
        assert_eq!(status.code(), Some(1), "{status}");
    }
}

fn name(index: usize) -> String {
    format!("web-{index}")
}

/// How the leader is done away with.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL, then the load changes.
    Kill,
    /// The load changes, and SIGKILL comes while the leader decides on it.
    KillInReconcile,
    /// The load changes, and SIGKILL comes as soon as the scale is written.
    KillAfterScale,
    /// SIGSTOP while the leader decides on a changed load, and SIGCONT when another has done so.
    Stop,
    /// Cut off from the API server until another leads.
    Cut,
}

impl Cluster {
    /// Does away with the leader while the load changes.
    async fn round(&self, fault: Fault, leader: Who, load: i64) {
        let change = || self.metrics.set_value(load);
        match fault {
            Fault::Kill => {
                self.instances.signal(leader, Signal::KILL);
                change();
                self.successor(leader).await;
            }
            Fault::KillInReconcile => {
                self.hold_in_reconcile(leader, change).await;
                self.instances.signal(leader, Signal::KILL);
                self.successor(leader).await;
            }
            Fault::KillAfterScale => {
                let before = self.log.read(|events| events.scaled.len());
                change();
                let is_scaled = |events: &Events| (events.scaled.len() > before).then_some(());
                self.log.wait("the scale", is_scaled).await;
                self.instances.signal(leader, Signal::KILL);
                self.successor(leader).await;
            }
            Fault::Stop => {
                self.hold_in_reconcile(leader, change).await;
                self.instances.signal(leader, Signal::STOP);
                // The answer waits for the process to go on.
                self.instances.hold(leader, false);
                self.successor(leader).await;
                self.instances.signal(leader, Signal::CONT);
                self.gives_up(leader).await;
            }
            Fault::Cut => {
                self.instances.cut(leader, true);
                change();
                self.successor(leader).await;
                self.instances.cut(leader, false);
                self.gives_up(leader).await;
            }
        }
    }

    /// Changes the load and waits until the leader waits for the metric to decide about it.
    async fn hold_in_reconcile(&self, leader: Who, change: impl FnOnce()) {
        self.instances.hold(leader, true);
        change();
        let is_held = |events: &Events| events.held.contains(&leader).then_some(());
        self.log.wait("a reconcile", is_held).await;
    }
}

#[tokio::test]
async fn leader_is_done_away_with_fifty_times() {
    let flags = [
        "--horizontal-pod-autoscaler-sync-period=100ms",
        "--horizontal-pod-autoscaler-downscale-stabilization=0s",
    ];
    let cluster = Cluster::new(1, &flags);
    let faults =
        [Fault::Kill, Fault::Stop, Fault::KillInReconcile, Fault::Cut, Fault::KillAfterScale];
    for round in 0..ROUNDS {
        let leader = cluster.leader().await;
        let (fault, load) = (faults[round % faults.len()], if round % 2 == 0 { 8 } else { 5 });
        let before = cluster.log.read(|events| events.scaled.len());
        cluster.round(fault, leader, load).await;
        assert_eq!(cluster.replicas(0), load, "round {round}, {fault:?}");
        let scaled = cluster.log.read(|events| events.scaled[before..].to_vec());
        assert_eq!(scaled.len(), 1, "round {round}, {fault:?}: {scaled:?}");
        let trespasses = cluster.log.read(|events| events.trespasses.clone());
        assert!(trespasses.is_empty(), "round {round}, {fault:?}: {trespasses:#?}");
    }
    let mut takeovers = cluster.log.read(|events| events.takeovers.clone());
    takeovers.sort();
    assert!(takeovers.len() >= ROUNDS, "{takeovers:?}");
    let (median, longest) = (takeovers[takeovers.len() / 2], takeovers[takeovers.len() - 1]);
    println!(
        "{} takeovers, from a free lease to the first reconcile: median {median:?}, longest {longest:?}",
        takeovers.len()
    );
    assert!(longest < Duration::from_secs(2), "{takeovers:?}");
}

#[tokio::test]
async fn leader_that_is_told_to_stop_hands_over_at_once() {
    let cluster = Cluster::new(1, &["--horizontal-pod-autoscaler-sync-period=100ms"]);
    for _ in 0..3 {
        let leader = cluster.leader().await;
        cluster.instances.signal(leader, Signal::TERM);
        cluster.successor(leader).await;
        let status = cluster.log.wait("its end", |events| events.exits.get(&leader).copied()).await;
        assert!(status.success() && status.signal().is_none(), "{status}");
    }
    let takeovers = cluster.log.read(|events| events.takeovers.clone());
    println!("takeovers from a leader that is told to stop: {takeovers:?}");
    assert!(
        takeovers.len() >= 3 && takeovers.iter().all(|takeover| *takeover < LEASE),
        "{takeovers:?}"
    );
    assert_eq!(cluster.log.read(|events| events.trespasses.clone()), [""; 0]);
}

#[tokio::test]
async fn stabilization_window_outlives_the_leader() {
    const WINDOW: Duration = Duration::from_secs(10);
    // With a dozen of them, what is kept is written every five seconds.
    const AUTOSCALERS: usize = 12;
    let flags = [
        "--horizontal-pod-autoscaler-sync-period=250ms",
        "--horizontal-pod-autoscaler-downscale-stabilization=10s",
    ];
    let cluster = Cluster::new(AUTOSCALERS, &flags);
    let leader = cluster.leader().await;
    let all_recommend =
        |replicas| (cluster.kept() == [replicas; AUTOSCALERS]).then(std::time::Instant::now);
    let fallen = cluster.log.wait("recommendations of 5 to be kept", |_| all_recommend(5)).await;
    cluster.metrics.set_value(3);
    cluster.log.wait("the fall to be kept", |_| all_recommend(3)).await;
    let well_within = |events: &Events| {
        let term = events.term.as_ref().filter(|term| term.who == leader)?;
        (term.renewed.duration_since(fallen) > WINDOW / 2).then_some(term.renewed)
    };
    let killed = cluster.log.wait("the middle of the window", well_within).await;
    cluster.instances.signal(leader, Signal::KILL);
    let scaled = cluster.log.wait("all to be scaled down", |events| {
        (events.scaled.len() >= AUTOSCALERS).then(|| events.scaled.clone())
    });
    let scaled = scaled.await;
    for scaled in &scaled {
        let after = scaled.at.duration_since(fallen);
        assert!(
            scaled.who != leader && after + Duration::from_millis(500) > WINDOW,
            "early: after {after:?}"
        );
        // Begun anew, the window would have ended later than it had without the kill by all that had gone of it.
        assert!(scaled.at < killed + WINDOW && after < WINDOW + 2 * LEASE, "late: after {after:?}");
    }
    assert_eq!(scaled.len(), AUTOSCALERS);
    assert!((0..AUTOSCALERS).all(|index| cluster.replicas(index) == 3));
    let (last, killed) =
        (scaled[AUTOSCALERS - 1].at.duration_since(fallen), killed.duration_since(fallen));
    println!(
        "a window of {WINDOW:?}: the leader is killed after {killed:?}, the last is scaled down after {last:?}"
    );
}
