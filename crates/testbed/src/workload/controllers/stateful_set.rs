//! `StatefulSet`s: pods with ordinals, created and updated one at a time.

use super::{owner::Owner, replica_set::create_pod};
use crate::{
    Testbed, json, names,
    workload::{
        model::{ClusterModel, Pod},
        random,
        stateful_set::{OrdinalPod, StatefulSetSpec, Step},
    },
};

/// Takes the next step towards the desired pods.
pub(super) fn reconcile(testbed: &Testbed, model: &mut ClusterModel, owner: &Owner) {
    let revision = revision(owner);
    let Step { create, terminate } = spec(owner).next_step(&pods(model, owner, &revision));
    for ordinal in create {
        create_ordinal(testbed, model, owner, ordinal, &revision);
    }
    let now = model.now;
    for pod in model.workload(&owner.workload()).pods.values_mut() {
        if is_own(pod, owner) && ordinal(pod).is_some_and(|ordinal| terminate.contains(&ordinal)) {
            pod.terminate(now);
        }
    }
}

fn spec(owner: &Owner) -> StatefulSetSpec {
    let partition = json::i64_at(&owner.object, "/spec/updateStrategy/rollingUpdate/partition");
    StatefulSetSpec {
        replicas: owner.replicas(),
        is_parallel: json::str_at(&owner.object, "/spec/podManagementPolicy") == "Parallel",
        replaces_old: json::str_at(&owner.object, "/spec/updateStrategy/type") != "OnDelete",
        partition: partition.unwrap_or_default(),
    }
}

/// The name of the current revision of the template.
pub(super) fn revision(owner: &Owner) -> String {
    let template =
        owner.object.pointer("/spec/template").map(ToString::to_string).unwrap_or_default();
    let mut rng = fastrand::Rng::with_seed(random::hash(&[&template]));
    format!("{}-{}", owner.name(), names::random_suffix(&mut rng, 10))
}

/// The pods with their ordinals, sorted.
fn pods(model: &mut ClusterModel, owner: &Owner, revision: &str) -> Vec<OrdinalPod> {
    let pods = model.workload(&owner.workload()).pods.values();
    let ordinal_pod = |pod: &Pod| {
        let (ordinal, state) = (ordinal(pod)?, pod.lifecycle.state);
        Some(OrdinalPod { ordinal, state, is_current: pod.revision == revision })
    };
    let own = pods.filter(|pod| is_own(pod, owner));
    let mut pods: Vec<OrdinalPod> = own.filter_map(ordinal_pod).collect();
    pods.sort_by_key(|pod| pod.ordinal);
    pods
}

fn is_own(pod: &Pod, owner: &Owner) -> bool {
    pod.owner_uid == owner.uid()
}

fn ordinal(pod: &Pod) -> Option<u32> {
    pod.name.rsplit('-').next()?.parse().ok()
}

fn create_ordinal(
    testbed: &Testbed,
    model: &mut ClusterModel,
    owner: &Owner,
    ordinal: u32,
    revision: &str,
) {
    let (name, ordinal) = (format!("{}-{ordinal}", owner.name()), ordinal.to_string());
    let labels = [
        ("apps.kubernetes.io/pod-index", ordinal.as_str()),
        ("controller-revision-hash", revision),
        ("statefulset.kubernetes.io/pod-name", &name),
    ];
    create_pod(testbed, model, owner, &name, revision, &labels);
}
