//! Serves the metrics APIs: discovery documents, and metrics from the source.

use std::{
    collections::HashMap,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
};

use hpa_calc::MetricsApi;
use hpa_metrics::{
    ListError, MetricError, NotFound, ObjectKey, Objects, Query, Values, describe,
    mark_logged_if_due,
    source::{ListedCustomMetric, ListedExternalMetric},
};
use hpa_prometheus::{
    client::{QueryFailure, RuleQueryFailure},
    rules::Compat,
};
use http::{HeaderValue, header};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::{
    metrics_api::{
        RequestInfo, ResourceAttributes, Route, StatusError,
        accept::AllowedConversions,
        discovery::{self, Resource, ResourceList},
        group::installed_apis,
        request::{custom_query, external_query, usage_query},
        table::ConvertedResponse,
        usage::{MetricsKind, ObjectMetrics},
        values::{CustomList, external_list},
    },
    response::{Preferences, Reply, encode, json_reply, reply},
    service::Adapter,
};

/// Encodes a document that can't be converted to another kind.
fn encode_document(
    preferences: Preferences<'_>,
    document: &impl Serialize,
) -> Result<Reply, StatusError> {
    Ok(encode(200, &preferences.negotiate(AllowedConversions::None)?, document))
}

impl Adapter {
    pub(crate) async fn serve_route(
        &self,
        route: Route,
        info: &RequestInfo,
        preferences: Preferences<'_>,
    ) -> Reply {
        let none = ResourceAttributes::default();
        let attributes = info.resource.as_ref().unwrap_or(&none);
        let outcome = match route {
            Route::Groups => Ok(self.serve_groups(preferences)),
            Route::Group(group) => {
                encode_document(preferences, &discovery::group(group, self.options.compat))
            }
            Route::Resources(version) => {
                let resources = self.resources(version.group);
                encode_document(preferences, &ResourceList::new(version, resources))
            }
            Route::Custom(version) => {
                self.serve_custom_metric(version, attributes, preferences).await
            }
            Route::External => self.serve_external_metric(attributes, preferences).await,
            Route::Pods => self.serve_usage_list(MetricsKind::PODS, attributes, preferences).await,
            Route::Pod => self.serve_usage(MetricsKind::PODS, attributes, preferences).await,
            Route::Nodes => {
                self.serve_usage_list(MetricsKind::NODES, attributes, preferences).await
            }
            Route::Node => self.serve_usage(MetricsKind::NODES, attributes, preferences).await,
        };
        outcome.unwrap_or_else(|error| preferences.error(&error))
    }

    fn serve_groups(&self, preferences: Preferences<'_>) -> Reply {
        let is_aggregated = preferences
            .negotiate(AllowedConversions::Discovery)
            .is_ok_and(|media_type| media_type.conversion.is_some());
        if is_aggregated {
            return self.serve_aggregated_groups(preferences);
        }
        let groups = discovery::groups(self.groups(), self.options.compat, self.options.port);
        encode_document(preferences, &groups).unwrap_or_else(|error| preferences.error(&error))
    }

    /// The installed groups with their resources. kube-apiserver polls this document with
    /// `If-None-Match`. If it is unchanged, the response is 304 without a body.
    fn serve_aggregated_groups(&self, preferences: Preferences<'_>) -> Reply {
        let groups = installed_apis(self.groups()).filter(|group| {
            // prometheus-adapter leaves out custom and external metrics.
            *group == MetricsApi::Resource || self.options.compat == Compat::Off
        });
        let document = discovery::aggregated(groups, |group| self.resources(group));
        let mut response = json_reply(200, &document);
        let mut hasher = DefaultHasher::new();
        response.body().hash(&mut hasher);
        let tag = format!("\"{:016X}\"", hasher.finish());
        if preferences.header(header::IF_NONE_MATCH) == tag {
            response = reply(304, discovery::AGGREGATED_TYPE, Vec::new());
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(discovery::AGGREGATED_TYPE));
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }

    fn resources(&self, group: MetricsApi) -> Vec<Resource> {
        match group {
            MetricsApi::Custom => {
                let metrics = self.source.catalog().custom_metrics();
                let resource = |metric: &ListedCustomMetric| {
                    let resource = metric.resource.to_string();
                    Resource::custom(&resource, &metric.metric, metric.is_namespaced)
                };
                let mut resources: Vec<_> = metrics.iter().map(resource).collect();
                resources.sort();
                resources
            }
            MetricsApi::External => {
                let metrics = self.source.catalog().external_metrics();
                let resource = |metric: &ListedExternalMetric| {
                    Resource::external(&metric.metric, metric.is_namespaced)
                };
                metrics.iter().map(resource).collect()
            }
            MetricsApi::Resource => Resource::resource_metrics(),
        }
    }

