//! Checks the controllers that stored statuses, but don't hold the checked lease.

use std::collections::BTreeSet;

use hpa_calc::explain::counted;
use hpa_controller::{debug::ActingController, k8s::FieldManager};
use jiff::Timestamp;

use super::{
    check::{Check, Level, Weight},
    cluster::ClusterState,
};
use crate::{
    debug_client::KUBE_CONTROLLER_MANAGER,
    liveness::{Conflict, Leases, Writer, describe_age, status_writers},
    terminal::shorten_names,
};

/// Reports the controllers that stored the status of an autoscaler last and whose lease is not the
/// checked one. Several instances of hpa-rs are no problem if each has its own namespaces.
/// `has_built_in_conflict` is whether the check of kube-controller-manager reports a conflict.
pub(super) fn check(
    cluster: &ClusterState,
    has_built_in_conflict: bool,
    conflicts: &[Conflict],
) -> Vec<Check> {
    let lease_manager = cluster.lease.name.manager();
    let statuses = status_writers(&cluster.autoscalers);
    let writers = Writer::all(&statuses).into_iter();
    let (of_lease, others): (Vec<_>, Vec<_>) =
        writers.partition(|writer| writer.manager == lease_manager.as_str());
    // A lease that this user may not read may be held.
    let may_have_leader =
        cluster.may_lease_be_held() || cluster.is_controller_hidden() && !of_lease.is_empty();
    let leases = cluster.leases();
    // An instance for one namespace may share no autoscaler with the checked controller.
    let is_active =
        |writer: &&Writer<'_>| !leases.is_local(writer.manager) && !has_stopped(cluster, writer);
    let active_count = others.iter().filter(is_active).count();
    let is_only_controller = active_count <= 1 && !may_have_leader;
    let checks = others.iter().map(|writer| {
        // Other checks report the same conflict, with the leases.
        let is_of = |conflict: &Conflict| conflict.managers.contains(writer.manager);
        if writer.manager != KUBE_CONTROLLER_MANAGER && conflicts.iter().any(is_of) {
            let check = Check::new(Level::Warning, describe(writer, cluster.now));
            return check.with_weight(Weight::Repetition);
        }
        let is_repeated = has_built_in_conflict && writer.manager == KUBE_CONTROLLER_MANAGER;
        check_writer(cluster, writer, is_only_controller).repeated_if(is_repeated)
    });
    checks.collect()
}

/// Whether the controller holds no lease or is switched off, and has stored no status since.
fn has_stopped(cluster: &ClusterState, Writer { manager, newest, .. }: &Writer<'_>) -> bool {
    let leases = cluster.leases();
    let is_off = cluster.is_switched_off(manager) && !leases.is_recent_write(*newest);
    is_off || leases.no_longer_writes(manager, *newest)
}

/// A clause about the statuses.
fn describe(Writer { manager, autoscalers, newest, .. }: &Writer<'_>, now: Timestamp) -> String {
    let age = newest.map(|newest| format!(", most recently {}", describe_age(newest, now)));
    format!(
        "{manager} stored the status of {} last{}: {}",
        counted(autoscalers.len(), "autoscaler"),
        age.unwrap_or_default(),
        shorten_names(autoscalers)
    )
}

