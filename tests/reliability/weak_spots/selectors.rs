//! D2: selectors of targets that no longer have pods.

use hpa_testbed::{Effect, Match};
use serde_json::{Value, json};

use super::{on, periods, world};
use crate::{
    NAMESPACE,
    world::{World, autoscaler, deployment},
};

/// A second target, whose pods the selector of web matches too, with an autoscaler.
fn overlap(world: &World) {
    let labels = json!({ "app": "web" });
    let mut next = deployment("next", 2);
    next["spec"]["selector"]["matchLabels"] = labels.clone();
    next["spec"]["template"]["metadata"]["labels"] = labels.clone();
    world.apply(next);
    for index in 0..2 {
        let name = format!("next-{index}");
        let mut pod = world.testbed.get("v1", "Pod", NAMESPACE, "web-0").expect("a pod");
        pod["metadata"] = json!({ "name": name, "namespace": NAMESPACE, "labels": labels });
        world.apply(pod);
    }
    world.loads.set("next", 2);
    let mut of_next = autoscaler("web");
    of_next["metadata"]["name"] = json!("next");
    of_next["spec"]["scaleTargetRef"]["name"] = json!("next");
    world.apply(of_next);
}

/// Why the autoscaler of the second target does or does not work.
fn why(world: &World) -> String {
    world.condition("next", "ScalingActive").map(|[_, reason, _]| reason).unwrap_or_default()
}

async fn ambiguous() -> (World, hpa_testbed::Faults) {
    let (world, faults) = world().await;
    overlap(&world);
    periods(&world, 2).await;
    assert_eq!(why(&world), "AmbiguousSelector");
    (world, faults)
}

async fn is_free(world: World) {
    periods(&world, 2).await;
    assert_eq!(why(&world), "ValidMetricFound");
    world.end().await;
}

fn retarget(object: &mut Value) {
    object["spec"]["scaleTargetRef"]["name"] = json!("other");
}

#[tokio::test(start_paused = true)]
async fn d2_vanished_target() {
    let (world, _faults) = ambiguous().await;
    world.delete("apps/v1", "Deployment", "web");
    is_free(world).await;
}

#[tokio::test(start_paused = true)]
async fn d2_target_at_zero() {
    let (world, _faults) = ambiguous().await;
    world.scale("web", 0);
    is_free(world).await;
}

#[tokio::test(start_paused = true)]
async fn d2_other_target_that_is_not_there() {
    let (world, _faults) = ambiguous().await;
    world.edit(world.autoscaler("web"), retarget);
    is_free(world).await;
}

#[tokio::test(start_paused = true)]
async fn d2_other_target_that_cannot_be_read() {
    let (world, faults) = ambiguous().await;
    faults.add(on(Match::verb("get").subresource("scale").name("other"), Effect::InternalError));
    world.edit(world.autoscaler("web"), retarget);
    is_free(world).await;
}

/// The target is there and has its pods; that it cannot be read for a while does not make the selector any clearer.
#[tokio::test(start_paused = true)]
async fn d2_target_that_cannot_be_read_for_a_while() {
    let (world, faults) = ambiguous().await;
    faults.add(on(Match::verb("get").subresource("scale").name("web"), Effect::InternalError));
    periods(&world, 3).await;
    assert_eq!(why(&world), "AmbiguousSelector");
    world.end().await;
}
