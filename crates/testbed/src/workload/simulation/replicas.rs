//! Keeping as many pods as an object asks for: `ReplicaSet`s, `ReplicationController`s and custom resources.

use std::collections::BTreeSet;

use super::{owners::Owner, pods};
use crate::{
    Testbed,
    workload::{
        lifecycle::State,
        model::{Model, Pod},
        number,
    },
};

/// Creates the pods that are missing, and deletes those too many.
pub(super) fn keep(testbed: &Testbed, model: &mut Model, owner: &Owner) {
    let (id, wanted, now) = (owner.workload(), owner.replicas(), model.now);
    let revision = template_hash(owner);
    let mut own: Vec<&mut Pod> = model
        .workload(&id)
        .pods
        .values_mut()
        .filter(|pod| pod.owner == owner.uid() && pod.lifecycle.is_active())
        .collect();
    let there = number::count(own.len());
    if there > wanted {
        own.sort_by(|one, other| {
            rank(one).total_cmp(&rank(other)).then_with(|| one.name.cmp(&other.name))
        });
        own.into_iter().take(usize::try_from(there - wanted).unwrap_or_default()).for_each(|pod| {
            pod.lifecycle.terminate(now);
            pod.changed = true;
        });
    }
    for _ in there..wanted {
        let name = model.name(owner.name());
        create_pod(testbed, model, owner, &name, &revision, &[]);
    }
}

/// The lower, the sooner a pod is deleted: without a node, not running, not ready, and of the ready the newest.
fn rank(pod: &Pod) -> f64 {
    const KINDS: f64 = 1e12;
    let lifecycle = &pod.lifecycle;
    match lifecycle.state {
        State::Pending { .. } => -4.0 * KINDS - lifecycle.created,
        State::Creating { .. } => -3.0 * KINDS - lifecycle.created,
        State::Ready => -lifecycle.ready_changed,
        _ => -2.0 * KINDS - lifecycle.created,
    }
}

/// The hash of an owner's template, for pods of a `ReplicaSet` in their labels.
fn template_hash(owner: &Owner) -> String {
    crate::json::text(&owner.object, "/metadata/labels/pod-template-hash").to_owned()
}

/// Creates a pod, unless the server refuses it.
pub(super) fn create_pod(
    testbed: &Testbed,
    model: &mut Model,
    owner: &Owner,
    name: &str,
    revision: &str,
    labels: &[(&str, &str)],
) {
    let id = owner.workload();
    let profile = model.workload(&id).profile.clone();
    let Ok(stored) = testbed.apply(pods::new(owner, name, labels, &profile)) else { return };
    let mut pod = Pod::new(owner.namespace(), name, owner.uid(), revision);
    crate::json::text(&stored, "/metadata/uid").clone_into(&mut pod.uid);
    pod.containers = pods::containers(&stored, &profile);
    pod.changed = true;
    model.add_pod(&id, pod);
}

/// Lets the pods go whose owners are gone.
pub(super) fn release_orphans(model: &mut Model, owners: &[Owner]) {
    let known: BTreeSet<&str> = owners.iter().map(Owner::uid).collect();
    let now = model.now;
    let orphans = model.pods_mut().filter(|pod| !known.contains(pod.owner.as_str()));
    for pod in orphans.filter(|pod| !matches!(pod.lifecycle.state, State::Terminating { .. })) {
        pod.lifecycle.terminate(now);
        pod.changed = true;
    }
}
