//! The operations on resources.

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

use self::object::{show, stored};
use crate::{
    error::ApiError,
    json,
    objects::{self, admit_status, check_uid, check_version_given, update},
    patch::Writer,
    request::Call,
    server::Server,
    target::{Part, Target},
};

/// Answers a request for a resource.
pub(crate) fn answer(server: &Arc<Server>, call: &Call) -> Result<Response<Body>, ApiError> {
    let target = target(server, call)?;
    options::check_dry_run(call)?;
    let version = target.served()?;
    match call.info.subresource.as_str() {
        "" if call.info.name.is_empty() => collection(server, call, &target),
        "" => one(server, call, &target, Part::Main),
        "status" if version.has_status => one(server, call, &target, Part::Status),
        "scale" if version.scale.is_some() => scale::answer(server, call, &target),
        _ => Err(ApiError::no_such_path()),
    }
}

fn target(server: &Server, call: &Call) -> Result<Target, ApiError> {
    let info = &call.info;
    let state = server.state.lock();
    let resource = state.registry.find(&info.group, &info.version, &info.resource);
    let resource = Arc::clone(resource.ok_or_else(ApiError::no_such_path)?);
    if !resource.namespaced && !info.namespace.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let (version, namespace, name) =
        (info.version.clone(), info.namespace.clone(), info.name.clone());
    if resource.namespaced && namespace.is_empty() && !name.is_empty() {
        return Err(ApiError::no_such_path());
    }
    Ok(Target { resource, version, namespace, name })
}

fn collection(
    server: &Arc<Server>,
    call: &Call,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    match call.method {
        Method::GET if call.info.verb == "watch" => watch::answer(server, call, target),
        Method::GET => list::answer(server, call, target),
        Method::POST => create(server, call, target),
        Method::DELETE if !target.resource.is_namespace() => {
            delete::collection(server, call, target)
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn create(server: &Server, call: &Call, target: &Target) -> Result<Response<Body>, ApiError> {
    if target.resource.namespaced && target.namespace.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let mut body = call.json()?;
    Writer::new(call, server.now()).record(&mut body, &Value::Null, Part::Main);
    let created =
        objects::create(&mut server.state.lock(), &server.config, target, body, call.is_dry_run())?;
    show(server, call, target, &created, StatusCode::CREATED)
}

fn one(
    server: &Server,
    call: &Call,
    target: &Target,
    part: Part,
) -> Result<Response<Body>, ApiError> {
    match (&call.method, part) {
        (&Method::GET, _) => {
            let object = stored(server, call, target)?;
            show(server, call, target, &object, StatusCode::OK)
        }
        (&Method::PUT, _) => {
            let mut body = call.json()?;
            let writer = Writer::new(call, server.now());
            let mut state = server.state.lock();
            let dry_run = call.is_dry_run();
            let object = update(&mut state, &server.config, target, part, dry_run, |old| {
                check_uid(target, &body, old)?;
                check_version_given(target, &body)?;
                if json::array_at(&body, "/metadata/managedFields").next().is_none() {
                    json::copy(old, &mut body, &["metadata", "managedFields"]);
                }
                // So that nobody is recorded for what is left out of the status.
                if part == Part::Status {
                    admit_status(target, &mut body)?;
                }
                writer.record(&mut body, old, part);
                Ok(body)
            })?;
            drop(state);
            show(server, call, target, &object, StatusCode::OK)
        }
        (&Method::PATCH, _) => {
            let (object, code) = patch::answer(server, call, target, part)?;
            show(server, call, target, &object, code)
        }
        (&Method::DELETE, Part::Main) => delete::one(server, call, target),
        _ => Err(ApiError::method_not_allowed()),
    }
}
