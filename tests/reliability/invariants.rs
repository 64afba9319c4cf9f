//! Invariants that hold under any faults, checked against the journal after a run.

use std::{collections::HashMap, time::Duration};

use crate::{
    MAX, PERIOD, WINDOW,
    cluster::Cluster,
    journal::{Actor, Reconcile, Scaling, Version},
};

/// Maximum age of the inputs of a decision when its scale write takes effect.
const IN_FLIGHT: Duration = Duration::from_secs(25);

/// Describes all violations.
pub(crate) fn violations(cluster: &Cluster) -> Vec<String> {
    let (scalings, versions, reconciles) =
        (cluster.journal.scalings(), cluster.journal.versions(), cluster.journal.reconciles());
    let mut found = Vec::new();
    let mut last_by: HashMap<&str, Actor> = HashMap::new();
    for scaling in &scalings {
        let before = last_by.insert(&scaling.target, scaling.by);
        if scaling.by != Actor::Controller {
            continue;
        }
        let of_target = |name: &str| name == scaling.target;
        let specs: Vec<&Version> =
            versions.iter().filter(|version| of_target(&version.name)).collect();
        let decisions: Vec<&Reconcile> =
            reconciles.iter().filter(|reconcile| of_target(&reconcile.name)).collect();
        let checks = [
            within_bounds(scaling, &specs),
            not_below_recent_load(cluster, scaling, &specs),
            not_below_recommendations_in_window(scaling, &specs, &decisions),
            decided_on_replaced_replicas(scaling, &scalings, &decisions),
            pause_remains(scaling, before),
            zero_is_premarked(scaling, &specs),
        ];
        found.extend(checks.into_iter().flatten().map(|wrong| format!("{scaling:?}: {wrong}")));
    }
    found.extend(reconciled_at_most_as_often_as_needed(cluster, &reconciles));
    found
}

/// The versions of an autoscaler that a decision at this time may have used.
fn applicable_specs<'a>(specs: &[&'a Version], at: Duration) -> Vec<&'a Version> {
    let from = at.saturating_sub(IN_FLIGHT);
    let first = specs.partition_point(|version| version.at <= from).saturating_sub(1);
    specs[first..].iter().take_while(|version| version.at <= at).copied().collect()
}

fn bounds(version: &Version) -> (i64, i64) {
    let of = |name: &str, default| version.spec[name].as_i64().unwrap_or(default);
    (of("minReplicas", 1), of("maxReplicas", i64::from(MAX)))
}

fn within_bounds(scaling: &Scaling, specs: &[&Version]) -> Option<String> {
    let versions = applicable_specs(specs, scaling.at);
    let fits = versions.iter().any(|version| {
        let (min, max) = bounds(version);
        (min..=max).contains(&scaling.to)
    });
    (!fits).then(|| {
        format!("outside of the bounds {:?}", versions.into_iter().map(bounds).collect::<Vec<_>>())
    })
}

/// Whether the scaling only enforces `minReplicas` or `maxReplicas`, which needs no metrics.
fn is_into_bounds(scaling: &Scaling, specs: &[&Version]) -> bool {
    applicable_specs(specs, scaling.at).iter().any(|version| {
        let (min, max) = bounds(version);
        (scaling.from > max && scaling.to == max) || (scaling.from < min && scaling.to == min)
    })
}

/// A scale-down never goes below the recent load, so missing metrics never cause one.
fn not_below_recent_load(
    cluster: &Cluster,
    scaling: &Scaling,
    specs: &[&Version],
) -> Option<String> {
    if scaling.to >= scaling.from || is_into_bounds(scaling, specs) {
        return None;
    }
    // Shared metrics may be older by a part of a period.
    let loads = cluster.loads.within(
        &scaling.target,
        scaling.at.saturating_sub(IN_FLIGHT + PERIOD),
        scaling.at,
    );
    let min_load = loads.iter().min().copied().unwrap_or(0);
    (scaling.to < min_load).then(|| format!("below the load {loads:?}"))
}

