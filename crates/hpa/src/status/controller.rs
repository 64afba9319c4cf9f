//! Checks of the controller: lease, pod, debug API, queue, caches and histories.

use std::collections::BTreeMap;

use hpa_calc::explain::counted;
use hpa_controller::{debug::ControllerStatus, k8s::FieldManager};
use jiff::SignedDuration;

use super::{
    built_in,
    check::{Check, Level, named},
    cluster::{Observed, ObservedAutoscaler},
};
use crate::{
    debug_client::{LeaseHolder, LeaseName, Unavailable},
    liveness::Idle,
};

/// Reconciles that started more than this many sync periods ago are a warning.
const LATE_PERIODS: f64 = 2.0;
/// Reconciles that started more than this many sync periods ago are an error.
const VERY_LATE_PERIODS: f64 = 5.0;
/// Caches that were confirmed more than this many sync periods ago are a warning. A healthy watch
/// confirms its cache within two.
const OLD_CACHE_PERIODS: f64 = 3.0;
/// Caches that were confirmed more than this many sync periods ago are an error.
const VERY_OLD_CACHE_PERIODS: f64 = 10.0;
/// The minimum sync period in these checks. Watches are not renewed more often, and a
/// request may take this long.
const MIN_PERIOD_SECONDS: f64 = 5.0;
/// If histories have not been stored for this time, they may be lost with the leader.
const UNSAVED_SECONDS: f64 = 60.0;

pub(super) fn check_lease(observed: &Observed) -> Vec<Check> {
    let mut checks = idle(observed);
    if observed.url.is_none() {
        checks.push(lease(observed));
        if let Ok(holder) = &observed.holder {
            checks.push(pod(observed, holder));
        }
    }
    match &observed.status {
        Ok(status) => checks.push(build(status)),
        // The check of the lease or the pod reports the same error.
        Err(error) if observed.leader.as_ref().err() == Some(error) => {}
        Err(error) => checks.push(unread("the debug API can't be read", error)),
    }
    checks.push(built_in::check(observed));
    checks.extend(other_controllers(observed));
    checks
}

/// Reports the autoscalers on which no controller acts.
fn idle(observed: &Observed) -> Vec<Check> {
    let mut by_reason = BTreeMap::<Idle, Vec<String>>::new();
    for autoscaler in &observed.autoscalers {
        if let Some(idle) = observed.idle(autoscaler) {
            by_reason.entry(idle).or_default().push(autoscaler.name.clone());
        }
    }
    let check = |(idle, names): (Idle, Vec<String>)| {
        let level = if idle.is_certain { Level::Error } else { Level::Warning };
        let autoscalers = format!("{} ({})", counted(names.len(), "autoscaler"), named(&names));
        Check::new(level, lowercase(&idle.sentence(&autoscalers)))
    };
    // The certain ones first.
    by_reason.into_iter().rev().map(check).collect()
}

