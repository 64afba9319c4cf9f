//! Finds autoscalers without a running controller, by the leases.

use std::collections::BTreeMap;

use hpa_calc::explain::counted;
use hpa_controller::k8s::FieldManager;
use jiff::Timestamp;
use kube::Client;

use crate::{
    args::ControllerArguments,
    debug_client::{BUILT_IN, DebugClient, LeaseHolder, LeaseName, Unavailable},
    status::{ObservedAutoscaler, named},
};

/// The maximum number of field managers whose leases are read.
const MAX_MANAGERS: usize = 4;

/// A clause about the expired lease of the controller that stored a status, with the field manager
/// `manager`. `None` if a controller is running, or if no lease has expired. If `manager` is
/// kube-controller-manager, hpa-rs may have replaced it: `others`, the field managers of other
/// statuses, name the lease of hpa-rs.
pub(super) async fn reason<'a>(
    client: &Client,
    location: &ControllerArguments,
    manager: &str,
    others: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let hpa_rs_lease = match FieldManager::parse_lease(manager) {
        Some(_) => LeaseName::choose(location, [manager]),
        None => LeaseName::choose(location, others),
    };
    let leases = if FieldManager::parse_lease(manager).is_some() {
        vec![hpa_rs_lease]
    } else if manager == BUILT_IN {
        // hpa-rs may have replaced it since.
        vec![LeaseName::built_in(), hpa_rs_lease]
    } else {
        return None;
    };
    let mut expired = None;
    for lease in leases {
        let now = Timestamp::now();
        match LeaseHolder::read(client, &lease).await {
            Ok(holder) if holder.is_expired(now) => {
                expired.get_or_insert_with(|| holder.describe_expiry(now));
            }
            Err(Unavailable::NoLease(_) | Unavailable::NotHeld(_)) => {}
            Ok(_) | Err(_) => return None,
        }
    }
    expired
}

/// The holder of the lease of kube-controller-manager and its age. Empty if it can't be read.
pub(super) async fn built_in_state(client: &Client) -> String {
    let now = Timestamp::now();
    match LeaseHolder::read(client, &LeaseName::built_in()).await {
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

/// Sentences about the autoscalers whose controller isn't running, and about those of each
/// controller if there are several.
pub(super) async fn of_all(
    client: &Client,
    location: &ControllerArguments,
    autoscalers: &[ObservedAutoscaler],
) -> Vec<String> {
    let mut by_manager = BTreeMap::<&str, Vec<String>>::new();
    for ObservedAutoscaler { manager, name, .. } in autoscalers {
        if let Some(manager) = manager {
            by_manager.entry(manager).or_default().push(name.clone());
        }
    }
    let mut sentences = several(&by_manager);
    let mut by_manager: Vec<_> = by_manager.into_iter().collect();
    by_manager.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    let mut by_reason = BTreeMap::<String, Vec<String>>::new();
    for (manager, names) in by_manager.iter().take(MAX_MANAGERS) {
        let others = by_manager.iter().map(|(other, _)| *other);
        if let Some(reason) = reason(client, location, manager, others).await {
            by_reason.entry(reason).or_default().extend(names.iter().cloned());
        }
    }
    if by_reason.is_empty() || is_working(client, location).await {
        return sentences;
    }
    sentences.extend(by_reason.into_iter().map(|(reason, names)| {
        let autoscalers = counted(names.len(), "autoscaler");
        let names = named(&names);
        format!("No controller acts on {autoscalers} ({names}): {reason}. hpa status says more.")
    }));
    sentences
}

/// A sentence if several controllers stored statuses.
fn several(by_manager: &BTreeMap<&str, Vec<String>>) -> Vec<String> {
    if by_manager.len() < 2 {
        return Vec::new();
    }
    let each = by_manager.iter().map(|(manager, names)| format!("{manager} ({})", named(names)));
    let each: Vec<_> = each.collect();
    vec![format!(
        "Several controllers stored the statuses: {}. hpa status says more.",
        each.join(", ")
    )]
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
