//! From a request to its handler.

use std::sync::Arc;

use axum::body::Body;
use http::Response;

use crate::{
    discovery, error::ApiError, metrics_api, metrics_provider, request::Call, response::no_page,
    rest, server::Server,
};

/// Answers a request that meets no fault.
pub(crate) fn route(server: &Arc<Server>, call: &Call) -> Result<Response<Body>, ApiError> {
    if call.info.resource.is_empty() {
        return discovery::answer(server, call).unwrap_or_else(|| Ok(no_page()));
    }
    if metrics_provider::is_metrics_group(&call.info.group) {
        return metrics_api::answer(server, call);
    }
    if !server
        .state
        .lock()
        .registry
        .versions(&call.info.group)
        .contains(&call.info.version.as_str())
    {
        return Ok(no_page());
    }
    rest::answer(server, call)
}
