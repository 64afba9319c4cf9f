//! D: what changes while it is decided on.

use std::time::Duration;

use hpa_testbed::{Effect, Faults, Match};
use serde_json::json;

use super::{ends_well, on, periods, world};
use crate::{
    journal::{Actor, Scaling},
    world::{World, autoscaler},
};

/// What the controller did to a target since a time.
fn by_controller(world: &World, target: &str, since: Duration) -> Vec<(i64, i64)> {
    let is_it = |scaling: &Scaling| {
        scaling.target == target && scaling.by == Actor::Controller && scaling.at >= since
    };
    world
        .journal
        .scalings()
        .into_iter()
        .filter(is_it)
        .map(|scaling| (scaling.from, scaling.to))
        .collect()
}

/// The load asks for four of web; while that is being written, the user scales by hand.
async fn conflict_with(replicas: i64) -> World {
    let (world, faults) = world().await;
    held_write(&world, &faults).await;
    world.scale("web", replicas);
    world.pass(Duration::from_secs(5)).await;
    faults.clear();
    world
}

/// Waits for a write of the scale of web that takes three seconds to get there.
async fn held_write(world: &World, faults: &Faults) {
    let writes = Match::verb("update").subresource("scale").name("web");
    let slow = faults.add(on(writes, Effect::Slow { by: Duration::from_secs(3) }));
    world.loads.set("web", 4);
    faults.wait_for_hits(slow, 1).await;
    assert_eq!(world.replicas("web"), 2);
}

#[tokio::test(start_paused = true)]
async fn d1_conflict_with_changed_replicas_is_decided_again() {
    let world = conflict_with(3).await;
    periods(&world, 2).await;
    assert_eq!(by_controller(&world, "web", Duration::from_secs(60)), [(3, 4)]);
    let decided_on = world.journal.reconciles().into_iter().find(|one| one.scaled_to == Some(4));
    assert_eq!(decided_on.map(|one| one.current), Some(3));
    ends_well(world).await;
}

/// The user has scaled to what is right already: nothing is left to be written.
#[tokio::test(start_paused = true)]
async fn d1_conflict_with_what_was_decided_writes_nothing() {
    let world = conflict_with(4).await;
    periods(&world, 2).await;
    assert_eq!(by_controller(&world, "web", Duration::from_secs(60)), []);
    assert_eq!(world.replicas("web"), 4);
    ends_well(world).await;
}

#[tokio::test(start_paused = true)]
async fn d1_conflict_with_a_pause_keeps_the_pause() {
    let world = conflict_with(0).await;
    periods(&world, 10).await;
    assert_eq!(by_controller(&world, "web", Duration::from_secs(60)), []);
    assert_eq!(world.replicas("web"), 0);
    ends_well(world).await;
}

/// A change of anything else is no reason to give up.
#[tokio::test(start_paused = true)]
async fn d1_conflict_with_other_changes_is_repeated() {
    let (world, faults) = world().await;
    held_write(&world, &faults).await;
    world.edit(world.deployment("web"), |object| {
        object["metadata"]["annotations"] = json!({ "a": "b" })
    });
    world.pass(Duration::from_secs(7)).await;
    assert_eq!(by_controller(&world, "web", Duration::from_secs(60)), [(2, 4)]);
    ends_well(world).await;
}

/// An autoscaler as it was, deleted and created again at once.
fn recreate(world: &World, name: &str, change: impl FnOnce(&mut serde_json::Value)) {
    world.delete("autoscaling/v2", "HorizontalPodAutoscaler", name);
    let mut object = autoscaler(name);
    change(&mut object);
    world.apply(object);
}

/// Both are told by the watch, or only the new one is found in a list.
#[tokio::test(start_paused = true)]
async fn d3_recreated_autoscaler_inherits_no_recommendations() {
    let (world, _faults) = world().await;
    inherits_no_recommendations(world, |_| {}).await;
    let (world, faults) = super::world().await;
    let watches = Match::verb("watch").resource("horizontalpodautoscalers");
    faults.add(on(watches, Effect::SilentWatch { after: 0 }));
    world.testbed.drop_watches();
    inherits_no_recommendations(world, move |world| {
        world.testbed.compact();
        faults.clear();
    })
    .await;
}

/// `tell` has the controller find out.
async fn inherits_no_recommendations(world: World, tell: impl Fn(&World)) {
    world.loads.set("web", 6);
    periods(&world, 3).await;
    assert_eq!(world.replicas("web"), 6);
    world.loads.set("web", 2);
    periods(&world, 1).await;
    // The window still has the six.
    assert_eq!(world.replicas("web"), 6);
    let since = world.clock.age();
    recreate(&world, "web", |_| {});
    world.scale("web", 3);
    tell(&world);
    periods(&world, 2).await;
    assert_eq!(by_controller(&world, "web", since), []);
    ends_well(world).await;
}

/// One pod may go in ten minutes; what its predecessor did does not count.
#[tokio::test(start_paused = true)]
async fn d3_recreated_autoscaler_inherits_no_scale_events() {
    let (world, _faults) = world().await;
    let slow = |object: &mut serde_json::Value| {
        object["spec"]["behavior"] = json!({ "scaleDown": {
            "stabilizationWindowSeconds": 0, "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 600 }],
        } });
    };
    world.loads.set("web", 6);
    periods(&world, 3).await;
    recreate(&world, "web", slow);
    world.loads.set("web", 2);
    periods(&world, 5).await;
    assert_eq!(world.replicas("web"), 5);
    recreate(&world, "web", slow);
    periods(&world, 5).await;
    assert_eq!(world.replicas("web"), 4);
    ends_well(world).await;
}
