//! API servers that restart or stall, and skewed clocks.

use std::{sync::Arc, time::Duration};

use hpa_testbed::{Effect, Match, Restart, Snapshot};
use jiff::SignedDuration;
use parking_lot::Mutex;

use super::scenario::{Scenario, on, trigger_on};
use crate::cluster::Cluster;

#[tokio::test(start_paused = true)]
async fn server_down() {
    Scenario::default()
        .incident(72, |cluster| cluster.testbed.restart(Restart::Same, Duration::from_secs(45)))
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn server_down_until_the_end() {
    Scenario::default()
        .incident(61, |cluster| cluster.testbed.restart(Restart::Same, Duration::from_secs(179)))
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn server_restarts_every_ten_seconds() {
    let mut scenario = Scenario::default();
    for at in (60..240).step_by(10) {
        scenario = scenario.incident(at, |cluster| {
            cluster.testbed.restart(Restart::Same, Duration::from_millis(1500));
        });
    }
    scenario.assert_survives().await;
}

/// Restores an earlier state of the objects. Resource versions continue.
#[tokio::test(start_paused = true)]
async fn server_restored_from_an_earlier_state() {
    let saved: Arc<Mutex<Option<Snapshot>>> = Arc::default();
    let restored = saved.clone();
    Scenario::default()
        .incident(125, move |cluster| *saved.lock() = Some(cluster.testbed.snapshot()))
        .incident(200, move |cluster| {
            let snapshot = restored.lock().take().expect("a snapshot");
            cluster.restart(Restart::Older(snapshot), Duration::from_secs(5));
        })
        .assert_survives()
        .await;
}

/// All requests wait, and continue together at the end. Old decisions must not overwrite changes
/// that users made during the wait.
#[tokio::test(start_paused = true)]
async fn everything_stalls() {
    Scenario::with([on(Match::any(), Effect::Stall)]).assert_survives().await;
}

/// Stalls shorter than the request timeout, while the user scales.
#[tokio::test(start_paused = true)]
async fn writes_stall_while_a_user_scales() {
    let mut scenario = Scenario::default();
    for [from, until] in [[74, 82], [104, 110], [133, 142]] {
        let writes = trigger_on(Match::verbs(["update", "patch"]));
        let stall = writes.from(Duration::from_secs(from)).until(Duration::from_secs(until));
        scenario = scenario.fault(stall.effect(Effect::Stall));
    }
    let scale_all = |replicas: i64| {
        move |cluster: &Cluster| {
            for name in crate::cluster::TARGETS {
                cluster.scale(name, replicas);
            }
        }
    };
    scenario
        .user(79, scale_all(3))
        .user(107, scale_all(5))
        .user(139, scale_all(4))
        .assert_survives()
        .await;
}

fn skew_controller(by: i64) -> impl Fn(&Cluster) {
    move |cluster| cluster.controller_clock.set_skew(SignedDuration::from_secs(by))
}

fn skew_server(by: i64) -> impl Fn(&Cluster) {
    move |cluster| cluster.clock.set_skew(SignedDuration::from_secs(by))
}

#[tokio::test(start_paused = true)]
async fn clock_an_hour_ahead() {
    Scenario::default()
        .incident(85, skew_controller(3600))
        .incident(170, skew_controller(0))
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn clock_an_hour_behind() {
    Scenario::default()
        .incident(85, skew_controller(-3600))
        .incident(170, skew_controller(0))
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn clock_jumps_back_and_forth() {
    let mut scenario = Scenario::default();
    for at in 60..239 {
        scenario = scenario.incident(at, skew_controller(if at % 2 == 0 { 40 } else { -40 }));
    }
    scenario.incident(239, skew_controller(0)).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn server_clock_ahead() {
    Scenario::default()
        .incident(85, skew_server(3600))
        .incident(230, skew_server(0))
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn server_clock_behind() {
    Scenario::default()
        .incident(85, skew_server(-3600))
        .incident(230, skew_server(0))
        .assert_survives()
        .await;
}
