//! `StatefulSet`s: pods with ordinals, created and updated one at a time.

use super::{owner::Owner, replica_set::create_pod};
use crate::{
    Testbed, json, names,
    workload::{
        model::{ClusterModel, Pod, PodState},
        random,
    },
};

/// Takes the next step towards the desired pods.
pub(super) fn reconcile(testbed: &Testbed, model: &mut ClusterModel, owner: &Owner) {
    let revision = revision(owner);
    let is_parallel = json::str_at(&owner.object, "/spec/podManagementPolicy") == "Parallel";
    let mut all_ready = true;
    for ordinal in 0..owner.replicas() {
        let name = format!("{}-{ordinal}", owner.name());
        all_ready &= reconcile_pod(testbed, model, owner, &name, &revision);
        if !all_ready && !is_parallel {
            return;
        }
    }
    let mut surplus = ordinals(model, owner, |ordinal| ordinal >= owner.replicas());
    if !is_parallel {
        surplus.drain(..surplus.len().saturating_sub(1));
    }
    for (_, name) in &surplus {
        terminate(model, owner, name);
    }
    let is_manual = json::str_at(&owner.object, "/spec/updateStrategy/type") == "OnDelete";
    if !surplus.is_empty() || !all_ready || is_manual {
        return;
    }
    let partition = json::i64_at(&owner.object, "/spec/updateStrategy/rollingUpdate/partition");
    let old = ordinals(model, owner, |ordinal| i64::from(ordinal) >= partition.unwrap_or_default());
    let old = old
        .into_iter()
        .rev()
        .find(|(_, name)| pod(model, owner, name).is_some_and(|pod| pod.revision != revision));
    if let Some((_, name)) = old {
        terminate(model, owner, &name);
    }
}

/// The name of the current revision of the template.
pub(super) fn revision(owner: &Owner) -> String {
    let template =
        owner.object.pointer("/spec/template").map(ToString::to_string).unwrap_or_default();
    let mut rng = fastrand::Rng::with_seed(random::hash(&[&template]));
    format!("{}-{}", owner.name(), names::random_suffix(&mut rng, 10))
}

/// Creates a missing pod, and terminates a failed one. Returns whether the pod is ready.
fn reconcile_pod(
    testbed: &Testbed,
    model: &mut ClusterModel,
    owner: &Owner,
    name: &str,
    revision: &str,
) -> bool {
    let state = pod(model, owner, name).map(|pod| pod.lifecycle.state);
    match state {
        Some(PodState::Ready) => return true,
        Some(PodState::Evicted { .. }) => terminate(model, owner, name),
        Some(_) => {}
        None => {
            let ordinal = name.rsplit('-').next().unwrap_or_default();
            let labels = [
                ("apps.kubernetes.io/pod-index", ordinal),
                ("controller-revision-hash", revision),
                ("statefulset.kubernetes.io/pod-name", name),
            ];
            create_pod(testbed, model, owner, name, revision, &labels);
        }
    }
    false
}

fn pod<'a>(model: &'a mut ClusterModel, owner: &Owner, name: &str) -> Option<&'a mut Pod> {
    model.workload(&owner.workload()).pods.get_mut(name)
}

fn terminate(model: &mut ClusterModel, owner: &Owner, name: &str) {
    let now = model.now;
    let Some(pod) = pod(model, owner, name) else { return };
    if !matches!(pod.lifecycle.state, PodState::Terminating { .. }) {
        pod.lifecycle.terminate(now);
        pod.is_dirty = true;
    }
}

/// The pods with matching ordinals, sorted.
fn ordinals(
    model: &mut ClusterModel,
    owner: &Owner,
    matches: impl Fn(u32) -> bool,
) -> Vec<(u32, String)> {
    let pods =
        model.workload(&owner.workload()).pods.values().filter(|pod| pod.owner_uid == owner.uid());
    let ordinal = |pod: &Pod| Some((pod.name.rsplit('-').next()?.parse().ok()?, pod.name.clone()));
    let mut matching: Vec<(u32, String)> =
        pods.filter_map(ordinal).filter(|(ordinal, _)| matches(*ordinal)).collect();
    matching.sort();
    matching
}
