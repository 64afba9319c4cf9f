//! Deleting one object or many.

use axum::body::Body;
use hpa_calc::validation::{Cause, CauseReason};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    Target,
    options::refuse,
    write::{has_finalizers, success},
};
use crate::{
    error::{ApiError, Subject},
    json,
    render::{self, View},
    request::Call,
    selection::Selection,
    server::{Server, State},
    store::{Id, Object},
};

/// What became of an object.
pub(crate) enum Deleted {
    /// It is gone; its last state.
    Gone(Object),
    /// Its finalizers keep it for now.
    Waits(Object),
}

pub(super) fn one(
    server: &Server,
    call: &Call,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    let options = options(call)?;
    check_policy(&options)?;
    let now = server.now();
    let mut state = server.state.lock();
    let Some(object) = state.store.get(&target.resource.key(), &target.id()).cloned() else {
        return Err(ApiError::not_found(&target.subject()));
    };
    check_preconditions(target, &options, &object)?;
    if call.is_dry_run() || json::items(&options, "/dryRun").next().is_some() {
        return Ok(render::json(
            StatusCode::OK,
            &success(target, json::text(&object, "/metadata/uid")),
        ));
    }
    let deleted = delete_one(&mut state, target, &now);
    drop(state);
    let view = View::new(server, call, target)?;
    let returns_object = target.resource.is("", "pods") || target.resource.is_namespace();
    let answer = match deleted? {
        Deleted::Gone(object) if returns_object => view.one(&object),
        Deleted::Gone(object) => success(target, json::text(&object, "/metadata/uid")),
        Deleted::Waits(object) => view.one(&object),
    };
    Ok(render::json(StatusCode::OK, &answer))
}

pub(super) fn collection(
    server: &Server,
    call: &Call,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    let selection = Selection::new(call, &target.resource)?;
    let now = server.now();
    let mut state = server.state.lock();
    let objects = state.store.collection(&target.resource.key()).objects();
    let selected: Vec<Id> = objects
        .iter()
        .filter(|(id, object)| selection.matches(id, object))
        .map(|(id, _)| id.clone())
        .collect();
    let mut deleted = Vec::with_capacity(selected.len());
    for (namespace, name) in selected {
        let target = Target { namespace, name, ..target.clone() };
        let (Deleted::Gone(object) | Deleted::Waits(object)) =
            delete_one(&mut state, &target, &now)?;
        deleted.push(object);
    }
    let revision = state.store.revision();
    drop(state);
    let view = View::new(server, call, target)?;
    Ok(render::json(
        StatusCode::OK,
        &view.list(&deleted, &json!({ "resourceVersion": revision.to_string() })),
    ))
}

/// Deletes an object, or marks it as deleted while it has finalizers.
pub(crate) fn delete_one(
    state: &mut State,
    target: &Target,
    now: &str,
) -> Result<Deleted, ApiError> {
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
    if let Some(generation) = json::number(object, "/metadata/generation") {
        json::set(&mut marked, &["metadata", "generation"], generation + 1);
    }
    state.store.put(&target.resource.key(), target.id(), marked)
}

/// Removes what a definition defines.
fn remove_custom(state: &mut State, definition: &Value) {
    let resource = crate::registry::resource_of(definition);
    let ids: Vec<Id> = state.store.collection(&resource.key()).objects().keys().cloned().collect();
    for id in ids {
        state.store.remove(&resource.key(), &id);
    }
    state.registry.remove(&resource.key());
}

fn options(call: &Call) -> Result<Value, ApiError> {
    if call.body.is_empty() { Ok(json!({})) } else { call.json() }
}

fn check_preconditions(target: &Target, options: &Value, object: &Value) -> Result<(), ApiError> {
    let advice = [
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ];
    for (member, name, advice) in advice {
        let given = json::text(options, &format!("/preconditions/{member}"));
        let stored = json::text(object, &format!("/metadata/{member}"));
        if given.is_empty() || given == stored {
            continue;
        }
        let why = format!(
            "the {name} in the precondition ({given}) does not match the {name} in record ({stored}). {advice}"
        );
        let subject = target.subject();
        return Err(ApiError::conflict(&Subject { plural: subject.kind, ..subject }, &why));
    }
    Ok(())
}

fn check_policy(options: &Value) -> Result<(), ApiError> {
    let policy = json::text(options, "/propagationPolicy");
    if ["", "Foreground", "Background", "Orphan"].contains(&policy) {
        return Ok(());
    }
    let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let message = format!("Unsupported value: \"{policy}\": {supported}");
    let (reason, field) = (CauseReason::NotSupported, "propagationPolicy".to_owned());
    refuse("DeleteOptions", &[Cause { reason, message, field }])
}
