//! Reading one object and showing it.

use axum::body::Body;
use http::{Response, StatusCode};

use super::list;
use crate::{
    error::ApiError, output::View, request::Call, response, server::Server, store::Object,
    target::Target,
};

/// The object that a target names.
pub(super) fn stored(server: &Server, call: &Call, target: &Target) -> Result<Object, ApiError> {
    let mut state = server.state.lock();
    let object = if call.revisions_back == 0 {
        state.store.get(&target.resource.key(), &target.id()).cloned()
    } else {
        list::earlier(&mut state, call, target)?.objects.get(&target.id()).cloned()
    };
    object.ok_or_else(|| ApiError::not_found(&target.subject()))
}

pub(super) fn show(
    server: &Server,
    call: &Call,
    target: &Target,
    object: &Object,
    code: StatusCode,
) -> Result<Response<Body>, ApiError> {
    let view = View::new(call, target, (server.config.clock)())?;
    Ok(response::json(code, &view.one(object)))
}
