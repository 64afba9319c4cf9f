//! The status of objects that own pods.

use serde_json::{Value, json};

use super::{deployment, owner::Owner, stateful_set};
use crate::{
    Testbed, json,
    registry::ScaleSelector,
    workload::{
        model::{ClusterModel, Pod},
        rollout::RolloutBounds,
    },
};

#[derive(Clone, Copy, Debug, Default)]
struct PodCounts {
    all: u32,
    ready: u32,
    available: u32,
    updated: u32,
}

/// Writes the status of an object. Returns whether ready pods will become available with time
/// alone.
pub(super) fn write(
    testbed: &Testbed,
    model: &mut ClusterModel,
    owner: &Owner,
    owners: &[Owner],
    now: &str,
) -> bool {
    let revision = current_revision(owner, owners);
    let (second, min_ready) = (model.now, owner.min_ready_seconds());
    let id = owner.workload();
    let workload = model.workload(&id);
    if owner.workload().kind == owner.kind {
        workload.desired = owner.replicas();
    }
    let is_deployment = owner.is("Deployment");
    let is_own = |pod: &&Pod| is_deployment || pod.owner_uid == owner.uid();
    let mut counts = PodCounts::default();
    for pod in workload.pods.values().filter(is_own).filter(|pod| pod.lifecycle.is_active()) {
        counts.all += 1;
        counts.ready += u32::from(pod.lifecycle.is_ready());
        counts.available += u32::from(pod.lifecycle.is_available(second, min_ready));
        let is_updated =
            if is_deployment { pod.owner_uid == revision } else { pod.revision == revision };
        counts.updated += u32::from(is_updated);
    }
    testbed.modify(&owner.key, &owner.id(), |object| {
        if owner.is_custom() {
            custom(object, owner, counts);
        } else {
            let status = built_in(object, owner, counts, &revision, now);
            json::set(object, &["status"], status);
        }
    });
    counts.available < counts.ready
}

/// The UID of a Deployment's newest `ReplicaSet`, or the revision of a `StatefulSet`.
fn current_revision(owner: &Owner, owners: &[Owner]) -> String {
    if owner.is("StatefulSet") {
        return stateful_set::revision(owner);
    }
    let newest = deployment::newest(owner, owners);
    newest.map(|one| one.uid().to_owned()).unwrap_or_default()
}

fn built_in(object: &Value, owner: &Owner, counts: PodCounts, revision: &str, now: &str) -> Value {
    let PodCounts { all, ready, available, updated } = counts;
    let generation = json::i64_at(object, "/metadata/generation").unwrap_or_default();
    let mut status = json!({
        "observedGeneration": generation, "replicas": all, "readyReplicas": ready,
        "availableReplicas": available,
    });
    match owner.kind.as_str() {
        "Deployment" => {
            json::set(&mut status, &["updatedReplicas"], updated);
            let unavailable = all.max(owner.replicas()).saturating_sub(available);
            json::set(&mut status, &["unavailableReplicas"], unavailable);
            json::set(&mut status, &["conditions"], conditions(object, owner, counts, now));
        }
        "StatefulSet" => {
            json::set(&mut status, &["updatedReplicas"], updated);
            json::set(&mut status, &["currentReplicas"], updated);
            json::set(&mut status, &["currentRevision"], revision);
            json::set(&mut status, &["updateRevision"], revision);
        }
        _ => json::set(&mut status, &["fullyLabeledReplicas"], all),
    }
    status
}

fn conditions(object: &Value, owner: &Owner, counts: PodCounts, now: &str) -> Value {
    let desired = owner.replicas();
    let bounds = RolloutBounds::from_strategy(
        object.pointer("/spec/strategy").unwrap_or(&Value::Null),
        desired,
    );
    let is_complete =
        counts.updated == desired && counts.all == desired && counts.available == desired;
    let is_available = counts.available >= desired.saturating_sub(bounds.unavailable);
    let available = if is_available {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    let progressing = if is_complete {
        ("True", "NewReplicaSetAvailable", "ReplicaSet has successfully progressed.")
    } else {
        ("True", "ReplicaSetUpdated", "ReplicaSet is progressing.")
    };
    json!([
        condition(object, "Available", available, now),
        condition(object, "Progressing", progressing, now)
    ])
}

/// A condition. Its times change only if it does.
fn condition(
    object: &Value,
    name: &str,
    (status, reason, message): (&str, &str, &str),
    now: &str,
) -> Value {
    let old =
        json::array_at(object, "/status/conditions").find(|one| json::str_at(one, "/type") == name);
    let keep_if = |field: &str, is_same: bool| {
        old.filter(|_| is_same)
            .map_or(now, |old| json::str_at(old, &format!("/{field}")))
            .to_owned()
    };
    let same_status = old.is_some_and(|old| json::str_at(old, "/status") == status);
    let same = same_status && old.is_some_and(|old| json::str_at(old, "/reason") == reason);
    json!({
        "type": name, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": keep_if("lastTransitionTime", same_status),
        "lastUpdateTime": keep_if("lastUpdateTime", same),
    })
}

/// Sets the replicas of a custom resource, and the selector if the scale needs one.
fn custom(object: &mut Value, owner: &Owner, counts: PodCounts) {
    json::set_pointer(object, &owner.paths.status_replicas, counts.all);
    let ScaleSelector::Text(pointer) = &owner.paths.selector else { return };
    if json::str_at(object, pointer).is_empty() {
        let labels = owner.pod_labels();
        let pairs = labels.as_object().into_iter().flatten();
        let pairs =
            pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        json::set_pointer(object, pointer, pairs.collect::<Vec<_>>().join(","));
    }
}
