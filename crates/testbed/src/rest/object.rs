//! Reads one object and writes it to the response.

use axum::body::Body;
use http::{Response, StatusCode};

use super::list;
use crate::{
    error::ApiError, output::OutputFormat, request::ApiRequest, response, server::Server,
    store::Object, target::Target,
};

/// The stored object of a target.
pub(super) fn get(
    server: &Server,
    request: &ApiRequest,
    target: &Target,
) -> Result<Object, ApiError> {
    let mut state = server.state.lock();
    let object = if request.revisions_back == 0 {
        state.store.get(&target.resource.key(), &target.id()).cloned()
    } else {
        list::stale_list(&mut state, request, target)?.objects.get(&target.id()).cloned()
    };
    object.ok_or_else(|| ApiError::not_found(&target.reference()))
}

pub(super) fn respond(
    server: &Server,
    request: &ApiRequest,
    target: &Target,
    object: &Object,
    code: StatusCode,
) -> Result<Response<Body>, ApiError> {
    let output = OutputFormat::new(request, target, (server.config.clock)())?;
    Ok(response::json(code, &output.object(object)))
}
