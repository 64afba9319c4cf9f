//! Checks kube-controller-manager, which has the built-in HPA controller.

use std::collections::BTreeSet;

use hpa_controller::{
    AutoscalerApi,
    k8s::{FieldManager, is_clearly_after},
};

use super::{
    check::{Check, Level, Weight},
    cluster::ClusterState,
    lease::{describe_lease_error, describe_renewal},
};
use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER as NAME, LeaseHolder, Unavailable},
    listed_autoscalers::ListedAutoscaler,
    liveness::{Conflict, describe_age, describe_autoscalers, is_lost},
};

/// Advice that ends a conflict.
const SWITCH_OFF: &str = "its flag --controllers=*,-horizontal-pod-autoscaler-controller switches \
                          it off, see docs/migration.md";

/// Reports the lease holder, and whether its HPA controller is on.
pub(super) fn check(cluster: &ClusterState, conflicts: &[Conflict]) -> Check {
    let holder = &cluster.built_in.holder;
    let conflicts = conflicts.iter().filter(|conflict| conflict.has_built_in());
    let shared: Vec<String> =
        conflicts.flat_map(|conflict| &conflict.autoscalers).cloned().collect();
    if is_lost(holder) && !shared.is_empty() {
        return conflict_without_lease(cluster, &shared);
    }
    let is_needed = cluster.autoscalers.iter().any(|one| {
        one.controller.is_kube_controller_manager() && cluster.idle_reason(one).is_some()
    });
    let level_without_holder = if is_needed { Level::Warning } else { Level::Ok };
    match holder {
        Ok(holder) if holder.has_unreadable_time => {
            let expiry = holder.describe_expiry();
            Check::new(Level::Skipped, format!("whether {NAME} runs is unknown: {expiry}"))
        }
        Ok(holder) if holder.is_expired() => {
            let (host, renewal) = (holder.host_name(), describe_renewal(holder));
            let text = format!("no {NAME} holds its lease: that of {host} has expired, {renewal}");
            Check::new(level_without_holder, text)
        }
        Ok(holder) => check_holder(cluster, holder, &shared),
        Err(Unavailable::NotHeld { .. }) => {
            Check::new(level_without_holder, format!("no {NAME} holds its lease"))
        }
        Err(error) => unread_lease(error),
    }
}

/// The check if an instance holds the lease. `shared` are the autoscalers on which it acts beside
/// hpa-rs.
fn check_holder(cluster: &ClusterState, holder: &LeaseHolder, shared: &[String]) -> Check {
    let has_flags = cluster.built_in.flags.is_some();
    let handles_autoscalers = cluster.leases().built_in_handles_autoscalers(None) == Some(true);
    let is_confirmed = has_flags || handles_autoscalers;
    // A tenant can forge the newest status, but not one in most namespaces.
    let in_most = cluster.writers.last_built_in_write(None).filter(|_| handles_autoscalers);
    let last_write = in_most.or(cluster.built_in.last_write);
    let is_hpa_controller_on = if handles_autoscalers || !shared.is_empty() {
        Some(true)
    } else {
        cluster.built_in.is_hpa_controller_on(cluster.now)
    };
    let is_recent = cluster.leases().is_recent_write(last_write);
    let after_takeover =
        describe_write_after_takeover(cluster).filter(|_| is_hpa_controller_on.is_none());
    let may_be_conflict = after_takeover.is_some() && is_recent;
    let hpa_controller = after_takeover.unwrap_or_else(|| {
        let write = last_write.filter(|_| is_hpa_controller_on == Some(true));
        cluster.built_in.describe_hpa_controller(write, is_confirmed, cluster.now)
    });
    let (host, renewal) = (holder.host_name(), describe_renewal(holder));
    let text = format!("{NAME} holds its lease ({host}, {renewal}); {hpa_controller}");
    match is_hpa_controller_on {
        None if may_be_conflict => {
            Check::new(Level::Warning, text).with_weight(Weight::PossibleConflict)
        }
        None => Check::new(Level::Skipped, text),
        Some(true) if !shared.is_empty() || may_hpa_rs_handle_core_api(cluster) => {
            let about = match shared {
                [] => String::new(),
                shared => format!(" about {}", describe_autoscalers(shared)),
            };
            let is_certain = is_confirmed && (has_flags || is_recent);
            let beside = if is_certain { " beside this one:" } else { "; if it is," };
            let text = format!("{text}{beside} both overwrite each other's decisions{about}");
            let check = Check::new(Level::Warning, text).with_hint(SWITCH_OFF);
            // A tenant's forged status must not hide the problems of others.
            let weight = if is_certain { Weight::Conflict } else { Weight::PossibleConflict };
            check.with_weight(weight)
        }
        Some(_) => Check::new(Level::Ok, text),
    }
}

