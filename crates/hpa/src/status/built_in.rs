//! Checks kube-controller-manager, which has the built-in HPA controller.

use std::collections::BTreeSet;

use hpa_calc::explain::counted;
use hpa_controller::{
    AutoscalerApi,
    k8s::{FieldManager, is_clearly_after},
};

use super::{
    check::{Check, Level, Weight, format_seconds},
    cluster::ClusterState,
    lease::describe_lease_error,
};
use crate::{
    debug_client::{KUBE_CONTROLLER_MANAGER as NAME, Unavailable},
    listed_autoscalers::ListedAutoscaler,
    liveness::{Conflict, KubeControllerManager, describe_age, is_lost},
    terminal::shorten_names,
};

/// How to end a conflict.
const SWITCH_OFF: &str = "its flag --controllers=*,-horizontal-pod-autoscaler-controller switches \
                          it off, see docs/migration.md";

/// Reports the lease holder, and whether its HPA controller is on.
pub(super) fn check(cluster: &ClusterState, conflicts: &[Conflict]) -> Check {
    let KubeControllerManager { holder, flags, .. } = &cluster.built_in;
    let conflicts = conflicts.iter().filter(|conflict| conflict.has_built_in());
    let shared: Vec<String> =
        conflicts.flat_map(|conflict| &conflict.autoscalers).cloned().collect();
    let is_on = cluster.leases().built_in_handles_autoscalers(None) == Some(true);
    let is_confirmed = flags.is_some() || is_on;
    let is_shown = is_on || !shared.is_empty();
    let is_hpa_controller_on =
        is_shown.then_some(true).or_else(|| cluster.built_in.is_hpa_controller_on(cluster.now));
    if is_lost(holder) && !shared.is_empty() {
        return conflict_without_lease(cluster, &shared);
    }
    let is_needed = cluster
        .autoscalers
        .iter()
        .any(|one| one.controller.is_reference() && cluster.idle_reason(one).is_some());
    let level_without_holder = if is_needed { Level::Warning } else { Level::Ok };
    let holder = match holder {
        Ok(holder) => holder,
        Err(Unavailable::NotHeld { .. }) => {
            return Check::new(level_without_holder, format!("no {NAME} holds its lease"));
        }
        Err(error) => return unknown(error),
    };
    if holder.has_unreadable_time {
        let expiry = holder.describe_expiry();
        return Check::new(Level::Skipped, format!("whether {NAME} runs is unknown: {expiry}"));
    }
    let host = holder.host_name();
    let age = holder.age().map(|age| format_seconds(age.as_secs_f64()));
    let age = age.map_or("never renewed".to_owned(), |age| format!("renewed {age} ago"));
    if holder.is_expired() {
        let text = format!("no {NAME} holds its lease: that of {host} has expired, {age}");
        return Check::new(level_without_holder, text);
    }
    let was_on = describe_write_after_takeover(cluster).filter(|_| is_hpa_controller_on.is_none());
    let is_recent =
        was_on.is_some() && cluster.leases().is_recent_write(cluster.built_in.last_write);
    let hpa_controller = was_on.unwrap_or_else(|| {
        let is_on = is_hpa_controller_on == Some(true);
        cluster.built_in.describe_hpa_controller(is_on, is_confirmed, cluster.now)
    });
    let text = format!("{NAME} holds its lease ({host}, {age}); {hpa_controller}");
    match is_hpa_controller_on {
        None if is_recent => Check::new(Level::Warning, text).with_weight(Weight::PossibleConflict),
        None => Check::new(Level::Skipped, text),
        Some(true) if !shared.is_empty() || may_hpa_rs_handle_core_api(cluster) => {
            let count = counted(shared.len(), "autoscaler");
            let about = format!(" about {count} ({})", shorten_names(&shared));
            let about = if shared.is_empty() { String::new() } else { about };
            let beside = if is_confirmed { " beside this one:" } else { "; if it is," };
            let text = format!("{text}{beside} both overwrite each other's decisions{about}");
            let check = Check::new(Level::Warning, text).with_hint(SWITCH_OFF);
            // A tenant's forged status must not hide the problems of others.
            let weight = if is_confirmed { Weight::Conflict } else { Weight::PossibleConflict };
            check.with_weight(weight)
        }
        Some(_) => Check::new(Level::Ok, text),
    }
}

/// The check if kube-controller-manager holds no lease and stores the statuses of `shared` beside
/// hpa-rs. A tenant can forge that in its own namespaces, so the check precedes the problems of
/// others only if most namespaces have it.
fn conflict_without_lease(cluster: &ClusterState, shared: &[String]) -> Check {
    let count = counted(shared.len(), "autoscaler");
    let text = format!(
        "{NAME} holds no lease, but stores statuses beside this one: both overwrite each other's \
         decisions about {count} ({})",
        shorten_names(shared)
    );
    let of_core = cluster.autoscalers.iter().filter(|one| one.api == AutoscalerApi::Core);
    let namespaces = |all: Vec<&ListedAutoscaler>| {
        all.into_iter().map(|one| &one.hpa.metadata.namespace).collect::<BTreeSet<_>>().len()
    };
    let of_shared = of_core.clone().filter(|one| shared.contains(&one.name));
    let is_in_most = 2 * namespaces(of_shared.collect()) > namespaces(of_core.collect());
    let weight = if is_in_most { Weight::Conflict } else { Weight::PossibleConflict };
    Check::new(Level::Warning, text).with_hint(SWITCH_OFF).with_weight(weight)
}

/// The check if the lease can't be read.
fn unknown(error: &Unavailable) -> Check {
    let reason = match error {
        Unavailable::Forbidden { message, .. } => message.clone(),
        error => describe_lease_error(error),
    };
    Check::new(Level::Skipped, format!("whether {NAME} runs is unknown: {reason}"))
}

/// A clause about a status that kube-controller-manager stored after hpa-rs acquired the lease:
/// both acted at that time. `None` if there is none.
fn describe_write_after_takeover(cluster: &ClusterState) -> Option<String> {
    let (newest, takeover) = cluster.built_in.last_write.zip(cluster.takeover())?;
    is_clearly_after(newest, takeover).then(|| {
        format!(
            "its HPA controller was on {} (a status that was stored after hpa-rs acquired the lease \
             {} names it)",
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
