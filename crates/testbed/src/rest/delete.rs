//! Deleting one object or many.

use axum::body::Body;
use hpa_calc::validation::{Cause, CauseReason};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::options::refuse;
use crate::{
    error::{ApiError, Subject},
    json,
    objects::{Deleted, delete},
    output::View,
    request::Call,
    response,
    selection::Selection,
    server::Server,
    store::Id,
    target::Target,
};

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
    if call.is_dry_run() || json::array_at(&options, "/dryRun").next().is_some() {
        return Ok(response::json(
            StatusCode::OK,
            &success(target, json::str_at(&object, "/metadata/uid")),
        ));
    }
    let deleted = delete(&mut state, target, &now);
    drop(state);
    let view = View::new(call, target, (server.config.clock)())?;
    let returns_object = target.resource.is("", "pods") || target.resource.is_namespace();
    let answer = match deleted? {
        Deleted::Gone(object) if returns_object => view.one(&object),
        Deleted::Gone(object) => success(target, json::str_at(&object, "/metadata/uid")),
        Deleted::Waits(object) => view.one(&object),
    };
    Ok(response::json(StatusCode::OK, &answer))
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
        let (Deleted::Gone(object) | Deleted::Waits(object)) = delete(&mut state, &target, &now)?;
        deleted.push(object);
    }
    let revision = state.store.revision();
    drop(state);
    let view = View::new(call, target, (server.config.clock)())?;
    Ok(response::json(
        StatusCode::OK,
        &view.list(&deleted, &json!({ "resourceVersion": revision.to_string() })),
    ))
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
        let given = json::str_at(options, &format!("/preconditions/{member}"));
        let stored = json::str_at(object, &format!("/metadata/{member}"));
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
    let policy = json::str_at(options, "/propagationPolicy");
    if ["", "Foreground", "Background", "Orphan"].contains(&policy) {
        return Ok(());
    }
    let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let message = format!("Unsupported value: \"{policy}\": {supported}");
    let (reason, field) = (CauseReason::NotSupported, "propagationPolicy".to_owned());
    refuse("DeleteOptions", &[Cause { reason, message, field }])
}

/// The `Status` of a success.
fn success(target: &Target, uid: &str) -> Value {
    let mut details = json!({ "name": target.name, "kind": target.resource.plural, "uid": uid });
    if !target.resource.group.is_empty() {
        json::set(&mut details, &["group"], target.resource.group.as_str());
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
