//! Builds the requests for the metrics of autoscalers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use hpa_calc::{
    MetricsApi, Selector,
    api::{MetricIdentifier, MetricSpec, ObjectMetricSource, plural},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{APIS, NamedAutoscaler};

/// The characters that are percent-encoded in paths and queries.
const ESCAPES: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'*');

/// A request that is sent to both servers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetricRequest {
    pub(super) path: String,
    /// The names of the autoscalers that need the values.
    pub(super) autoscalers: BTreeSet<String>,
}

impl MetricRequest {
    /// The right to send the request: verb, resource, API group and namespace, as in a Role.
    pub(super) fn needed_right(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let decode = |part| percent_decode_str(part).decode_utf8_lossy();
        let parts: Vec<_> = path.trim_start_matches('/').split('/').map(decode).collect();
        // apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/METRIC
        let part = |index: usize| parts.get(index).map(|part| &**part);
        let (group, namespace) = (part(1).unwrap_or_default(), part(4).unwrap_or_default());
        let resource = part(5).unwrap_or_default();
        let verb = if part(6).is_some() { "get" } else { "list" };
        let metric = part(7).map_or_else(String::new, |metric| format!("/{metric}"));
        format!("{verb} {resource}{metric} in the API group {group}, namespace {namespace}")
    }
}

/// The requests for the metrics of all autoscalers in each of [`APIS`], without duplicates.
pub(super) fn requests_for(autoscalers: &[NamedAutoscaler]) -> Vec<MetricRequest> {
    let mut by_path: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, hpa) in autoscalers {
        for spec in &hpa.spec.metrics {
            let Some((api, path)) = values_path(&hpa.metadata.namespace, spec) else { continue };
            let is_version = |version: &&str| version.split('/').next() == Some(api.group());
            for version in APIS.into_iter().filter(is_version) {
                let path = format!("/apis/{version}/namespaces/{path}");
                by_path.entry(path).or_default().insert(name.clone());
            }
        }
    }
    let requests =
        by_path.into_iter().map(|(path, autoscalers)| MetricRequest { path, autoscalers });
    requests.collect()
}

/// The API of a metric, and the path of its values below `namespaces`, with the query. A metric of
/// pods is requested for all pods of the namespace. `None` if the selector is invalid or the metric
/// has no source.
fn values_path(namespace: &str, spec: &MetricSpec) -> Option<(MetricsApi, String)> {
    let namespace = encode(namespace);
    if let Some(pods) = &spec.pods {
        let metric = encode(&pods.metric.name);
        let query = query("metricLabelSelector", &pods.metric)?;
        return Some((MetricsApi::Custom, format!("{namespace}/pods/*/{metric}{query}")));
    }
    if let Some(object) = &spec.object {
        return Some((MetricsApi::Custom, object_path(&namespace, object)?));
    }
    if let Some(external) = &spec.external {
        let metric = &external.metric;
        let query = query("labelSelector", metric)?;
        let path = format!("{namespace}/{}{query}", encode(&metric.name));
        return Some((MetricsApi::External, path));
    }
    let has_usage = spec.resource.is_some() || spec.container_resource.is_some();
    has_usage.then(|| (MetricsApi::Resource, format!("{namespace}/pods")))
}

fn object_path(namespace: &str, object: &ObjectMetricSource) -> Option<String> {
    let (described, metric) = (&object.described_object, &object.metric);
    let query = query("metricLabelSelector", metric)?;
    let metric = encode(&metric.name);
    if described.is_namespace() {
        return Some(format!("{namespace}/metrics/{metric}{query}"));
    }
    // The controllers request the plural, and kube-metrics-adapter has only values of the plural.
    let mut resource = plural(&described.kind);
    let group = described.group();
    if !group.is_empty() {
        let _ = write!(resource, ".{group}");
    }
    let (resource, name) = (encode(&resource), encode(&described.name));
    Some(format!("{namespace}/{resource}/{name}/{metric}{query}"))
}

/// The query parameter with the selector of a metric, empty without a selector. `None` if the
/// selector is invalid.
fn query(parameter: &str, metric: &MetricIdentifier) -> Option<String> {
    let Some(selector) = &metric.selector else { return Some(String::new()) };
    let selector = Selector::from_label_selector(Some(selector)).ok()?;
    if selector.is_empty() {
        return Some(String::new());
    }
    Some(format!("?{parameter}={}", encode(&selector.to_string())))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPES).to_string()
}
