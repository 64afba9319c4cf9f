//! The three metrics APIs, answered by whoever knows.

use std::collections::BTreeMap;

use axum::body::Body;
use hpa_calc::selector::Selector;
use http::{Method, Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    config::Config,
    error::{ApiError, Subject},
    json,
    registry::api_version,
    render,
    request::Call,
    selection::{labels, matches_labels},
    server::{Server, no_page},
};

const RESOURCE: &str = "metrics.k8s.io";
const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";

/// Knows metrics: the place of a metrics server and of the adapters.
pub trait MetricsProvider: Send + Sync {
    /// The groups and versions that are served; unless it says otherwise, all that a cluster may have.
    fn served(&self) -> Vec<(String, String)> {
        let all =
            [(RESOURCE, "v1"), (RESOURCE, "v1beta1"), (CUSTOM, "v1beta2"), (EXTERNAL, "v1beta1")];
        all.map(|(group, version)| (group.to_owned(), version.to_owned())).to_vec()
    }

    /// What the selected pods use (`metrics.k8s.io`).
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let _ = query;
        Ok(Vec::new())
    }

    /// A metric of objects (`custom.metrics.k8s.io`).
    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let _ = query;
        Ok(Vec::new())
    }

    /// A metric of no object (`external.metrics.k8s.io`).
    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let _ = query;
        Ok(Vec::new())
    }
}

/// Asks for what pods use.
#[derive(Clone, Debug)]
pub struct PodMetricsQuery {
    /// The namespace, empty for all.
    pub namespace: String,
    /// The pods' labels.
    pub selector: Selector,
    /// The pods that the server has in this namespace and that match, by namespace and name.
    pub pods: Vec<(String, String)>,
}

/// What a pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodMetrics {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The end of the time over which the use was measured; empty: now.
    pub timestamp: String,
    /// How long that time was, such as `30s`.
    pub window: String,
    /// By container and resource a quantity.
    pub containers: BTreeMap<String, BTreeMap<String, String>>,
}

/// Asks for a metric of objects.
#[derive(Clone, Debug)]
pub struct CustomMetricQuery {
    /// The namespace, empty for objects of the cluster.
    pub namespace: String,
    /// The resource, such as `pods` or `deployments.apps`.
    pub resource: String,
    /// The object's name, `*` for those that `selector` selects.
    pub name: String,
    /// The objects' labels.
    pub selector: Selector,
    /// The metric.
    pub metric: String,
    /// The labels of the metric's series.
    pub metric_selector: Selector,
    /// If pods are asked for: those that the server has and that match.
    pub pods: Vec<(String, String)>,
}

/// A metric of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMetric {
    /// The object: `apiVersion`, `kind`, `namespace`, `name`.
    pub described_object: Value,
    /// The value, a quantity.
    pub value: String,
    /// When it was measured; empty: now.
    pub timestamp: String,
    /// Over how many seconds.
    pub window_seconds: Option<i64>,
}

/// Asks for a metric of no object.
#[derive(Clone, Debug)]
pub struct ExternalMetricQuery {
    /// The namespace of who asks.
    pub namespace: String,
    /// The metric.
    pub metric: String,
    /// The labels of the metric's series.
    pub selector: Selector,
}

/// One series of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetric {
    /// The metric.
    pub metric_name: String,
    /// The series' labels.
    pub metric_labels: BTreeMap<String, String>,
    /// When it was measured; empty: now.
    pub timestamp: String,
    /// The value, a quantity.
    pub value: String,
}

pub(crate) fn is_metrics_group(group: &str) -> bool {
    [RESOURCE, CUSTOM, EXTERNAL].contains(&group)
}

/// The groups and versions that are served.
pub(crate) fn served(config: &Config) -> Vec<(String, String)> {
    config.metrics.as_ref().map(|provider| provider.served()).unwrap_or_default()
}

/// What discovery tells of a group's resources.
pub(crate) fn resources(group: &str) -> Vec<Value> {
    if group != RESOURCE {
        return Vec::new();
    }
    vec![json!({
        "name": "pods", "singularName": "pod", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"],
    })]
}

