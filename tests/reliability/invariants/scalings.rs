//! Invariants of scalings by a controller: bounds, reason, and replaced replicas.

use super::{AutoscalerEntries, MAX_INPUT_AGE, MAX_REQUEST_DELAY, SAMPLE_WINDOW, bounds, window};
use crate::{
    PERIOD,
    cluster::Cluster,
    journal::{Actor, AutoscalerVersion, Request, Scaling, When},
};

/// A scaling by a controller, with the stored versions of the autoscaler during its decision.
pub(super) struct Write<'a> {
    pub(super) scaling: &'a Scaling,
    /// When the request arrived.
    arrived: When,
    /// The versions of the autoscaler from its last read before the write until the write.
    pub(super) versions: Vec<&'a AutoscalerVersion>,
}

pub(super) fn violations(
    cluster: &Cluster,
    entries: &AutoscalerEntries<'_>,
    is_load_known: bool,
) -> Vec<String> {
    let mut violations = Vec::new();
    for (index, scaling) in entries.scalings.iter().enumerate() {
        if scaling.by != Actor::Client {
            continue;
        }
        let before = entries.scalings[..index].last().map(|before| before.by);
        // A function named after an invariant returns the violation of the invariant.
        let checks = match find_write(entries, scaling) {
            None => vec![Some("no request of this instance made it".to_owned())],
            Some(write) => vec![
                within_bounds(&write),
                not_below_recent_load(cluster, &write),
                is_load_known.then(|| not_above_window(cluster, entries, &write)).flatten(),
                explained(entries, &write),
                pause_remains(scaling, before),
                zero_is_premarked(entries, scaling),
            ],
        };
        let violation = |wrong| {
            let Scaling { instance, target, from, to, when, .. } = scaling;
            format!("{instance} scaled {target} from {from} to {to} at {:?}: {wrong}", when.at)
        };
        violations.extend(checks.into_iter().flatten().map(violation));
    }
    violations
}

/// Finds the request that made a scaling.
pub(super) fn find_write<'a>(
    entries: &AutoscalerEntries<'a>,
    scaling: &'a Scaling,
) -> Option<Write<'a>> {
    let before = |when: When, matches: fn(&Request) -> bool| {
        let mut requests = entries.requests.iter().rev();
        let latest = requests
            .find(|one| one.when < when && one.instance == scaling.instance && matches(one));
        latest.map(|one| one.when)
    };
    let arrived = before(scaling.when, |one| one.verb == "update" && one.subresource == "scale")?;
    // The controller reads the autoscaler before the write. It can't know of a change in between.
    let verified = before(arrived, |one| one.verb == "get");
    let from = verified.filter(|read| read.at + MAX_REQUEST_DELAY >= arrived.at).unwrap_or(arrived);
    Some(Write { scaling, arrived, versions: entries.versions_between(from, scaling.when) })
}

fn within_bounds(write: &Write<'_>) -> Option<String> {
    let fits = write.versions.iter().any(|version| {
        let (min, max) = bounds(version);
        (min..=max).contains(&write.scaling.to)
    });
    let all: Vec<_> = write.versions.iter().map(|version| bounds(version)).collect();
    (!fits).then(|| format!("outside of the bounds {all:?}"))
}

impl Write<'_> {
    /// Whether the scaling only enforces `minReplicas` or `maxReplicas`, which needs no metrics.
    pub(super) fn is_into_bounds(&self) -> bool {
        let Scaling { from, to, .. } = *self.scaling;
        self.versions.iter().any(|version| {
            let (min, max) = bounds(version);
            (from > max && to == max) || (from < min && to == min)
        })
    }

    /// Whether pods were starting when the samples were taken.
    fn has_new_pods(&self, cluster: &Cluster) -> bool {
        let Scaling { target, when, .. } = self.scaling;
        let from = when.at.saturating_sub(SAMPLE_WINDOW + MAX_INPUT_AGE + PERIOD);
        cluster.loads.has_starts_within(target, from, when.at)
    }

    fn recent_loads(&self, cluster: &Cluster) -> Vec<i64> {
        // Metrics that autoscalers share may be older, by less than a period.
        let Scaling { target, when, .. } = self.scaling;
        cluster.loads.within(target, when.at.saturating_sub(MAX_INPUT_AGE + PERIOD), when.at)
    }
}

