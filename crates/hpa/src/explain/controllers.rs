//! Describes the controllers of autoscalers, from the leases and the debug API.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use crate::{
    args::ControllerArguments,
    debug_client::{Instance, Unavailable, describe_wrong_clock},
    findings::capitalized,
    kubectl,
    listed_autoscalers::{ListedAutoscaler, set_activities, set_unstored_statuses},
    liveness::{
        Conflict, ControllerLease, Idle, KubeControllerManager, Leases, NamespaceWriters,
        describe_autoscalers, group_by_finding, status_writers,
    },
    overwritten_events::latest_activities,
};

/// Describes the holder of kube-controller-manager's lease and the time since its renewal, and the
/// lease of `manager` if hpa-rs no longer holds it. Empty if neither is known.
pub(super) fn describe_leases(leases: &Leases<'_>, manager: &str) -> String {
    let built_in = match &leases.built_in.holder {
        Ok(holder) if holder.is_expired() => Some(holder.describe_expiry()),
        Ok(holder) => {
            let renewed = holder.age().map(|age| format!(", renewed {}s ago", age.as_secs()));
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

/// Describes the problems of controllers. Sets the acting controller, the activity and the unstored
/// status of each autoscaler. Returns a sentence about each problem:
///
/// - The debug API of `--controller-url` can't be read, or the user may not read the lease.
/// - No controller acts on some autoscalers, or several do.
/// - The caches of the controller are stale, or its clock is wrong.
/// - An API isn't served, or statuses can't be stored.
///
/// The autoscalers were listed at `now`. `namespace` is `None` if they are those of all namespaces.
pub(super) async fn describe_controllers(
    client: &Client,
    flags: &ControllerArguments,
    request_timeout: Duration,
    namespace: Option<&str>,
    autoscalers: &mut [ListedAutoscaler],
    now: Timestamp,
) -> Vec<String> {
    let statuses = status_writers(autoscalers);
    let (built_in, (lease, instance)) = tokio::join!(KubeControllerManager::read(client), async {
        let lease = ControllerLease::find_in_cluster(client, flags, None, &statuses).await;
        let leader = lease.leader_pod(client);
        let instance = lease.instance(client, flags, request_timeout, leader).await;
        (lease, instance)
    });
    let built_in = built_in.with_statuses(&statuses);
    let writers = NamespaceWriters::new(&statuses);
    let leases = lease.with(&built_in, &writers, now);
    // Without the flag, or if the debug API can't be read, the leases decide.
    let error_of_url = instance.as_ref().err().filter(|_| flags.controller_url.is_some());
    let unreadable = error_of_url.map(Unavailable::sentence_about_url);
    let instance = instance.as_ref();
    let lead_of_instance = instance.ok().map(|one| one.clock_lead(now, kubectl::now()));
    let clock_lead = lease.clock_lead(lead_of_instance);
    let wrong_clock = describe_wrong_clock(clock_lead).map(|clause| capitalized(&clause) + ".");
    let hidden = lease.describe_hidden().filter(|_| instance.is_err());
    let hidden = hidden.map(|clause| capitalized(&clause) + ".");
    let reconciled = instance.map(Instance::reconciled_at_url).unwrap_or_default();
    let unstored = instance.map(Instance::unstored_statuses).unwrap_or_default();
    let failed_writes =
        instance.ok().and_then(|instance| instance.status.failed_status_writes.clone());
    let failed_writes = set_unstored_statuses(autoscalers, unstored, failed_writes);
    let controller_now = now.checked_add(clock_lead).unwrap_or(now);
    let activities = latest_activities(client, instance.ok(), namespace, controller_now).await;
    set_activities(autoscalers, activities);
    let missing_api = lease.missing_api(client, &statuses).await.map(|text| text + ".");
    let stale_caches = instance.ok().and_then(|one| one.status.stale_caches_sentence());
    let mut found = Vec::new();
    for one in autoscalers.iter_mut() {
        let hpa_rs_answers = reconciled.contains(&one.name);
        if let Some(idle) = leases.idle_listed(one).filter(|_| !hpa_rs_answers) {
            found.push((idle, one.name.clone()));
        }
        let manager = one.controller.name.as_deref();
        let namespace = Some(one.hpa.metadata.namespace.as_str());
        one.acting = leases.acting_controller(one.api, namespace, manager, hpa_rs_answers);
    }
    let idle_sentence = |(idle, names): (Idle, Vec<String>)| {
        format!("{}. hpa status says more.", idle.sentence(&describe_autoscalers(&names)))
    };
    // Certain findings come last in their order, and first in the report.
    let idle = group_by_finding(found).into_iter().rev().map(idle_sentence);
    let mut sentences: Vec<_> = unreadable.into_iter().chain(idle).chain(stale_caches).collect();
    sentences.extend(hidden);
    sentences.extend(wrong_clock);
    sentences.extend(missing_api);
    sentences.extend(failed_writes.map(|failed| format!("Statuses may be old: {failed}.")));
    sentences.extend(leases.conflicts(&statuses).iter().map(Conflict::sentence));
    sentences
}