/// Answers a request for metrics.
pub(crate) fn answer(server: &Server, call: &Call) -> Result<Response<Body>, ApiError> {
    let info = &call.info;
    let asked = (info.group.clone(), info.version.clone());
    let provider =
        server.config.metrics.as_ref().filter(|provider| provider.served().contains(&asked));
    let Some(provider) = provider else { return Ok(no_page()) };
    if call.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    let body = match info.group.as_str() {
        RESOURCE => pods(server, call, &**provider)?,
        CUSTOM => custom(server, call, &**provider)?,
        _ => external(server, call, &**provider)?,
    };
    Ok(render::json(StatusCode::OK, &body))
}

fn pods(server: &Server, call: &Call, provider: &dyn MetricsProvider) -> Result<Value, ApiError> {
    let info = &call.info;
    if info.resource != "pods" {
        return Err(ApiError::no_such_path());
    }
    let selector = labels(call.parameter("labelSelector"))?;
    let mut pods = selected_pods(server, &info.namespace, &selector);
    pods.retain(|(_, name)| info.name.is_empty() || info.name == *name);
    let query = PodMetricsQuery { namespace: info.namespace.clone(), selector, pods };
    let found = provider.pods(&query)?;
    let api_version = api_version(&info.group, &info.version);
    let mut items = found.iter().map(|pod| pod_metrics(server, pod, &api_version));
    if info.name.is_empty() {
        let items: Vec<Value> = items.collect();
        return Ok(list("PodMetricsList", &api_version, &items));
    }
    let subject = Subject { group: RESOURCE, plural: "pods", kind: "PodMetrics", name: &info.name };
    items
        .find(|pod| json::text(pod, "/metadata/name") == info.name)
        .ok_or_else(|| ApiError::not_found(&subject))
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
        "timestamp": or_now(server, &pod.timestamp), "window": pod.window, "containers": containers,
    })
}

fn custom(server: &Server, call: &Call, provider: &dyn MetricsProvider) -> Result<Value, ApiError> {
    let info = &call.info;
    let is_of_namespace = info.resource == "metrics" && info.subresource.is_empty();
    let (resource, name, metric) = if is_of_namespace {
        ("namespaces", info.namespace.as_str(), info.name.as_str())
    } else {
        (info.resource.as_str(), info.name.as_str(), info.subresource.as_str())
    };
    if metric.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let selector = labels(call.parameter("labelSelector"))?;
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
        metric_selector: labels(call.parameter("metricLabelSelector"))?,
        pods,
    };
    let items = provider.custom(&query)?.into_iter().map(|mut value| {
        value.timestamp = or_now(server, &value.timestamp);
        let mut item = serde_json::to_value(&value).unwrap_or_default();
        json::set(&mut item, &["metric"], json!({ "name": metric }));
        item
    });
    let items: Vec<Value> = items.collect();
    Ok(list("MetricValueList", &api_version(&info.group, &info.version), &items))
}

fn external(
    server: &Server,
    call: &Call,
    provider: &dyn MetricsProvider,
) -> Result<Value, ApiError> {
    let info = &call.info;
    let query = ExternalMetricQuery {
        namespace: info.namespace.clone(),
        metric: info.resource.clone(),
        selector: labels(call.parameter("labelSelector"))?,
    };
    let items = provider.external(&query)?.into_iter().map(|mut value| {
        value.timestamp = or_now(server, &value.timestamp);
        serde_json::to_value(&value).unwrap_or_default()
    });
    let items: Vec<Value> = items.collect();
    Ok(list("ExternalMetricValueList", &api_version(&info.group, &info.version), &items))
}

fn list(kind: &str, api_version: &str, items: &[Value]) -> Value {
    json!({ "kind": kind, "apiVersion": api_version, "metadata": {}, "items": items })
}

fn or_now(server: &Server, time: &str) -> String {
    if time.is_empty() { server.now() } else { time.to_owned() }
}

fn selected_pods(server: &Server, namespace: &str, selector: &Selector) -> Vec<(String, String)> {
    let mut state = server.state.lock();
    let pods = state.store.collection(&(String::new(), "pods".to_owned())).objects().iter();
    let of_namespace = pods.filter(|((own, _), _)| namespace.is_empty() || own == namespace);
    of_namespace
        .filter(|(_, pod)| matches_labels(selector, pod))
        .map(|(id, _)| id.clone())
        .collect()
}
