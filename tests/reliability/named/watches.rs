//! Watches that end, break, or tell nothing; lists that do not come.

use hpa_test_harness::TestbedExt;
use hpa_testbed::{Effect, Match};

use super::scenario::{Scenario, autoscalers, on, pods};
use crate::cluster::Cluster;

fn drop_watches(cluster: &Cluster) {
    cluster.testbed.drop_watches();
}

/// Watches begin anew from versions that the server no longer has.
fn expire_watches(cluster: &Cluster) {
    cluster.testbed.compact();
    cluster.testbed.drop_watches();
}

#[tokio::test(start_paused = true)]
async fn watches_expire() {
    Scenario::of([on(Match::verb("watch"), Effect::Expired)])
        .trouble(70, drop_watches)
        .trouble(115, expire_watches)
        .survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn lists_expire() {
    Scenario::of([on(Match::verb("list"), Effect::Expired)])
        .trouble(70, expire_watches)
        .survives()
        .await;
}

/// A bound keeps the target from following the load, and is lifted while nothing can be listed: nothing is to be written
/// by which that would come out. It does once lists come.
#[tokio::test(start_paused = true)]
async fn bounds_edited_while_lists_expire() {
    let bound = |max: i32| {
        move |cluster: &Cluster| {
            cluster.edit(cluster.testbed.hpa("web"), |object| {
                object["spec"]["maxReplicas"] = max.into()
            });
        }
    };
    Scenario::of([on(Match::verb("list"), Effect::Expired)])
        .user(65, bound(3))
        .trouble(70, expire_watches)
        .user(232, bound(8))
        .survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn watches_are_dropped_every_second() {
    let mut scenario = Scenario::default();
    for at in 60..240 {
        scenario = scenario.trouble(at, drop_watches);
    }
    scenario.survives().await;
}

#[tokio::test(start_paused = true)]
async fn watches_end_after_each_event() {
    Scenario::of([on(Match::verb("watch"), Effect::DropWatch { after: 1 })]).survives().await;
}

#[tokio::test(start_paused = true)]
async fn watches_break_off_in_an_event() {
    Scenario::of([on(Match::verb("watch"), Effect::TruncatedEvent { after: 0 })]).survives().await;
}

/// Nothing is known of the user's edit until the end.
#[tokio::test(start_paused = true)]
async fn silent_watches() {
    Scenario::of([on(Match::verb("watch"), Effect::SilentWatch { after: 0 })]).survives().await;
}

/// The bounds are edited while nothing is told of it: what is written keeps to the new ones.
#[tokio::test(start_paused = true)]
async fn silent_watch_of_edited_autoscalers() {
    let bounds = |cluster: &Cluster| {
        cluster.edit(cluster.testbed.hpa("web"), |object| object["spec"]["maxReplicas"] = 5.into());
        cluster
            .edit(cluster.testbed.hpa("jobs"), |object| object["spec"]["minReplicas"] = 2.into());
    };
    Scenario::of([on(autoscalers("watch"), Effect::SilentWatch { after: 0 })])
        .user(65, bounds)
        .survives()
        .await;
}

/// New pods are not known of: that is no reason to scale down.
#[tokio::test(start_paused = true)]
async fn silent_watch_of_pods() {
    Scenario::of([on(pods("watch"), Effect::SilentWatch { after: 0 })]).survives().await;
}

/// Nor can the pods be listed.
#[tokio::test(start_paused = true)]
async fn silent_watch_of_pods_that_cannot_be_listed() {
    let faults = [
        on(pods("watch"), Effect::SilentWatch { after: 0 }),
        on(pods("list"), Effect::ServiceUnavailable),
    ];
    Scenario::of(faults).survives().await;
}

/// Watches without bookmarks: each that begins anew is too old, and has to list.
#[tokio::test(start_paused = true)]
async fn compaction_over_and_over() {
    let mut scenario = Scenario::default();
    for at in (60..240).step_by(10) {
        scenario = scenario.trouble(at, expire_watches);
    }
    scenario.survives().await;
}

/// Lists come from a cache that lags behind.
#[tokio::test(start_paused = true)]
async fn stale_lists() {
    Scenario::of([on(Match::verb("list"), Effect::Stale { revisions: 15 })])
        .trouble(112, expire_watches)
        .survives()
        .await;
}
