//! Converts requests to queries for metrics.

use hpa_calc::Selector;
use hpa_metrics::{CustomQuery, ExternalQuery, Objects, Query, resource::GroupResource};

use crate::metrics_api::{
    field_selector::FieldSelector,
    query::{ListOptions, UrlQuery},
    request_info::ResourceAttributes,
    status::StatusError,
};

/// The query for a custom metric of objects. Metrics of `namespaces/NAME/metrics/METRIC` describe
/// the namespace.
pub fn custom_query(
    attributes: &ResourceAttributes,
    query: &UrlQuery,
) -> Result<CustomQuery, StatusError> {
    let mut attributes = attributes.clone();
    if attributes.resource == "metrics" && !attributes.namespace.is_empty() {
        attributes = ResourceAttributes {
            resource: "namespaces".to_owned(),
            namespace: String::new(),
            name: attributes.namespace,
            subresource: attributes.name,
            segment_count: attributes.segment_count + 1,
            ..attributes
        };
    }
    if attributes.segment_count < 3 {
        return Err(StatusError::bad_request("invalid request path"));
    }
    let options = list_options(query)?;
    let fields = name_selector(options.field_selector, &attributes.name)?;
    let name = fields.exact_match("metadata.name").filter(|name| *name != "*");
    let metric_selector = query.get("metricLabelSelector").unwrap_or_default();
    let metric_selector = Selector::parse(metric_selector)
        .map_err(|error| StatusError::unclassified(error.to_string()))?;
    let (resource, group) =
        attributes.resource.split_once('.').unwrap_or((&attributes.resource, ""));
    Ok(CustomQuery {
        resource: GroupResource::new(group, resource),
        namespace: attributes.namespace,
        objects: match name {
            Some(name) => Objects::Named(name.to_owned()),
            None => Objects::Selected(options.label_selector),
        },
        metric: attributes.subresource,
        metric_selector,
    })
}

/// The query for an external metric.
pub fn external_query(
    attributes: &ResourceAttributes,
    query: &UrlQuery,
) -> Result<ExternalQuery, StatusError> {
    let options = list_options(query)?;
    name_selector(options.field_selector, &attributes.name)?;
    if options.watch {
        return Err(StatusError::watch_not_supported("*.external.metrics.k8s.io"));
    }
    Ok(ExternalQuery {
        namespace: attributes.namespace.clone(),
        metric: attributes.resource.clone(),
        metric_selector: options.label_selector,
    })
}

/// The query for the usage of several pods or nodes.
pub fn usage_query(
    attributes: &ResourceAttributes,
    query: &UrlQuery,
) -> Result<Query, StatusError> {
    let options = list_options(query)?;
    let fields = name_selector(options.field_selector, &attributes.name)?.requirements();
    let resource = &attributes.resource;
    if options.watch {
        return Err(StatusError::watch_not_supported(&format!("{resource}.metrics.k8s.io")));
    }
    let objects = Objects::Selected(options.label_selector);
    if resource == "nodes" {
        return Ok(Query::NodeUsage { nodes: objects, fields });
    }
    let namespace = attributes.namespace.clone();
    Ok(Query::PodUsage { namespace, pods: objects, fields })
}

fn list_options(query: &UrlQuery) -> Result<ListOptions, StatusError> {
    let options = ListOptions::parse(query).map_err(StatusError::bad_request)?;
    options.field_selector.check_fields().map_err(StatusError::bad_request)?;
    Ok(options)
}

/// Selects the object `name`, if there is a name. A field selector of the query must then require
/// the same name.
fn name_selector(selector: FieldSelector, name: &str) -> Result<FieldSelector, StatusError> {
    if name.is_empty() {
        return Ok(selector);
    }
    if selector.is_empty() {
        return Ok(FieldSelector::for_name(name));
    }
    if selector.exact_match("metadata.name") == Some(name) {
        return Ok(selector);
    }
    Err(StatusError::bad_request("fieldSelector metadata.name doesn't match requested name"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::metrics_api::RequestInfo;

    const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta1";

    fn custom(target: &str) -> Result<CustomQuery, String> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = UrlQuery::parse(query);
        let info = RequestInfo::new("GET", &format!("{CUSTOM}{path}"), &query).unwrap();
        custom_query(&info.resource.unwrap(), &query)
            .map_err(|error| format!("{} {}", error.code, error.message))
    }

    #[rstest]
    #[case("/namespaces/a/pods/*/m", "a", "pods", None, "m")]
    #[case("/namespaces/a/pods/p/m?fieldSelector=metadata.name%3Dp", "a", "pods", Some("p"), "m")]
    #[case("/namespaces/a/metrics/m", "", "namespaces", Some("a"), "m")]
    #[case("/namespaces/a/metrics/m/x", "", "namespaces", Some("a"), "m")]
    #[case("/namespaces/*/metrics/m", "", "namespaces", None, "m")]
    #[case("/nodes/n/m", "", "nodes", Some("n"), "m")]
    fn custom_queries_name_objects(
        #[case] target: &str,
        #[case] namespace: &str,
        #[case] resource: &str,
        #[case] name: Option<&str>,
        #[case] metric: &str,
    ) {
        let query = custom(target).unwrap();
        let named = match &query.objects {
            Objects::Named(name) => Some(name.as_str()),
            Objects::Selected(_) => None,
        };
        let (query_namespace, resource_name) =
            (query.namespace.as_str(), query.resource.to_string());
        assert_eq!((query_namespace, &*resource_name, named), (namespace, resource, name));
        assert_eq!(query.metric, metric);
    }

    #[rstest]
    #[case("/namespaces/a/pods", "400 invalid request path")]
    #[case("/namespaces/a/metrics", "400 invalid request path")]
    #[case("/namespaces//metrics/m", "400 invalid request path")]
    #[case("/watch/pods/p", "400 invalid request path")]
    #[case(
        "/nodes/*/m?fieldSelector=metadata.name%3Dx",
        "400 fieldSelector metadata.name doesn't match requested name"
    )]
    #[case(
        "/nodes/*/m?fieldSelector=a%3Dx",
        "400 \"a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    )]
    #[case(
        "/nodes/*/m?labelSelector=%2C",
        "400 found ',', expected: !, identifier, or 'end of string'"
    )]
    #[case(
        "/nodes/*/m?metricLabelSelector=%2C",
        "500 found ',', expected: !, identifier, or 'end of string'"
    )]
    fn invalid_custom_queries_are_reported(#[case] target: &str, #[case] message: &str) {
        assert_eq!(custom(target).unwrap_err(), message);
    }

    #[test]
    fn metrics_cannot_be_watched() {
        let query = UrlQuery::parse("watch=true");
        let path = "/apis/metrics.k8s.io/v1beta1/pods";
        let info = RequestInfo::new("GET", path, &query).unwrap();
        let error = usage_query(&info.resource.unwrap(), &query).unwrap_err();
        let message = "watch is not supported on resources of kind \"pods.metrics.k8s.io\"";
        assert_eq!((error.code, &*error.message), (405, message));
    }
}
