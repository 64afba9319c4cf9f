//! Checks of the controller: pod and version, then lateness, queue, caches and histories.

use std::cmp::Reverse;

use hpa_calc::{explain::counted, shell::quote};
use hpa_controller::debug::{ControllerStatus, RefusedRulesFile};

use super::{
    check::{Check, Level, Weight, format_seconds, lowercase_first},
    cluster::ClusterState,
    lease::{check_lease, check_lost, describe_renewal, is_left_over},
    other_controllers,
};
use crate::{
    debug_client::{LeaseHolder, Unavailable, describe_wrong_clock},
    liveness::{Conflict, Idle, describe_age, describe_autoscalers, group_by_finding},
    version::short_revision,
};

/// It is a warning if an autoscaler was last reconciled more than this many sync periods ago, or if
/// a reconcile has run for longer than this.
const LATE_PERIODS: f64 = 2.0;
/// The same limit for an error.
const VERY_LATE_PERIODS: f64 = 5.0;
/// A cache that its watch last confirmed more than this many sync periods ago is a warning. A
/// healthy watch confirms its cache within two periods.
const OLD_CACHE_PERIODS: f64 = 3.0;
/// A cache that its watch last confirmed more than this many sync periods ago is an error.
const VERY_OLD_CACHE_PERIODS: f64 = 10.0;
/// The checks assume at least this sync period: watches are not renewed more often, and a request
/// may take this long.
const MIN_PERIOD_SECONDS: f64 = 5.0;
/// If the writes of histories have failed for longer than this, it is an error: a new leader would
/// start without the histories.
const UNSAVED_ERROR_SECONDS: f64 = 60.0;

/// Advice for autoscalers on which no controller with a known lease acts.
const OTHER_LEASE: &str = "a controller with a new lease stores no status while nothing changes: \
                           --controller-namespace and --controller-lease name its lease";

/// `built_in` is the check of kube-controller-manager.
pub(super) fn check_controller(
    cluster: &ClusterState,
    built_in: Check,
    conflicts: &[Conflict],
) -> Vec<Check> {
    let mut checks = check_idle(cluster);
    let idle_level = checks.iter().map(|check| check.level).max();
    if cluster.url.is_none() {
        let lease = check_lease(cluster);
        // The checks above have the state of the lease as the reason.
        let is_repeated = idle_level.is_some_and(|level| level >= lease.level);
        checks.push(lease.repeated_if(is_repeated));
        if let Ok(holder) = &cluster.lease.holder {
            checks.push(check_pod(cluster, holder));
        }
        checks.extend(cluster.lease.others.iter().filter_map(|lease| check_lost(cluster, lease)));
    }
    match &cluster.status {
        Ok(status) => checks.push(check_version(status)),
        // The check of the lease or the pod reports the same error.
        Err(error) if cluster.leader.as_ref().err() == Some(error) => {}
        // The debug API is off by default. A lease that a tenant may have created is no problem.
        Err(error @ (Unavailable::Off { .. } | Unavailable::Unconfirmed(_))) => {
            checks.push(Check::new(Level::Skipped, error.to_string()));
        }
        Err(error) => {
            let mut check = unreadable(cluster, "the debug API can't be read", error);
            check.text.extend(describe_holder_beside_url(cluster));
            checks.push(check);
        }
    }
    checks.extend(describe_wrong_clock(cluster.clock_lead).map(|text| {
        let hint = "samples, series and pods have other ages for it: correct the clock of its node";
        Check::new(Level::Warning, text).with_hint(hint)
    }));
    let is_conflict = built_in.weight == Weight::Conflict;
    let others = other_controllers::check(cluster, is_conflict, conflicts);
    checks.push(built_in);
    // The check of kube-controller-manager reports its own.
    checks.extend(conflicts.iter().filter(|one| !one.has_built_in()).map(check_conflict));
    checks.extend(others);
    checks
}

/// A clause about the instance that holds the lease, if a URL selects the checked instance: another
/// one may have taken over. `None` if no instance is known to hold the lease.
fn describe_holder_beside_url(cluster: &ClusterState) -> Option<String> {
    cluster.url.as_ref()?;
    let holder = cluster.lease.holder.as_ref().ok().filter(|holder| !holder.is_expired())?;
    let (lease, host) = (&cluster.lease.name, holder.host_name());
    Some(format!("; the lease {lease} is held by {host}, {}", describe_renewal(holder)))
}

