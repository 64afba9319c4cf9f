//! Controllers that exit while working, and their successors.

use std::time::Duration;

use hpa_testbed::{Effect, Fault, Faults, Match};
use hpa_tests::harness::TestbedExt;

use super::scenario::{Scenario, autoscalers, trigger_on};
use crate::{
    PERIOD, WINDOW,
    cluster::{CONTROLLER, Cluster},
    invariants::violations,
    journal::Actor,
};

#[tokio::test(start_paused = true)]
async fn controller_killed_after_a_rise_of_the_load() {
    Scenario::default().kill(76).start(95).assert_survives().await;
}

/// The load has dropped, and its last value is still in the stabilization windows.
#[tokio::test(start_paused = true)]
async fn controller_killed_within_a_window() {
    Scenario::default().kill(140).start(145).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn controller_stopped_within_a_window() {
    Scenario::default().stop(140).start(145).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn controller_killed_every_twenty_seconds() {
    let mut scenario = Scenario::default();
    for at in (60..240).step_by(20) {
        scenario = scenario.kill(at).start(at + 1);
    }
    scenario.assert_survives().await;
}

/// Writes take seconds, and the controller dies before they take effect.
#[tokio::test(start_paused = true)]
async fn controller_killed_before_slow_writes_take_effect() {
    let slow = trigger_on(Match::verbs(["update", "patch"]))
        .effect(Effect::Slow { by: Duration::from_secs(5) });
    Scenario::with([slow]).kill(92).start(94).assert_survives().await;
}

/// The elected successor restores the history: the stabilization window does not restart.
#[tokio::test(start_paused = true)]
async fn leader_killed_within_a_window() {
    Scenario::default()
        .kill(0)
        .start_with_election(0, "first")
        .kill(140)
        .start_with_election(141, "second")
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn leader_stopped_within_a_window() {
    Scenario::default()
        .kill(0)
        .start_with_election(0, "first")
        .stop(140)
        .start_with_election(141, "second")
        .assert_survives()
        .await;
}

/// The leader is disconnected after the load has risen. The standby takes over, and pending writes
/// of the old leader never arrive.
#[tokio::test(start_paused = true)]
async fn stalled_leader() {
    let stall =
        trigger_on(Match::any()).from(Duration::from_secs(76)).until(Duration::from_secs(160));
    Scenario::with([stall.effect(Effect::Stall)])
        .kill(0)
        .start_with_election(0, CONTROLLER)
        .start_standby(30, "standby")
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn controller_killed_between_scale_write_and_status_write() {
    let faults = Faults::new(1);
    let mut cluster = Cluster::with_faults(&faults);
    cluster.wait_until_age(Duration::from_secs(90)).await;
    let status = Fault::on(autoscalers("patch").client(CONTROLLER).name("web"));
    let slow = faults.add(status.effect(Effect::Slow { by: Duration::from_secs(5) }));
    cluster.loads.set("web", 4);
    cluster.wait_for_replicas("web", 4).await;
    cluster.kill_controller().await;
    let stored = |cluster: &Cluster| {
        let hpa = cluster.testbed.hpa("web").expect("an autoscaler");
        hpa["status"]["desiredReplicas"].clone()
    };
    assert_eq!(stored(&cluster), 2, "the status was already written");
    assert_eq!(faults.hits(slow), 1);
    faults.clear();
    cluster.start_controller();
    cluster.sleep(2 * PERIOD).await;
    assert_eq!(cluster.testbed.replicas("web"), 4);
    assert_eq!(stored(&cluster), 4);
    assert_eq!(violations(&cluster), Vec::<String>::new());
    cluster.shut_down().await;
}

/// The load drops at 120 s. The first controller is killed at 140 s, and the second one starts.
/// Returns the age of the cluster at which a controller first scales `web` down.
async fn scale_down_after_kill(
    start_first: fn(&mut Cluster),
    start_second: fn(&mut Cluster),
) -> Duration {
    let mut cluster = Cluster::with_faults(&Faults::new(1));
    cluster.kill_controller().await;
    start_first(&mut cluster);
    cluster.wait_until_age(Duration::from_secs(60)).await;
    cluster.loads.set("web", 6);
    let load_drop = Duration::from_secs(120);
    cluster.wait_until_age(load_drop).await;
    assert_eq!(cluster.testbed.replicas("web"), 6);
    cluster.loads.set("web", 2);
    cluster.wait_until_age(Duration::from_secs(140)).await;
    cluster.kill_controller().await;
    start_second(&mut cluster);
    cluster.wait_until_age(Duration::from_secs(300)).await;
    assert_eq!(violations(&cluster), Vec::<String>::new());
    let down = cluster.journal.scalings().into_iter().find(|scaling| {
        scaling.target.name == "web"
            && scaling.by == Actor::Client
            && scaling.when.at > load_drop
            && scaling.to < scaling.from
    });
    cluster.shut_down().await;
    down.expect("a scale-down").when.at
}

#[tokio::test(start_paused = true)]
async fn elected_successor_continues_the_window() {
    let down = scale_down_after_kill(
        |cluster| cluster.start_with_election("first"),
        |cluster| cluster.start_with_election("second"),
    )
    .await;
    let [earliest, latest] = [120 - 15, 120 + 2 * 15].map(|at| Duration::from_secs(at) + WINDOW);
    assert!((earliest..=latest).contains(&down), "scaled down at {down:?}");
}

/// Without leader election no history is stored, as in the reference.
#[tokio::test(start_paused = true)]
async fn successor_without_history_starts_a_new_window() {
    let down = scale_down_after_kill(Cluster::start_controller, Cluster::start_controller).await;
    let [earliest, latest] = [140, 140 + 2 * 15].map(|at| Duration::from_secs(at) + WINDOW);
    assert!((earliest..=latest).contains(&down), "scaled down at {down:?}");
}

#[tokio::test(start_paused = true)]
async fn disconnected_leader_exits() {
    let faults = Faults::new(1);
    let mut cluster = Cluster::with_faults(&faults);
    cluster.kill_controller().await;
    cluster.start_with_election(CONTROLLER);
    cluster.wait_until_age(Duration::from_secs(60)).await;
    assert!(!cluster.has_exited());
    faults.add(Fault::on(Match::any().client(CONTROLLER)).effect(Effect::Stall));
    cluster.sleep(Duration::from_secs(15)).await;
    assert!(cluster.has_exited());
    cluster.shut_down().await;
}
