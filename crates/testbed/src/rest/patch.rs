//! PATCH of objects and of their status.

use std::sync::Arc;

use hpa_calc::validation::{Cause, CauseReason};
use http::StatusCode;
use serde_json::Value;

use super::options::refuse;
use crate::{
    error::ApiError,
    json,
    objects::{admit_status, create, update},
    patch::{Applier, Patch, Writer},
    request::Call,
    server::Server,
    store::Object,
    target::{Part, Target},
};

/// Patches an object; 201 if it was applied and thereby created.
pub(super) fn answer(
    server: &Server,
    call: &Call,
    target: &Target,
    part: Part,
) -> Result<(Object, StatusCode), ApiError> {
    let patch = Patch::new(call, !target.resource.custom)?;
    if let Patch::Apply(applied) = patch {
        return apply(server, call, target, part, applied);
    }
    let (dry_run, is_builtin) = (call.is_dry_run(), !target.resource.custom);
    let writer = Writer::new(call, server.now());
    let mut state = server.state.lock();
    let object = update(&mut state, &server.config, target, part, dry_run, |object| {
        let mut new = patch.apply_to(object, is_builtin)?;
        if part == Part::Status {
            admit_status(target, &mut new)?;
        }
        writer.record(&mut new, object, part);
        Ok(new)
    })?;
    Ok((object, StatusCode::OK))
}

fn apply(
    server: &Server,
    call: &Call,
    target: &Target,
    part: Part,
    applied: Value,
) -> Result<(Object, StatusCode), ApiError> {
    let manager = call.parameter("fieldManager");
    if manager.is_empty() {
        let (reason, field) = (CauseReason::Required, "fieldManager".to_owned());
        let message = "Required value: is required for apply patch".to_owned();
        refuse("PatchOptions", &[Cause { reason, message, field }])?;
    }
    let (version, kind) = (json::str_at(&applied, "/apiVersion"), json::str_at(&applied, "/kind"));
    if version.is_empty() || kind.is_empty() {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        return Err(ApiError::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={kind}"
        )));
    }
    let by = Applier {
        manager,
        api_version: target.resource.api_version(&target.version),
        subresource: &call.info.subresource,
        time: server.now(),
        force: call.is_set("force"),
    };
    let mut state = server.state.lock();
    let dry_run = call.is_dry_run();
    if part == Part::Main && state.store.get(&target.resource.key(), &target.id()).is_none() {
        let mut object = applied;
        json::set_default(&mut object, &["metadata", "name"], target.name.as_str());
        let created = create(&mut state, &server.config, target, by.create(object), dry_run)?;
        return Ok((created, StatusCode::CREATED));
    }
    let object =
        update(&mut state, &server.config, target, part, dry_run, |live| by.apply(live, &applied))?;
    Ok((Arc::clone(&object), StatusCode::OK))
}
