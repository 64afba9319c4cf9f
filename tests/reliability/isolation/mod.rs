//! A dependency that fails must not affect autoscalers that don't need it.

mod metrics_apis;
mod targets;

use std::time::Duration;

use crate::cluster::Cluster;

/// The duration of the failure.
const DURATION: Duration = Duration::from_mins(30);

/// The number of reconciles of an autoscaler since an age of the cluster, and the longest time
/// between two of them, or since the last one ([`DURATION`] without reconciles).
fn count_and_longest_gap(cluster: &Cluster, name: &str, since: Duration) -> (usize, Duration) {
    let reconciles = cluster.journal.reconciles();
    let times = reconciles.iter().filter(|one| one.autoscaler.name == name && one.started >= since);
    let times: Vec<_> = times.map(|one| one.started).collect();
    let ends = times.iter().copied().skip(1).chain([cluster.clock.age()]);
    let gaps = times.iter().zip(ends).map(|(start, end)| end.saturating_sub(*start));
    (times.len(), gaps.max().unwrap_or(DURATION))
}
