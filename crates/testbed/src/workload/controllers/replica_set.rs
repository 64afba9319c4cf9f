//! Pods of `ReplicaSet`s, `ReplicationController`s and custom resources.

use std::collections::BTreeSet;

use super::{owner::Owner, pod};
use crate::{
    Testbed, json,
    workload::{
        model::{ClusterModel, Pod, PodState},
        number,
    },
};

/// Creates missing pods and terminates surplus pods.
pub(super) fn reconcile(testbed: &Testbed, model: &mut ClusterModel, owner: &Owner) {
    let (id, desired, now) = (owner.workload(), owner.replicas(), model.now);
    let revision = template_hash(owner);
    let mut own: Vec<&mut Pod> = model
        .workload(&id)
        .pods
        .values_mut()
        .filter(|pod| pod.owner_uid == owner.uid() && pod.lifecycle.is_active())
        .collect();
    let existing = number::count(own.len());
    if existing > desired {
        own.sort_by(|one, other| {
            deletion_rank(one)
                .total_cmp(&deletion_rank(other))
                .then_with(|| one.name.cmp(&other.name))
        });
        own.into_iter().take(usize::try_from(existing - desired).unwrap_or_default()).for_each(
            |pod| {
                pod.lifecycle.terminate(now);
                pod.is_dirty = true;
            },
        );
    }
    for _ in existing..desired {
        let name = model.generate_name(owner.name());
        create_pod(testbed, model, owner, &name, &revision, &[]);
    }
}

/// Pods with a lower rank are deleted first: pending, then not running, then not ready, then the
/// ready ones, newest first.
fn deletion_rank(pod: &Pod) -> f64 {
    const KINDS: f64 = 1e12;
    let lifecycle = &pod.lifecycle;
    match lifecycle.state {
        PodState::Pending { .. } => -4.0 * KINDS - lifecycle.created_at,
        PodState::Creating { .. } => -3.0 * KINDS - lifecycle.created_at,
        PodState::Ready => -lifecycle.ready_transition,
        _ => -2.0 * KINDS - lifecycle.created_at,
    }
}

/// The pod template hash of a `ReplicaSet`.
fn template_hash(owner: &Owner) -> String {
    json::str_at(&owner.object, "/metadata/labels/pod-template-hash").to_owned()
}

/// Creates a pod. If the server rejects it, the next reconcile tries again.
pub(super) fn create_pod(
    testbed: &Testbed,
    model: &mut ClusterModel,
    owner: &Owner,
    name: &str,
    revision: &str,
    labels: &[(&str, &str)],
) {
    let id = owner.workload();
    let profile = model.workload(&id).profile.clone();
    let Ok(stored) = testbed.apply(pod::new_object(owner, name, labels, &profile)) else { return };
    let mut pod = Pod::new(owner.namespace(), name, owner.uid(), revision);
    json::str_at(&stored, "/metadata/uid").clone_into(&mut pod.uid);
    pod.containers = pod::containers(&stored, &profile);
    pod.is_dirty = true;
    model.add_pod(&id, pod);
}

/// Terminates the pods of deleted owners.
pub(super) fn terminate_orphaned_pods(model: &mut ClusterModel, owners: &[Owner]) {
    let existing: BTreeSet<&str> = owners.iter().map(Owner::uid).collect();
    let now = model.now;
    let orphans = model.pods_mut().filter(|pod| !existing.contains(pod.owner_uid.as_str()));
    for pod in orphans.filter(|pod| !matches!(pod.lifecycle.state, PodState::Terminating { .. })) {
        pod.lifecycle.terminate(now);
        pod.is_dirty = true;
    }
}