/// The check if kube-controller-manager holds no lease, or one with an unreadable time, and stores
/// the statuses of `shared` beside hpa-rs. A tenant can forge that in its own namespaces, so the
/// check precedes the problems of others only if most namespaces have it.
fn conflict_without_lease(cluster: &ClusterState, shared: &[String]) -> Check {
    let holder = cluster.built_in.holder.as_ref().ok();
    let writer = match holder.filter(|holder| holder.has_unreadable_time) {
        Some(holder) => {
            format!("{NAME} stores statuses beside this one, and {}", holder.describe_expiry())
        }
        None => format!("{NAME} holds no lease, but stores statuses beside this one"),
    };
    let text = format!(
        "{writer}: both overwrite each other's decisions about {}",
        describe_autoscalers(shared)
    );
    let core_autoscalers = cluster.autoscalers.iter().filter(|one| one.api == AutoscalerApi::Core);
    let namespaces = |all: Vec<&ListedAutoscaler>| {
        all.into_iter().map(|one| &one.hpa.metadata.namespace).collect::<BTreeSet<_>>().len()
    };
    let names: BTreeSet<&String> = shared.iter().collect();
    let shared_autoscalers = core_autoscalers.clone().filter(|one| names.contains(&one.name));
    let is_in_most =
        2 * namespaces(shared_autoscalers.collect()) > namespaces(core_autoscalers.collect());
    let weight = if is_in_most { Weight::Conflict } else { Weight::PossibleConflict };
    Check::new(Level::Warning, text).with_hint(SWITCH_OFF).with_weight(weight)
}

/// The check if the lease can't be read.
fn unread_lease(error: &Unavailable) -> Check {
    let reason = match error {
        Unavailable::Forbidden { message, .. } => message.clone(),
        error => describe_lease_error(error),
    };
    Check::new(Level::Skipped, format!("whether {NAME} runs is unknown: {reason}"))
}

/// A clause about a status that a kube-controller-manager stored after hpa-rs acquired the lease:
/// both acted at that time. `None` if there is none.
fn describe_write_after_takeover(cluster: &ClusterState) -> Option<String> {
    let holder = cluster.lease.holder.as_ref().ok().filter(|holder| !holder.is_expired())?;
    let newest = cluster.built_in.last_write?;
    is_clearly_after(newest, holder.acquired?).then(|| {
        format!(
            "its HPA controller may be on (a status stored {}, after hpa-rs acquired the lease {}, \
             names it)",
            describe_age(newest, cluster.now),
            cluster.lease.name
        )
    })
}

/// Whether the checked lease may be held, and hpa-rs stored the status of an autoscaler of the core
/// API last and may still handle it.
fn may_hpa_rs_handle_core_api(cluster: &ClusterState) -> bool {
    let leases = cluster.leases();
    let is_handled = |one: &ListedAutoscaler| {
        one.api == AutoscalerApi::Core
            && one.controller.name.as_deref().is_some_and(FieldManager::is_hpa_rs)
            && leases.may_hpa_rs_run(one.api, Some(&one.hpa.metadata.namespace))
    };
    cluster.may_lease_be_held() && cluster.autoscalers.iter().any(is_handled)
}
