//! Deleting objects.

use serde_json::Value;

use super::checks::has_finalizers;
use crate::{
    error::ApiError,
    json,
    registry::resource_of,
    state::State,
    store::{Id, Object},
    target::Target,
};

/// What became of an object.
pub(crate) enum Deleted {
    /// It is gone; its last state.
    Gone(Object),
    /// Its finalizers keep it for now.
    Waits(Object),
}

/// Deletes an object, or marks it as deleted while it has finalizers.
pub(crate) fn delete(state: &mut State, target: &Target, now: &str) -> Result<Deleted, ApiError> {
    let (key, id) = (target.resource.key(), target.id());
    let Some(object) = state.store.get(&key, &id).cloned() else {
        return Err(ApiError::not_found(&target.subject()));
    };
    if has_finalizers(&object) {
        return Ok(Deleted::Waits(mark(state, target, &object, now)));
    }
    if target.resource.is_definition() {
        remove_custom(state, &object);
    }
    if target.resource.is_namespace() {
        for (key, id) in state.store.in_namespace(&target.name) {
            state.store.remove(&key, &id);
        }
    }
    Ok(Deleted::Gone(state.store.remove(&key, &id).unwrap_or(object)))
}

fn mark(state: &mut State, target: &Target, object: &Object, now: &str) -> Object {
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

/// Removes what a definition defines.
fn remove_custom(state: &mut State, definition: &Value) {
    let resource = resource_of(definition);
    let ids: Vec<Id> = state.store.collection(&resource.key()).objects().keys().cloned().collect();
    for id in ids {
        state.store.remove(&resource.key(), &id);
    }
    state.registry.remove(&resource.key());
}
