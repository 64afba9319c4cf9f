//! A dependency that fails must not affect autoscalers that don't need it.

mod metrics_apis;
mod targets;

use std::time::Duration;

use crate::{cluster::Cluster, invariants::longest_gaps, targets::Id};

/// The number of reconciles of an autoscaler since an age of the cluster, and the longest time
/// without one since then.
fn count_and_longest_gap(cluster: &Cluster, name: &str, since: Duration) -> (usize, Duration) {
    let (id, now) = (Id::in_shop(name), cluster.clock.age());
    let mut reconciles = cluster.journal.reconciles();
    reconciles.retain(|one| one.autoscaler == id && one.started >= since);
    let gaps = longest_gaps(&reconciles, since, now);
    (reconciles.len(), gaps.get(&id).copied().unwrap_or(now.saturating_sub(since)))
}
