//! Finds autoscalers on which no controller acts, from the leases.

use std::collections::{BTreeMap, BTreeSet};

use hpa_calc::explain::counted;
use hpa_controller::{debug::FailedStatusWrites, k8s::FieldManager};
use kube::Client;

use crate::{
    args::ControllerArguments,
    debug_client::{DebugClient, KUBE_CONTROLLER_MANAGER, Unavailable},
    listed_autoscalers::{ListedAutoscaler, set_status_write_errors},
    liveness::{
        ControllerLease, Idle, KubeControllerManager, Leases, NamespaceWriters, Writer,
        status_writers,
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

/// Sentences about the autoscalers on which no controller acts, about several controllers that
/// store statuses, and about statuses that can't be stored. Sets the controller that acts on each
/// autoscaler.
pub(super) async fn describe_all(
    client: &Client,
    location: &ControllerArguments,
    autoscalers: &mut [ListedAutoscaler],
) -> Vec<String> {
    let statuses = status_writers(autoscalers);
    let built_in = KubeControllerManager::read(client).await.with_statuses(&statuses);
    let lease = ControllerLease::find_in_cluster(client, location, None, &statuses).await;
    let writers = NamespaceWriters::new(&statuses);
    // All autoscalers of a lease are checked at the same time, because sentences contain its age.
    let leases = lease.with(&built_in, &writers);
    // Without a flag, or if the debug API can't be read, the leases decide.
    let (reconciled, errors, failed_writes) = read_url(location).await.unwrap_or_default();
    let failed_writes = set_status_write_errors(autoscalers, errors, failed_writes);
    let mut by_reason = BTreeMap::<Idle, Vec<String>>::new();
    for one in autoscalers.iter_mut() {
        let Some(manager) = one.manager.as_deref().filter(|manager| has_lease(manager)) else {
            continue;
        };
        let namespace = one.hpa.metadata.namespace.as_str();
        let answers = reconciled.contains(&one.name);
        one.acting = leases.acting_controller(one.api, Some(namespace), Some(manager), answers);
        if let Some(idle) = leases.idle(one.api, namespace, manager).filter(|_| !answers) {
            by_reason.entry(idle).or_default().push(one.name.clone());
        }
    }
    let idle_sentence = |(idle, names): (Idle, Vec<String>)| {
        let autoscalers =
            format!("{} ({})", counted(names.len(), "autoscaler"), shorten_names(&names));
        format!("{}. hpa status says more.", idle.sentence(&autoscalers))
    };
    let mut sentences: Vec<_> = by_reason.into_iter().rev().map(idle_sentence).collect();
    sentences.extend(failed_writes.map(|failed| format!("Statuses may be old: {failed}.")));
    sentences.extend(leases.describe_conflict(&Writer::all(&statuses)));
    sentences
}

/// The autoscalers that the instance at `--controller-url` reconciles, and the statuses that it
/// can't store: the errors by the names of the autoscalers, and their number. `None` without the
/// flag, or if the debug API can't be read.
async fn read_url(
    location: &ControllerArguments,
) -> Option<(BTreeSet<String>, BTreeMap<String, String>, Option<FailedStatusWrites>)> {
    let api = DebugClient::for_url(location.controller_url.as_ref()?).ok()?;
    let instance = api.instance(location).await.ok()?;
    let (reconciled, errors) = (instance.reconciled_at_url(), instance.status_write_errors());
    Some((reconciled, errors, instance.status.failed_status_writes))
}
