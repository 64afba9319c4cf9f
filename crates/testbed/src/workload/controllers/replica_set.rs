//! Pods of `ReplicaSet`s, `ReplicationController`s and custom resources.

use std::collections::BTreeSet;

use super::{owner::Owner, pod};
use crate::{
    Testbed, json,
    workload::model::{ClusterModel, Pod},
};

/// Creates missing pods and terminates surplus pods.
pub(super) fn reconcile(testbed: &Testbed, model: &mut ClusterModel, owner: &Owner) {
    let (id, now) = (owner.workload(), model.now);
    let revision = template_hash(owner);
    let missing = model.workload(&id).terminate_surplus(owner.uid(), owner.replicas(), now);
    for _ in 0..missing {
        let name = model.generate_name(owner.name());
        create_pod(testbed, model, owner, &name, &revision, &[]);
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
    orphans.for_each(|pod| pod.terminate(now));
}