/// Reports the autoscalers on which no controller acts, by reason. Certain reasons come first, then
/// those of the most autoscalers.
fn check_idle(cluster: &ClusterState) -> Vec<Check> {
    let found = cluster
        .autoscalers
        .iter()
        .filter_map(|autoscaler| Some((cluster.idle_reason(autoscaler)?, autoscaler.name.clone())));
    let mut by_reason = group_by_finding(found);
    let check = |(idle, names): (Idle, Vec<String>)| {
        let level = if idle.is_certain { Level::Error } else { Level::Warning };
        let sentence = idle.sentence(&describe_autoscalers(&names));
        let check = Check::new(level, lowercase_first(&sentence));
        // The sentence about a search has the flag.
        if idle.search.is_some() { check } else { check.with_hint(OTHER_LEASE) }
    };
    by_reason.sort_by_key(|(idle, names)| Reverse((idle.is_certain, names.len())));
    by_reason.into_iter().map(check).collect()
}

/// Reports instances of hpa-rs that act on the same autoscalers.
fn check_conflict(conflict: &Conflict) -> Check {
    let check = Check::new(Level::Warning, conflict.describe());
    check.with_hint(conflict.advice()).with_weight(Weight::Conflict)
}

/// A clause for the headline if the user may not read whether a controller is active. The newest
/// status is at least a sign of one.
pub(super) fn describe_hidden_controller(cluster: &ClusterState) -> Option<String> {
    if !cluster.is_controller_hidden() {
        return None;
    }
    let newest = cluster.autoscalers.iter().filter_map(|one| one.controller.at).max();
    let newest = newest.map(|newest| {
        format!(" (the newest status was stored {})", describe_age(newest, cluster.now))
    });
    Some(format!("whether a controller is active is not known{}", newest.unwrap_or_default()))
}

fn check_pod(cluster: &ClusterState, holder: &LeaseHolder) -> Check {
    match &cluster.leader {
        Ok(leader) if leader.is_ready => Check::new(Level::Ok, format!("pod {leader} is ready")),
        Ok(leader) => Check::new(Level::Error, format!("pod {leader} is not ready")).with_hint(
            format!("kubectl describe pod -n {} {}", quote(&leader.namespace), quote(&leader.pod)),
        ),
        Err(error @ Unavailable::NoPod { pod }) => {
            // An instance outside of the cluster renews the lease too.
            let is_needed = holder.is_expired() && !is_left_over(cluster, holder);
            let level = if is_needed { Level::Warning } else { Level::Skipped };
            let text = format!("the holder of the lease has no pod {pod}");
            Check::new(level, text).with_hint(error.to_string())
        }
        Err(error) => {
            unreadable(cluster, &format!("the pod of {} can't be read", holder.identity), error)
        }
    }
}

fn check_version(status: &ControllerStatus) -> Check {
    let revision = short_revision(&status.build);
    let text = format!("hpa {} ({revision}) answers", status.build.version);
    if status.dry_run {
        return Check::new(Level::Warning, format!("{text}, in dry run: it writes nothing"));
    }
    Check::new(Level::Ok, text)
}

pub(super) fn check_work(cluster: &ClusterState) -> Vec<Check> {
    let Ok(status) = &cluster.status else {
        let text = "lateness, queue, caches, histories, the rules file and failed writes of \
                    statuses are unknown without the debug API";
        return vec![Check::new(Level::Skipped, text)];
    };
    // The headline has the first error. A cache without a list is the cause of other errors.
    let mut checks: Vec<Check> = check_never_listed(status).into_iter().collect();
    checks.push(check_liveness(cluster, status));
    checks.extend(status.oldest_reconcile_seconds.map(|oldest| check_lateness(status, oldest)));
    checks.push(check_queue(status));
    checks.extend(check_caches(status));
    checks.push(check_histories(status));
    let refused = status.refused_rules_file.as_ref();
    checks.extend(refused.map(|refused| check_rules_file(status, refused)));
    checks.extend(status.failed_status_writes.as_ref().map(|failed| {
        Check::new(Level::Error, failed.to_string()).with_hint(
            "kubectl get hpa shows older conditions than those of the last decisions; \
             HPAControllerAutoscalersFailing in docs/alerts.md",
        )
    }));
    if status.undecodable_objects > 0 {
        let count = usize::try_from(status.undecodable_objects).unwrap_or(usize::MAX);
        let text = format!("{} could not be decoded since the start", counted(count, "object"));
        checks.push(
            Check::new(Level::Warning, text)
                .with_hint("HPAControllerUndecodableObjects in docs/alerts.md"),
        );
    }
    checks
}

