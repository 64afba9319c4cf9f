//! The operations on resources.

pub(crate) mod admission;
mod delete;
mod list;
pub(crate) mod options;
mod scale;
mod watch;
pub(crate) mod write;

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response, StatusCode};
use serde_json::Value;

pub(crate) use self::delete::delete_one;
use self::write::{Part, update};
use crate::{
    error::{ApiError, Subject},
    json, patch,
    registry::{Resource, Version},
    render::{self, View},
    request::Call,
    server::Server,
    store::{Id, Object},
};

/// What an operation works on.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Target {
    pub(crate) fn id(&self) -> Id {
        (self.namespace.clone(), self.name.clone())
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        self.resource.subject(&self.name)
    }

    pub(crate) fn served(&self) -> Result<&Version, ApiError> {
        self.resource.version(&self.version).ok_or_else(ApiError::no_such_path)
    }
}

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
    patch::Writer::new(call, server.now()).record(&mut body, &Value::Null, Part::Main);
    let created =
        write::create(&mut server.state.lock(), &server.config, target, body, call.is_dry_run())?;
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
            let writer = patch::Writer::new(call, server.now());
            let mut state = server.state.lock();
            let dry_run = call.is_dry_run();
            let object = update(&mut state, &server.config, target, part, dry_run, |old| {
                write::check_uid(target, &body, old)?;
                write::check_version_given(target, &body)?;
                if json::items(&body, "/metadata/managedFields").next().is_none() {
                    json::carry(old, &mut body, &["metadata", "managedFields"]);
                }
                // So that nobody is recorded for what is left out of the status.
                if part == Part::Status {
                    admission::admit_status(target, &mut body)?;
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

/// The object that a target names.
fn stored(server: &Server, call: &Call, target: &Target) -> Result<Object, ApiError> {
    let mut state = server.state.lock();
    let object = if call.revisions_back == 0 {
        state.store.get(&target.resource.key(), &target.id()).cloned()
    } else {
        list::earlier(&mut state, call, target)?.objects.get(&target.id()).cloned()
    };
    object.ok_or_else(|| ApiError::not_found(&target.subject()))
}

fn show(
    server: &Server,
    call: &Call,
    target: &Target,
    object: &Object,
    code: StatusCode,
) -> Result<Response<Body>, ApiError> {
    let view = View::new(server, call, target)?;
    Ok(render::json(code, &view.one(object)))
}