    async fn serve_custom_metric(
        &self,
        version: &'static str,
        attributes: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let query = custom_query(attributes, preferences.query)?;
        let values = self.source.read_custom(query.clone()).await.map_err(|error| {
            let name = match &query.objects {
                Objects::Named(name) => Some(name.as_str()),
                Objects::Selected(_) => None,
            };
            let resource = query.resource.to_string();
            self.failures.log(&error, &query.namespace, &query.metric, &resource);
            status_of(&error, &query.metric, &resource, name, self.options.compat)
        })?;
        let list = CustomList::new(version, &query, &values)?;
        let times = values.items.iter().map(|item| item.timestamp);
        self.metrics.observe_freshness(MetricsApi::Custom, Timestamp::now(), times);
        // The media type is checked last, as in prometheus-adapter.
        encode_document(preferences, &list.document())
    }

    async fn serve_external_metric(
        &self,
        attributes: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(AllowedConversions::Metadata)?;
        let query = external_query(attributes, preferences.query)?;
        let values = self.source.read_external(query.clone()).await.map_err(|error| {
            // prometheus-adapter's error names a resource only in this namespace.
            let resource = if query.namespace == "default" { "namespaces" } else { "" };
            let group = MetricsApi::External.group();
            self.failures.log(&error, &query.namespace, &query.metric, group);
            status_of(&error, &query.metric, resource, None, self.options.compat)
        })?;
        let times = values.items.iter().map(|item| item.timestamp);
        self.metrics.observe_freshness(MetricsApi::External, Timestamp::now(), times);
        let conversion = media_type.conversion.as_ref();
        if let Some(metadata) =
            ConvertedResponse::from_external(conversion, !values.items.is_empty())?
        {
            return Ok(encode(200, &media_type, &metadata));
        }
        Ok(encode(200, &media_type, &external_list(&query.metric, &values)))
    }

    async fn serve_usage_list(
        &self,
        kind: MetricsKind,
        attributes: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(AllowedConversions::Table)?;
        let query = usage_query(attributes, preferences.query)?;
        let summary = format!("failed listing {}s", kind.noun);
        let to_status = |error: MetricError| usage_error(&summary, &error);
        let usage = self.source.read(&query).await.map_err(to_status)?;
        let items = self.usage_items(kind, &usage).map_err(to_status)?;
        let conversion = media_type.conversion.as_ref();
        let converted = ConvertedResponse::from_list(kind, items, conversion, preferences.query)?;
        Ok(encode(200, &media_type, &converted))
    }

    async fn serve_usage(
        &self,
        kind: MetricsKind,
        attributes: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(AllowedConversions::Table)?;
        let ResourceAttributes { namespace, name, .. } = attributes;
        let (object, fields) = (Objects::Named(name.clone()), Box::default());
        let query = if kind == MetricsKind::NODES {
            Query::NodeUsage { nodes: object, fields }
        } else {
            Query::PodUsage { namespace: namespace.clone(), pods: object, fields }
        };
        let to_status = |error: MetricError| match error {
            MetricError::NoSuchObject(_) => StatusError::not_found(kind.not_found_resource, name),
            error => usage_error(&format!("failed getting {}", kind.noun), &error),
        };
        let usage = self.source.read(&query).await.map_err(to_status)?;
        let items = self.usage_items(kind, &usage).map_err(to_status)?;
        let Some(metrics) = items.into_iter().next() else {
            let resource = format!("{}.metrics.k8s.io", kind.object.to_lowercase());
            let key = ObjectKey::new(namespace, name).to_string();
            return Err(StatusError::not_found(&resource, &key));
        };
        let conversion = media_type.conversion.as_ref();
        let converted =
            ConvertedResponse::from_object(kind, metrics, conversion, preferences.query)?;
        Ok(encode(200, &media_type, &converted))
    }

