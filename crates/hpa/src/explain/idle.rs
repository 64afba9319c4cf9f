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
    liveness::{
        ControllerLease, Idle, KubeControllerManager, Leases, NamespaceWriters, status_writers,
    },
    terminal::shorten_names,
};

/// Whether the controller with this field manager has a lease.
pub(super) fn has_lease(manager: &str) -> bool {
    manager == KUBE_CONTROLLER_MANAGER || FieldManager::parse_lease(manager).is_some()
}

/// Describes the holder of kube-controller-manager's lease and the time since its renewal, and the
/// lease of `manager` if hpa-rs no longer holds it. Empty if neither is known.
pub(super) fn describe_leases(leases: &Leases<'_>, manager: &str) -> String {
    let now = leases.now;
    let built_in = match &leases.built_in.holder {
        Ok(holder) if holder.is_expired(now) => Some(holder.describe_expiry(now)),
        Ok(holder) => {
            let renewed = holder.renewed.map(|renewed| now.duration_since(renewed).as_secs());
            let renewed = renewed.map(|since| format!(", renewed {since}s ago"));
            let renewed = renewed.unwrap_or_default();
            Some(format!("its lease is held by {}{renewed}", holder.identity))
        }
        Err(Unavailable::NoLease(_)) => Some("it has no lease".to_owned()),
        Err(error @ Unavailable::NotHeld { .. }) => Some(error.to_string()),
        Err(_) => None,
    };
    let clauses = [built_in, leases.describe_lost(manager)].into_iter().flatten();
    clauses.collect::<Vec<_>>().join(", and ")
}

/// Sentences about the autoscalers on which no controller acts. If several controllers have stored
/// statuses recently, also a sentence about the autoscalers of each, unless they are instances of
/// hpa-rs for different namespaces. A status that doesn't change keeps its writer, so an old one
/// doesn't show that its writer still runs. Sets the controller that acts on each autoscaler.
pub(super) async fn describe_all(
    client: &Client,
    location: &ControllerArguments,
    autoscalers: &mut [ListedAutoscaler],
) -> Vec<String> {
    let built_in = KubeControllerManager::read(client).await.with_statuses(autoscalers);
    let statuses = status_writers(&*autoscalers);
    let lease = ControllerLease::find_in_cluster(client, location, None, statuses).await;
    let writers = NamespaceWriters::of_autoscalers(autoscalers);
    // All autoscalers of a lease are checked at the same time, because sentences contain its age.
    let leases = lease.with(&built_in, &writers);
    let is_working = is_working(client, location).await;
    let mut by_reason = BTreeMap::<Idle, Vec<String>>::new();
    for one in autoscalers.iter_mut() {
        let Some(manager) = one.manager.as_deref().filter(|manager| has_lease(manager)) else {
            continue;
        };
        let namespace = one.hpa.metadata.namespace.as_str();
        one.acting = leases.acting_controller(one.api, Some(namespace), Some(manager), is_working);
        if let Some(idle) = leases.idle(one.api, namespace, manager) {
            by_reason.entry(idle).or_default().push(one.name.clone());
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
    let recent = recent_writers(&leases, autoscalers);
    // Several instances may handle different namespaces.
    let is_alone =
        |manager: &&str| FieldManager::is_hpa_rs(manager) && !leases.shares_namespace(manager);
    if !recent.keys().all(is_alone) {
        sentences.extend(describe_writers(&recent));
    }
    sentences
}

/// The field managers that have stored a status recently, each with the names of all autoscalers
/// whose status it stored last. Without those that have lost their leases since.
fn recent_writers<'a>(
    leases: &Leases<'_>,
    autoscalers: &'a [ListedAutoscaler],
) -> BTreeMap<&'a str, Vec<String>> {
    let mut writers = BTreeMap::<&str, (Option<Timestamp>, Vec<String>)>::new();
    for one in autoscalers {
        let Some(manager) = one.manager.as_deref() else { continue };
        let (newest, names) = writers.entry(manager).or_default();
        *newest = (*newest).max(one.status_stored_at);
        names.push(one.name.clone());
    }
    let recent = writers.into_iter().filter(|(manager, (newest, _))| {
        leases.is_recent_write(*newest) && !leases.no_longer_writes(manager, *newest)
    });
    recent.map(|(manager, (_, names))| (manager, names)).collect()
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
    let lease = LeaseName::choose(location, None);
    let Ok(api) = DebugClient::find(client, location, &lease).await else { return false };
    api.status().await.is_ok_and(|status| status.is_working)
}
