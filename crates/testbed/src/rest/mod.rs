//! Serves the resources of the registry: lists, watches, reads and writes.

mod body;
mod delete;
mod list;
mod options;
mod read;
mod scale;
mod watch;

use std::sync::Arc;

use axum::body::Body;
use hpa_calc::validation::CauseReason;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use self::{
    body::{BodyKind, DecodedBody, add_warnings},
    options::{check_dry_run, check_field_validation, reject_options},
    read::stored_object,
};
use crate::{
    error::{ApiError, new_cause},
    json_fields,
    objects::{self, admit_status, check_uid, require_resource_version, update},
    output::OutputFormat,
    patch::{FieldManager, Patch},
    request::ApiRequest,
    request_target::{RequestTarget, Subresource},
    server::Server,
};

pub(crate) fn handle(
    server: &Arc<Server>,
    request: &ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let context = RequestContext { server, request, target: find_target(server, request)? };
    check_dry_run(request)?;
    check_field_validation(request)?;
    let version = context.target.served_version()?;
    match (request.info.subresource.as_str(), &version.scale) {
        ("", _) if request.info.name.is_empty() => handle_collection(&context),
        ("", _) => handle_object(&context, Subresource::None),
        ("status", _) if version.has_status => handle_object(&context, Subresource::Status),
        ("scale", Some(paths)) => scale::handle(&context, paths),
        _ => Err(ApiError::unknown_resource()),
    }
}

/// A request for a resource, and the server that handles it.
struct RequestContext<'a> {
    server: &'a Arc<Server>,
    request: &'a ApiRequest,
    target: RequestTarget,
}

impl RequestContext<'_> {
    /// The format of the response. An error must precede any write.
    fn output(&self) -> Result<OutputFormat, ApiError> {
        OutputFormat::new(self.request, &self.target, &self.server.config.clock)
    }
}

fn find_target(server: &Server, request: &ApiRequest) -> Result<RequestTarget, ApiError> {
    let info = &request.info;
    let state = server.state.lock();
    let resource = state.registry.find(&info.group, &info.version, &info.resource);
    let resource = Arc::clone(resource.ok_or_else(ApiError::unknown_resource)?);
    let (version, namespace, name) =
        (info.version.clone(), info.namespace.clone(), info.name.clone());
    let has_extra_namespace = !resource.namespaced && !namespace.is_empty();
    // Without a name, the request is for all namespaces.
    let lacks_namespace = resource.namespaced && namespace.is_empty() && !name.is_empty();
    if has_extra_namespace || lacks_namespace {
        return Err(ApiError::unknown_resource());
    }
    Ok(RequestTarget { resource, version, namespace, name })
}

fn handle_collection(context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    match context.request.method {
        Method::GET if context.request.info.verb == "watch" => watch::handle(context),
        Method::GET => list::handle(context),
        Method::POST => create(context),
        Method::DELETE if !context.target.resource.is_namespace() => {
            delete::delete_collection(context)
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn create(context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    let RequestContext { server, request, target } = context;
    if target.resource.namespaced && target.namespace.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let output = context.output()?;
    let DecodedBody { value: mut body, warnings } = BodyKind::for_target(target)?.read(request)?;
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
    Ok(add_warnings(output.respond(&created, StatusCode::CREATED), &warnings))
}

fn handle_object(
    context: &RequestContext<'_>,
    subresource: Subresource,
) -> Result<Response<Body>, ApiError> {
    match (&context.request.method, subresource) {
        (&Method::GET, _) => {
            let output = context.output()?;
            let object = stored_object(context)?;
            Ok(output.respond(&object, StatusCode::OK))
        }
        (&Method::PUT, _) => replace_object(context, subresource),
        (&Method::PATCH, _) => patch_object(context, subresource),
        (&Method::DELETE, Subresource::None) => delete::delete_object(context),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn replace_object(
    context: &RequestContext<'_>,
    subresource: Subresource,
) -> Result<Response<Body>, ApiError> {
    let RequestContext { server, request, target } = context;
    let output = context.output()?;
    let DecodedBody { value: mut body, warnings } = BodyKind::for_target(target)?.read(request)?;
    let manager = FieldManager::for_update(request, server.now());
    let mut state = server.state_for(request);
    let dry_run = request.is_dry_run();
    let object = update(&mut state, &server.config, target, subresource, dry_run, |old| {
        check_uid(target, &body, old)?;
        require_resource_version(target, &body)?;
        if json_fields::array_at(&body, "/metadata/managedFields").next().is_none() {
            json_fields::copy(old, &mut body, &["metadata", "managedFields"]);
        }
        // Before `record`: the fields that `admit_status` drops must not be in `managedFields`.
        if subresource == Subresource::Status {
            admit_status(target, &mut body)?;
        }
        manager.record(&mut body, old, subresource);
        Ok(body)
    })?;
    drop(state);
    Ok(add_warnings(output.respond(&object, StatusCode::OK), &warnings))
}

fn patch_object(
    context: &RequestContext<'_>,
    subresource: Subresource,
) -> Result<Response<Body>, ApiError> {
    let RequestContext { server, request, target } = context;
    let patch = Patch::new(request, !target.resource.is_custom)?;
    if let Patch::Apply(applied) = patch {
        return apply(context, subresource, applied);
    }
    let output = context.output()?;
    let dry_run = request.is_dry_run();
    let manager = FieldManager::for_update(request, server.now());
    let kind = BodyKind::for_target(target)?;
    let mut warnings = Vec::new();
    let mut state = server.state_for(request);
    let object = update(&mut state, &server.config, target, subresource, dry_run, |object| {
        let body = kind.apply_patch(request, &patch, object)?;
        let mut new = body.value;
        warnings = body.warnings;
        if subresource == Subresource::Status {
            admit_status(target, &mut new)?;
        }
        manager.record(&mut new, object, subresource);
        Ok(new)
    })?;
    drop(state);
    Ok(add_warnings(output.respond(&object, StatusCode::OK), &warnings))
}

/// Server-side apply. Creates the object if it doesn't exist.
fn apply(
    context: &RequestContext<'_>,
    subresource: Subresource,
    applied: Value,
) -> Result<Response<Body>, ApiError> {
    let RequestContext { server, request, target } = context;
    if request.parameter("fieldManager").is_empty() {
        let message = "Required value: is required for apply patch";
        let cause = new_cause(CauseReason::Required, "fieldManager", message);
        reject_options("PatchOptions", &[cause])?;
    }
    let (version, kind) =
        (json_fields::str_at(&applied, "/apiVersion"), json_fields::str_at(&applied, "/kind"));
    if version.is_empty() || kind.is_empty() {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        return Err(ApiError::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={kind}"
        )));
    }
    let output = context.output()?;
    BodyKind::for_target(target)?.check_applied(target, &applied)?;
    let manager = FieldManager::for_apply(request, server.now());
    let mut state = server.state_for(request);
    let dry_run = request.is_dry_run();
    if subresource == Subresource::None
        && state.store.get(&target.resource.key(), &target.id()).is_none()
    {
        let mut object = applied;
        json_fields::set_default(&mut object, &["metadata", "name"], target.name.as_str());
        let object = manager.apply_new(object);
        let object = objects::create(&mut state, &server.config, target, object, dry_run)?;
        drop(state);
        return Ok(output.respond(&object, StatusCode::CREATED));
    }
    let object = update(&mut state, &server.config, target, subresource, dry_run, |live| {
        manager.apply(live, &applied, request.is_true("force"))
    })?;
    drop(state);
    Ok(output.respond(&object, StatusCode::OK))
}
