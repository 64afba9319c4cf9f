//! Deployments: a `ReplicaSet` for each template, and how the pods move from one to another.

use std::sync::Arc;

use serde_json::{Value, json};

use super::owners::{Owner, controller_of, replica_sets};
use crate::{
    Testbed, json,
    workload::{
        model::Model,
        number, random,
        rollout::{Bounds, Revision, recreate, rolling_update},
    },
};

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY_LIMIT: i64 = 10;

/// Takes the next step of a Deployment: the `ReplicaSet` of its template, and the replicas of all its `ReplicaSet`s.
pub(super) fn keep(testbed: &Testbed, model: &mut Model, deployment: &Owner, owners: &[Owner]) {
    let mut own: Vec<&Owner> = owners.iter().filter(|one| is_of(one, deployment)).collect();
    own.sort_by_key(|one| (number_of(one), one.name().to_owned()));
    let hash = template_hash(&deployment.object);
    let is_paused = deployment.object.pointer("/spec/paused") == Some(&Value::Bool(true));
    let present = own
        .iter()
        .position(|one| json::text(&one.object, "/metadata/labels/pod-template-hash") == hash);
    let present = if is_paused { own.len().checked_sub(1) } else { present };
    let newest = own.last().map_or(0, |one| number_of(one));
    let created;
    let new = if let Some(index) = present {
        own.remove(index)
    } else {
        let Ok(object) = testbed.apply(replica_set(deployment, &hash, newest + 1)) else { return };
        let (key, kind) = (replica_sets(), "ReplicaSet".to_owned());
        created = Owner { key, kind, object: Arc::new(object), ..deployment.clone() };
        &created
    };
    if number_of(new) < newest {
        set_revision(testbed, new, newest + 1);
    }
    set_revision(testbed, deployment, number_of(new).max(newest));
    let (replicas, old) = targets(model, deployment, new, &own, is_paused);
    scale(testbed, new, replicas);
    for (one, replicas) in own.iter().zip(old) {
        scale(testbed, one, replicas);
    }
    forget_old(testbed, model, deployment, &own);
}

/// The newest `ReplicaSet` of a Deployment.
pub(super) fn newest<'a>(deployment: &Owner, owners: &'a [Owner]) -> Option<&'a Owner> {
    let own = owners.iter().filter(|one| is_of(one, deployment));
    own.max_by_key(|one| (number_of(one), one.name().to_owned()))
}

fn is_of(replica_set: &Owner, deployment: &Owner) -> bool {
    replica_set.is("ReplicaSet")
        && controller_of(&replica_set.object).is_some_and(|(_, _, uid)| uid == deployment.uid())
}

fn template_hash(deployment: &Value) -> String {
    let template =
        deployment.pointer("/spec/template").map(ToString::to_string).unwrap_or_default();
    random::letters(&mut fastrand::Rng::with_seed(random::hash(&[&template])), 10)
}

/// Which revision it is.
fn number_of(owner: &Owner) -> i64 {
    let revision =
        owner.object.pointer("/metadata/annotations").and_then(|all| all.get(REVISION)?.as_str());
    revision.and_then(|revision| revision.parse().ok()).unwrap_or_default()
}

fn set_revision(testbed: &Testbed, owner: &Owner, revision: i64) {
    let revision = revision.max(1).to_string();
    testbed.modify(&owner.key, &owner.id(), |object| {
        json::set(object, &["metadata", "annotations", REVISION], revision);
    });
}

fn replica_set(deployment: &Owner, hash: &str, revision: i64) -> Value {
    let mut template = deployment.object.pointer("/spec/template").cloned().unwrap_or_default();
    json::set(&mut template, &["metadata", "labels", "pod-template-hash"], hash);
    let mut selector = deployment.object.pointer("/spec/selector").cloned().unwrap_or_default();
    json::set(&mut selector, &["matchLabels", "pod-template-hash"], hash);
    let min_ready = deployment.object.pointer("/spec/minReadySeconds").cloned().unwrap_or(json!(0));
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", deployment.name()), "namespace": deployment.namespace(),
            "labels": template.pointer("/metadata/labels"),
            "annotations": { REVISION: revision.to_string() },
            "ownerReferences": [deployment.reference()],
        },
        "spec": { "replicas": 0, "minReadySeconds": min_ready, "selector": selector, "template": template },
    })
}

fn targets(
    model: &mut Model,
    deployment: &Owner,
    new: &Owner,
    old: &[&Owner],
    is_paused: bool,
) -> (u32, Vec<u32>) {
    let desired = deployment.replicas();
    let strategy = deployment.object.pointer("/spec/strategy").unwrap_or(&Value::Null);
    let (now, min_ready) = (model.now, deployment.min_ready());
    let workload = model.workload(&deployment.workload());
    let revision = |one: &Owner| {
        let own = workload.pods.values().filter(|pod| pod.owner == one.uid());
        let available = own.filter(|pod| pod.lifecycle.is_available(now, min_ready)).count();
        Revision { replicas: one.replicas(), available: number::count(available) }
    };
    let states: Vec<Revision> = old.iter().map(|one| revision(one)).collect();
    if is_paused {
        return (desired, states.iter().map(|one| one.replicas).collect());
    }
    if json::text(strategy, "/type") == "Recreate" {
        let is_old = |owner: &str| old.iter().any(|one| one.uid() == owner);
        let left = workload.pods.values().filter(|pod| is_old(&pod.owner)).count();
        return recreate(desired, number::count(left), &states);
    }
    rolling_update(desired, Bounds::of(strategy, desired), revision(new), &states)
}

/// Sets the replicas of a `ReplicaSet`.
fn scale(testbed: &Testbed, replica_set: &Owner, replicas: u32) {
    testbed.modify(&replica_set.key, &replica_set.id(), |object| {
        if json::number(object, "/spec/replicas") != Some(i64::from(replicas)) {
            let generation = json::number(object, "/metadata/generation").unwrap_or_default() + 1;
            json::set(object, &["metadata", "generation"], generation);
            json::set(object, &["spec", "replicas"], replicas);
        }
    });
}

/// Deletes the oldest `ReplicaSet`s that have nothing left, beyond those that are kept for a rollback.
fn forget_old(testbed: &Testbed, model: &mut Model, deployment: &Owner, old: &[&Owner]) {
    let limit =
        json::number(&deployment.object, "/spec/revisionHistoryLimit").unwrap_or(HISTORY_LIMIT);
    let workload = model.workload(&deployment.workload());
    let is_empty = |one: &&&Owner| {
        one.replicas() == 0 && !workload.pods.values().any(|pod| pod.owner == one.uid())
    };
    let empty: Vec<&&Owner> = old.iter().filter(is_empty).collect();
    let spare = empty.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    for one in empty.into_iter().take(spare) {
        // If it is gone already, all is well.
        let _ = testbed.delete(&one.api_version, &one.kind, one.namespace(), one.name());
    }
}
