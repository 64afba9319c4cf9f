//! `StatefulSet`s: pods with ordinals, one after the other.

use super::{owners::Owner, replicas::create_pod};
use crate::{
    Testbed, json,
    workload::{
        lifecycle::State,
        model::{Model, Pod},
        random,
    },
};

/// Takes the next step towards the pods that a `StatefulSet` asks for.
pub(super) fn keep(testbed: &Testbed, model: &mut Model, owner: &Owner) {
    let revision = revision(owner);
    let is_parallel = json::text(&owner.object, "/spec/podManagementPolicy") == "Parallel";
    let mut all_ready = true;
    for ordinal in 0..owner.replicas() {
        let name = format!("{}-{ordinal}", owner.name());
        all_ready &= keep_one(testbed, model, owner, &name, &revision);
        if !all_ready && !is_parallel {
            return;
        }
    }
    let mut beyond = ordinals(model, owner, |ordinal| ordinal >= owner.replicas());
    if !is_parallel {
        beyond.drain(..beyond.len().saturating_sub(1));
    }
    for (_, name) in &beyond {
        terminate(model, owner, name);
    }
    let is_manual = json::text(&owner.object, "/spec/updateStrategy/type") == "OnDelete";
    if !beyond.is_empty() || !all_ready || is_manual {
        return;
    }
    let partition = json::number(&owner.object, "/spec/updateStrategy/rollingUpdate/partition");
    let old = ordinals(model, owner, |ordinal| i64::from(ordinal) >= partition.unwrap_or_default());
    let old = old
        .into_iter()
        .rev()
        .find(|(_, name)| pod(model, owner, name).is_some_and(|pod| pod.revision != revision));
    if let Some((_, name)) = old {
        terminate(model, owner, &name);
    }
}

/// The name of what its template is now.
pub(super) fn revision(owner: &Owner) -> String {
    let template =
        owner.object.pointer("/spec/template").map(ToString::to_string).unwrap_or_default();
    let mut rng = fastrand::Rng::with_seed(random::hash(&[&template]));
    format!("{}-{}", owner.name(), random::letters(&mut rng, 10))
}

/// Creates a pod if it is not there, or makes way for it if it failed. Whether it is ready.
fn keep_one(
    testbed: &Testbed,
    model: &mut Model,
    owner: &Owner,
    name: &str,
    revision: &str,
) -> bool {
    let state = pod(model, owner, name).map(|pod| pod.lifecycle.state);
    match state {
        Some(State::Ready) => return true,
        Some(State::Evicted { .. }) => terminate(model, owner, name),
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

fn pod<'a>(model: &'a mut Model, owner: &Owner, name: &str) -> Option<&'a mut Pod> {
    model.workload(&owner.workload()).pods.get_mut(name)
}

fn terminate(model: &mut Model, owner: &Owner, name: &str) {
    let now = model.now;
    let Some(pod) = pod(model, owner, name) else { return };
    if !matches!(pod.lifecycle.state, State::Terminating { .. }) {
        pod.lifecycle.terminate(now);
        pod.changed = true;
    }
}

/// Its pods with such ordinals, in their order.
fn ordinals(model: &mut Model, owner: &Owner, wanted: impl Fn(u32) -> bool) -> Vec<(u32, String)> {
    let pods =
        model.workload(&owner.workload()).pods.values().filter(|pod| pod.owner == owner.uid());
    let ordinal = |pod: &Pod| Some((pod.name.rsplit('-').next()?.parse().ok()?, pod.name.clone()));
    let mut found: Vec<(u32, String)> =
        pods.filter_map(ordinal).filter(|(ordinal, _)| wanted(*ordinal)).collect();
    found.sort();
    found
}
