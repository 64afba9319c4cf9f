//! What the controllers and kubelets of a cluster do: create and delete pods, write statuses.

mod deployment;
mod owner;
mod pod;
mod replica_set;
mod stateful_set;
mod status;

use std::collections::BTreeSet;

use jiff::Timestamp;

pub(super) use self::owner::{Owner, list_owners};
use self::owner::{controller_of, pods_key, relevant_keys};
use super::{
    model::{ClusterModel, WorkloadId},
    seconds::timestamp_at,
};
use crate::{Testbed, json, names};

/// Runs every controller once. Returns whether they have more to do even if no object changes.
pub(super) fn reconcile(testbed: &Testbed, model: &mut ClusterModel, start: Timestamp) -> bool {
    let before = testbed.resource_version();
    remove_deleted_pods(testbed, model);
    let owners = list_owners(testbed);
    for deployment in owners.iter().filter(|owner| owner.is("Deployment")) {
        deployment::reconcile(testbed, model, deployment, &owners);
    }
    delete_orphaned_replica_sets(testbed, &owners);
    let owners = list_owners(testbed);
    replica_set::terminate_orphaned_pods(model, &owners);
    for owner in owners.iter().filter(|owner| !owner.is("Deployment")) {
        if owner.is("StatefulSet") {
            stateful_set::reconcile(testbed, model, owner);
        } else {
            replica_set::reconcile(testbed, model, owner);
        }
    }
    write_pods(testbed, model, start);
    let now = names::timestamp(timestamp_at(start, model.now));
    let mut is_waiting = false;
    for owner in &owners {
        is_waiting |= status::write(testbed, model, owner, &owners, &now);
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

/// Removes the pods whose objects a client deleted from the model.
fn remove_deleted_pods(testbed: &Testbed, model: &mut ClusterModel) {
    let objects = testbed.objects(&pods_key());
    let existing: BTreeSet<&str> =
        objects.iter().map(|pod| json::str_at(pod, "/metadata/uid")).collect();
    if model.pods().any(|pod| !existing.contains(pod.uid.as_str())) {
        model.retain_pods(|pod| existing.contains(pod.uid.as_str()));
    }
}

/// Deletes the `ReplicaSet`s of deleted Deployments.
fn delete_orphaned_replica_sets(testbed: &Testbed, owners: &[Owner]) {
    let existing: BTreeSet<&str> = owners.iter().map(Owner::uid).collect();
    let is_orphan = |owner: &&Owner| {
        owner.is("ReplicaSet")
            && controller_of(&owner.object).is_some_and(|(_, _, uid)| !existing.contains(uid))
    };
    for owner in owners.iter().filter(is_orphan) {
        // The list is current, so the object exists.
        let _ = testbed.delete(&owner.api_version, &owner.kind, owner.namespace(), owner.name());
    }
}
