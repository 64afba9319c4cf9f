//! A dependency that fails must not affect autoscalers that don't need it.

mod metrics_apis;
mod targets;

use std::time::Duration;

use hpa_testbed::Faults;

use crate::cluster::Cluster;

/// The duration of the failure.
const DURATION: Duration = Duration::from_mins(30);

/// A cluster that has been running for a minute.
async fn running_cluster() -> (Cluster, Faults) {
    let faults = Faults::new(1);
    let cluster = Cluster::with_faults(&faults);
    cluster.until(Duration::from_secs(61)).await;
    (cluster, faults)
}

/// The number of reconciles of an autoscaler since an age of the cluster, and the longest time
/// between two of them.
fn reconciles(cluster: &Cluster, name: &str, since: Duration) -> (usize, Duration) {
    let reconciles = cluster.journal.reconciles();
    let times = reconciles.iter().filter(|one| one.autoscaler.name == name && one.started >= since);
    let times: Vec<_> = times.map(|one| one.started).collect();
    let gaps =
        times.iter().zip(times.iter().skip(1)).map(|(before, after)| after.saturating_sub(*before));
    (times.len(), gaps.max().unwrap_or(DURATION))
}
