//! Scales that are known from a watch, where the watch tells nothing of what has become of them.

use std::time::Duration;

use hpa_testbed::{Effect, Faults, Match};

use super::{at_zero, ends_well, on, periods, world};
use crate::{
    journal::{Actor, Scaling},
    world::World,
};

/// From now on the watch of the targets is silent, as one is whose connection has died.
async fn blind(world: &World, faults: &Faults) {
    let watches = Match::verb("watch").resource("deployments");
    let silence = faults.add(on(watches, Effect::SilentWatch { after: 0 }));
    world.testbed.drop_watches();
    faults.wait_for_hits(silence, 1).await;
    periods(world, 1).await;
}

fn by_controller(world: &World, target: &str) -> Vec<(i64, i64)> {
    let is_it = |scaling: &Scaling| scaling.target == target && scaling.by == Actor::Controller;
    world
        .journal
        .scalings()
        .into_iter()
        .filter(is_it)
        .map(|scaling| (scaling.from, scaling.to))
        .collect()
}

/// What is written is decided on the replicas that there are, not on those that are known.
#[tokio::test(start_paused = true)]
async fn replicas_changed_unseen_are_decided_on() {
    let (world, faults) = world().await;
    blind(&world, &faults).await;
    world.scale("web", 3);
    world.loads.set("web", 5);
    periods(&world, 2).await;
    assert_eq!(by_controller(&world, "web"), [(3, 5)]);
    faults.clear();
    ends_well(world).await;
}

/// What was written by ourselves is known although no watch tells of it.
#[tokio::test(start_paused = true)]
async fn own_writes_are_known_unseen() {
    let (world, faults) = world().await;
    blind(&world, &faults).await;
    let conflicts = world.telemetry.render().matches("code=\"409\"").count();
    for load in [4, 6] {
        world.loads.set("web", load);
        world.scaled_to("web", load).await;
    }
    assert_eq!(by_controller(&world, "web"), [(2, 4), (4, 6)]);
    assert_eq!(world.telemetry.render().matches("code=\"409\"").count(), conflicts);
    faults.clear();
    ends_well(world).await;
}

/// A target that went unseen is told to be gone once something is to be written.
#[tokio::test(start_paused = true)]
async fn target_that_went_unseen_is_told_as_such() {
    let (world, faults) = world().await;
    blind(&world, &faults).await;
    let web = world.deployment("web").expect("a target");
    world.delete("apps/v1", "Deployment", "web");
    world.loads.set("web", 5);
    periods(&world, 2).await;
    let able = world.condition("web", "AbleToScale").expect("a condition");
    assert_eq!(&able[..2], ["False", "FailedGetScale"], "{able:?}");
    world.apply(web);
    faults.clear();
    ends_well(world).await;
}

/// Whoever brought a target to zero is asked of the API server, never of a watch.
#[tokio::test(start_paused = true)]
async fn zero_is_never_taken_from_a_watch() {
    let (world, faults) = at_zero().await;
    blind(&world, &faults).await;
    world.loads.set("jobs", 3);
    world.scaled_to("jobs", 3).await;
    world.loads.set("jobs", 0);
    world.scaled_to("jobs", 0).await;
    let mark = world.condition("jobs", "ScaledToZero").expect("a condition");
    assert_eq!(mark[0], "True", "{mark:?}");
    world.pass(Duration::from_mins(1)).await;
    world.loads.set("jobs", 2);
    world.scaled_to("jobs", 2).await;
    faults.clear();
    ends_well(world).await;
}
