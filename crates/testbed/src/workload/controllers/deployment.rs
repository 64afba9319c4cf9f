//! Deployments: one `ReplicaSet` per pod template, and rollouts between them.

use std::sync::Arc;

use hpa_simulate::workload::{
    model::ClusterModel,
    rollout::{RevisionState, next_replicas, next_replicas_while_paused},
};
use serde_json::{Value, json};

use super::owner::{Owner, replica_sets_key};
use crate::{Testbed, json_fields};

const REVISION: &str = "deployment.kubernetes.io/revision";
const DEFAULT_HISTORY_LIMIT: i64 = 10;

/// Creates the `ReplicaSet` of the current template if it is missing, sets the replicas of all
/// `ReplicaSet`s, and deletes old ones. While the Deployment is paused, creates no `ReplicaSet`.
pub(super) fn reconcile(
    testbed: &Testbed,
    model: &mut ClusterModel,
    deployment: &Owner,
    owners: &[Owner],
) {
    let mut replica_sets = replica_sets_of(deployment, owners);
    let hash = deployment.template_hash();
    let is_paused = deployment.object.pointer("/spec/paused") == Some(&Value::Bool(true));
    if is_paused && replica_sets.is_empty() {
        return;
    }
    let current = if is_paused {
        replica_sets.len().checked_sub(1)
    } else {
        replica_sets.iter().position(|replica_set| replica_set.hash_label() == hash)
    };
    let newest = replica_sets.last().map_or(0, |replica_set| revision_number(replica_set));
    let created;
    let new = if let Some(index) = current {
        replica_sets.remove(index)
    } else {
        let Ok(object) = testbed.apply(new_replica_set(deployment, &hash, newest + 1)) else {
            return;
        };
        let (key, kind) = (replica_sets_key(), "ReplicaSet".to_owned());
        created = Owner { key, kind, object: Arc::new(object), ..deployment.clone() };
        &created
    };
    // After a rollback, an older `ReplicaSet` becomes the newest one.
    let is_rollback = revision_number(new) < newest;
    let revision = if is_rollback { newest + 1 } else { revision_number(new) };
    set_revision(testbed, new, revision);
    set_revision(testbed, deployment, revision);
    let (replicas, old) = next_replica_set_sizes(model, deployment, new, &replica_sets, is_paused);
    scale(testbed, new, replicas);
    for (replica_set, replicas) in replica_sets.iter().zip(old) {
        scale(testbed, replica_set, replicas);
    }
    delete_old_replica_sets(testbed, model, deployment, &replica_sets);
}

/// The `ReplicaSet`s of a Deployment, the newest one last.
pub(super) fn replica_sets_of<'a>(deployment: &Owner, owners: &'a [Owner]) -> Vec<&'a Owner> {
    let is_owned =
        |one: &&Owner| one.is("ReplicaSet") && one.controller_uid() == Some(deployment.uid());
    let mut replica_sets: Vec<&Owner> = owners.iter().filter(is_owned).collect();
    replica_sets.sort_by_key(|one| (revision_number(one), one.name().to_owned()));
    replica_sets
}

fn revision_number(owner: &Owner) -> i64 {
    let revision =
        owner.object.pointer("/metadata/annotations").and_then(|all| all.get(REVISION)?.as_str());
    revision.and_then(|revision| revision.parse().ok()).unwrap_or_default()
}

fn set_revision(testbed: &Testbed, owner: &Owner, revision: i64) {
    let revision = revision.max(1).to_string();
    testbed.modify(&owner.key, &owner.id(), |object| {
        json_fields::set(object, &["metadata", "annotations", REVISION], revision);
    });
}

fn new_replica_set(deployment: &Owner, hash: &str, revision: i64) -> Value {
    let mut template = deployment.object.pointer("/spec/template").cloned().unwrap_or_default();
    json_fields::set(&mut template, &["metadata", "labels", "pod-template-hash"], hash);
    let mut selector = deployment.object.pointer("/spec/selector").cloned().unwrap_or_default();
    json_fields::set(&mut selector, &["matchLabels", "pod-template-hash"], hash);
    let min_ready = deployment.object.pointer("/spec/minReadySeconds").cloned().unwrap_or(json!(0));
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", deployment.name()), "namespace": deployment.namespace(),
            "labels": template.pointer("/metadata/labels"),
            "annotations": { REVISION: revision.to_string() },
            "ownerReferences": [deployment.reference()],
        },
        "spec": {
            "replicas": 0, "minReadySeconds": min_ready, "selector": selector,
            "template": template,
        },
    })
}

/// The replicas of the new `ReplicaSet`, and of the old ones in their order.
fn next_replica_set_sizes(
    model: &mut ClusterModel,
    deployment: &Owner,
    new: &Owner,
    old: &[&Owner],
    is_paused: bool,
) -> (u32, Vec<u32>) {
    let desired = deployment.desired_pods();
    let strategy = deployment.object.pointer("/spec/strategy").unwrap_or(&Value::Null);
    let (now, min_ready) = (model.now, deployment.min_ready_seconds());
    let workload = model.workload_or_insert(&deployment.workload());
    let revision = |replica_set: &Owner| {
        let (uid, replicas) = (replica_set.uid(), replica_set.replicas());
        RevisionState::for_owner(workload, uid, replicas, now, min_ready)
    };
    let states: Vec<RevisionState> = old.iter().map(|replica_set| revision(replica_set)).collect();
    if is_paused {
        return next_replicas_while_paused(desired, strategy, revision(new), &states);
    }
    let is_old = |owner: &str| old.iter().any(|replica_set| replica_set.uid() == owner);
    next_replicas(workload, desired, strategy, revision(new), &states, is_old)
}

fn scale(testbed: &Testbed, replica_set: &Owner, replicas: u32) {
    testbed.modify(&replica_set.key, &replica_set.id(), |object| {
        if json_fields::i64_at(object, "/spec/replicas") != Some(i64::from(replicas)) {
            let generation =
                json_fields::i64_at(object, "/metadata/generation").unwrap_or_default() + 1;
            json_fields::set(object, &["metadata", "generation"], generation);
            json_fields::set(object, &["spec", "replicas"], replicas);
        }
    });
}

/// Deletes the oldest empty `ReplicaSet`s beyond the revision history limit.
fn delete_old_replica_sets(
    testbed: &Testbed,
    model: &mut ClusterModel,
    deployment: &Owner,
    old: &[&Owner],
) {
    let limit = json_fields::i64_at(&deployment.object, "/spec/revisionHistoryLimit")
        .unwrap_or(DEFAULT_HISTORY_LIMIT);
    let workload = model.workload_or_insert(&deployment.workload());
    let is_empty = |replica_set: &&&Owner| {
        replica_set.replicas() == 0
            && !workload.pods.values().any(|pod| pod.owner_uid == replica_set.uid())
    };
    let empty: Vec<&&Owner> = old.iter().filter(is_empty).collect();
    let surplus = empty.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    for replica_set in empty.into_iter().take(surplus) {
        replica_set.delete(testbed);
    }
}
