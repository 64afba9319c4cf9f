//! Where the reference is known to go wrong without any fault of the autoscaler's: each is shown to go right here.
//!
//! The names begin with the reference's weak spot: A of scaling to zero, C of the status, D of races, E of events.

mod bounded;
mod events;
mod known_scales;
mod races;
mod selectors;
mod status;
mod zero;

use std::{sync::Arc, time::Duration};

use hpa_testbed::{Effect, Fault, Faults, Match};

use crate::{PERIOD, WINDOW, invariants::violations, random::CONTROLLER, world::World};

/// A world of a minute's age, whose API may misbehave.
async fn world() -> (World, Faults) {
    let faults = Faults::new(1);
    let world = World::start(|_, config| hpa_testbed::Config {
        interceptor: Some(Arc::new(faults.clone())),
        ..config
    });
    world.until(Duration::from_secs(61)).await;
    (world, faults)
}

/// A fault for the controller, from now on.
fn on(matching: Match, effect: Effect) -> Fault {
    Fault::on(matching.client(CONTROLLER)).effect(effect)
}

/// Lets so many periods pass.
async fn periods(world: &World, count: u32) {
    world.pass(count * PERIOD).await;
}

/// Lets the autoscaler of the jobs bring them to zero.
async fn at_zero() -> (World, Faults) {
    let (world, faults) = world().await;
    world.loads.set("jobs", 0);
    world.pass(WINDOW + 2 * PERIOD).await;
    assert_eq!(world.replicas("jobs"), 0);
    (world, faults)
}

/// Nothing was done on the way that must not be.
async fn ends_well(world: World) {
    assert_eq!(violations(&world), Vec::<String>::new());
    world.end().await;
}
