//! Simulates the controllers and kubelets: creates and deletes pods, and writes statuses.

mod deployment;
mod owner;
mod pod;

use std::collections::BTreeSet;

use hpa_simulate::workload::{
    model::{ClusterModel, Pod, WorkloadId},
    rollout::RolloutBounds,
    seconds::timestamp_at,
    stateful_set::StatefulSetSpec,
};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) use self::owner::{Owner, list_owners};
use self::owner::{pods_key, relevant_keys};
use crate::{Testbed, clock::format_time, json_fields, registry::ScaleSelector};

/// Runs every controller once. For a warm start, each `StatefulSet` creates all its pods at once.
/// Returns whether the controllers must run again even if nothing else changes: they changed
/// objects, or a ready pod isn't available yet.
pub(super) fn reconcile(
    testbed: &Testbed,
    model: &mut ClusterModel,
    start: Timestamp,
    is_warm_start: bool,
) -> bool {
    let before = testbed.resource_version();
    remove_deleted_pods(testbed, model);
    let owners = list_owners(testbed);
    for deployment in owners.iter().filter(|owner| owner.is("Deployment")) {
        deployment::reconcile(testbed, model, deployment, &owners);
    }
    delete_orphaned_replica_sets(testbed, &owners);
    let owners = list_owners(testbed);
    terminate_orphaned_pods(model, &owners);
    for owner in owners.iter().filter(|owner| !owner.is("Deployment")) {
        if owner.is("StatefulSet") {
            reconcile_stateful_set(testbed, model, owner, is_warm_start);
        } else {
            reconcile_replica_set(testbed, model, owner);
        }
    }
    write_pods(testbed, model, start);
    let now = format_time(timestamp_at(start, model.now));
    let mut is_waiting = false;
    for owner in &owners {
        is_waiting |= write_status(testbed, model, owner, &owners, &now);
    }
    let existing: BTreeSet<WorkloadId> = owners.iter().map(Owner::workload).collect();
    model.retain_workloads(|id| existing.contains(id));
    is_waiting || testbed.resource_version() != before
}

/// The resource version of the last change to an object that the controllers depend on.
pub(super) fn latest_version(testbed: &Testbed) -> u64 {
    testbed.latest_version(&relevant_keys(testbed))
}

/// Writes the pods that changed in the model.
pub(super) fn write_pods(testbed: &Testbed, model: &mut ClusterModel, start: Timestamp) {
    let key = pods_key();
    for pod in model.pods_mut().filter(|pod| pod.is_dirty) {
        pod.is_dirty = false;
        let id = (pod.namespace.clone(), pod.name.clone());
        testbed.modify(&key, &id, |object| pod::update_object(object, pod, start));
    }
}

/// Removes from the model the pods whose objects a client deleted.
fn remove_deleted_pods(testbed: &Testbed, model: &mut ClusterModel) {
    let objects = testbed.objects(&pods_key());
    let existing: BTreeSet<&str> =
        objects.iter().map(|pod| json_fields::str_at(pod, "/metadata/uid")).collect();
    model.retain_pods(|pod| existing.contains(pod.uid.as_str()));
}

/// Deletes the `ReplicaSet`s of deleted Deployments.
fn delete_orphaned_replica_sets(testbed: &Testbed, owners: &[Owner]) {
    let existing: BTreeSet<&str> = owners.iter().map(Owner::uid).collect();
    let is_orphan = |owner: &&Owner| {
        owner.is("ReplicaSet") && owner.controller_uid().is_some_and(|uid| !existing.contains(uid))
    };
    for owner in owners.iter().filter(is_orphan) {
        owner.delete(testbed);
    }
}

