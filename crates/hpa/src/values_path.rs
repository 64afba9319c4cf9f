//! The paths of metrics in the metrics APIs, for requests and for commands of users.

use hpa_calc::{
    MetricsApi, Selector,
    api::{MetricIdentifier, MetricSpec, ObjectMetricSource, plural},
};
use hpa_metrics::{percent_encode, resource::GroupResource};

/// The API of a metric, and the path of its values below `namespaces`, with the query. A metric of
/// pods is requested for all pods of the namespace. `None` if the selector is invalid or the metric
/// has no source.
pub(crate) fn values_path(namespace: &str, spec: &MetricSpec) -> Option<(MetricsApi, String)> {
    let namespace = percent_encode(namespace);
    if let Some(pods) = &spec.pods {
        let metric = percent_encode(&pods.metric.name);
        let query = query("metricLabelSelector", &pods.metric)?;
        return Some((MetricsApi::Custom, format!("{namespace}/pods/*/{metric}{query}")));
    }
    if let Some(object) = &spec.object {
        return Some((MetricsApi::Custom, object_path(&namespace, object)?));
    }
    if let Some(external) = &spec.external {
        let metric = &external.metric;
        let query = query("labelSelector", metric)?;
        // The controllers request the name in lower case.
        let name = percent_encode(&metric.name.to_lowercase());
        let path = format!("{namespace}/{name}{query}");
        return Some((MetricsApi::External, path));
    }
    let has_usage = spec.resource.is_some() || spec.container_resource.is_some();
    has_usage.then(|| (MetricsApi::Resource, format!("{namespace}/pods")))
}

fn object_path(namespace: &str, object: &ObjectMetricSource) -> Option<String> {
    let (described, metric) = (&object.described_object, &object.metric);
    let query = query("metricLabelSelector", metric)?;
    let metric = percent_encode(&metric.name);
    if described.is_namespace() {
        return Some(format!("{namespace}/metrics/{metric}{query}"));
    }
    // The controllers request the plural, and kube-metrics-adapter has only values of the plural.
    let resource = GroupResource::new(described.group(), &plural(&described.kind));
    let (resource, name) = (percent_encode(&resource.to_string()), percent_encode(&described.name));
    Some(format!("{namespace}/{resource}/{name}/{metric}{query}"))
}

/// The query parameter with the selector of a metric, empty without a selector. `None` if the
/// selector is invalid.
fn query(parameter: &str, metric: &MetricIdentifier) -> Option<String> {
    let text = Selector::from_label_selector(metric.selector.as_ref()).ok()?.to_string();
    if text.is_empty() {
        return Some(text);
    }
    Some(format!("?{parameter}={}", percent_encode(&text)))
}
