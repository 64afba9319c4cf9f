//! PATCH of objects and of their status.

use hpa_calc::validation::{Cause, CauseReason};
use http::StatusCode;
use serde_json::Value;

use super::{body::BodyKind, options::reject_options};
use crate::{
    error::ApiError,
    json,
    objects::{admit_status, create, update},
    patch::{FieldManager, Patch},
    request::ApiRequest,
    server::Server,
    store::Object,
    target::{Subresource, Target},
};

pub(super) struct Patched {
    pub(super) object: Object,
    /// 201 if server-side apply created the object.
    pub(super) code: StatusCode,
    pub(super) warnings: Vec<String>,
}

pub(super) fn handle(
    server: &Server,
    request: &ApiRequest,
    target: &Target,
    subresource: Subresource,
) -> Result<Patched, ApiError> {
    let patch = Patch::new(request, !target.resource.is_custom)?;
    if let Patch::Apply(applied) = patch {
        return apply(server, request, target, subresource, applied);
    }
    let (dry_run, is_builtin) = (request.is_dry_run(), !target.resource.is_custom);
    let manager = FieldManager::for_update(request, server.now());
    let kind = BodyKind::for_target(target)?;
    let duplicates = patch.duplicate_fields(request);
    let mut warnings = Vec::new();
    let mut state = server.state_for(request);
    let object = update(&mut state, &server.config, target, subresource, dry_run, |object| {
        let patched = patch.apply_to(object, is_builtin)?;
        let describe = || patch.describe(&patched);
        let body = kind.check_patched(request, &patched, &duplicates, describe)?;
        let mut new = body.value;
        warnings = body.warnings;
        if subresource == Subresource::Status {
            admit_status(target, &mut new)?;
        }
        manager.record(&mut new, object, subresource);
        Ok(new)
    })?;
    drop(state);
    Ok(Patched { object, code: StatusCode::OK, warnings })
}

fn apply(
    server: &Server,
    request: &ApiRequest,
    target: &Target,
    subresource: Subresource,
    applied: Value,
) -> Result<Patched, ApiError> {
    if request.parameter("fieldManager").is_empty() {
        let (reason, field) = (CauseReason::Required, "fieldManager".to_owned());
        let message = "Required value: is required for apply patch".to_owned();
        reject_options("PatchOptions", &[Cause { reason, message, field }])?;
    }
    let (version, kind) = (json::str_at(&applied, "/apiVersion"), json::str_at(&applied, "/kind"));
    if version.is_empty() || kind.is_empty() {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        return Err(ApiError::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={kind}"
        )));
    }
    BodyKind::for_target(target)?.check_applied(target, &applied)?;
    let manager = FieldManager::for_apply(request, server.now());
    let mut state = server.state_for(request);
    let dry_run = request.is_dry_run();
    if subresource == Subresource::None
        && state.store.get(&target.resource.key(), &target.id()).is_none()
    {
        let mut object = applied;
        json::set_default(&mut object, &["metadata", "name"], target.name.as_str());
        let created =
            create(&mut state, &server.config, target, manager.apply_new(object), dry_run)?;
        return Ok(Patched { object: created, code: StatusCode::CREATED, warnings: Vec::new() });
    }
    let object = update(&mut state, &server.config, target, subresource, dry_run, |live| {
        manager.apply(live, &applied, request.is_set("force"))
    })?;
    drop(state);
    Ok(Patched { object, code: StatusCode::OK, warnings: Vec::new() })
}
