//! Failures that the reference is known to have. The tests check that this controller does not
//! have them.

mod bounded;
mod custom_resources;
mod events;
mod late_writes;
mod peers;
mod races;
mod rewinds;
mod scale_cache;
mod selectors;
mod staleness;
mod status;
mod undecodable_pods;
mod zero;

use std::{str::FromStr, time::Duration};

use hpa_testbed::{Effect, Fault, FaultId, Faults, Match};
use hpa_tests::harness::TestbedExt;

use crate::{
    PERIOD, WINDOW,
    cluster::{CONTROLLER, Cluster, running_cluster},
    invariants::violations,
    journal::{Actor, Scaling},
};

/// A fault that affects the controller from now on.
fn on(matching: Match, effect: Effect) -> Fault {
    Fault::on(matching.client(CONTROLLER)).effect(effect)
}

/// Counts the controller's matching requests from now on, without changing them.
/// [`Faults::hits`] returns the count.
fn count_requests(faults: &Faults, matching: Match) -> FaultId {
    faults.add(on(matching, Effect::Slow { by: Duration::ZERO }))
}

/// Waits for this many sync periods.
async fn sleep_periods(cluster: &Cluster, count: u32) {
    cluster.sleep(count * PERIOD).await;
}

/// The controller's scalings of a target since an age of the cluster: the replicas before and after
/// each.
fn scalings_by_controller(cluster: &Cluster, target: &str, since: Duration) -> Vec<(i64, i64)> {
    let matches = |scaling: &Scaling| {
        scaling.target.name == target && scaling.by == Actor::Client && scaling.when.at >= since
    };
    let scalings = cluster.journal.scalings().into_iter().filter(matches);
    scalings.map(|scaling| (scaling.from, scaling.to)).collect()
}

/// The value of a series in the metrics of the controller that started last. `series` includes the
/// labels.
fn series_value<T: FromStr>(cluster: &Cluster, series: &str) -> T {
    let text = cluster.telemetry.render();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).expect("the series")
}

/// The number of autoscalers in the cache of the controller that started last.
fn cached_autoscalers(cluster: &Cluster) -> u64 {
    series_value(cluster, "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers")
}

/// A cluster whose autoscaler has scaled `jobs` to zero.
async fn cluster_at_zero() -> (Cluster, Faults) {
    let (cluster, faults) = running_cluster().await;
    cluster.loads.set("jobs", 0);
    cluster.sleep(WINDOW + 2 * PERIOD).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 0);
    (cluster, faults)
}

/// Checks the invariants, and shuts the cluster down.
async fn finish(cluster: Cluster) {
    assert_eq!(violations(&cluster), Vec::<String>::new());
    cluster.shut_down().await;
}
