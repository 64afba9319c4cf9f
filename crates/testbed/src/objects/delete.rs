//! Deletes objects.

use serde_json::Value;

use super::checks::has_finalizers;
use crate::{
    error::ApiError,
    json,
    registry::resource_from_crd,
    state::State,
    store::{Object, ObjectId},
    target::Target,
};

/// The result of a deletion.
pub(crate) enum Deleted {
    /// The object was removed. This is its last state.
    Removed(Object),
    /// The object has finalizers, so it is only marked as deleted.
    Finalizing(Object),
}

/// Deletes an object, or marks it as deleted while it has finalizers. The deletion of a namespace
/// or a CRD deletes its objects too.
pub(crate) fn delete(state: &mut State, target: &Target, now: &str) -> Result<Deleted, ApiError> {
    let (key, id) = (target.resource.key(), target.id());
    let Some(object) = state.store.get(&key, &id).cloned() else {
        return Err(ApiError::not_found(&target.reference()));
    };
    if has_finalizers(&object) {
        return Ok(Deleted::Finalizing(mark_deleted(state, target, &object, now)));
    }
    if target.resource.is_crd() {
        remove_custom_resources(state, &object);
    }
    if target.resource.is_namespace() {
        for (key, id) in state.store.ids_in_namespace(&target.name) {
            state.store.remove(&key, &id);
        }
    }
    Ok(Deleted::Removed(state.store.remove(&key, &id).unwrap_or(object)))
}

fn mark_deleted(state: &mut State, target: &Target, object: &Object, now: &str) -> Object {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Object::clone(object);
    }
    let mut marked = (**object).clone();
    json::set(&mut marked, &["metadata", "deletionTimestamp"], now);
    json::set(&mut marked, &["metadata", "deletionGracePeriodSeconds"], 0);
    if let Some(generation) = json::i64_at(object, "/metadata/generation") {
        json::set(&mut marked, &["metadata", "generation"], generation + 1);
    }
    state.store.put(&target.resource.key(), target.id(), marked)
}

/// Removes the resource that a CRD defines, and its objects.
fn remove_custom_resources(state: &mut State, crd: &Value) {
    let resource = resource_from_crd(crd);
    let ids: Vec<ObjectId> =
        state.store.collection(&resource.key()).objects().keys().cloned().collect();
    for id in ids {
        state.store.remove(&resource.key(), &id);
    }
    state.registry.remove(&resource.key());
}
