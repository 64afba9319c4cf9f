//! Serves the scale subresource.

use axum::body::Body;
use hpa_calc::{selector::LabelSelector, validation::CauseReason};
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{
    RequestContext,
    body::{BodyKind, add_warnings},
    read::stored_object,
};
use crate::{
    error::{ApiError, ObjectReference, new_cause},
    json_fields,
    objects::{check_name, check_namespace, check_uid, negative_value, not_convertible, update},
    patch::{FieldManager, Patch},
    registry::{ScalePaths, ScaleSelector},
    request_target::{RequestTarget, Subresource},
    response,
    store::Object,
};

pub(super) fn handle(
    context: &RequestContext<'_>,
    paths: &ScalePaths,
) -> Result<Response<Body>, ApiError> {
    let RequestContext { request, target, .. } = context;
    let mut warnings = Vec::new();
    let object = match request.method {
        Method::GET => stored_object(context)?,
        Method::PUT => {
            let body = BodyKind::for_scale().read(request)?;
            warnings = body.warnings;
            write_scale(context, paths, |_| Ok(body.value))?
        }
        Method::PATCH => {
            let patch = Patch::new(request, !target.resource.is_custom)?;
            write_scale(context, paths, |scale| {
                let kind = BodyKind::for_scale();
                let body = kind.apply_patch(request, &patch, scale)?;
                warnings = body.warnings;
                Ok(body.value)
            })?
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(add_warnings(response::json(StatusCode::OK, &scale_for(&object, paths)?), &warnings))
}

/// Writes the replicas of the scale. `change` computes the new scale from the current one.
fn write_scale(
    context: &RequestContext<'_>,
    paths: &ScalePaths,
    change: impl FnOnce(&Value) -> Result<Value, ApiError>,
) -> Result<Object, ApiError> {
    let RequestContext { server, request, target } = context;
    let manager = FieldManager::for_update(request, server.now());
    let mut state = server.state_for(request);
    update(&mut state, &server.config, target, Subresource::None, request.is_dry_run(), |old| {
        let mut scale = change(&scale_to_write(old, paths)?)?;
        let replicas = check_scale(target, &mut scale, old, paths)?;
        let mut object = old.clone();
        json_fields::set_pointer(&mut object, &paths.spec_replicas, replicas);
        json_fields::copy(&scale, &mut object, &["metadata", "resourceVersion"]);
        manager.record(&mut object, old, Subresource::None);
        Ok(object)
    })
}

/// The current scale, to which a write is applied. Missing replicas count as 0.
fn scale_to_write(object: &Value, paths: &ScalePaths) -> Result<Value, ApiError> {
    let mut object = object.clone();
    if object.pointer(&paths.spec_replicas).is_none() {
        json_fields::set_pointer(&mut object, &paths.spec_replicas, 0);
    }
    scale_for(&object, paths)
}

/// Rejects an invalid scale. Sets a missing type and namespace. Returns the replicas: missing ones
/// count as 0.
fn check_scale(
    target: &RequestTarget,
    scale: &mut Value,
    object: &Value,
    paths: &ScalePaths,
) -> Result<i64, ApiError> {
    json_fields::set_default(scale, &["apiVersion"], "autoscaling/v1");
    json_fields::set_default(scale, &["kind"], "Scale");
    let (version, kind) =
        (json_fields::str_at(scale, "/apiVersion"), json_fields::str_at(scale, "/kind"));
    if (version, kind) != ("autoscaling/v1", "Scale") {
        return Err(not_convertible("Scale", version, kind));
    }
    check_namespace(target, scale)?;
    check_name(target, scale)?;
    check_uid(target, scale, object)?;
    let replicas = json_fields::i64_at(scale, "/spec/replicas").unwrap_or_default();
    if replicas >= 0 {
        return Ok(replicas);
    }
    if target.resource.is_custom {
        let field = paths.spec_replicas.replace('/', ".");
        let message = format!("Invalid value: {replicas}: should be a non-negative integer");
        let cause = new_cause(CauseReason::Invalid, &field, message);
        return Err(ApiError::invalid(&target.reference(), &[cause]));
    }
    let reference = ObjectReference {
        group: "autoscaling",
        plural: "scales",
        kind: "Scale",
        name: &target.name,
    };
    Err(ApiError::invalid(&reference, &[negative_value("spec.replicas", replicas)]))
}

/// The `autoscaling/v1` Scale of an object.
fn scale_for(object: &Value, paths: &ScalePaths) -> Result<Value, ApiError> {
    let Some(replicas) = json_fields::i64_at(object, &paths.spec_replicas) else {
        let path = paths.spec_replicas.replace('/', ".");
        return Err(ApiError::internal(format!(
            "the spec replicas field \"{path}\" does not exist"
        )));
    };
    let current = json_fields::i64_at(object, &paths.status_replicas).unwrap_or_default();
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {},
        "spec": {},
        "status": { "replicas": current },
    });
    // kube-apiserver omits 0.
    if replicas != 0 {
        json_fields::set(&mut scale, &["spec", "replicas"], replicas);
    }
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        json_fields::copy(object, &mut scale, &["metadata", field]);
    }
    let selector = scale_selector(object, &paths.selector)?;
    if !selector.is_empty() {
        json_fields::set(&mut scale, &["status", "selector"], selector);
    }
    Ok(scale)
}

/// `status.selector` of the scale. Empty if there is none.
fn scale_selector(object: &Value, source: &ScaleSelector) -> Result<String, ApiError> {
    match source {
        ScaleSelector::None => Ok(String::new()),
        ScaleSelector::Text(pointer) => Ok(json_fields::str_at(object, pointer).to_owned()),
        ScaleSelector::LabelSelector(pointer) => {
            let Some(selector) = object.pointer(pointer).filter(|selector| !selector.is_null())
            else {
                return Ok(String::new());
            };
            let selector: LabelSelector =
                serde_json::from_value(selector.clone()).map_err(ApiError::internal)?;
            selector.to_selector().map(|selector| selector.to_string()).map_err(ApiError::internal)
        }
        ScaleSelector::Labels(pointer) => {
            Ok(object.pointer(pointer).map(json_fields::join_labels).unwrap_or_default())
        }
    }
}
