//! The metrics APIs: discovery, and requests to the provider.

mod encode;

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::metrics_api::{
    CustomQuery, CustomVersion, ExternalQuery, Group, RequestInfo, ResourceAttributes,
    ResourceQuery, Route, StatusError,
    accept::Conversions,
    discovery::{self, Resource, ResourceList, Versions},
    table,
    usage::MetricsKind,
};
use hpa_metrics::{
    CustomQuery as MetricQuery, ExternalQuery as SeriesQuery, MetricError, Objects, Query,
    UsageList, Values,
    resource::GroupResource,
    source::{ListedCustomMetric, ListedExternalMetric},
    wire::{NodeMetrics, PodMetrics},
};
use hpa_prometheus::rules::Compat;
use http::{HeaderValue, header};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    response::{Preferences, Reply, encode as encode_body, json, reply},
    service::Adapter,
};
use encode::{
    custom_list, external_list, list_response, log_failures, node_list, node_metrics,
    object_response, pod_list, pod_metrics, status_of, usage_error,
};

/// A document that is not converted.
fn document(preferences: Preferences<'_>, document: &impl Serialize) -> Result<Reply, StatusError> {
    Ok(encode_body(200, &preferences.negotiate(Conversions::None)?, document))
}

impl Adapter {
    /// Answers a request for what a route serves.
    pub(crate) async fn serve_route(
        &self,
        route: Route,
        info: &RequestInfo,
        preferences: Preferences<'_>,
    ) -> Reply {
        let none = ResourceAttributes::default();
        let target = info.resource.as_ref().unwrap_or(&none);
        let outcome = match route {
            Route::Groups => Ok(self.groups(preferences)),
            Route::Group(group) => document(preferences, &discovery::group(group, self.versions())),
            Route::Resources(version) => {
                let resources = self.resources(version.group);
                document(preferences, &ResourceList::new(version, resources))
            }
            Route::Custom(version) => self.custom(version, target, preferences).await,
            Route::External => self.external(target, preferences).await,
            Route::Pods => self.pods(target, preferences).await,
            Route::Pod => self.pod(target, preferences).await,
            Route::Nodes => self.nodes(target, preferences).await,
            Route::Node => self.node(target, preferences).await,
        };
        outcome.unwrap_or_else(|error| preferences.error(&error))
    }

    fn versions(&self) -> Versions {
        match self.options.compat {
            Compat::Off => Versions::All,
            Compat::Reference => Versions::Preferred,
        }
    }

    fn groups(&self, preferences: Preferences<'_>) -> Reply {
        let is_aggregated = preferences
            .negotiate(Conversions::Discovery)
            .is_ok_and(|media_type| media_type.conversion.is_some());
        if is_aggregated {
            return self.aggregated_groups(preferences);
        }
        let groups = discovery::groups(self.options.groups, self.versions(), self.options.port);
        document(preferences, &groups).unwrap_or_else(|error| preferences.error(&error))
    }

