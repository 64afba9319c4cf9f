//! A dependency that fails must not affect autoscalers that don't need it.

mod metrics_apis;
mod targets;

use std::time::Duration;

use crate::cluster::Cluster;

/// The number of reconciles of an autoscaler since an age of the cluster, and the longest time
/// without one since then.
fn count_and_longest_gap(cluster: &Cluster, name: &str, since: Duration) -> (usize, Duration) {
    let reconciles = cluster.journal.reconciles();
    let times = reconciles.iter().filter(|one| one.autoscaler.name == name && one.started >= since);
    let times: Vec<_> = times.map(|one| one.started).collect();
    let starts = [since].into_iter().chain(times.iter().copied());
    let ends = times.iter().copied().chain([cluster.clock.age()]);
    let gaps = starts.zip(ends).map(|(start, end)| end.saturating_sub(start));
    (times.len(), gaps.max().unwrap_or_default())
}