/// A scale-down never goes below the recent load: missing metrics never cause one.
///
/// As in the reference, averages are too low while pods start: an unready pod carries no load, but
/// is counted for pods metrics. A pod that has just become ready carries load, but isn't counted
/// for CPU until its sample covers a whole window.
fn not_below_recent_load(cluster: &Cluster, write: &Write<'_>) -> Option<String> {
    let Scaling { from, to, .. } = *write.scaling;
    if to >= from || write.is_into_bounds() || write.has_new_pods(cluster) {
        return None;
    }
    let loads = write.recent_loads(cluster);
    let lowest = *loads.iter().min()?;
    (to < lowest).then(|| format!("below the load {loads:?}"))
}

/// A scale-up never goes above the maximum of the loads and the replicas within the stabilization
/// window. Replicas count because the current ones are the first recommendation for a new
/// autoscaler, and after a start of the controller.
fn not_above_window(
    cluster: &Cluster,
    entries: &AutoscalerEntries<'_>,
    write: &Write<'_>,
) -> Option<String> {
    let Scaling { from, to, target, when, .. } = write.scaling;
    let is_at_min = write.versions.iter().any(|version| *to == bounds(version).0);
    if to <= from || is_at_min {
        return None;
    }
    let longest = write.versions.iter().map(|version| window(version)).max().unwrap_or_default();
    let since = when.at.saturating_sub(longest + MAX_INPUT_AGE + PERIOD);
    let loads = cluster.loads.within(target, since, when.at);
    let replicas = entries.scalings.iter().filter(|one| one.when < *when && one.when.at >= since);
    let replicas = replicas.flat_map(|one| [one.from, one.to]);
    let highest = loads.iter().copied().chain(replicas).chain([*from]).max()?;
    (*to > highest).then(|| format!("above the load {loads:?}"))
}

/// The reconcile of the write decided on the replaced replicas: no change by another writer was
/// overwritten. A killed controller reports no reconcile.
fn explained(entries: &AutoscalerEntries<'_>, write: &Write<'_>) -> Option<String> {
    let Write { scaling, arrived, versions } = write;
    let mut spanning = entries.reconciles.iter().filter(|one| {
        one.instance == scaling.instance
            && one.started <= arrived.at
            && one.concluded >= scaling.when
    });
    let Some(reconcile) = spanning.next() else {
        let is_cut_off = entries.ends_soon_after(&scaling.instance, scaling.when);
        return (!is_cut_off).then(|| "no reconcile explains it".to_owned());
    };
    if !versions.iter().any(|version| version.uid == reconcile.uid) {
        return Some(format!("decided for an earlier autoscaler, {}", reconcile.uid));
    }
    let is_decided = (reconcile.current, reconcile.desired) == (scaling.from, scaling.to);
    (!is_decided).then(|| {
        let (current, explanation) = (reconcile.current, &reconcile.explanation);
        format!("decided on {current} replicas: {explanation}")
    })
}

/// Zero replicas set by a user are a pause, and remain.
fn pause_remains(scaling: &Scaling, before: Option<Actor>) -> Option<String> {
    (scaling.from == 0 && before == Some(Actor::User))
        .then(|| "a paused target was scaled".to_owned())
}

/// The condition `ScaledToZero` is stored before the scale write.
fn zero_is_premarked(entries: &AutoscalerEntries<'_>, scaling: &Scaling) -> Option<String> {
    let latest = entries.versions.iter().rfind(|version| version.when <= scaling.when);
    let is_premarked = scaling.to != 0 || latest.is_some_and(|version| version.is_scaled_to_zero);
    (!is_premarked).then(|| "scaled to zero without ScaledToZero=True".to_owned())
}