fn check_liveness(cluster: &ClusterState, status: &ControllerStatus) -> Check {
    let problem = status.not_alive.as_ref().or(status.not_ready.as_ref());
    match problem {
        Some(problem) => {
            let check = Check::new(Level::Error, problem.clone());
            // A cache without a list has a check of its own, with the cause.
            let is_repeated = status.not_alive.is_none() && !status.never_listed_caches.is_empty();
            check.repeated_if(is_repeated)
        }
        None if !status.is_leader => {
            let is_of_lease = status.lease.as_ref() == Some(&cluster.lease.name.name);
            match describe_holder_beside_url(cluster).filter(|_| is_of_lease) {
                Some(holder) => {
                    Check::new(Level::Skipped, format!("the instance is a standby{holder}"))
                }
                None => {
                    Check::new(Level::Error, "the instance is not the leader: it only stands by")
                }
            }
        }
        None if !status.is_working => {
            Check::new(Level::Warning, "the leader has not started to reconcile yet")
        }
        None if status.lease.is_none() => Check::new(Level::Ok, "the instance reconciles"),
        None => Check::new(Level::Ok, "the leader reconciles"),
    }
}

fn check_lateness(status: &ControllerStatus, oldest: f64) -> Check {
    let period = checked_period(status);
    let level = level_of(oldest, period * LATE_PERIODS, period * VERY_LATE_PERIODS);
    let text = format!(
        "the oldest reconcile of an autoscaler was {} ago, sync period {}",
        format_seconds(oldest),
        format_seconds(status.sync_period_seconds)
    );
    let check = Check::new(level, text);
    if level == Level::Ok {
        check
    } else {
        check.with_hint("HPAControllerSyncsLate in docs/alerts.md")
    }
}

fn check_queue(status: &ControllerStatus) -> Check {
    let longest = status.queue.longest_running_seconds;
    let period = checked_period(status);
    let level = level_of(longest, period * LATE_PERIODS, period * VERY_LATE_PERIODS);
    let text = format!(
        "queue: {} due, {} in progress, the longest for {}",
        status.queue.due,
        status.queue.in_progress,
        format_seconds(longest)
    );
    Check::new(level, text)
}

/// Reports the caches that were never filled. While a controller isn't ready because of them, it
/// decides nothing.
fn check_never_listed(status: &ControllerStatus) -> Option<Check> {
    let never_listed = &status.never_listed_caches;
    if never_listed.is_empty() {
        return None;
    }
    let period = checked_period(status);
    let ages = never_listed.iter().filter_map(|name| status.cache_ages_seconds.get(name));
    let is_old = ages.copied().fold(0.0, f64::max) > period * VERY_OLD_CACHE_PERIODS;
    let level = if is_old || status.not_ready.is_some() { Level::Error } else { Level::Warning };
    let names: Vec<_> = never_listed.iter().map(String::as_str).collect();
    let error = describe_watch_error(status, never_listed.iter());
    let check = Check::new(level, format!("{}: never listed{error}", names.join(", ")));
    Some(check.with_hint(
        "the controller's log says why, often a right is missing; caches not synced in \
         docs/debugging.md",
    ))
}

