//! Reads stored objects: the current ones or, for `Effect::Stale`, earlier ones.

use serde_json::json;

use super::RequestContext;
use crate::{
    error::ApiError,
    request::ApiRequest,
    request_target::RequestTarget,
    server::State,
    store::{ListSnapshot, Object},
};

/// The stored object of a target, or an earlier version of it (see [`stale_list`]).
pub(super) fn stored_object(context: &RequestContext<'_>) -> Result<Object, ApiError> {
    let RequestContext { server, request, target } = context;
    let mut state = server.state.lock();
    let object = if request.revisions_back == 0 {
        state.store.get(&target.resource.key(), &target.id()).cloned()
    } else {
        stale_list(&mut state, request, target)?.objects.get(&target.id()).cloned()
    };
    object.ok_or_else(|| ApiError::not_found(&target.reference()))
}

/// The objects at an earlier resource version, for `Effect::Stale`. The watch cache and the
/// resource version in the request limit their age.
pub(super) fn stale_list(
    state: &mut State,
    request: &ApiRequest,
    target: &RequestTarget,
) -> Result<ListSnapshot, ApiError> {
    let current = state.store.revision();
    let requested = request.number("resourceVersion").unwrap_or_default();
    if requested > current {
        return Err(resource_version_too_large(requested, current));
    }
    let collection = state.store.collection(&target.resource.key());
    let revision =
        current.saturating_sub(request.revisions_back).max(requested).max(collection.compacted);
    collection.list_at(revision)
}

/// 504 `Timeout`: the requested resource version is newer than the last change.
pub(super) fn resource_version_too_large(requested: u64, current: u64) -> ApiError {
    let problem = "Too large resource version";
    let text = format!("Timeout: {problem}: {requested}, current: {current}");
    let cause = json!({ "reason": "ResourceVersionTooLarge", "message": problem });
    ApiError {
        details: Some(json!({ "causes": [cause] })),
        retry_after: Some(1),
        ..ApiError::new(504, "Timeout", text)
    }
}
