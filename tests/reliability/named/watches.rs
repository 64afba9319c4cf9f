//! Watches that end, break or become silent, and failing lists.

use hpa_testbed::{Effect, Match};
use hpa_tests::harness::TestbedExt;

use super::scenario::{Scenario, autoscalers, on, pods};
use crate::cluster::Cluster;

fn end_watches(cluster: &Cluster) {
    cluster.testbed.end_watches();
}

#[tokio::test(start_paused = true)]
async fn watches_expire() {
    Scenario::with([on(Match::verb("watch"), Effect::Expired)])
        .incident(70, end_watches)
        .incident(115, Cluster::expire_watches)
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn lists_expire() {
    Scenario::with([on(Match::verb("list"), Effect::Expired)])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}

/// A bound limits the target, and is raised while lists fail. The controller writes no scale, so
/// only the first successful list reveals the new bound.
#[tokio::test(start_paused = true)]
async fn bounds_edited_while_lists_expire() {
    let bound = |max: i32| {
        move |cluster: &Cluster| {
            cluster.edit(cluster.testbed.hpa("web"), |object| {
                object["spec"]["maxReplicas"] = max.into();
            });
        }
    };
    Scenario::with([on(Match::verb("list"), Effect::Expired)])
        .user(65, bound(3))
        .incident(70, Cluster::expire_watches)
        .user(232, bound(8))
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn watches_are_dropped_every_second() {
    let mut scenario = Scenario::default();
    for at in 60..240 {
        scenario = scenario.incident(at, end_watches);
    }
    scenario.assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn watches_end_after_each_event() {
    Scenario::with([on(Match::verb("watch"), Effect::DropWatch { after: 1 })])
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn watches_break_off_in_an_event() {
    Scenario::with([on(Match::verb("watch"), Effect::TruncatedEvent { after: 0 })])
        .assert_survives()
        .await;
}

/// Until the faults end, watches don't deliver the edits of users.
#[tokio::test(start_paused = true)]
async fn silent_watches() {
    Scenario::with([on(Match::verb("watch"), Effect::SilentWatch { after: 0 })])
        .assert_survives()
        .await;
}

/// The watch misses an edit of the bounds. Scale writes must still respect the new bounds.
#[tokio::test(start_paused = true)]
async fn silent_watch_of_edited_autoscalers() {
    let bounds = |cluster: &Cluster| {
        cluster.edit(cluster.testbed.hpa("web"), |object| object["spec"]["maxReplicas"] = 5.into());
        cluster
            .edit(cluster.testbed.hpa("jobs"), |object| object["spec"]["minReplicas"] = 2.into());
    };
    Scenario::with([on(autoscalers("watch"), Effect::SilentWatch { after: 0 })])
        .user(65, bounds)
        .assert_survives()
        .await;
}

/// New pods that the watch doesn't deliver must not cause a scale-down.
#[tokio::test(start_paused = true)]
async fn silent_watch_of_pods() {
    Scenario::with([on(pods("watch"), Effect::SilentWatch { after: 0 })]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn silent_watch_of_pods_that_cannot_be_listed() {
    let faults = [
        on(pods("watch"), Effect::SilentWatch { after: 0 }),
        on(pods("list"), Effect::ServiceUnavailable),
    ];
    Scenario::with(faults).assert_survives().await;
}

/// Every restarted watch is expired and has to relist.
#[tokio::test(start_paused = true)]
async fn repeated_compaction() {
    let mut scenario = Scenario::default();
    for at in (60..240).step_by(10) {
        scenario = scenario.incident(at, Cluster::expire_watches);
    }
    scenario.assert_survives().await;
}

/// Lists come from a stale cache of the API server.
#[tokio::test(start_paused = true)]
async fn stale_lists() {
    Scenario::with([on(Match::verb("list"), Effect::Stale { revisions: 15 })])
        .incident(112, Cluster::expire_watches)
        .assert_survives()
        .await;
}
