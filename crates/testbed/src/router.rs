//! Dispatches requests to their handlers.

use std::sync::Arc;

use axum::body::Body;
use http::Response;

use crate::{
    discovery,
    error::ApiError,
    metrics_api, metrics_provider,
    request::ApiRequest,
    response::{self, not_found_page},
    rest,
    server::Server,
};

/// Handles a request. [`crate::fault_injection`] applies the faults before and after this call.
pub(crate) fn route(server: &Arc<Server>, request: &ApiRequest) -> Response<Body> {
    dispatch(server, request).unwrap_or_else(|error| response::error(&error))
}

fn dispatch(server: &Arc<Server>, request: &ApiRequest) -> Result<Response<Body>, ApiError> {
    if request.info.resource.is_empty() {
        return discovery::handle(server, request).unwrap_or_else(|| Ok(not_found_page()));
    }
    if metrics_provider::is_metrics_group(&request.info.group) {
        return metrics_api::handle(server, request);
    }
    let (group, version) = (&request.info.group, request.info.version.as_str());
    let exists = server.state.lock().registry.versions(group).contains(&version);
    if exists { rest::handle(server, request) } else { Ok(not_found_page()) }
}
