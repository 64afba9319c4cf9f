//! Checks of the leases of hpa-rs.

use hpa_calc::{explain::counted, shell::quote};
use hpa_controller::AutoscalerApi;

use super::{
    check::{Check, Level, format_seconds},
    cluster::ClusterState,
    controller::unreadable,
};
use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER, LeaseHolder, LeaseKey, Unavailable},
    listed_autoscalers::ListedAutoscaler,
    liveness::{ReadLease, describe_missing_lease, excludes, is_held, is_recent_write},
    terminal::shorten_names,
};

/// The end of the check of a lost lease if hpa-rs isn't needed.
const REPLACED: &str = "kube-controller-manager handles the autoscalers";

/// Checks the lease that flags or statuses name.
pub(super) fn check_lease(cluster: &ClusterState) -> Check {
    let lease = &cluster.lease.name;
    let holder = match &cluster.lease.holder {
        Ok(holder) => holder,
        Err(error @ (Unavailable::NoLease(_) | Unavailable::NotHeld { .. })) => {
            return check_unheld_lease(cluster, error);
        }
        Err(error) => {
            let hidden = cluster.lease.describe_hidden().filter(|_| cluster.is_controller_hidden());
            return hidden.map_or_else(
                || unreadable(cluster, "the lease can't be read", error),
                |text| Check::new(Level::Skipped, text),
            );
        }
    };
    if holder.has_unreadable_time {
        let (host, expiry) = (holder.host_name(), holder.describe_expiry());
        return Check::new(Level::Warning, format!("{expiry} (holder: {host})"));
    }
    let verb = if holder.is_expired() { "was last held" } else { "is held" };
    let handles_none = handles_none(&cluster.lease.holder, &cluster.autoscalers);
    let scope = if handles_none { "; it handles only other autoscalers" } else { "" };
    let text = format!(
        "lease {lease} {verb} by {}, {}, {}{scope}",
        holder.host_name(),
        describe_renewal(holder),
        counted(usize::try_from(holder.transitions).unwrap_or_default(), "leader change"),
    );
    if holder.is_expired() {
        let limit = format_seconds(holder.duration.as_secs_f64());
        if is_replaced_by_built_in(cluster) {
            let text = format!("{text}: it has expired after {limit}, but {REPLACED}");
            let level = if is_left_over(cluster, holder) { Level::Ok } else { Level::Warning };
            return Check::new(level, text);
        }
        let successor = find_successor(cluster, lease);
        let (level, consequence) = if cluster.leases().has_writer_without_lease(None) {
            let unknown = "and whether an instance without leader election reconciles is unknown";
            (Level::Warning, unknown)
        } else {
            let level = if successor.is_some() { Level::Warning } else { Level::Error };
            (level, "so no instance with this lease reconciles")
        };
        let text = format!("{text}: it has expired after {limit}, {consequence}");
        let pods = || pods_command(&lease.namespace);
        let hint = successor.as_ref().map_or_else(pods, describe_successor);
        return Check::new(level, text).with_hint(hint);
    }
    Check::new(Level::Ok, text)
}

/// Whether the holder of a lease is known to handle none of the autoscalers. False if there are
/// none.
fn handles_none<'a>(
    holder: &Result<LeaseHolder, Unavailable>,
    autoscalers: impl IntoIterator<Item = &'a ListedAutoscaler>,
) -> bool {
    let mut autoscalers = autoscalers.into_iter().peekable();
    autoscalers.peek().is_some()
        && autoscalers.all(|one| excludes(holder, one.api, Some(&one.hpa.metadata.namespace)))
}

/// Commands that show the pods of a lease's namespace and a log.
fn pods_command(namespace: &str) -> String {
    let namespace = quote(namespace);
    format!("kubectl get pods -n {namespace}; kubectl logs -n {namespace} POD")
}

/// Checks the lease if it is missing or has no holder.
fn check_unheld_lease(cluster: &ClusterState, error: &Unavailable) -> Check {
    if is_replaced_by_built_in(cluster) {
        let text = format!("{}: {REPLACED}", describe_lease_error(error));
        return Check::new(Level::Ok, text);
    }
    let successor = find_successor(cluster, &cluster.lease.name);
    // A controller without this lease may handle the autoscalers.
    let may_be_handled = successor.is_some()
        || cluster.writers.may_act_in(None, KUBE_CONTROLLER_MANAGER)
        || cluster.leases().has_writer_without_lease(None);
    let level = if may_be_handled { Level::Warning } else { Level::Error };
    let is_searched =
        matches!(error, Unavailable::NoLease(_)) && !cluster.lease.searched_namespaces.is_empty();
    let text = if is_searched {
        describe_missing_lease(&cluster.lease.name.name, &cluster.lease.searched_namespaces)
    } else {
        error.to_string()
    };
    let check = Check::new(level, text);
    match successor {
        Some(successor) => check.with_hint(describe_successor(&successor)),
        None if is_searched => check.with_hint(
            "--controller-namespace and --controller-lease name the lease, --controller-url a \
             debug API",
        ),
        None => check.with_hint(pods_command(&cluster.lease.name.namespace)),
    }
}

