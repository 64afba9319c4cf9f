//! Invariants of requests: a controller writes only what it needs, only while it holds the lease,
//! and only statuses of its reconciles.

use std::collections::BTreeSet;

use super::{AutoscalerEntries, MAX_REQUEST_DELAY};
use crate::{
    LEASE_DURATION,
    journal::{AutoscalerVersion, Entries, LeaseVersion, Reconcile, Request},
};

/// The writes that a controller needs, as verb, resource and subresource.
const NEEDED_WRITES: [(&str, &str, &str); 11] = [
    ("update", "deployments", "scale"),
    ("update", "fleets", "scale"),
    ("update", "widgets", "scale"),
    ("patch", "horizontalpodautoscalers", "status"),
    ("create", "events", ""),
    ("patch", "events", ""),
    ("create", "leases", ""),
    ("update", "leases", ""),
    ("create", "configmaps", ""),
    ("update", "configmaps", ""),
    ("delete", "configmaps", ""),
];

fn writes(entries: &Entries) -> impl Iterator<Item = &Request> {
    entries.requests.iter().filter(|one| one.verb != "get")
}

/// Writes that no controller needs.
pub(super) fn unexpected_writes(entries: &Entries) -> BTreeSet<String> {
    let is_needed = |one: &&Request| {
        let Request { verb, resource, subresource, .. } = one;
        NEEDED_WRITES.contains(&(verb.as_str(), resource.as_str(), subresource.as_str()))
    };
    let others = writes(entries).filter(|one| !is_needed(one));
    others
        .map(|Request { verb, resource, subresource, .. }| {
            format!("unexpected request: {verb} {resource} {subresource}")
        })
        .collect()
}

/// Writes of a scale or status by an elected instance that didn't hold a current lease.
pub(super) fn writes_without_lease(entries: &Entries) -> Vec<String> {
    if entries.leases.is_empty() {
        return Vec::new();
    }
    let of_autoscalers = writes(entries).filter(|one| !one.subresource.is_empty());
    let is_elected = |instance: &str| entries.leases.iter().any(|one| one.holder == instance);
    let wrong = of_autoscalers.filter(|one| is_elected(&one.instance)).filter_map(|request| {
        let next = entries.leases.partition_point(|lease| lease.when < request.when);
        let lease = entries.leases.get(next.checked_sub(1)?)?;
        let LeaseVersion { when, holder } = lease;
        let age = request.when.at.saturating_sub(when.at);
        let is_holder = *holder == request.instance && age < LEASE_DURATION;
        (!is_holder).then(|| {
            let Request { instance, verb, object, .. } = request;
            let at = request.when.at;
            format!("{verb} {object} by {instance} at {at:?}: lease of {holder:?} is {age:?} old")
        })
    });
    wrong.collect()
}

/// Status writes by controllers that no reconcile explains. A reconcile is reported before its
/// status write, or not at all if the autoscaler changed or the controller was killed.
pub(super) fn unexplained_statuses(entries: &AutoscalerEntries<'_>) -> Vec<String> {
    let mut violations = Vec::new();
    for (index, version) in entries.versions.iter().enumerate() {
        let Some(instance) = &version.instance else { continue };
        if entries.lifetime(instance, version.when).is_none() {
            // Another tool wrote it.
            continue;
        }
        let at = version.when.at;
        let explains = |one: &&Reconcile| {
            one.instance == *instance
                && one.uid == version.uid
                && one.started <= at
                && at <= one.concluded.at + MAX_REQUEST_DELAY
        };
        let is_edit = |before: &&AutoscalerVersion| {
            before.instance.is_none() && before.when.at + MAX_REQUEST_DELAY >= at
        };
        let is_explained = entries.reconciles.iter().any(explains)
            || entries.versions[..index].iter().any(is_edit)
            || entries.ends_soon_after(instance, version.when);
        if !is_explained {
            violations.push(format!(
                "{instance} wrote the status of {} at {at:?}: no reconcile explains it",
                entries.id
            ));
        }
    }
    violations
}
