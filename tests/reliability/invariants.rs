//! What must never be, whatever faults there are: judged by the journal after the fact.

use std::{collections::HashMap, time::Duration};

use crate::{
    MAX, PERIOD, WINDOW,
    cluster::Cluster,
    journal::{Actor, Reconcile, Scaling, Version},
};

/// How old what a scale is decided on may be when it is written: a request's time and what was read before it.
const IN_FLIGHT: Duration = Duration::from_secs(25);

/// All that was wrong, in words.
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
            down_for_a_reason(cluster, scaling, &specs),
            stabilized(scaling, &specs, &decisions),
            decided_on_what_was(scaling, &scalings, &decisions),
            pause_is_kept(scaling, before),
            zero_is_foretold(scaling, &specs),
        ];
        found.extend(checks.into_iter().flatten().map(|wrong| format!("{scaling:?}: {wrong}")));
    }
    found.extend(reconciled_in_time(cluster, &reconciles));
    found
}

/// The versions of an autoscaler that may have been decided on at a time.
fn in_force<'a>(specs: &[&'a Version], at: Duration) -> Vec<&'a Version> {
    let from = at.saturating_sub(IN_FLIGHT);
    let first = specs.partition_point(|version| version.at <= from).saturating_sub(1);
    specs[first..].iter().take_while(|version| version.at <= at).copied().collect()
}

fn bounds(version: &Version) -> (i64, i64) {
    let of = |name: &str, default| version.spec[name].as_i64().unwrap_or(default);
    (of("minReplicas", 1), of("maxReplicas", i64::from(MAX)))
}

fn within_bounds(scaling: &Scaling, specs: &[&Version]) -> Option<String> {
    let versions = in_force(specs, scaling.at);
    let fits = versions.iter().any(|version| {
        let (min, max) = bounds(version);
        (min..=max).contains(&scaling.to)
    });
    (!fits).then(|| {
        format!("outside of the bounds {:?}", versions.into_iter().map(bounds).collect::<Vec<_>>())
    })
}

/// Whether it only brings the target into new bounds, which needs no metrics.
fn is_into_bounds(scaling: &Scaling, specs: &[&Version]) -> bool {
    in_force(specs, scaling.at).iter().any(|version| {
        let (min, max) = bounds(version);
        (scaling.from > max && scaling.to == max) || (scaling.from < min && scaling.to == min)
    })
}

/// A scale-down is never below what the load asked for lately: so it is not for want of metrics.
fn down_for_a_reason(cluster: &Cluster, scaling: &Scaling, specs: &[&Version]) -> Option<String> {
    if scaling.to >= scaling.from || is_into_bounds(scaling, specs) {
        return None;
    }
    // Metrics may be shared for a part of a period.
    let loads = cluster.loads.within(
        &scaling.target,
        scaling.at.saturating_sub(IN_FLIGHT + PERIOD),
        scaling.at,
    );
    let least = loads.iter().min().copied().unwrap_or(0);
    (scaling.to < least).then(|| format!("below the load {loads:?}"))
}

/// How far back a recommendation holds for an autoscaler.
fn window(version: &Version) -> Duration {
    let own = version.spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"].as_u64();
    own.map_or(WINDOW, Duration::from_secs)
}

/// A scale-down is not below a recommendation of its stabilization window.
fn stabilized(scaling: &Scaling, specs: &[&Version], decisions: &[&Reconcile]) -> Option<String> {
    if scaling.to >= scaling.from || is_into_bounds(scaling, specs) {
        return None;
    }
    let version = in_force(specs, scaling.at).into_iter().min_by_key(|version| window(version))?;
    let from = scaling.at.saturating_sub(window(version));
    let (_, max) = bounds(version);
    let is_broken = |reconcile: &&&Reconcile| {
        // What is exactly as old as a window of a behavior does not count.
        let is_recent = reconcile.at > from + Duration::from_secs(1) && reconcile.at < scaling.at;
        let proposed = reconcile.proposed.map_or(0, i64::from).min(max);
        is_recent && reconcile.uid == version.uid && proposed > scaling.to
    };
    let broken = decisions.iter().find(is_broken)?;
    Some(format!("the window had {:?} at {:?}", broken.proposed, broken.at))
}

/// What was written was decided on the replicas that it replaced: nobody's change was overwritten.
fn decided_on_what_was(
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
    // A controller that was killed in between concludes nothing; a decision before it had a scaling of its own.
    let has_own = |reconcile: &Reconcile| {
        all.iter().any(|other| {
            let is_its = other.target == scaling.target && other.by == Actor::Controller;
            is_its && other.at >= reconcile.at && other.at < scaling.at && is_of(reconcile, other)
        })
    };
    let odd = candidates.into_iter().find(|reconcile| !has_own(reconcile))?;
    Some(format!("decided on {} replicas: {}", odd.current, odd.says))
}

/// Zero replicas by another hand stay.
fn pause_is_kept(scaling: &Scaling, before: Option<Actor>) -> Option<String> {
    (scaling.from == 0 && before != Some(Actor::Controller)).then(|| "a pause was ended".to_owned())
}

/// Before a target is at zero it is stored that it is so by its autoscaler.
fn zero_is_foretold(scaling: &Scaling, specs: &[&Version]) -> Option<String> {
    let latest = specs.iter().rfind(|version| version.at <= scaling.at);
    let is_foretold = scaling.to != 0 || latest.is_some_and(|version| version.is_scaled_to_zero);
    (!is_foretold).then(|| "at zero without being marked".to_owned())
}

/// The queue holds each autoscaler once: none is reconciled much more often than its period and its changes ask for.
fn reconciled_in_time(cluster: &Cluster, reconciles: &[Reconcile]) -> Option<String> {
    let periods = cluster.clock.age().as_secs() / PERIOD.as_secs() + 1;
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for reconcile in reconciles {
        *counts.entry(&reconcile.name).or_default() += 1;
    }
    let (name, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    // Starts of controllers, edits and relists each bring one more.
    (count > periods * 2 + 20)
        .then(|| format!("{name} was reconciled {count} times in {periods} periods"))
}
