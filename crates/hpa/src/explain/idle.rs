//! Finds autoscalers on which no controller acts, from the leases.

use std::collections::BTreeMap;

use hpa_calc::explain::counted;
use hpa_controller::k8s::FieldManager;
use jiff::Timestamp;
use kube::Client;

use crate::{
    args::ControllerArguments,
    debug_client::{DebugClient, KUBE_CONTROLLER_MANAGER, LeaseName, Unavailable},
    listed_autoscalers::ListedAutoscaler,
    liveness::{ControllerLease, Idle, KubeControllerManager, is_recent_write},
    terminal::shorten_names,
};

/// The maximum number of field managers whose leases are read.
const MAX_MANAGERS: usize = 4;

/// Whether the controller with this field manager has a lease.
pub(super) fn has_lease(manager: &str) -> bool {
    manager == KUBE_CONTROLLER_MANAGER || FieldManager::parse_lease(manager).is_some()
}

/// Finds the lease of hpa-rs: that of the flags, else the one that `manager` names. hpa-rs may have
/// replaced kube-controller-manager: then the one that most of `others` name, which are the field
/// managers of other statuses, else one of the usual ones.
pub(super) async fn find_lease<'a>(
    client: &Client,
    location: &ControllerArguments,
    manager: Option<&'a str>,
    others: impl Iterator<Item = &'a str>,
) -> ControllerLease {
    if manager == Some(KUBE_CONTROLLER_MANAGER) {
        ControllerLease::find_in_cluster(client, location, others).await
    } else {
        ControllerLease::find(client, location, manager).await
    }
}

/// Finds the lease of the hpa-rs that may have replaced kube-controller-manager. `None` if
/// kube-controller-manager stored the last status of no autoscaler.
async fn find_successor(
    client: &Client,
    location: &ControllerArguments,
    autoscalers: &[ListedAutoscaler],
) -> Option<ControllerLease> {
    if !autoscalers.iter().any(ListedAutoscaler::is_of_reference) {
        return None;
    }
    let managers = autoscalers.iter().filter_map(|one| one.manager.as_deref());
    Some(ControllerLease::find_in_cluster(client, location, managers).await)
}

/// Describes the holder of kube-controller-manager's lease and the time since its renewal. Empty if
/// the lease can't be read.
pub(super) fn describe_built_in(built_in: &KubeControllerManager) -> String {
    let now = Timestamp::now();
    match &built_in.holder {
        Ok(holder) if holder.is_expired(now) => holder.describe_expiry(now),
        Ok(holder) => {
            let renewed = holder.renewed.map(|renewed| now.duration_since(renewed).as_secs());
            let renewed = renewed.map(|since| format!(", renewed {since}s ago"));
            format!("its lease is held by {}{}", holder.identity, renewed.unwrap_or_default())
        }
        Err(Unavailable::NoLease(_)) => "it has no lease".to_owned(),
        Err(error @ Unavailable::NotHeld(_)) => error.to_string(),
        Err(_) => String::new(),
    }
}

/// Sentences about the autoscalers on which no controller acts. If several controllers have stored
/// statuses recently, also a sentence about the autoscalers of each: a status that doesn't change
/// keeps its writer, so an old one doesn't show that its writer still runs. Sets the controller that
/// acts on each autoscaler.
pub(super) async fn describe_all(
    client: &Client,
    location: &ControllerArguments,
    autoscalers: &mut [ListedAutoscaler],
) -> Vec<String> {
    let built_in = KubeControllerManager::read(client).await.with_statuses(autoscalers);
    let successor = find_successor(client, location, autoscalers).await;
    let is_working = is_working(client, location).await;
    if let Some(lease) = &successor {
        let leases = lease.with(&built_in);
        for one in autoscalers.iter_mut() {
            one.acting = leases.acting_controller(one.manager.as_deref(), is_working);
        }
    }
    let autoscalers = &*autoscalers;
    let mut by_manager = BTreeMap::<&str, Vec<&ListedAutoscaler>>::new();
    for autoscaler in autoscalers {
        if let Some(manager) = &autoscaler.manager {
            by_manager.entry(manager).or_default().push(autoscaler);
        }
    }
    let mut by_manager: Vec<_> = by_manager.into_iter().collect();
    by_manager.sort_by_key(|(_, of_manager)| std::cmp::Reverse(of_manager.len()));
    let mut by_reason = BTreeMap::<Idle, Vec<String>>::new();
    let mut writers = BTreeMap::<&str, Vec<String>>::new();
    for (index, (manager, of_manager)) in by_manager.iter().enumerate() {
        let newest = of_manager.iter().filter_map(|one| one.status_stored_at).max();
        if is_recent_write(newest, Timestamp::now()) {
            writers.insert(manager, of_manager.iter().map(|one| one.name.clone()).collect());
        }
        if index >= MAX_MANAGERS || !has_lease(manager) {
            continue;
        }
        let own;
        let lease = match &successor {
            Some(lease) if *manager == KUBE_CONTROLLER_MANAGER => lease,
            _ => {
                own = ControllerLease::find(client, location, [*manager]).await;
                &own
            }
        };
        let leases = lease.with(&built_in);
        for one in of_manager {
            if let Some(idle) = leases.idle(one.api, manager) {
                by_reason.entry(idle).or_default().push(one.name.clone());
            }
        }
    }
    let mut sentences = Vec::new();
    if !is_working {
        sentences.extend(by_reason.into_iter().rev().map(|(idle, names)| {
            let autoscalers =
                format!("{} ({})", counted(names.len(), "autoscaler"), shorten_names(&names));
            format!("{}. hpa status says more.", idle.sentence(&autoscalers))
        }));
    }
    sentences.extend(describe_writers(&writers));
    sentences
}

/// A sentence if several controllers write statuses.
fn describe_writers(by_manager: &BTreeMap<&str, Vec<String>>) -> Option<String> {
    if by_manager.len() < 2 {
        return None;
    }
    let each =
        by_manager.iter().map(|(manager, names)| format!("{manager} ({})", shorten_names(names)));
    let each: Vec<_> = each.collect();
    Some(format!(
        "Several controllers stored the statuses: {}. hpa status says more.",
        each.join(", ")
    ))
}

/// Whether the debug API of `--controller-url` reports a working controller, which may not use a
/// lease.
async fn is_working(client: &Client, location: &ControllerArguments) -> bool {
    if location.controller_url.is_none() {
        return false;
    }
    let lease = LeaseName::choose(location, []);
    let Ok(api) = DebugClient::find(client, location, &lease).await else { return false };
    api.status().await.is_ok_and(|status| status.is_working)
}