/// The text with a lowercase first letter.
fn lowercase(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

fn lease(observed: &Observed) -> Check {
    let LeaseName { namespace, name } = &observed.lease;
    let holder = match &observed.holder {
        Ok(holder) => holder,
        Err(error @ (Unavailable::NoLease(_) | Unavailable::NotHeld(_))) => {
            let is_foreign = |one: &ObservedAutoscaler| {
                one.manager
                    .as_deref()
                    .is_some_and(|manager| FieldManager::parse_lease(manager).is_none())
            };
            // Another controller may handle the autoscalers, or one without leader election.
            let is_handled = observed.autoscalers.iter().any(is_foreign);
            let level = if is_handled { Level::Warning } else { Level::Error };
            return Check::new(level, error.to_string());
        }
        Err(error) => return unread("the lease can't be read", error),
    };
    let age = holder.renewed.map(|renewed| observed.now.duration_since(renewed));
    let age = age.map_or("never".to_owned(), |age| format!("{} ago", seconds(age.as_secs_f64())));
    let text = format!(
        "lease {namespace}/{name} is held by {}, renewed {age}, {}",
        holder.pod_name(),
        counted(usize::try_from(holder.transitions).unwrap_or_default(), "leader change"),
    );
    if holder.is_expired(observed.now) {
        let limit = seconds(holder.duration.as_secs_f64());
        let text = format!("{text}: it has expired after {limit}, so no instance reconciles");
        return Check::new(Level::Error, text)
            .hint(format!("kubectl get pods -n {namespace}; kubectl logs -n {namespace} POD"));
    }
    Check::new(Level::Ok, text)
}

fn pod(observed: &Observed, holder: &LeaseHolder) -> Check {
    match &observed.leader {
        Ok(leader) if leader.is_ready => Check::new(Level::Ok, format!("pod {leader} is ready")),
        Ok(leader) => Check::new(Level::Error, format!("pod {leader} is not ready"))
            .hint(format!("kubectl describe pod -n {} {}", leader.namespace, leader.pod)),
        Err(error) => unread(&format!("the pod of {} can't be read", holder.identity), error),
    }
}

fn build(status: &ControllerStatus) -> Check {
    let revision = status.build.revision.get(..7).unwrap_or(&status.build.revision);
    let text = format!("hpa {} ({revision}) answers", status.build.version);
    if status.dry_run {
        return Check::new(Level::Warning, format!("{text}, in dry run: it writes nothing"));
    }
    Check::new(Level::Ok, text)
}

/// Reports controllers other than the lease's that stored statuses.
fn other_controllers(observed: &Observed) -> Vec<Check> {
    let own = FieldManager::for_lease(&observed.lease.namespace, &observed.lease.name);
    let has_leader = observed.holder.is_ok();
    let mut by_manager = BTreeMap::<&str, Vec<&ObservedAutoscaler>>::new();
    for autoscaler in &observed.autoscalers {
        let manager = autoscaler.manager.as_deref().filter(|manager| *manager != own.as_str());
        if let Some(manager) = manager {
            by_manager.entry(manager).or_default().push(autoscaler);
        }
    }
    let is_single = by_manager.len() == 1 && !has_leader;
    let check = |(manager, autoscalers): (&str, Vec<&ObservedAutoscaler>)| {
        let names: Vec<_> = autoscalers.iter().map(|one| one.name.clone()).collect();
        let newest = autoscalers.iter().filter_map(|one| one.stored).max();
        let age = newest.map(|newest| {
            let seconds = observed.now.duration_since(newest).as_secs().max(0);
            format!("{:#}", SignedDuration::from_secs(seconds))
        });
        let age = age.map(|age| format!(", most recently {age} ago")).unwrap_or_default();
        let text = format!(
            "{manager} stored the status of {} last{age}: {}",
            counted(names.len(), "autoscaler"),
            named(&names)
        );
        let is_without_election = FieldManager::is_hpa_rs(manager) && observed.url.is_some();
        if is_without_election {
            return Check::new(Level::Ok, text);
        }
        let leases = observed.leases();
        let is_running = leases.is_running(manager);
        match is_running {
            Some(false) if leases.no_longer_writes(manager, newest) => {
                let text = format!("{text}; it holds no lease, so it no longer writes");
                return Check::new(Level::Ok, text);
            }
            Some(false) if is_single => {
                return Check::new(Level::Warning, format!("{text}; it holds no lease"));
            }
            Some(true) if is_single => {
                return Check::new(Level::Warning, format!("{text}; it holds its lease"));
            }
            None | Some(_) => {}
        }
        let check = Check::new(Level::Warning, text);
        match (is_single, FieldManager::parse_lease(manager)) {
            (true, None) if FieldManager::is_hpa_rs(manager) => check.hint(
                "it runs without leader election, so whether it still runs is unknown; \
                 --controller-url reads its debug API",
            ),
            (true, _) => check.hint("whether it still runs is unknown"),
            (false, _) if !leases.is_recent(newest) && is_running.is_none() => check.hint(
                "whether it still runs is unknown: a status that doesn't change keeps its writer",
            ),
            (false, _) => check.hint(
                "if it handles the same autoscalers as the holder of the lease, both overwrite \
                 each other's decisions",
            ),
        }
    };
    by_manager.into_iter().map(check).collect()
}

pub(super) fn check_work(observed: &Observed) -> Vec<Check> {
    let Ok(status) = &observed.status else {
        let text = "lateness, queue, caches and histories are unknown without the debug API";
        return vec![Check::new(Level::Skipped, text)];
    };
    let period = status.sync_period_seconds;
    let mut checks = vec![working(status)];
    checks.extend(status.oldest_reconcile_seconds.map(|oldest| lateness(oldest, period)));
    checks.push(queue(status));
    checks.push(caches(status));
    checks.push(histories(status));
    if status.undecodable_objects > 0 {
        let count = usize::try_from(status.undecodable_objects).unwrap_or(usize::MAX);
        let text = format!("{} could not be decoded since the start", counted(count, "object"));
        checks.push(
            Check::new(Level::Warning, text)
                .hint("HPAControllerUndecodableObjects in docs/alerts.md"),
        );
    }
    checks
}

fn working(status: &ControllerStatus) -> Check {
    let problem = status.not_alive.as_ref().or(status.not_ready.as_ref());
    match problem {
        Some(problem) => Check::new(Level::Error, problem.clone()),
        None if !status.is_leader => {
            Check::new(Level::Error, "the instance is not the leader: it only stands by")
        }
        None if !status.is_working => {
            Check::new(Level::Warning, "the leader has not started to reconcile yet")
        }
        None if status.lease.is_none() => Check::new(Level::Ok, "the instance reconciles"),
        None => Check::new(Level::Ok, "the leader reconciles"),
    }
}

fn lateness(oldest: f64, period: f64) -> Check {
    let limit = period.max(MIN_PERIOD_SECONDS);
    let level = level_of(oldest, limit * LATE_PERIODS, limit * VERY_LATE_PERIODS);
    let text = format!(
        "the oldest reconcile of an autoscaler was {} ago, sync period {}",
        seconds(oldest),
        seconds(period)
    );
    let check = Check::new(level, text);
    if level == Level::Ok { check } else { check.hint("HPAControllerSyncsLate in docs/alerts.md") }
}

fn queue(status: &ControllerStatus) -> Check {
    let longest = status.queue.longest_running_seconds;
    let period = status.sync_period_seconds.max(MIN_PERIOD_SECONDS);
    let level = level_of(longest, period * LATE_PERIODS, period * VERY_LATE_PERIODS);
    let text = format!(
        "queue: {} due, {} in progress, the longest for {}",
        status.queue.due,
        status.queue.in_progress,
        seconds(longest)
    );
    Check::new(level, text)
}

fn caches(status: &ControllerStatus) -> Check {
    let period = status.sync_period_seconds.max(MIN_PERIOD_SECONDS);
    let mut ages: Vec<(&String, f64)> =
        status.cache_ages_seconds.iter().map(|(resource, age)| (resource, *age)).collect();
    ages.sort_by(|left, right| right.1.total_cmp(&left.1));
    let Some((_, oldest)) = ages.first().copied() else {
        return Check::new(Level::Skipped, "no cache reports when it was confirmed");
    };
    let level = level_of(oldest, period * OLD_CACHE_PERIODS, period * VERY_OLD_CACHE_PERIODS);
    let all: Vec<_> =
        ages.iter().map(|(resource, age)| format!("{resource} {}", seconds(*age))).collect();
    let check = Check::new(level, format!("caches confirmed: {} ago", all.join(", ")));
    let hint = "HPAControllerWatchStale in docs/alerts.md";
    if level == Level::Ok { check } else { check.hint(hint) }
}

fn histories(status: &ControllerStatus) -> Check {
    let unsaved = status.history_unsaved_seconds;
    if unsaved > 0.0 {
        let level = level_of(unsaved, 0.0, UNSAVED_SECONDS);
        let text = format!("writes of histories have failed for {}", seconds(unsaved));
        return Check::new(level, text).hint("HPAControllerHistoryNotStored in docs/alerts.md");
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

/// Reports an input that can't be read. A missing permission or a disabled API is only a warning.
fn unread(what: &str, error: &Unavailable) -> Check {
    let is_failure = matches!(
        error,
        Unavailable::Unreachable(_) | Unavailable::Refused(_) | Unavailable::Undecodable(_)
    );
    let level = if is_failure { Level::Error } else { Level::Warning };
    Check::new(level, format!("{what}: {error}"))
}

fn level_of(value: f64, warning: f64, error: f64) -> Level {
    if value > error {
        Level::Error
    } else if value > warning {
        Level::Warning
    } else {
        Level::Ok
    }
}

pub(super) fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1}s") } else { format!("{seconds:.0}s") }
}
