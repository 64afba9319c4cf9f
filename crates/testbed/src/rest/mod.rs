//! Handlers for resources.

mod body;
mod delete;
mod list;
mod object;
mod options;
mod patch;
mod scale;
mod watch;

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use self::{
    body::{Body as ReadBody, BodyKind, warn},
    object::{get, respond},
    patch::Patched,
};
use crate::{
    error::ApiError,
    json,
    objects::{self, admit_status, check_uid, check_version_given, update},
    patch::FieldManager,
    request::ApiRequest,
    server::Server,
    target::{Subresource, Target},
};

pub(crate) fn handle(
    server: &Arc<Server>,
    request: &ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let target = target(server, request)?;
    options::check_dry_run(request)?;
    options::check_field_validation(request)?;
    let version = target.served_version()?;
    match request.info.subresource.as_str() {
        "" if request.info.name.is_empty() => collection(server, request, &target),
        "" => one(server, request, &target, Subresource::None),
        "status" if version.has_status => one(server, request, &target, Subresource::Status),
        "scale" if version.scale.is_some() => scale::handle(server, request, &target),
        _ => Err(ApiError::unknown_resource()),
    }
}

fn target(server: &Server, request: &ApiRequest) -> Result<Target, ApiError> {
    let info = &request.info;
    let state = server.state.lock();
    let resource = state.registry.find(&info.group, &info.version, &info.resource);
    let resource = Arc::clone(resource.ok_or_else(ApiError::unknown_resource)?);
    if !resource.namespaced && !info.namespace.is_empty() {
        return Err(ApiError::unknown_resource());
    }
    let (version, namespace, name) =
        (info.version.clone(), info.namespace.clone(), info.name.clone());
    if resource.namespaced && namespace.is_empty() && !name.is_empty() {
        return Err(ApiError::unknown_resource());
    }
    Ok(Target { resource, version, namespace, name })
}

fn collection(
    server: &Arc<Server>,
    request: &ApiRequest,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    match request.method {
        Method::GET if request.info.verb == "watch" => watch::handle(server, request, target),
        Method::GET => list::handle(server, request, target),
        Method::POST => create(server, request, target),
        Method::DELETE if !target.resource.is_namespace() => {
            delete::collection(server, request, target)
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn create(
    server: &Server,
    request: &ApiRequest,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    if target.resource.namespaced && target.namespace.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let ReadBody { value: mut body, warnings } = BodyKind::for_target(target)?.read(request)?;
    FieldManager::for_update(request, server.now()).record(
        &mut body,
        &Value::Null,
        Subresource::None,
    );
    let created = objects::create(
        &mut server.state_for(request),
        &server.config,
        target,
        body,
        request.is_dry_run(),
    )?;
    let response = respond(server, request, target, &created, StatusCode::CREATED)?;
    Ok(warn(response, &warnings))
}

fn one(
    server: &Server,
    request: &ApiRequest,
    target: &Target,
    subresource: Subresource,
) -> Result<Response<Body>, ApiError> {
    match (&request.method, subresource) {
        (&Method::GET, _) => {
            let object = get(server, request, target)?;
            respond(server, request, target, &object, StatusCode::OK)
        }
        (&Method::PUT, _) => {
            let ReadBody { value: mut body, warnings } =
                BodyKind::for_target(target)?.read(request)?;
            let manager = FieldManager::for_update(request, server.now());
            let mut state = server.state_for(request);
            let dry_run = request.is_dry_run();
            let object = update(&mut state, &server.config, target, subresource, dry_run, |old| {
                check_uid(target, &body, old)?;
                check_version_given(target, &body)?;
                if json::array_at(&body, "/metadata/managedFields").next().is_none() {
                    json::copy(old, &mut body, &["metadata", "managedFields"]);
                }
                // Fields that are dropped here must not be recorded in `managedFields`.
                if subresource == Subresource::Status {
                    admit_status(target, &mut body)?;
                }
                manager.record(&mut body, old, subresource);
                Ok(body)
            })?;
            drop(state);
            let response = respond(server, request, target, &object, StatusCode::OK)?;
            Ok(warn(response, &warnings))
        }
        (&Method::PATCH, _) => {
            let Patched { object, code, warnings } =
                patch::handle(server, request, target, subresource)?;
            Ok(warn(respond(server, request, target, &object, code)?, &warnings))
        }
        (&Method::DELETE, Subresource::None) => delete::one(server, request, target),
        _ => Err(ApiError::method_not_allowed()),
    }
}