/// Creates missing pods and terminates surplus pods of a `ReplicaSet`, `ReplicationController` or
/// custom resource.
fn reconcile_replica_set(testbed: &Testbed, model: &mut ClusterModel, owner: &Owner) {
    let (id, now) = (owner.workload(), model.now);
    let workload = model.workload_or_insert(&id);
    let missing = workload.terminate_surplus(owner.uid(), owner.desired_pods(), now);
    for _ in 0..missing {
        let name = model.generate_name(owner.name());
        create_pod(testbed, model, owner, &name, owner.hash_label(), &[]);
    }
}

/// Creates a pod. If the server rejects it, the next reconcile tries again.
fn create_pod(
    testbed: &Testbed,
    model: &mut ClusterModel,
    owner: &Owner,
    name: &str,
    revision: &str,
    labels: &[(&str, &str)],
) {
    let id = owner.workload();
    let profile = model.workload_or_insert(&id).profile.clone();
    let Ok(stored) = testbed.apply(pod::new_object(owner, name, labels, &profile)) else { return };
    let mut pod = Pod::new(owner.namespace(), name, owner.uid(), revision);
    json_fields::str_at(&stored, "/metadata/uid").clone_into(&mut pod.uid);
    pod.containers = pod::containers(&stored, &profile);
    pod.is_dirty = true;
    model.add_pod(&id, pod);
}

/// Terminates the pods of deleted owners.
fn terminate_orphaned_pods(model: &mut ClusterModel, owners: &[Owner]) {
    let existing: BTreeSet<&str> = owners.iter().map(Owner::uid).collect();
    let now = model.now;
    let orphans = model.pods_mut().filter(|pod| !existing.contains(pod.owner_uid.as_str()));
    orphans.for_each(|pod| pod.terminate(now));
}

/// Takes the next step towards the desired pods.
fn reconcile_stateful_set(
    testbed: &Testbed,
    model: &mut ClusterModel,
    owner: &Owner,
    is_warm_start: bool,
) {
    let (revision, now) = (stateful_set_revision(owner), model.now);
    let spec = owner.object.get("spec").unwrap_or(&Value::Null);
    let spec = StatefulSetSpec::new(owner.desired_pods(), spec);
    let spec = if is_warm_start { spec.in_parallel() } else { spec };
    let workload = model.workload_or_insert(&owner.workload());
    for ordinal in spec.reconcile(workload, owner.uid(), &revision, now) {
        let (name, ordinal) = (format!("{}-{ordinal}", owner.name()), ordinal.to_string());
        let labels = [
            ("apps.kubernetes.io/pod-index", ordinal.as_str()),
            ("controller-revision-hash", &revision),
            ("statefulset.kubernetes.io/pod-name", &name),
        ];
        create_pod(testbed, model, owner, &name, &revision, &labels);
    }
}

/// The name of the current revision of the template.
fn stateful_set_revision(owner: &Owner) -> String {
    format!("{}-{}", owner.name(), owner.template_hash())
}

#[derive(Clone, Copy, Debug, Default)]
struct PodCounts {
    all: u32,
    ready: u32,
    available: u32,
    updated: u32,
}

/// Writes the status of an object. Returns whether it has ready pods that aren't available yet:
/// they become available without a change of an object.
fn write_status(
    testbed: &Testbed,
    model: &mut ClusterModel,
    owner: &Owner,
    owners: &[Owner],
    now: &str,
) -> bool {
    let revision = current_revision(owner, owners);
    let (second, min_ready) = (model.now, owner.min_ready_seconds());
    let id = owner.workload();
    let workload = model.workload_or_insert(&id);
    // A `ReplicaSet` of a Deployment has the Deployment's workload, but not its replicas.
    if id.kind == owner.kind {
        workload.desired = owner.replicas();
    }
    let is_deployment = owner.is("Deployment");
    let is_counted = |pod: &&Pod| is_deployment || pod.owner_uid == owner.uid();
    let mut counts = PodCounts::default();
    for pod in workload.pods.values().filter(is_counted).filter(|pod| pod.lifecycle.is_active()) {
        counts.all += 1;
        counts.ready += u32::from(pod.lifecycle.is_ready());
        counts.available += u32::from(pod.lifecycle.is_available(second, min_ready));
        let is_updated =
            if is_deployment { pod.owner_uid == revision } else { pod.revision == revision };
        counts.updated += u32::from(is_updated);
    }
    testbed.modify(&owner.key, &owner.id(), |object| {
        if owner.is_custom() {
            set_custom_status(object, owner, counts);
        } else {
            let status = built_in_status(object, owner, counts, &revision, now);
            json_fields::set(object, &["status"], status);
        }
    });
    counts.available < counts.ready
}

