//! DELETE of one object or of a collection.

use axum::body::Body;
use hpa_calc::validation::CauseReason;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    RequestContext,
    body::{BodyKind, reject_options},
};
use crate::{
    error::{ApiError, ObjectReference, new_cause},
    json_fields,
    objects::{DeleteResult, delete},
    request::ApiRequest,
    request_target::RequestTarget,
    response,
    selection::Selection,
    store::ObjectId,
};

pub(super) fn delete_object(context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    let RequestContext { server, request, target } = context;
    let options = delete_options(request)?;
    check_propagation_policy(&options)?;
    let now = server.now();
    let mut state = server.state_for(request);
    let Some(object) = state.store.get(&target.resource.key(), &target.id()).cloned() else {
        return Err(ApiError::not_found(&target.reference()));
    };
    check_preconditions(target, &options, &object)?;
    let status = success_status(target, json_fields::str_at(&object, "/metadata/uid"));
    if request.is_dry_run() || json_fields::array_at(&options, "/dryRun").next().is_some() {
        return Ok(response::json(StatusCode::OK, &status));
    }
    let deleted = delete(&mut state, target, &now);
    drop(state);
    let output = context.output()?;
    let returns_object = target.resource.is("", "pods") || target.resource.is_namespace();
    let object = match deleted? {
        DeleteResult::Removed(_) if !returns_object => {
            return Ok(response::json(StatusCode::OK, &status));
        }
        DeleteResult::Removed(object) | DeleteResult::Finalizing(object) => object,
    };
    Ok(response::json(StatusCode::OK, &output.render_object(&object)))
}

pub(super) fn delete_collection(context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    let RequestContext { server, request, target } = context;
    let selection = Selection::new(request, &target.resource)?;
    let now = server.now();
    let mut state = server.state_for(request);
    let objects = state.store.collection(&target.resource.key()).objects();
    let selected: Vec<ObjectId> = objects
        .iter()
        .filter(|(id, object)| selection.matches(id, object))
        .map(|(id, _)| id.clone())
        .collect();
    let mut deleted = Vec::with_capacity(selected.len());
    for (namespace, name) in selected {
        let target = RequestTarget { namespace, name, ..target.clone() };
        let (DeleteResult::Removed(object) | DeleteResult::Finalizing(object)) =
            delete(&mut state, &target, &now)?;
        deleted.push(object);
    }
    let revision = state.store.revision();
    drop(state);
    let metadata = json!({ "resourceVersion": revision.to_string() });
    Ok(response::json(StatusCode::OK, &context.output()?.render_list(&deleted, &metadata)))
}

fn delete_options(request: &ApiRequest) -> Result<Value, ApiError> {
    if request.body.is_empty() {
        return Ok(json!({}));
    }
    Ok(BodyKind::for_delete_options().read(request)?.value)
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
    let mut details = json!({ "name": target.name, "kind": target.resource.plural, "uid": uid });
    if !target.resource.group.is_empty() {
        json_fields::set(&mut details, &["group"], target.resource.group.as_str());
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    })
}
