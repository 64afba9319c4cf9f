//! Dispatches requests to their handlers.

use std::sync::Arc;

use axum::body::Body;
use http::Response;

use crate::{
    discovery, error::ApiError, metrics_api, metrics_provider, request::ApiRequest,
    response::not_found_page, rest, server::Server,
};

/// Handles a request. Its faults are applied by [`crate::fault_injection`], before and after.
pub(crate) fn route(
    server: &Arc<Server>,
    request: &ApiRequest,
) -> Result<Response<Body>, ApiError> {
    if request.info.resource.is_empty() {
        return discovery::handle(server, request).unwrap_or_else(|| Ok(not_found_page()));
    }
    if metrics_provider::is_metrics_group(&request.info.group) {
        return metrics_api::handle(server, request);
    }
    if !server
        .state
        .lock()
        .registry
        .versions(&request.info.group)
        .contains(&request.info.version.as_str())
    {
        return Ok(not_found_page());
    }
    rest::handle(server, request)
}