/// The autoscalers whose status names a lost lease. If kube-controller-manager stored the status,
/// the scope that the last holder published decides instead. A tenant can publish any scope on its
/// own lease, so that of a local lease counts only in its namespace.
fn autoscalers_of<'a>(cluster: &'a ClusterState, lost: &LeaseKey) -> Vec<&'a ListedAutoscaler> {
    let (leases, own) = (cluster.leases(), lost.manager());
    let scope =
        leases.lease_of(own.as_str()).and_then(|(_, holder)| holder.as_ref().ok()?.scope.as_ref());
    let is_local = leases.is_local(own.as_str());
    let is_of_lost = |one: &&ListedAutoscaler| match one.controller.name.as_deref() {
        Some(KUBE_CONTROLLER_MANAGER) => {
            let namespace = &one.hpa.metadata.namespace;
            (!is_local || *namespace == lost.namespace)
                && scope.is_some_and(|scope| scope.handles(one.api, Some(namespace)))
        }
        manager => manager == Some(own.as_str()),
    };
    cluster.autoscalers.iter().filter(is_of_lost).collect()
}

/// The held lease of an instance that may have taken over from the one with the lost lease. One
/// that is known to handle none of the autoscalers of the lost lease doesn't count.
fn find_successor(cluster: &ClusterState, lost: &LeaseKey) -> Option<LeaseKey> {
    let leases = cluster.leases();
    let lost_autoscalers = autoscalers_of(cluster, lost);
    let mut held = leases.hpa_rs_leases().filter(|(_, holder)| is_held(holder));
    let successor = held.find(|(name, holder)| {
        name.may_have_replaced(lost) && !handles_none(holder, lost_autoscalers.iter().copied())
    });
    successor.map(|(name, _)| name.clone())
}

/// Advice for a lost lease beside a held one.
fn describe_successor(lease: &LeaseKey) -> String {
    format!(
        "an instance holds the lease {lease}: --controller-namespace {} --controller-lease {} \
         checks it",
        quote(&lease.namespace),
        quote(&lease.name)
    )
}

/// Reports a lost lease that is not the checked one, with the autoscalers of other namespaces on
/// which maybe no controller acts. `None` without such autoscalers, or if the instance of a held
/// lease may act instead. If it is certain that no controller acts, another check reports that.
pub(super) fn check_lost(cluster: &ClusterState, lost: &ReadLease) -> Option<Check> {
    if matches!(lost.holder, Err(Unavailable::NoLease(_))) {
        return None;
    }
    let leases = cluster.leases();
    let manager = lost.name.manager();
    let reason = leases.describe_lost(manager.as_str())?;
    if find_successor(cluster, &lost.name).is_some() {
        return None;
    }
    let unhandled = autoscalers_of(cluster, &lost.name).into_iter().filter(|one| {
        one.hpa.metadata.namespace != lost.name.namespace
            && cluster.idle_reason(one).is_some_and(|idle| !idle.is_certain)
    });
    let unhandled: Vec<_> = unhandled.collect();
    let names: Vec<String> = unhandled.iter().map(|one| one.name.clone()).collect();
    let are_named =
        unhandled.iter().all(|one| one.controller.name.as_deref() == Some(manager.as_str()));
    (!names.is_empty()).then(|| {
        let autoscalers = counted(names.len(), "autoscaler");
        let text = if are_named {
            format!("{reason}, which the status of {autoscalers} names")
        } else {
            format!("{reason}, whose last holder handled {autoscalers}")
        };
        Check::new(Level::Error, format!("{text}: {}", shorten_names(&names)))
    })
}

/// Whether kube-controller-manager handles all autoscalers, because it acts and no hpa-rs runs.
fn is_replaced_by_built_in(cluster: &ClusterState) -> bool {
    let is_core = |one: &ListedAutoscaler| one.api == AutoscalerApi::Core;
    cluster.autoscalers.iter().all(is_core) && cluster.leases().is_built_in_alone()
}

/// Whether an expired lease is left over from before kube-controller-manager replaced hpa-rs: it
/// was not renewed recently, and kube-controller-manager stored the status of each autoscaler last.
pub(super) fn is_left_over(cluster: &ClusterState, holder: &LeaseHolder) -> bool {
    let is_by_built_in = |one: &ListedAutoscaler| one.controller.is_kube_controller_manager();
    holder.is_expired()
        && !is_recent_write(holder.renewed, holder.requested_at)
        && cluster.autoscalers.iter().all(is_by_built_in)
        && is_replaced_by_built_in(cluster)
}

/// A clause about the time since the last renewal of a lease.
pub(super) fn describe_renewal(holder: &LeaseHolder) -> String {
    let age = holder.age().map(|age| format_seconds(age.as_secs_f64()));
    age.map_or_else(|| "never renewed".to_owned(), |age| format!("renewed {age} ago"))
}

/// A clause about a lease that is missing, has no holder or can't be read.
pub(super) fn describe_lease_error(error: &Unavailable) -> String {
    match error {
        Unavailable::NoLease(lease) => format!("there is no lease {lease}"),
        error => error.to_string(),
    }
}
