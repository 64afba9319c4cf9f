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
use hpa_metrics::provider::{
    CustomRequest, ExternalRequest, ObjectKey, ObjectMetadata,
    value::{ListedCustomMetric, ListedExternalMetric, NodeUsage, PodUsage},
};
use hpa_metrics::resource::GroupResource;
use hpa_prometheus::rules::Compat;
use http::{HeaderValue, header};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    response::{Preferences, Reply, encode as encode_body, json, reply},
    service::Adapter,
};
use encode::{
    custom_list, external_list, list_error, list_response, log_failures, node_list, node_metrics,
    object_response, pod_list, pod_metrics, status_of,
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
            Compat::PrometheusAdapter => Versions::Preferred,
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
                let metrics = self.provider.custom_metrics();
                let resource = |metric: &ListedCustomMetric| {
                    let resource = metric.resource.to_string();
                    Resource::custom(&resource, &metric.metric, metric.is_namespaced)
                };
                let mut resources: Vec<_> = metrics.iter().map(resource).collect();
                resources.sort();
                resources
            }
            Group::External => {
                let metrics = self.provider.external_metrics();
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
        let request = CustomRequest {
            resource: GroupResource::new(group, resource),
            namespace: query.namespace.clone(),
            metric: query.metric.clone(),
            metric_selector: query.metric_selector.clone(),
        };
        let values = match &query.name {
            Some(name) => self.provider.custom_by_name(&request, name).await,
            None => self.provider.custom_by_selector(&request, &query.object_selector).await,
        };
        let values = values.map_err(|error| {
            let resource = request.resource.to_string();
            status_of(&error, &request.metric, &resource, query.name.as_deref())
        })?;
        let list = custom_list(version, &request, &values)?;
        let times = values.items.iter().map(|item| item.value.timestamp);
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
        let request = ExternalRequest {
            namespace: query.namespace,
            metric: query.metric,
            metric_selector: query.metric_selector,
        };
        let values = self.provider.external(&request).await.map_err(|error| {
            // The reference names a resource for this namespace only.
            let resource = if request.namespace == "default" { "namespaces" } else { "" };
            status_of(&error, &request.metric, resource, None)
        })?;
        let times = values.items.iter().map(|item| item.value.timestamp);
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
        let objects = self.provider.objects();
        let pods = objects.running_pods(&query.namespace, &query.label_selector).await;
        let pods = pods.map_err(|error| list_error("failed listing pods", &error))?;
        let selected =
            |pod: &ObjectMetadata| query.field_selector.matches(&pod.key.namespace, &pod.key.name);
        let pods: Vec<ObjectMetadata> = pods.into_iter().filter(selected).collect();
        let usage = self.pod_usage(&pods).await;
        list_response(pod_list(&pods, &usage), &media_type, preferences)
    }

    async fn pod(
        &self,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(Conversions::Table)?;
        let key = ObjectKey::new(&target.namespace, &target.name);
        let pod = self.provider.objects().running_pod(&key).await;
        let pod = pod.map_err(|error| list_error("failed getting pod", &error))?;
        let pod = pod.ok_or_else(|| StatusError::not_found("pods", &key.name))?;
        let usage = self.pod_usage(std::slice::from_ref(&pod)).await;
        let usage = usage.first();
        let usage = usage
            .ok_or_else(|| StatusError::not_found("podmetrics.metrics.k8s.io", &key.to_string()))?;
        let metrics = pod_metrics(&pod, usage);
        object_response(MetricsKind::Pods, metrics, &media_type, preferences)
    }

    async fn nodes(
        &self,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(Conversions::Table)?;
        let query = ResourceQuery::new(target, preferences.query)?;
        let nodes = self.provider.objects().nodes(&query.label_selector).await;
        let nodes = nodes.map_err(|error| list_error("failed listing nodes", &error))?;
        let selected = |node: &ObjectMetadata| query.field_selector.matches("", &node.key.name);
        let nodes: Vec<ObjectMetadata> = nodes.into_iter().filter(selected).collect();
        let usage = self.node_usage(&nodes).await;
        list_response(node_list(&nodes, &usage), &media_type, preferences)
    }

    async fn node(
        &self,
        target: &ResourceAttributes,
        preferences: Preferences<'_>,
    ) -> Result<Reply, StatusError> {
        let media_type = preferences.negotiate(Conversions::Table)?;
        let name = &target.name;
        let node = self.provider.objects().node(name).await;
        let node = node.map_err(|error| list_error("failed getting node", &error))?;
        let node = node.ok_or_else(|| StatusError::not_found("node", name))?;
        let usage = self.node_usage(std::slice::from_ref(&node)).await;
        let usage = usage.first();
        let usage =
            usage.ok_or_else(|| StatusError::not_found("nodemetrics.metrics.k8s.io", name))?;
        let metrics = node_metrics(&node, usage);
        object_response(MetricsKind::Nodes, metrics, &media_type, preferences)
    }

    async fn pod_usage(&self, pods: &[ObjectMetadata]) -> Vec<PodUsage> {
        let keys: Vec<ObjectKey> = pods.iter().map(|pod| pod.key.clone()).collect();
        let usage = self.provider.pod_usage(&keys).await;
        log_failures("pods", &usage.failures);
        let times = usage.items.iter().map(|usage| usage.timestamp);
        self.metrics.observe_freshness(Group::Resource, Timestamp::now(), times);
        usage.items
    }

    async fn node_usage(&self, nodes: &[ObjectMetadata]) -> Vec<NodeUsage> {
        let names: Vec<String> = nodes.iter().map(|node| node.key.name.clone()).collect();
        let usage = self.provider.node_usage(&names).await;
        log_failures("nodes", &usage.failures);
        let times = usage.items.iter().map(|usage| usage.timestamp);
        self.metrics.observe_freshness(Group::Resource, Timestamp::now(), times);
        usage.items
    }
}