    /// The metrics of the objects that were read. Logs the failures. Fails if they left no items.
    fn usage_items<'a>(
        &self,
        kind: MetricsKind,
        usage: &'a Values,
    ) -> Result<Vec<ObjectMetrics<'a>>, MetricError> {
        let now = Timestamp::now();
        let (items, failures): (Vec<ObjectMetrics<'a>>, _) = match usage {
            Values::PodMetrics(pods) => {
                let items = pods.items.iter().map(|pod| ObjectMetrics::of_pod(pod, now));
                (items.collect(), &pods.failures)
            }
            Values::NodeMetrics(nodes) => {
                let items = nodes.items.iter().map(|node| ObjectMetrics::of_node(node, now));
                (items.collect(), &nodes.failures)
            }
            Values::Custom(_) | Values::External(_) => return Err(MetricError::UnexpectedValues),
        };
        for failure in failures {
            let (error, noun) = (describe(failure), kind.noun);
            let is_logged = RuleQueryFailure::is_logged_outage(failure);
            if is_logged || !self.failures.is_due(&(noun, error.as_str())) {
                debug!(error, "unable to read the usage of {noun}s");
            } else {
                warn!(error, "unable to read the usage of {noun}s");
            }
        }
        // A missing value of an object is not a failure. prometheus-adapter serves an empty list
        // despite failures.
        let is_failure = |error: &&MetricError| !matches!(error, MetricError::NoValueForObject(_));
        if items.is_empty()
            && self.options.compat == Compat::Off
            && let Some(error) = failures.iter().find(is_failure)
        {
            return Err(error.clone());
        }
        let times = items.iter().map(|item| item.timestamp.0);
        self.metrics.observe_freshness(MetricsApi::Resource, now, times);
        Ok(items)
    }
}

/// The maximum number of failures in a [`FailureLog`], because tenants choose the metrics.
const MAX_LOGGED_FAILURES: usize = 10_000;

/// Logs equal failures once a minute, because a controller repeats its requests.
#[derive(Default)]
pub(crate) struct FailureLog {
    hasher: RandomState,
    /// The times of the last lines, by the hash of the failure.
    logged: Mutex<HashMap<u64, Option<Instant>>>,
}

impl FailureLog {
    /// Logs the error of a metric. `resource` is the resource of the objects, or the API of
    /// external metrics.
    fn log(&self, error: &MetricError, namespace: &str, metric: &str, resource: &str) {
        let reason = describe(error);
        if error.is_not_found() {
            debug!(namespace, metric, resource, reason, "no metric");
        } else if RuleQueryFailure::is_logged_outage(error)
            || !self.is_due(&(namespace, metric, resource, reason.as_str()))
        {
            debug!(namespace, metric, resource, error = reason, "unable to read a metric");
        } else {
            warn!(namespace, metric, resource, error = reason, "unable to read a metric");
        }
    }

    fn is_due(&self, failure: &impl Hash) -> bool {
        let mut logged = self.logged.lock();
        if logged.len() >= MAX_LOGGED_FAILURES {
            logged.clear();
        }
        mark_logged_if_due(logged.entry(self.hasher.hash_one(failure)).or_default(), Instant::now())
    }
}

/// The status for an error. `resource` and `name` of the objects are for the message.
fn status_of(
    error: &MetricError,
    metric: &str,
    resource: &str,
    name: Option<&str>,
    compat: Compat,
) -> StatusError {
    match error {
        // Not 404, because the metric may exist.
        MetricError::UnknownMetric(NotFound::Unread { .. }) => StatusError::service_unavailable(
            format!("the series of the rules that may have {metric} have not been read yet"),
        ),
        MetricError::UnknownMetric(_) => StatusError::metric_not_found(metric, resource),
        MetricError::NoValueForObject(_) => {
            let object = format!("{resource} {}", name.unwrap_or_default());
            StatusError::metric_not_found(metric, &object)
        }
        MetricError::List(_) => StatusError::internal("unable to list matching resources"),
        MetricError::Convert(error) => StatusError::unclassified(error.to_string()),
        _ if compat == Compat::Reference => StatusError::internal(FETCH_FAILED),
        _ => StatusError::internal(fetch_failure(error)),
    }
}

/// The message of prometheus-adapter if a query fails.
const FETCH_FAILED: &str = "unable to fetch metrics";

