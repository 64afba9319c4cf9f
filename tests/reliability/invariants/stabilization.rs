//! A model of the stabilization window: computes minimum recommendations from the reported load and
//! the times of reconciles.

use std::time::Duration;

use super::{
    AutoscalerEntries, bounds,
    scalings::{Write, find_write},
    window,
};
use crate::{
    PERIOD,
    cluster::Cluster,
    journal::{Actor, AutoscalerVersion, Reconcile, Scaling, When},
};

/// The maximum age of a metric that autoscalers share.
const MAX_SHARED_AGE: Duration = Duration::from_secs(PERIOD.as_secs() / 3);
/// The maximum time from a decision until the leader has stored its history.
const MAX_STORE_DELAY: Duration = Duration::from_secs(20);

pub(super) fn violations(cluster: &Cluster, entries: &AutoscalerEntries<'_>) -> Vec<String> {
    let is_scale_down =
        |scaling: &&&Scaling| scaling.by == Actor::Client && scaling.to < scaling.from;
    let scale_downs = entries.scalings.iter().filter(is_scale_down);
    scale_downs
        .filter_map(|scaling| find_write(entries, scaling))
        .filter(|write| !write.is_into_bounds())
        .filter_map(|write| below_the_window(cluster, entries, &write))
        .collect()
}

fn below_the_window(
    cluster: &Cluster,
    entries: &AutoscalerEntries<'_>,
    write: &Write<'_>,
) -> Option<String> {
    let scaling = write.scaling;
    let version = write.versions.iter().min_by_key(|version| window(version))?;
    // A recommendation exactly as old as the window of a behavior is not part of it.
    let from = scaling.when.at.saturating_sub(window(version)) + Duration::from_secs(1);
    let max = write.versions.iter().map(|version| bounds(version).1).min()?;
    let in_window = entries
        .reconciles
        .iter()
        .filter(|one| one.started > from && one.concluded < scaling.when && one.uid == version.uid);
    let remembered = in_window.filter(|one| is_remembered(entries, one, scaling));
    let least = |one: &&Reconcile| {
        least_recommendation(cluster, entries, one).map(|least| (least.min(max), one.started))
    };
    let (least, at) = remembered.filter_map(least).max()?;
    (scaling.to < least).then(|| {
        let Scaling { target, from, to, when, .. } = scaling;
        format!(
            "{target} was scaled from {from} to {to} at {:?}, but needed {least} at {at:?}, \
             within the stabilization window",
            when.at
        )
    })
}

/// Whether the scaling instance has the history of this reconcile.
fn is_remembered(
    entries: &AutoscalerEntries<'_>,
    reconcile: &Reconcile,
    scaling: &Scaling,
) -> bool {
    let start_of_lifetime =
        |instance: &str, when: When| entries.lifetime(instance, when).map(|one| one.started);
    let (decided, scaled) = (
        start_of_lifetime(&reconcile.instance, reconcile.concluded),
        start_of_lifetime(&scaling.instance, scaling.when),
    );
    // Only elected instances store their histories, and restarted ones have a new name.
    let is_stored = reconcile.instance != scaling.instance
        && entries.reconciles_after(&reconcile.instance, reconcile.concluded, MAX_STORE_DELAY);
    decided == scaled || is_stored
}

impl AutoscalerEntries<'_> {
    /// Whether an instance starts a reconcile later than `by` after a time.
    fn reconciles_after(&self, instance: &str, when: When, by: Duration) -> bool {
        let mut later = self.reconciles.iter().rev();
        later.any(|one| one.instance == instance && one.started > when.at + by)
    }
}

/// The minimum recommendation of a correct reconcile: the lowest load that it may have read. `None`
/// if it read no metrics.
fn least_recommendation(
    cluster: &Cluster,
    entries: &AutoscalerEntries<'_>,
    reconcile: &Reconcile,
) -> Option<i64> {
    let started = When::first_at(reconcile.started);
    let needs_no_metrics = |version: &&AutoscalerVersion| {
        let (min, max) = bounds(version);
        reconcile.current == 0 || !(min..=max).contains(&reconcile.current)
    };
    if reconcile.is_failed
        || entries.versions_between(started, reconcile.concluded).iter().any(needs_no_metrics)
    {
        return None;
    }
    let (from, to) = (reconcile.started.saturating_sub(MAX_SHARED_AGE), reconcile.concluded.at);
    cluster.loads.within(entries.id, from, to).into_iter().min()
}
