//! Serves the three metrics APIs.

use axum::body::Body;
use hpa_calc::selector::Selector;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    error::{ApiError, ObjectReference},
    json_fields,
    metrics_provider::{
        CUSTOM, CustomMetricQuery, ExternalMetricQuery, MetricsProvider, PodMetrics,
        PodMetricsQuery, RESOURCE, SERVED_APIS,
    },
    registry::api_version,
    request::ApiRequest,
    response::{self, not_found_page},
    selection::{matches_labels, parse_label_selector},
    server::Server,
};

pub(crate) fn handle(server: &Server, request: &ApiRequest) -> Result<Response<Body>, ApiError> {
    let info = &request.info;
    let is_served = SERVED_APIS.contains(&(info.group.as_str(), info.version.as_str()));
    let provider = server.config.metrics.as_ref().filter(|_| is_served);
    let Some(provider) = provider else { return Ok(not_found_page()) };
    if request.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    let body = match info.group.as_str() {
        RESOURCE => serve_pods(server, request, &**provider)?,
        CUSTOM => serve_custom(server, request, &**provider)?,
        _ => serve_external(server, request, &**provider)?,
    };
    Ok(response::json(StatusCode::OK, &body))
}

fn serve_pods(
    server: &Server,
    request: &ApiRequest,
    provider: &dyn MetricsProvider,
) -> Result<Value, ApiError> {
    let info = &request.info;
    if info.resource != "pods" {
        return Err(ApiError::unknown_resource());
    }
    let selector = parse_label_selector(request.parameter("labelSelector"))?;
    let mut pods = selected_pods(server, &info.namespace, &selector);
    pods.retain(|(_, name)| info.name.is_empty() || info.name == *name);
    let query = PodMetricsQuery { namespace: info.namespace.clone(), selector, pods };
    let metrics = provider.pods(&query)?;
    let api_version = api_version(&info.group, &info.version);
    let mut items = metrics.iter().map(|pod| pod_metrics(server, pod, &api_version));
    if info.name.is_empty() {
        return Ok(list("PodMetricsList", &api_version, items));
    }
    let reference =
        ObjectReference { group: RESOURCE, plural: "pods", kind: "PodMetrics", name: &info.name };
    items
        .find(|pod| json_fields::str_at(pod, "/metadata/name") == info.name)
        .ok_or_else(|| ApiError::not_found(&reference))
}

fn pod_metrics(server: &Server, pod: &PodMetrics, api_version: &str) -> Value {
    let containers: Vec<Value> = pod
        .containers
        .iter()
        .map(|(name, usage)| json!({ "name": name, "usage": usage }))
        .collect();
    let metadata =
        json!({ "name": pod.name, "namespace": pod.namespace, "creationTimestamp": server.now() });
    json!({
        "kind": "PodMetrics", "apiVersion": api_version, "metadata": metadata,
        "timestamp": timestamp_or_now(server, &pod.timestamp), "window": pod.window,
        "containers": containers,
    })
}

fn serve_custom(
    server: &Server,
    request: &ApiRequest,
    provider: &dyn MetricsProvider,
) -> Result<Value, ApiError> {
    let info = &request.info;
    let describes_namespace = info.resource == "metrics" && info.subresource.is_empty();
    let (resource, name, metric) = if describes_namespace {
        ("namespaces", info.namespace.as_str(), info.name.as_str())
    } else {
        (info.resource.as_str(), info.name.as_str(), info.subresource.as_str())
    };
    if metric.is_empty() {
        return Err(ApiError::unknown_resource());
    }
    let selector = parse_label_selector(request.parameter("labelSelector"))?;
    let pods = if resource == "pods" {
        selected_pods(server, &info.namespace, &selector)
    } else {
        Vec::new()
    };
    let query = CustomMetricQuery {
        namespace: info.namespace.clone(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        selector,
        metric: metric.to_owned(),
        metric_selector: parse_label_selector(request.parameter("metricLabelSelector"))?,
        pods,
    };
    let items = provider.custom(&query)?.into_iter().map(|mut value| {
        value.timestamp = timestamp_or_now(server, &value.timestamp);
        let mut item = serde_json::to_value(&value).unwrap_or_default();
        json_fields::set(&mut item, &["metric"], json!({ "name": metric }));
        item
    });
    Ok(list("MetricValueList", &api_version(&info.group, &info.version), items))
}

fn serve_external(
    server: &Server,
    request: &ApiRequest,
    provider: &dyn MetricsProvider,
) -> Result<Value, ApiError> {
    let info = &request.info;
    let query = ExternalMetricQuery {
        namespace: info.namespace.clone(),
        metric: info.resource.clone(),
        selector: parse_label_selector(request.parameter("labelSelector"))?,
    };
    let items = provider.external(&query)?.into_iter().map(|mut value| {
        value.timestamp = timestamp_or_now(server, &value.timestamp);
        serde_json::to_value(&value).unwrap_or_default()
    });
    Ok(list("ExternalMetricValueList", &api_version(&info.group, &info.version), items))
}

fn list(kind: &str, api_version: &str, items: impl Iterator<Item = Value>) -> Value {
    let items: Vec<Value> = items.collect();
    json!({ "kind": kind, "apiVersion": api_version, "metadata": {}, "items": items })
}

fn timestamp_or_now(server: &Server, time: &str) -> String {
    if time.is_empty() { server.now() } else { time.to_owned() }
}

/// Namespace and name of the stored pods that match.
fn selected_pods(server: &Server, namespace: &str, selector: &Selector) -> Vec<(String, String)> {
    let mut state = server.state.lock();
    let pods = state.store.collection(&(String::new(), "pods".to_owned())).objects().iter();
    let in_namespace =
        pods.filter(|((pod_namespace, _), _)| namespace.is_empty() || pod_namespace == namespace);
    in_namespace
        .filter(|(_, pod)| matches_labels(selector, pod))
        .map(|(id, _)| id.clone())
        .collect()
}
