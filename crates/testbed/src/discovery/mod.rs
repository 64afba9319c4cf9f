//! Discovery, `OpenAPI`, version and health endpoints.

mod aggregated;
mod groups;
mod legacy;
mod openapi;

use axum::body::Body;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    request::ApiRequest,
    response::{self, plain_text},
    server::Server,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Handles a request without a resource. Returns `None` if the path doesn't exist.
pub(crate) fn handle(
    server: &Server,
    request: &ApiRequest,
) -> Option<Result<Response<Body>, ApiError>> {
    if request.method != Method::GET {
        return Some(Err(ApiError::method_not_allowed()));
    }
    let path: Vec<&str> = request.info.path.split('/').filter(|part| !part.is_empty()).collect();
    if let ["healthz" | "readyz" | "livez", ..] = path.as_slice() {
        return Some(Ok(plain_text("ok")));
    }
    let state = server.state.lock();
    let metrics_served = server.config.metrics_apis();
    let body = match path.as_slice() {
        ["version"] => version(&server.config.git_version),
        ["api"] if wants_aggregated(request) => {
            return Some(Ok(aggregated_answer(&aggregated::core(&state))));
        }
        ["apis"] if wants_aggregated(request) => {
            return Some(Ok(aggregated_answer(&aggregated::groups(&state, &metrics_served))));
        }
        ["api"] => legacy::versions(),
        ["apis"] => legacy::groups(&state, &metrics_served),
        ["apis", group] => legacy::group(&state, &metrics_served, group)?,
        ["api", version] => legacy::resources(&state, &metrics_served, "", version)?,
        ["apis", group, version] => legacy::resources(&state, &metrics_served, group, version)?,
        ["openapi", "v3"] => openapi::index(&state),
        ["openapi", "v3", "api", version] => openapi::document(&state, "", version),
        ["openapi", "v3", "apis", group, version] => openapi::document(&state, group, version),
        [] => {
            let paths =
                ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"];
            json!({ "paths": paths })
        }
        _ => return None,
    };
    Some(Ok(response::json(StatusCode::OK, &body)))
}

fn wants_aggregated(request: &ApiRequest) -> bool {
    request.accept.split(',').any(|media_type| {
        let parameters: Vec<&str> = media_type.split(';').map(str::trim).collect();
        parameters.contains(&"as=APIGroupDiscoveryList") && parameters.contains(&"v=v2")
    })
}

fn aggregated_answer(body: &Value) -> Response<Body> {
    let mut response = response::json(StatusCode::OK, body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    response
}

fn version(git_version: &str) -> Value {
    let mut numbers = git_version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    json!({
        "major": major, "minor": minor, "gitVersion": git_version, "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "",
        "compiler": "", "platform": "linux/amd64",
    })
}