/// The downscale stabilization window of an autoscaler.
fn window(version: &Version) -> Duration {
    let own = version.spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"].as_u64();
    own.map_or(WINDOW, Duration::from_secs)
}

/// A scale-down never goes below a recommendation within the stabilization window.
fn not_below_recommendations_in_window(
    scaling: &Scaling,
    specs: &[&Version],
    decisions: &[&Reconcile],
) -> Option<String> {
    if scaling.to >= scaling.from || is_into_bounds(scaling, specs) {
        return None;
    }
    let version =
        applicable_specs(specs, scaling.at).into_iter().min_by_key(|version| window(version))?;
    let from = scaling.at.saturating_sub(window(version));
    let (_, max) = bounds(version);
    let is_broken = |reconcile: &&&Reconcile| {
        // A recommendation exactly as old as the window of a behavior is not part of it.
        let is_recent = reconcile.at > from + Duration::from_secs(1) && reconcile.at < scaling.at;
        let proposed = reconcile.proposed.map_or(0, i64::from).min(max);
        is_recent && reconcile.uid == version.uid && proposed > scaling.to
    };
    let broken = decisions.iter().find(is_broken)?;
    Some(format!("the window had {:?} at {:?}", broken.proposed, broken.at))
}

/// A scale write was decided on the replicas that it replaced, so it overwrote no
/// change by another writer.
fn decided_on_replaced_replicas(
    scaling: &Scaling,
    all: &[Scaling],
    decisions: &[&Reconcile],
) -> Option<String> {
    let may_be_of_it = |reconcile: &&&Reconcile| {
        let is_around = reconcile.at + IN_FLIGHT >= scaling.at && reconcile.at <= scaling.at;
        is_around && reconcile.scaled_to.is_some_and(|to| i64::from(to) == scaling.to)
    };
    let is_of = |reconcile: &Reconcile, scaling: &Scaling| {
        i64::from(reconcile.current) == scaling.from
            && reconcile.scaled_to.map(i64::from) == Some(scaling.to)
    };
    let candidates: Vec<_> = decisions.iter().filter(may_be_of_it).collect();
    if candidates.iter().any(|reconcile| is_of(reconcile, scaling)) {
        return None;
    }
    // A killed controller reports no reconcile. An earlier decision has its own scaling.
    let has_its_own = |reconcile: &Reconcile| {
        all.iter().any(|other| {
            let is_its = other.target == scaling.target && other.by == Actor::Controller;
            is_its && other.at >= reconcile.at && other.at < scaling.at && is_of(reconcile, other)
        })
    };
    let odd = candidates.into_iter().find(|reconcile| !has_its_own(reconcile))?;
    Some(format!("decided on {} replicas: {}", odd.current, odd.explanation))
}

/// Zero replicas set by a user are a pause, and remain.
fn pause_remains(scaling: &Scaling, before: Option<Actor>) -> Option<String> {
    (scaling.from == 0 && before != Some(Actor::Controller)).then(|| "a pause was ended".to_owned())
}

/// The condition `ScaledToZero` is stored before the scale write.
fn zero_is_premarked(scaling: &Scaling, specs: &[&Version]) -> Option<String> {
    let latest = specs.iter().rfind(|version| version.at <= scaling.at);
    let is_premarked = scaling.to != 0 || latest.is_some_and(|version| version.is_scaled_to_zero);
    (!is_premarked).then(|| "scaled to zero without ScaledToZero=True".to_owned())
}

/// The queue holds each autoscaler once, so reconciles are not much more frequent than the sync
/// period and the changes require.
fn reconciled_at_most_as_often_as_needed(
    cluster: &Cluster,
    reconciles: &[Reconcile],
) -> Option<String> {
    let periods = cluster.clock.age().as_secs() / PERIOD.as_secs() + 1;
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for reconcile in reconciles {
        *counts.entry(&reconcile.name).or_default() += 1;
    }
    let (name, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    // Each controller start, edit and relist adds one.
    (count > periods * 2 + 20)
        .then(|| format!("{name} was reconciled {count} times in {periods} periods"))
}
