//! DELETE of one object or of a collection.

use std::sync::Arc;

use axum::body::Body;
use hpa_calc::validation::CauseReason;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{RequestContext, body::BodyKind, options::reject_options};
use crate::{
    error::{ApiError, ObjectReference, new_cause},
    json_fields,
    objects::{DeleteResult, delete},
    request::ApiRequest,
    request_target::RequestTarget,
    response,
    selection::Selection,
    store::{Object, ObjectId},
};

pub(super) fn delete_object(context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    let RequestContext { server, request, target } = context;
    let output = context.output()?;
    let options = delete_options(request)?;
    let now = server.now();
    let mut state = server.state_for(request);
    let Some(object) = state.store.get(&target.resource.key(), &target.id()).cloned() else {
        return Err(ApiError::not_found(&target.reference()));
    };
    check_preconditions(target, &options, &object)?;
    let status = success_status(target, json_fields::str_at(&object, "/metadata/uid"));
    if is_dry_run(request, &options) {
        return Ok(response::json(StatusCode::OK, &status));
    }
    let deleted = delete(&mut state, target, &now);
    drop(state);
    let returns_object = target.resource.is("", "pods") || target.resource.is_namespace();
    let object = match deleted? {
        DeleteResult::Removed(_) if !returns_object => {
            return Ok(response::json(StatusCode::OK, &status));
        }
        DeleteResult::Removed(object) | DeleteResult::Finalizing(object) => object,
    };
    Ok(output.respond(&object, StatusCode::OK))
}

pub(super) fn delete_collection(context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    let RequestContext { server, request, target } = context;
    let output = context.output()?;
    let selection = Selection::new(request, &target.resource)?;
    let options = delete_options(request)?;
    let now = server.now();
    let mut state = server.state_for(request);
    let objects = state.store.collection(&target.resource.key()).objects();
    let selected: Vec<(ObjectId, Object)> = objects
        .iter()
        .filter(|(id, object)| selection.matches(id, object))
        .map(|(id, object)| (id.clone(), Arc::clone(object)))
        .collect();
    let mut deleted = Vec::with_capacity(selected.len());
    let is_dry_run = is_dry_run(request, &options);
    for ((namespace, name), object) in selected {
        if is_dry_run {
            deleted.push(object);
            continue;
        }
        let target = RequestTarget { namespace, name, ..target.clone() };
        let (DeleteResult::Removed(object) | DeleteResult::Finalizing(object)) =
            delete(&mut state, &target, &now)?;
        deleted.push(object);
    }
    let revision = state.store.revision();
    drop(state);
    let metadata = json!({ "resourceVersion": revision.to_string() });
    Ok(response::json(StatusCode::OK, &output.render_list(&deleted, &metadata)))
}

/// Reads and checks the options in the body.
fn delete_options(request: &ApiRequest) -> Result<Value, ApiError> {
    if request.body.is_empty() {
        return Ok(json!({}));
    }
    let options = BodyKind::for_delete_options().read(request)?.value;
    check_propagation_policy(&options)?;
    Ok(options)
}

fn is_dry_run(request: &ApiRequest, options: &Value) -> bool {
    request.is_dry_run() || json_fields::array_at(options, "/dryRun").next().is_some()
}

fn check_preconditions(
    target: &RequestTarget,
    options: &Value,
    object: &Value,
) -> Result<(), ApiError> {
    let preconditions = [
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ];
    for (field, name, advice) in preconditions {
        let required = json_fields::str_at(options, &format!("/preconditions/{field}"));
        let stored = json_fields::str_at(object, &format!("/metadata/{field}"));
        if required.is_empty() || required == stored {
            continue;
        }
        let detail = format!(
            "the {name} in the precondition ({required}) does not match the {name} in record \
             ({stored}). {advice}"
        );
        let reference = target.reference();
        return Err(ApiError::conflict(
            &ObjectReference { plural: reference.kind, ..reference },
            &detail,
        ));
    }
    Ok(())
}

fn check_propagation_policy(options: &Value) -> Result<(), ApiError> {
    let policy = json_fields::str_at(options, "/propagationPolicy");
    if ["", "Foreground", "Background", "Orphan"].contains(&policy) {
        return Ok(());
    }
    let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let message = format!("Unsupported value: \"{policy}\": {supported}");
    let cause = new_cause(CauseReason::NotSupported, "propagationPolicy", message);
    reject_options("DeleteOptions", &[cause])
}

/// The `Status` of a successful deletion.
fn success_status(target: &RequestTarget, uid: &str) -> Value {
    let mut details = target.reference().details();
    json_fields::set(&mut details, &["uid"], uid);
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    })
}