/// Checks the controller of a writer. `is_only_controller` is whether no other controller may act.
fn check_writer(cluster: &ClusterState, writer: &Writer<'_>, is_only_controller: bool) -> Check {
    let Writer { manager, newest, ref autoscalers, .. } = *writer;
    let text = describe(writer, cluster.now);
    // The debug API of the flag may be that of a controller without leader election.
    let is_checked_controller = FieldManager::is_hpa_rs(manager)
        && autoscalers.iter().all(|name| cluster.reconciled_at_url.contains(name));
    let ok = |end: &str| Check::new(Level::Ok, format!("{text}{end}"));
    let warning = |end: &str| Check::new(Level::Warning, format!("{text}{end}"));
    if is_checked_controller {
        return ok("");
    }
    let leases = cluster.leases();
    let is_running = leases.is_running(manager);
    let is_built_in = manager == KUBE_CONTROLLER_MANAGER;
    if is_built_in && leases.is_built_in_alone() {
        return ok("; its HPA controller is on");
    }
    if cluster.is_switched_off(manager) {
        return if leases.is_recent_write(newest) {
            warning("; its HPA controller is off now")
        } else {
            ok("; its HPA controller is off, so it no longer writes")
        };
    }
    if is_built_in && leases.runs_for_custom_api_only() {
        return ok("; as far as is known, hpa-rs handles only the custom API");
    }
    if is_built_in
        && cluster.built_in.has_hpa_controller(cluster.now) == Some(true)
        && is_handled_by_built_in(cluster)
    {
        return ok("; no known hpa-rs handles these autoscalers");
    }
    if let Some(takeover) = describe_takeover(cluster, manager) {
        return ok(&format!(", {takeover}: a status that doesn't change keeps its writer"));
    }
    if let Some(text) = describe_local_holder(&leases, manager) {
        return Check::new(Level::Ok, text);
    }
    match is_running {
        Some(false) if leases.no_longer_writes(manager, newest) => {
            return ok("; it holds no lease, so it no longer writes");
        }
        Some(false) if is_only_controller => return warning("; it holds no lease"),
        Some(true) if is_only_controller => return warning("; it holds its lease"),
        Some(true) if FieldManager::is_hpa_rs(manager) && !leases.shares_namespace(manager) => {
            return ok(
                "; it holds its lease, and no other hpa-rs stored a status in these namespaces",
            );
        }
        None | Some(_) => {}
    }
    let is_recent = leases.is_recent_write(newest);
    // A tenant can't find out more.
    let is_hidden = cluster.is_controller_hidden() && (is_only_controller || !is_recent);
    let mut check = Check::new(if is_hidden { Level::Skipped } else { Level::Warning }, text);
    match (is_only_controller, FieldManager::parse_lease(manager)) {
        (true, None) if FieldManager::is_hpa_rs(manager) => check.with_hint(
            "it runs without leader election, so whether it still runs is unknown; \
             --controller-url reads its debug API",
        ),
        (true, _) => check.with_hint("whether it still runs is unknown"),
        (false, _) if !is_recent && is_running.is_none() => check.with_hint(
            "whether it still runs is unknown: a status that doesn't change keeps its writer",
        ),
        (false, _) => {
            // A lease that can't be read may be held.
            let has_leader =
                leases.is_running(cluster.lease.name.manager().as_str()) != Some(false);
            let other = if has_leader { "the holder of the lease" } else { "another controller" };
            let both = format!(
                "if it handles the same autoscalers as {other}, both overwrite each other's \
                 decisions"
            );
            // The debug API of the flag may be that of a controller without leader election.
            let acts_beside_another = has_leader || !cluster.reconciled_at_url.is_empty();
            if !is_recent || !acts_beside_another {
                return check.with_hint(both);
            }
            check.text = format!("{}; {both}", check.text);
            check.with_weight(Weight::PossibleConflict)
        }
    }
}

/// Whether kube-controller-manager acts on all autoscalers whose status it stored last, because no
/// hpa-rs does, by the leases.
fn is_handled_by_built_in(cluster: &ClusterState) -> bool {
    let mut of_built_in = cluster
        .autoscalers
        .iter()
        .filter(|one| one.manager.as_deref() == Some(KUBE_CONTROLLER_MANAGER));
    of_built_in.all(|one| matches!(one.acting, ActingController::KubeControllerManager { .. }))
}

/// A clause about the leases that instances of hpa-rs acquired after kube-controller-manager stored
/// its statuses. `None` if an instance doesn't handle one of the autoscalers, for other managers,
/// and if the HPA controller is known to be on.
fn describe_takeover(cluster: &ClusterState, manager: &str) -> Option<String> {
    let is_on = cluster.built_in.has_hpa_controller(cluster.now) == Some(true);
    if manager != KUBE_CONTROLLER_MANAGER || is_on {
        return None;
    }
    let leases = cluster.leases();
    let of_built_in =
        cluster.autoscalers.iter().filter(|one| one.manager.as_deref() == Some(manager));
    let acquired: Option<BTreeSet<_>> = of_built_in
        .map(|one| leases.takeover_after(&one.hpa.metadata.namespace, one.status_stored_at))
        .collect();
    let acquired: Vec<_> = acquired?.into_iter().map(ToString::to_string).collect();
    let noun = if acquired.len() == 1 { "lease" } else { "leases" };
    Some(format!("before hpa-rs acquired the {noun} {}", shorten_names(&acquired)))
}

/// A finding about a held lease that only autoscalers of its own namespace name. Its holder may be
/// an instance for that namespace, or a tenant's invention. `None` for other leases, and if another
/// hpa-rs stored a status in the namespace.
fn describe_local_holder(leases: &Leases<'_>, manager: &str) -> Option<String> {
    let (lease, holder) = leases.lease_of(manager)?;
    let holder = holder.as_ref().ok().filter(|holder| !holder.is_expired())?;
    let is_alone = leases.is_local(manager) && !leases.shares_namespace(manager);
    is_alone.then(|| {
        format!(
            "autoscalers of {} name the lease {lease}, which {} holds",
            lease.namespace,
            holder.host_name()
        )
    })
}