/// The UID of a Deployment's newest `ReplicaSet`, or the revision of a `StatefulSet`. `""` for
/// other kinds.
fn current_revision(owner: &Owner, owners: &[Owner]) -> String {
    if owner.is("StatefulSet") {
        return stateful_set_revision(owner);
    }
    let replica_sets = deployment::replica_sets_of(owner, owners);
    replica_sets.last().map(|newest| newest.uid().to_owned()).unwrap_or_default()
}

fn built_in_status(
    object: &Value,
    owner: &Owner,
    counts: PodCounts,
    revision: &str,
    now: &str,
) -> Value {
    let PodCounts { all, ready, available, updated } = counts;
    let generation = json_fields::i64_at(object, "/metadata/generation").unwrap_or_default();
    let mut status = json!({
        "observedGeneration": generation, "replicas": all, "readyReplicas": ready,
        "availableReplicas": available,
    });
    match owner.kind.as_str() {
        "Deployment" => {
            json_fields::set(&mut status, &["updatedReplicas"], updated);
            let unavailable = all.max(owner.replicas()).saturating_sub(available);
            json_fields::set(&mut status, &["unavailableReplicas"], unavailable);
            json_fields::set(
                &mut status,
                &["conditions"],
                deployment_conditions(object, owner, counts, now),
            );
        }
        "StatefulSet" => {
            json_fields::set(&mut status, &["updatedReplicas"], updated);
            json_fields::set(&mut status, &["currentReplicas"], updated);
            json_fields::set(&mut status, &["currentRevision"], revision);
            json_fields::set(&mut status, &["updateRevision"], revision);
        }
        _ => json_fields::set(&mut status, &["fullyLabeledReplicas"], all),
    }
    status
}

fn deployment_conditions(object: &Value, owner: &Owner, counts: PodCounts, now: &str) -> Value {
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

/// Builds a condition. `lastTransitionTime` changes with the status, `lastUpdateTime` with the
/// status or the reason.
fn condition(
    object: &Value,
    name: &str,
    (status, reason, message): (&str, &str, &str),
    now: &str,
) -> Value {
    let old = json_fields::array_at(object, "/status/conditions")
        .find(|one| json_fields::str_at(one, "/type") == name);
    let keep_if = |field: &str, is_same: bool| {
        old.filter(|_| is_same)
            .map_or(now, |old| json_fields::str_at(old, &format!("/{field}")))
            .to_owned()
    };
    let is_same_status = old.is_some_and(|old| json_fields::str_at(old, "/status") == status);
    let is_same_reason =
        is_same_status && old.is_some_and(|old| json_fields::str_at(old, "/reason") == reason);
    json!({
        "type": name, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": keep_if("lastTransitionTime", is_same_status),
        "lastUpdateTime": keep_if("lastUpdateTime", is_same_reason),
    })
}

/// Sets the replicas in the status of a custom resource. Also sets the selector, if the scale has
/// one and it is empty.
fn set_custom_status(object: &mut Value, owner: &Owner, counts: PodCounts) {
    json_fields::set_pointer(object, &owner.paths.status_replicas, counts.all);
    let ScaleSelector::Text(pointer) = &owner.paths.selector else { return };
    if json_fields::str_at(object, pointer).is_empty() {
        json_fields::set_pointer(object, pointer, json_fields::join_labels(&owner.pod_labels()));
    }
}