/// The message for a failed query, with a short reason. The details are only logged: users who may
/// read metrics must not see them.
fn fetch_failure(error: &MetricError) -> String {
    match QueryFailure::of(error).map(QueryFailure::reason) {
        // Some reasons name Prometheus themselves.
        Some(reason) if reason.contains("Prometheus") => format!("{FETCH_FAILED} ({reason})"),
        Some(reason) => format!("{FETCH_FAILED} (Prometheus: {reason})"),
        None => FETCH_FAILED.to_owned(),
    }
}

/// The status for a failed read of pods or nodes.
fn usage_error(summary: &str, error: &MetricError) -> StatusError {
    let reason = match error {
        MetricError::List(error) => error.to_string(),
        MetricError::UnknownMetric(
            reason @ (NotFound::NotConfigured | NotFound::NotDiscovered),
        ) => reason.to_string(),
        _ => fetch_failure(error),
    };
    let message = format!("{summary}: {reason}");
    match error {
        MetricError::List(ListError::NotSynced(_))
        | MetricError::UnknownMetric(NotFound::NotDiscovered) => {
            StatusError::service_unavailable(message)
        }
        _ => StatusError::unclassified(message),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use hpa_metrics::{UsageList, test_doubles::FixedSource};
    use rstest::rstest;
    use tokio::time::advance;

    use super::*;
    use crate::{service::tests::adapter, test_certificates::ClusterCas};

    #[tokio::test(start_paused = true)]
    async fn equal_failures_are_logged_once_a_minute() {
        let log = FailureLog::default();
        let is_due = |metric: &str| log.is_due(&("shop", metric));
        assert!(is_due("a") && !is_due("a") && is_due("b"));
        advance(Duration::from_secs(59)).await;
        assert!(!is_due("a"));
        advance(Duration::from_secs(1)).await;
        assert!(is_due("a"));
    }

    #[test]
    fn failed_read_of_usage_is_logged() {
        let adapter = adapter(FixedSource::default(), &Arc::default(), &ClusterCas::new());
        let failure = MetricError::UnexpectedValues;
        let text = describe(&failure);
        let usage = UsageList { failures: vec![failure], ..UsageList::default() };
        let usage = Values::PodMetrics(usage);
        assert!(adapter.usage_items(MetricsKind::PODS, &usage).is_err());
        assert!(!adapter.failures.is_due(&("pod", text.as_str())), "logged within the last minute");
    }

    #[rstest]
    #[case(NotFound::NotDiscovered, 503, "the metrics have not been discovered yet")]
    #[case(NotFound::NotConfigured, 500, "no rules are configured for this API")]
    #[case(NotFound::Other("a template".to_owned()), 500, "unable to fetch metrics")]
    fn missing_usage_rules_are_not_reported_as_404(
        #[case] reason: NotFound,
        #[case] code: u16,
        #[case] expected: &str,
    ) {
        let error = MetricError::UnknownMetric(reason);
        let status = usage_error("failed listing pods", &error);
        let message = format!("failed listing pods: {expected}");
        assert_eq!((status.code, status.message), (code, message));
    }

    #[rstest]
    #[case::off(Compat::Off, " (Prometheus: no response within 10 s)")]
    #[case::reference(Compat::Reference, "")]
    fn failed_query_has_a_short_reason_without_the_server(
        #[case] compat: Compat,
        #[case] reason: &str,
    ) {
        let (address, limit) = ("http://secret:9090".into(), Duration::from_secs(10));
        let error = MetricError::from_fetch_error(QueryFailure::Timeout { address, limit });
        let status = status_of(&error, "jobs", "pods", None, compat);
        let message = format!("Internal error occurred: unable to fetch metrics{reason}");
        assert_eq!((status.code, status.message), (500, message));
        let reported = MetricError::from_fetch_error(QueryFailure::Api {
            error_type: "execution".to_owned(),
            message: "secret".to_owned(),
        });
        let message = usage_error("failed listing pods", &reported).message;
        let expected =
            "failed listing pods: unable to fetch metrics (Prometheus reported execution)";
        assert_eq!(message, expected);
    }

    #[test]
    fn metric_of_an_unread_rule_is_not_reported_as_404() {
        let (metric, problems) = ("jobs".to_owned(), "Prometheus at http://main: down".to_owned());
        let error = MetricError::UnknownMetric(NotFound::Unread { metric, problems });
        let status = status_of(&error, "jobs", "pods", None, Compat::Off);
        let message = "the series of the rules that may have jobs have not been read yet";
        assert_eq!((status.code, status.message.as_str()), (503, message));
    }
}
