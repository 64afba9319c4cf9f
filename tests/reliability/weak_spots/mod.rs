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

use std::time::Duration;

use hpa_test_harness::TestbedExt;
use hpa_testbed::{Effect, Fault, Faults, Match};

use crate::{PERIOD, WINDOW, cluster::Cluster, invariants::violations, random::CONTROLLER};

/// A world of a minute's age, whose API may misbehave.
async fn cluster() -> (Cluster, Faults) {
    let faults = Faults::new(1);
    let cluster = Cluster::with_faults(&faults);
    cluster.until(Duration::from_secs(61)).await;
    (cluster, faults)
}

/// A fault for the controller, from now on.
fn on(matching: Match, effect: Effect) -> Fault {
    Fault::on(matching.client(CONTROLLER)).effect(effect)
}

/// Lets so many periods pass.
async fn periods(cluster: &Cluster, count: u32) {
    cluster.sleep(count * PERIOD).await;
}

/// Lets the autoscaler of the jobs bring them to zero.
async fn at_zero() -> (Cluster, Faults) {
    let (cluster, faults) = cluster().await;
    cluster.loads.set("jobs", 0);
    cluster.sleep(WINDOW + 2 * PERIOD).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 0);
    (cluster, faults)
}

/// Nothing was done on the way that must not be.
async fn ends_well(cluster: Cluster) {
    assert_eq!(violations(&cluster), Vec::<String>::new());
    cluster.shut_down().await;
}