/// Checks the caches that were filled. `None` if [`check_never_listed`] reports all of them.
fn check_caches(status: &ControllerStatus) -> Option<Check> {
    let period = checked_period(status);
    let is_listed = |resource: &String| !status.never_listed_caches.contains(resource);
    let ages = status.cache_ages_seconds.iter().filter(|(resource, _)| is_listed(resource));
    let mut ages: Vec<(&String, f64)> = ages.map(|(resource, age)| (resource, *age)).collect();
    ages.sort_by(|left, right| right.1.total_cmp(&left.1));
    let Some((_, oldest)) = ages.first().copied() else {
        let text = "no cache reports when it was confirmed";
        return status.never_listed_caches.is_empty().then(|| Check::new(Level::Skipped, text));
    };
    let level = level_of(oldest, period * OLD_CACHE_PERIODS, period * VERY_OLD_CACHE_PERIODS);
    let all: Vec<_> =
        ages.iter().map(|(resource, age)| format!("{resource} {}", format_seconds(*age))).collect();
    let text = format!("caches confirmed: {} ago", all.join(", "));
    if level == Level::Ok {
        return Some(Check::new(level, text));
    }
    let error = describe_watch_error(status, ages.iter().map(|(resource, _)| *resource));
    let hint = "the controller's log says why, often a right is missing; HPAControllerWatchStale \
                in docs/alerts.md";
    Some(Check::new(level, text + &error).with_hint(hint))
}

/// The first error of the watches of these resources, after a separator. Empty if they have none.
fn describe_watch_error<'a>(
    status: &ControllerStatus,
    resources: impl Iterator<Item = &'a String>,
) -> String {
    let error = status.describe_watch_error(resources);
    error.map(|error| format!("; {error}")).unwrap_or_default()
}

fn check_histories(status: &ControllerStatus) -> Check {
    let unsaved = status.history_unsaved_seconds;
    if unsaved > 0.0 {
        let level = level_of(unsaved, 0.0, UNSAVED_ERROR_SECONDS);
        let text = format!("writes of histories have failed for {}", format_seconds(unsaved));
        return Check::new(level, text)
            .with_hint("HPAControllerHistoryNotStored in docs/alerts.md");
    }
    match (status.keep_history, &status.lease) {
        (Some(true), _) => Check::new(Level::Ok, "histories are stored"),
        (Some(false), Some(_)) => Check::new(
            Level::Warning,
            "histories are not stored (--keep-history=false): the next leader starts without them",
        ),
        (Some(false), None) => {
            Check::new(Level::Skipped, "histories are not stored without leader election")
        }
        (None, _) => Check::new(Level::Ok, "no write of histories fails"),
    }
}

/// Reports a rules file of the controller that is not in use.
fn check_rules_file(status: &ControllerStatus, refused: &RefusedRulesFile) -> Check {
    let RefusedRulesFile { path, changed_at, error } = refused;
    let changed = changed_at.map(|at| format!(" (changed {})", describe_age(at, status.now)));
    let changed = changed.unwrap_or_default();
    let text = format!(
        "the rules file {path}{changed} is refused, so the previous rules are in use: {error}"
    );
    Check::new(Level::Warning, text).with_hint("HPARulesFileRefused in docs/alerts.md")
}

/// Reports an input that can't be read. It is an error if the request fails, the debug API refuses
/// it, or the response can't be decoded. Other reasons, such as a missing permission or a disabled
/// API, are warnings. A tenant needs no permission.
pub(super) fn unreadable(cluster: &ClusterState, problem: &str, error: &Unavailable) -> Check {
    let level = match error {
        Unavailable::Unreachable(_)
        | Unavailable::NotTheApi(_)
        | Unavailable::Refused(_)
        | Unavailable::Undecodable(_) => Level::Error,
        Unavailable::Forbidden { .. } if cluster.is_of_one_namespace() => Level::Skipped,
        _ => Level::Warning,
    };
    Check::new(level, format!("{problem}: {error}"))
}

/// The sync period that the limits are multiples of, in seconds.
fn checked_period(status: &ControllerStatus) -> f64 {
    status.sync_period_seconds.max(MIN_PERIOD_SECONDS)
}

/// The level of a value that is a warning or an error above these limits.
fn level_of(value: f64, warning_limit: f64, error_limit: f64) -> Level {
    if value > error_limit {
        Level::Error
    } else if value > warning_limit {
        Level::Warning
    } else {
        Level::Ok
    }
}