    /// All groups with their resources. The API server asks again and again, so that an unchanged
    /// document is not sent twice.
    fn aggregated_groups(&self, preferences: Preferences<'_>) -> Reply {
        let groups = self.options.groups.iter().filter(|group| {
            // The reference leaves out the groups with metrics that change.
            *group == Group::Resource || self.options.compat == Compat::Off
        });
        let aggregated = discovery::aggregated(groups, |group| self.resources(group));
        let mut response = json(200, &aggregated);
        let mut hasher = DefaultHasher::new();
        aggregated.to_string().hash(&mut hasher);
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

    /// The resources of a group.
    fn resources(&self, group: Group) -> Vec<Resource> {
        match group {
            Group::Custom => {
                let metrics = self.source.catalog().custom_metrics();
                let resource = |metric: &ListedCustomMetric| {
                    let resource = metric.resource.to_string();
                    Resource::custom(&resource, &metric.metric, metric.is_namespaced)
                };
                let mut resources: Vec<_> = metrics.iter().map(resource).collect();
                resources.sort();
                resources
            }
            Group::External => {
                let metrics = self.source.catalog().external_metrics();
                let resource = |metric: &ListedExternalMetric| {
                    Resource::external(&metric.metric, metric.is_namespaced)
                };
                metrics.iter().map(resource).collect()
            }
            Group::Resource => Resource::resource_metrics(),
        }
    }

    async fn custom(
        &self,
        version: CustomVersion,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let query = CustomQuery::new(target, preferences.query)?;
        let (resource, group) = query.resource_and_group();
        let request = MetricQuery {
            resource: GroupResource::new(group, resource),
            namespace: query.namespace.clone(),
            objects: match &query.name {
                Some(name) => Objects::Named(name.clone()),
                None => Objects::Selected(query.object_selector.clone()),
            },
            metric: query.metric.clone(),
            metric_selector: query.metric_selector.clone(),
        };
        let values = self.source.read_custom(request.clone()).await.map_err(|error| {
            let resource = request.resource.to_string();
            status_of(&error, &request.metric, &resource, query.name.as_deref())
        })?;
        let list = custom_list(version, &request, &values)?;
        let times = values.items.iter().map(|item| item.timestamp);
        self.metrics.observe_freshness(Group::Custom, Timestamp::now(), times);
        // Checked last, as in the reference.
        Ok(encode_body(200, &preferences.negotiate(Conversions::None)?, &list))
    }

    async fn external(
        &self,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(Conversions::Metadata)?;
        let query = ExternalQuery::new(target, preferences.query)?;
        let request = SeriesQuery {
            namespace: query.namespace,
            metric: query.metric,
            metric_selector: query.metric_selector,
        };
        let values = self.source.read_external(request.clone()).await.map_err(|error| {
            // The reference names a resource for this namespace only.
            let resource = if request.namespace == "default" { "namespaces" } else { "" };
            status_of(&error, &request.metric, resource, None)
        })?;
        let times = values.items.iter().map(|item| item.timestamp);
        self.metrics.observe_freshness(Group::External, Timestamp::now(), times);
        let converted =
            table::check_external(media_type.conversion.as_ref(), !values.items.is_empty())?;
        if let Some(metadata) = converted {
            return Ok(encode_body(200, &media_type, &metadata));
        }
        Ok(encode_body(200, &media_type, &external_list(&request.metric, &values)))
    }

    async fn pods(
        &self,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(Conversions::Table)?;
        let query = ResourceQuery::new(target, preferences.query)?;
        let query = Query::PodUsage {
            namespace: query.namespace,
            pods: Objects::Selected(query.label_selector),
            fields: query.field_selector.requirements(),
        };
        let usage = self.pod_usage(&query).await;
        let usage = usage.map_err(|error| usage_error("failed listing pods", &error))?;
        list_response(pod_list(&usage), &media_type, preferences)
    }

    async fn pod(
        &self,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(Conversions::Table)?;
        let ResourceAttributes { namespace, name, .. } = target;
        let query = Query::PodUsage {
            namespace: namespace.clone(),
            pods: Objects::Named(name.clone()),
            fields: Box::default(),
        };
        let usage = self.pod_usage(&query).await.map_err(|error| match error {
            MetricError::NoSuchObject(_) => StatusError::not_found("pods", name),
            error => usage_error("failed getting pod", &error),
        })?;
        let usage = usage.first().ok_or_else(|| {
            let key = format!("{namespace}/{name}");
            StatusError::not_found("podmetrics.metrics.k8s.io", &key)
        })?;
        object_response(MetricsKind::Pods, pod_metrics(usage), &media_type, preferences)
    }

    async fn nodes(
        &self,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(Conversions::Table)?;
        let query = ResourceQuery::new(target, preferences.query)?;
        let query = Query::NodeUsage {
            nodes: Objects::Selected(query.label_selector),
            fields: query.field_selector.requirements(),
        };
        let usage = self.node_usage(&query).await;
        let usage = usage.map_err(|error| usage_error("failed listing nodes", &error))?;
        list_response(node_list(&usage), &media_type, preferences)
    }

    async fn node(
        &self,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(Conversions::Table)?;
        let name = &target.name;
        let query =
            Query::NodeUsage { nodes: Objects::Named(name.clone()), fields: Box::default() };
        let usage = self.node_usage(&query).await.map_err(|error| match error {
            MetricError::NoSuchObject(_) => StatusError::not_found("node", name),
            error => usage_error("failed getting node", &error),
        })?;
        let usage = usage
            .first()
            .ok_or_else(|| StatusError::not_found("nodemetrics.metrics.k8s.io", name))?;
        object_response(MetricsKind::Nodes, node_metrics(usage), &media_type, preferences)
    }

    async fn pod_usage(&self, query: &Query) -> Result<Vec<PodMetrics>, MetricError> {
        let usage = self.source.read(query).await.and_then(Values::into_pods)?;
        Ok(self.observe_usage("pods", usage, |item| item.timestamp))
    }

    async fn node_usage(&self, query: &Query) -> Result<Vec<NodeMetrics>, MetricError> {
        let usage = self.source.read(query).await.and_then(Values::into_nodes)?;
        Ok(self.observe_usage("nodes", usage, |item| item.timestamp))
    }

    fn observe_usage<T>(
        &self,
        objects: &str,
        usage: UsageList<T>,
        timestamp: impl Fn(&T) -> Timestamp,
    ) -> Vec<T> {
        log_failures(objects, &usage.failures);
        let times = usage.items.iter().map(timestamp);
        self.metrics.observe_freshness(Group::Resource, Timestamp::now(), times);
        usage.items
    }
}
