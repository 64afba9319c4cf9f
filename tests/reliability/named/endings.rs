//! Faults after which nothing can be as if they had not been, and such as last.

use std::{sync::Arc, time::Duration};

use hpa_testbed::{Effect, Fault, Faults, Match, Restart};
use serde_json::json;

use crate::{
    NAMESPACE, PERIOD, WINDOW,
    invariants::violations,
    random::CONTROLLER,
    world::{TARGETS, World, autoscaler, deployment},
};

fn world_with(faults: &Faults) -> World {
    World::start(|_, config| hpa_testbed::Config {
        interceptor: Some(Arc::new(faults.clone())),
        ..config
    })
}

/// The store is empty: nothing is left to do. Objects of the same names that come later are new ones.
#[tokio::test(start_paused = true)]
async fn server_comes_back_empty() {
    let world = World::start(|_, config| config);
    world.until(Duration::from_secs(60)).await;
    world.load_all(6);
    world.until(Duration::from_secs(80)).await;
    assert_eq!(TARGETS.map(|name| world.replicas(name)), [6; 3]);
    world.testbed.restart(Restart::Fresh, Duration::from_secs(5));
    world.until(Duration::from_secs(150)).await;
    assert!(world.is_controlled());
    let known = "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers 0";
    assert!(
        world.telemetry.render().lines().any(|line| line == known),
        "autoscalers are still known"
    );
    world.apply(
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
    );
    for target in TARGETS {
        world.loads.set(target, 3);
        world.apply(deployment(target, 1));
        world.apply(autoscaler(target));
    }
    world.pass(2 * PERIOD).await;
    // Not the six of those that are gone.
    assert_eq!(TARGETS.map(|name| world.replicas(name)), [3; 3]);
    world.pass(2 * WINDOW).await;
    assert_eq!(violations(&world), Vec::<String>::new());
    world.end().await;
}

/// The store is restored from before an edit: what holds is what is stored.
#[tokio::test(start_paused = true)]
async fn server_restored_from_before_an_edit() {
    let world = World::start(|_, config| config);
    world.until(Duration::from_secs(60)).await;
    let snapshot = world.testbed.snapshot();
    world.edit(world.autoscaler("web"), |object| object["spec"]["maxReplicas"] = 3.into());
    world.loads.set("web", 6);
    world.until(Duration::from_secs(90)).await;
    assert_eq!(world.replicas("web"), 3);
    world.testbed.restart(Restart::Older(snapshot), Duration::from_secs(5));
    assert_eq!(world.replicas("web"), 2);
    world.until(Duration::from_secs(95) + 2 * PERIOD).await;
    assert_eq!(world.replicas("web"), 6);
    assert_eq!(violations(&world), Vec::<String>::new());
    world.end().await;
}

/// Ten minutes in which every other request fails: loads go up and down, users come and go.
#[tokio::test(start_paused = true)]
async fn every_other_request_fails_for_ten_minutes() {
    let faults = Faults::new(7);
    let world = world_with(&faults);
    world.until(Duration::from_secs(60)).await;
    let half = |effect| Fault::on(Match::any().client(CONTROLLER)).probability(0.25).effect(effect);
    let kinds = [
        half(Effect::ServiceUnavailable),
        half(Effect::LostAnswer),
        half(Effect::Disconnect { applied: true }),
    ];
    let added = kinds.map(|fault| faults.add(fault));
    for (index, load) in [7, 2, 5, 1, 8, 3, 6, 1, 4, 2].into_iter().enumerate() {
        world.load_all(load);
        let name = TARGETS[index % TARGETS.len()];
        world.pass(Duration::from_secs(31)).await;
        world.scale(name, 9 - load);
        world.pass(Duration::from_secs(29)).await;
    }
    for fault in added {
        assert!(faults.hits(fault) > 50, "{} hits", faults.hits(fault));
    }
    world.load_all(7);
    faults.clear();
    world.pass(2 * PERIOD).await;
    assert_eq!(TARGETS.map(|name| world.replicas(name)), [7; 3]);
    assert_eq!(violations(&world), Vec::<String>::new());
    assert!(world.is_controlled());
    world.end().await;
}
