//! Responses of the metrics APIs.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    body::{Body, Bytes},
    extract::{Query, Request},
    response::{IntoResponse as _, Response},
};
use futures::TryStreamExt as _;
use hpa_calc::selector::Selector;
use hpa_testbed::{Config, Testbed};
use http::{Method, StatusCode, header};
use http_body::Body as _;
use tower::Service as _;

use crate::{
    load::Load,
    request_info::{POD_METRICS, RequestInfo},
};

/// The group of pod metrics, and the suffix of the other metrics groups.
const METRICS_GROUP: &str = "metrics.k8s.io";

/// Returns an empty testbed whose metrics APIs report the load.
pub(super) fn metrics_testbed(load: &Arc<Load>) -> Testbed {
    Testbed::new(Config { metrics: Some(Arc::<Load>::clone(load)), ..Config::default() })
}

/// Responds with the testbed, except to a valid list of pod metrics: the testbed would scan all
/// pods for it. The metrics of a single pod, which no controller requests, are not found.
pub(super) async fn respond(
    testbed: &Testbed,
    load: &Load,
    info: &RequestInfo,
    request: Request,
) -> Response {
    match list_pod_metrics(load, info, &request) {
        Some(response) => response,
        None => testbed.service().call(request).await.unwrap_or_else(|error| {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }),
    }
}

pub(super) fn is_metrics_path(path: &str) -> bool {
    let group =
        path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    group == METRICS_GROUP
        || group.strip_suffix(METRICS_GROUP).is_some_and(|kind| kind.ends_with('.'))
}

/// Returns `None` if the request is not a valid list of pod metrics.
fn list_pod_metrics(load: &Load, info: &RequestInfo, request: &Request) -> Option<Response> {
    if request.method() != Method::GET || !info.matches(&["list"], POD_METRICS, "") {
        return None;
    }
    let version = request
        .uri()
        .path()
        .split('/')
        .nth(3)
        .filter(|version| ["v1", "v1beta1"].contains(version))?;
    let Query(parameters) = Query::<HashMap<String, String>>::try_from_uri(request.uri()).ok()?;
    let selector = parameters.get("labelSelector").map_or("", String::as_str);
    let selector = Selector::parse(selector).ok()?;
    let body = load.pod_metrics(version, &info.namespace, &selector);
    Some(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Adds the size of the body to `bytes`. For a stream, adds each part when it is sent.
pub(super) fn count_bytes(response: Response, bytes: Arc<AtomicU64>) -> Response {
    if let Some(size) = response.body().size_hint().exact() {
        bytes.fetch_add(size, Ordering::Relaxed);
        return response;
    }
    let (parts, body) = response.into_parts();
    let count = move |data: &Bytes| {
        bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
    };
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().inspect_ok(count)))
}
