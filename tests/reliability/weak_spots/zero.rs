//! A: scaling to zero.

use std::time::Duration;

use hpa_testbed::{Effect, Match};
use serde_json::json;

use super::{at_zero, ends_well, on, periods, world};
use crate::{WINDOW, world::World};

fn statuses_of_jobs() -> Match {
    Match::verb("patch").resource("horizontalpodautoscalers").name("jobs")
}

fn is_marked(world: &World) -> bool {
    world.condition("jobs", "ScaledToZero").is_some_and(|[status, ..]| status == "True")
}

fn refusal() -> Effect {
    Effect::Status {
        code: 422,
        reason: "Invalid".into(),
        message: "not to zero".into(),
        retry_after_seconds: None,
    }
}

async fn wakes(world: World) {
    world.loads.set("jobs", 3);
    periods(&world, 2).await;
    assert_eq!(world.replicas("jobs"), 3);
    ends_well(world).await;
}

#[tokio::test(start_paused = true)]
async fn a1_killed_right_after_the_scale_to_zero() {
    let (mut world, faults) = world().await;
    // The status that follows on the scale is never written.
    faults.add(on(statuses_of_jobs(), Effect::Slow { by: Duration::from_secs(5) }));
    world.loads.set("jobs", 0);
    world.scaled_to("jobs", 0).await;
    world.kill_controller().await;
    let told = world.autoscaler("jobs").map(|object| object["status"]["desiredReplicas"].clone());
    assert_eq!(told, Some(json!(2)), "the status was written");
    faults.clear();
    world.start_controller();
    wakes(world).await;
}

#[tokio::test(start_paused = true)]
async fn a1_answer_of_the_scale_to_zero_is_lost() {
    let (world, faults) = world().await;
    let lost = faults.add(on(Match::verb("update").subresource("scale"), Effect::LostAnswer));
    world.loads.set("jobs", 0);
    world.scaled_to("jobs", 0).await;
    periods(&world, 3).await;
    assert_eq!(faults.hits(lost), 1);
    faults.clear();
    wakes(world).await;
}

#[tokio::test(start_paused = true)]
async fn a1_refused_scale_to_zero_leaves_no_marker() {
    let (world, faults) = world().await;
    let refused = faults.add(on(Match::verb("update").subresource("scale"), refusal()));
    world.loads.set("jobs", 0);
    faults.wait_for_hits(refused, 1).await;
    world.pass(Duration::from_secs(1)).await;
    assert!(!is_marked(&world));
    world.scale("jobs", 0);
    faults.clear();
    // It is the user's zero.
    world.loads.set("jobs", 3);
    periods(&world, 3).await;
    assert_eq!(world.replicas("jobs"), 0);
    ends_well(world).await;
}

#[tokio::test(start_paused = true)]
async fn a1_no_scale_to_zero_without_the_marker() {
    let (world, faults) = world().await;
    let refused = faults.add(on(statuses_of_jobs(), Effect::Conflict));
    world.loads.set("jobs", 0);
    world.pass(5 * WINDOW).await;
    assert_eq!(world.replicas("jobs"), 2);
    assert!(faults.hits(refused) > 5);
    faults.clear();
    periods(&world, 2).await;
    assert_eq!(world.replicas("jobs"), 0);
    assert!(is_marked(&world));
    wakes(world).await;
}

#[tokio::test(start_paused = true)]
async fn a1_marker_whose_removal_nobody_heard_of_is_set_again() {
    let (world, faults) = world().await;
    let autoscalers = Match::verb("watch").resource("horizontalpodautoscalers");
    faults.add(on(autoscalers, Effect::SilentWatch { after: 0 }));
    world.testbed.drop_watches();
    world.pass(Duration::from_secs(2)).await;
    let scales = || Match::verb("update").subresource("scale");
    let slow = faults.add(on(scales(), Effect::Slow { by: Duration::from_secs(5) }));
    let refused = faults.add(on(scales(), refusal()));
    world.loads.set("jobs", 0);
    faults.wait_for_hits(slow, 1).await;
    assert!(is_marked(&world));
    let lost = faults.add(on(statuses_of_jobs(), Effect::LostAnswer));
    world.pass(Duration::from_secs(6)).await;
    assert_eq!((faults.hits(lost), is_marked(&world), world.replicas("jobs")), (1, false, 2));
    for fault in [slow, refused, lost] {
        faults.remove(fault);
    }
    let unmarked = faults.add(on(statuses_of_jobs(), Effect::Conflict));
    periods(&world, 2).await;
    assert_eq!((is_marked(&world), world.replicas("jobs")), (false, 2));
    faults.remove(unmarked);
    periods(&world, 2).await;
    assert_eq!((is_marked(&world), world.replicas("jobs")), (true, 0));
    wakes(world).await;
}

#[tokio::test(start_paused = true)]
async fn a2_scaling_by_hand_clears_the_marker() {
    let (world, _faults) = at_zero().await;
    assert!(is_marked(&world));
    // As many as the load asks for, so that the autoscaler has nothing to do.
    world.loads.set("jobs", 2);
    world.scale("jobs", 2);
    periods(&world, 1).await;
    assert!(!is_marked(&world));
    world.scale("jobs", 0);
    periods(&world, 10).await;
    assert_eq!(world.replicas("jobs"), 0, "a pause was ended");
    ends_well(world).await;
}

#[tokio::test(start_paused = true)]
async fn a3_raised_minimum_wakes_without_metrics() {
    let (world, faults) = at_zero().await;
    let external = Match::any().group("external.metrics.k8s.io");
    let failed = faults.add(on(external, Effect::ServiceUnavailable));
    periods(&world, 1).await;
    world.edit(world.autoscaler("jobs"), |object| object["spec"]["minReplicas"] = json!(2));
    periods(&world, 2).await;
    assert_eq!(world.replicas("jobs"), 2);
    assert!(faults.hits(failed) > 0);
    ends_well(world).await;
}

#[tokio::test(start_paused = true)]
async fn a3_raised_minimum_wakes_with_metrics_of_pods_only() {
    let (world, _faults) = at_zero().await;
    world.edit(world.autoscaler("jobs"), |object| {
        object["spec"]["minReplicas"] = json!(1);
        object["spec"]["metrics"] = json!([{ "type": "Resource", "resource": { "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": 50 } } }]);
    });
    periods(&world, 2).await;
    assert_eq!(world.replicas("jobs"), 1);
    ends_well(world).await;
}
