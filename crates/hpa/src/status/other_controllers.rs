//! Checks the controllers that stored statuses, but don't hold the checked lease.

use std::collections::BTreeSet;

use hpa_calc::explain::counted;
use hpa_controller::k8s::FieldManager;
use jiff::Timestamp;

use super::{
    check::{Check, Level, Weight},
    cluster::ClusterState,
};
use crate::{
    debug_client::KUBE_CONTROLLER_MANAGER,
    listed_autoscalers::ListedAutoscaler,
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
    let (lease_writers, others): (Vec<_>, Vec<_>) =
        writers.partition(|writer| writer.manager == lease_manager.as_str());
    // A lease that this user may not read may be held.
    let may_have_leader =
        cluster.may_lease_be_held() || cluster.is_controller_hidden() && !lease_writers.is_empty();
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
    let is_off = *manager == KUBE_CONTROLLER_MANAGER
        && cluster.built_in.is_hpa_controller_on(cluster.now) == Some(false);
    is_off && !leases.is_recent_write(*newest) || leases.no_longer_writes(manager, *newest)
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
    let (text, leases) = (describe(writer, cluster.now), cluster.leases());
    let is_hpa_rs = FieldManager::is_hpa_rs(manager);
    let ok = |end: &str| Check::new(Level::Ok, format!("{text}{end}"));
    let warning = |end: &str| Check::new(Level::Warning, format!("{text}{end}"));
    // `--controller-url` may lead to a controller without leader election, which no lease shows.
    if is_hpa_rs && autoscalers.iter().all(|name| cluster.reconciled_at_url.contains(name)) {
        return ok("");
    }
    if manager == KUBE_CONTROLLER_MANAGER
        && let Some((level, end)) = explain_built_in(cluster, newest)
    {
        return Check::new(level, text + &end);
    }
    if let Some(text) = describe_local_holder(&leases, manager) {
        return Check::new(Level::Ok, text);
    }
    match leases.is_running(manager) {
        Some(false) if leases.no_longer_writes(manager, newest) => {
            if leases.may_write_without_lease(manager, newest) {
                warning("; it holds no lease, but if the clocks agree, it has written without one")
            } else {
                ok("; it holds no lease, so it no longer writes")
            }
        }
        Some(false) if is_only_controller => warning("; it holds no lease"),
        Some(true) if is_only_controller => warning("; it holds its lease"),
        Some(true) if is_hpa_rs && !leases.shares_namespace(manager) => {
            ok("; it holds its lease, and no other hpa-rs stored a status in these namespaces")
        }
        None if is_only_controller => check_unknown(cluster, writer, text),
        is_running => check_beside_another(cluster, writer, text, is_running),
    }
}

/// The level and the end of the check of kube-controller-manager, if the reason for its statuses is
/// known. It stored the newest one at `newest`.
fn explain_built_in(cluster: &ClusterState, newest: Option<Timestamp>) -> Option<(Level, String)> {
    let leases = cluster.leases();
    let is_on = cluster.built_in.is_hpa_controller_on(cluster.now);
    let ok = |text: &str| Some((Level::Ok, text.to_owned()));
    if leases.is_built_in_alone() {
        return ok("; its HPA controller is on");
    }
    if is_on == Some(false) {
        return if leases.is_recent_write(newest) {
            Some((Level::Warning, "; its HPA controller is off now".to_owned()))
        } else {
            ok("; its HPA controller is off, so it no longer writes")
        };
    }
    if leases.runs_for_custom_api_only() {
        return ok("; as far as is known, hpa-rs handles only the custom API");
    }
    if is_on == Some(true) {
        let text = "; no known hpa-rs handles these autoscalers";
        return if is_handled_by_built_in(cluster) { ok(text) } else { None };
    }
    let takeover = describe_takeover(cluster)?;
    ok(&format!(", {takeover}: a status that doesn't change keeps its writer"))
}

/// Checks the only controller that may act, if it is unknown whether it runs.
fn check_unknown(cluster: &ClusterState, writer: &Writer<'_>, text: String) -> Check {
    // A tenant can't find out more.
    let level = if cluster.is_controller_hidden() { Level::Skipped } else { Level::Warning };
    let has_no_lease = FieldManager::is_hpa_rs(writer.manager)
        && FieldManager::parse_lease(writer.manager).is_none();
    Check::new(level, text).with_hint(if has_no_lease {
        "it runs without leader election, so whether it still runs is unknown; --controller-url \
         reads its debug API"
    } else {
        "whether it still runs is unknown"
    })
}

/// Checks a controller that may act beside another one.
fn check_beside_another(
    cluster: &ClusterState,
    writer: &Writer<'_>,
    text: String,
    is_running: Option<bool>,
) -> Check {
    let leases = cluster.leases();
    let is_recent = leases.is_recent_write(writer.newest);
    // A tenant can't find out more.
    let is_hidden = cluster.is_controller_hidden() && !is_recent;
    let level = if is_hidden { Level::Skipped } else { Level::Warning };
    if !is_recent && is_running.is_none() {
        return Check::new(level, text).with_hint(
            "whether it still runs is unknown: a status that doesn't change keeps its writer",
        );
    }
    // A lease that can't be read may be held.
    let has_leader = leases.is_running(cluster.lease.name.manager().as_str()) != Some(false);
    let other = if has_leader { "the holder of the lease" } else { "another controller" };
    let both = format!(
        "if it handles the same autoscalers as {other}, both overwrite each other's decisions"
    );
    // `--controller-url` may lead to a controller without leader election, which no lease shows.
    let acts_beside_another = has_leader || !cluster.reconciled_at_url.is_empty();
    if !is_recent || !acts_beside_another {
        return Check::new(level, text).with_hint(both);
    }
    Check::new(level, format!("{text}; {both}")).with_weight(Weight::PossibleConflict)
}

/// Whether kube-controller-manager acts on all autoscalers whose status it stored last, because no
/// hpa-rs does, by the leases.
fn is_handled_by_built_in(cluster: &ClusterState) -> bool {
    of_built_in(cluster).all(|one| one.acting.is_kube_controller_manager())
}

/// A clause about the leases that instances of hpa-rs acquired after kube-controller-manager stored
/// its statuses. `None` if an instance doesn't handle one of the autoscalers.
fn describe_takeover(cluster: &ClusterState) -> Option<String> {
    let leases = cluster.leases();
    let acquired: Option<BTreeSet<_>> = of_built_in(cluster)
        .map(|one| leases.takeover_after(&one.hpa.metadata.namespace, one.controller.at))
        .collect();
    let acquired: Vec<_> = acquired?.into_iter().map(ToString::to_string).collect();
    let noun = if acquired.len() == 1 { "lease" } else { "leases" };
    Some(format!("before hpa-rs acquired the {noun} {}", shorten_names(&acquired)))
}

/// The autoscalers whose status kube-controller-manager stored last.
fn of_built_in(cluster: &ClusterState) -> impl Iterator<Item = &ListedAutoscaler> {
    let autoscalers = cluster.autoscalers.iter();
    autoscalers.filter(|one| one.controller.is_kube_controller_manager())
}

/// A finding about a held lease that is named only by statuses in the lease's own namespace. A
/// namespaced instance may hold it, or a tenant may have created it and forged the statuses. `None`
/// for other leases, and if another hpa-rs stored a status in the namespace.
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
