//! A provider and a lister with fixed contents, for tests.

use std::sync::Arc;

use crate::resource::{ApiResource, ApiResources, GroupResource};
use async_trait::async_trait;
use hpa_calc::Selector;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::provider::{
    error::{NotFound, ProviderError},
    interface::{ApiGroups, Provider},
    objects::{ListError, ObjectLister, ObjectMetadata},
    request::{CustomRequest, ExternalRequest, ObjectKey},
    value::{
        CustomValue, CustomValues, ExternalValue, ExternalValues, ListedCustomMetric,
        ListedExternalMetric, NodeUsage, ObjectKind, Origin, PodUsage, Usage, Value,
    },
};

/// Objects with their resource. Lists keep the order.
#[derive(Debug, Default)]
pub struct FixedObjects {
    /// The objects by resource. All pods are running.
    pub objects: Vec<(GroupResource, ObjectMetadata)>,
    /// The lists that were asked for: resource, namespace and selector.
    pub lists: Mutex<Vec<(GroupResource, String, String)>>,
}

impl FixedObjects {
    fn select(
        &self,
        resource: &GroupResource,
        namespace: &str,
        selector: &Selector,
    ) -> Vec<ObjectMetadata> {
        self.lists.lock().push((resource.clone(), namespace.to_owned(), selector.to_string()));
        let selected = self.objects.iter().filter(|(own, object)| {
            own == resource
                && (namespace.is_empty() || object.key.namespace == namespace)
                && selector.matches(&object.labels)
        });
        selected.map(|(_, object)| object.clone()).collect()
    }
}

#[async_trait]
impl ObjectLister for FixedObjects {
    async fn names(
        &self,
        resource: &ApiResource,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        let objects = self.select(&resource.group_resource, namespace, selector);
        Ok(objects.into_iter().map(|object| object.key.name).collect())
    }

    async fn running_pods(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<ObjectMetadata>, ListError> {
        let mut pods = self.select(&GroupResource::pods(), namespace, selector);
        pods.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(pods)
    }

    async fn running_pod(&self, pod: &ObjectKey) -> Result<Option<ObjectMetadata>, ListError> {
        let pods = self.running_pods(&pod.namespace, &Selector::everything()).await?;
        Ok(pods.into_iter().find(|object| object.key == *pod))
    }

    async fn nodes(&self, selector: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        let mut nodes = self.select(&GroupResource::nodes(), "", selector);
        nodes.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(nodes)
    }

    async fn node(&self, name: &str) -> Result<Option<ObjectMetadata>, ListError> {
        let nodes = self.nodes(&Selector::everything()).await?;
        Ok(nodes.into_iter().find(|object| object.key.name == name))
    }
}

/// A provider with fixed values.
#[derive(Debug, Default)]
pub struct FixedProvider {
    /// The APIs that it has.
    pub groups: ApiGroups,
    /// Values of custom metrics: kind of the objects, metric, object, value.
    pub custom: Vec<(ObjectKind, String, ObjectKey, Value)>,
    /// Values of external metrics: metric, namespace, value.
    pub external: Vec<(String, String, ExternalValue)>,
    /// The usage of pods.
    pub pods: Vec<PodUsage>,
    /// The usage of nodes.
    pub nodes: Vec<NodeUsage>,
    /// The objects that are selected from.
    pub objects: FixedObjects,
    /// If set, the answer to all requests for custom and external metrics.
    pub error: Option<ProviderError>,
}

/// A value that was measured at the beginning of 1970.
pub fn value(quantity: &str) -> Value {
    let quantity = quantity.parse().unwrap_or_default();
    Value { quantity, timestamp: Timestamp::UNIX_EPOCH, window: None }
}

impl FixedProvider {
    fn fail(&self) -> Result<(), ProviderError> {
        self.error.clone().map_or(Ok(()), Err)
    }

    fn values(
        &self,
        request: &CustomRequest,
        is_selected: impl Fn(&ObjectKey) -> bool,
    ) -> Result<CustomValues, ProviderError> {
        let unknown = || {
            ProviderError::UnknownMetric(NotFound::Custom {
                resource: request.resource.clone(),
                metric: request.metric.clone(),
            })
        };
        let of_metric = || {
            self.custom.iter().filter(|(kind, metric, object, _)| {
                kind.resource == request.resource
                    && *metric == request.metric
                    && object.namespace == request.namespace
            })
        };
        let object_kind = of_metric().next().ok_or_else(unknown)?.0.clone();
        let items = of_metric().filter(|(_, _, object, _)| is_selected(object));
        let items = items.map(|(_, _, object, value)| CustomValue {
            object: object.clone(),
            value: value.clone(),
        });
        Ok(CustomValues {
            object_kind,
            items: items.collect(),
            omitted: Vec::new(),
            origin: Arc::new(Origin::default()),
        })
    }
}

#[async_trait]
impl Provider for FixedProvider {
    fn groups(&self) -> ApiGroups {
        self.groups
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        Ok(())
    }

    fn has_custom(&self, resource: &GroupResource, is_namespaced: bool, metric: &str) -> bool {
        self.custom_metrics().iter().any(|own| {
            own.resource == *resource && own.is_namespaced == is_namespaced && own.metric == metric
        })
    }

    fn has_external(&self, metric: &str) -> bool {
        self.external.iter().any(|(own, ..)| own == metric)
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        let metrics = self.custom.iter().map(|(kind, metric, ..)| ListedCustomMetric {
            resource: kind.resource.clone(),
            metric: metric.clone(),
            is_namespaced: kind.resource.has_namespaced_metrics(),
        });
        let mut metrics: Vec<_> = metrics.collect();
        metrics.sort_by(|a, b| (&a.metric, &a.resource).cmp(&(&b.metric, &b.resource)));
        metrics.dedup();
        metrics
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        let metrics = self.external.iter().map(|(metric, ..)| ListedExternalMetric {
            metric: metric.clone(),
            is_namespaced: true,
        });
        let mut metrics: Vec<_> = metrics.collect();
        metrics.sort();
        metrics.dedup();
        metrics
    }

    async fn custom_by_name(
        &self,
        request: &CustomRequest,
        name: &str,
    ) -> Result<CustomValues, ProviderError> {
        self.fail()?;
        let values = self.values(request, |object| object.name == name)?;
        if values.items.is_empty() {
            let reason = NotFound::NoResult { query: String::new() };
            return Err(ProviderError::NoValueForObject(reason));
        }
        Ok(values)
    }

    async fn custom_by_selector(
        &self,
        request: &CustomRequest,
        objects: &Selector,
    ) -> Result<CustomValues, ProviderError> {
        self.fail()?;
        let selected = self.objects.select(&request.resource, &request.namespace, objects);
        if selected.is_empty() {
            let reason = NotFound::Other("no resource names requested".to_owned());
            return Err(ProviderError::UnknownMetric(reason));
        }
        self.values(request, |object| selected.iter().any(|selected| selected.key == *object))
    }

    async fn external(&self, request: &ExternalRequest) -> Result<ExternalValues, ProviderError> {
        self.fail()?;
        if !self.has_external(&request.metric) {
            let reason = NotFound::External(request.metric.clone());
            return Err(ProviderError::UnknownMetric(reason));
        }
        let items = self.external.iter().filter(|(metric, namespace, value)| {
            *metric == request.metric
                && *namespace == request.namespace
                && request.metric_selector.matches(&value.labels.clone().unwrap_or_default())
        });
        Ok(ExternalValues {
            items: items.map(|(_, _, value)| value.clone()).collect(),
            omitted: Vec::new(),
            origin: Arc::new(Origin::default()),
        })
    }

    async fn pod_usage(&self, pods: &[ObjectKey]) -> Usage<PodUsage> {
        let find = |pod: &ObjectKey| self.pods.iter().find(|usage| usage.pod == *pod).cloned();
        Usage { items: pods.iter().filter_map(find).collect(), failures: Vec::new() }
    }

    async fn node_usage(&self, nodes: &[String]) -> Usage<NodeUsage> {
        let find = |node: &String| self.nodes.iter().find(|usage| usage.node == *node).cloned();
        Usage { items: nodes.iter().filter_map(find).collect(), failures: Vec::new() }
    }

    fn objects(&self) -> &dyn ObjectLister {
        &self.objects
    }
}

/// Resources like those of a small cluster.
pub fn resources() -> ApiResources {
    let resource = |group: &str, kind: &str, plural: &str| ApiResource {
        group_resource: GroupResource::new(group, plural),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        singular: kind.to_lowercase(),
    };
    ApiResources::new([
        resource("", "Pod", "pods"),
        resource("", "Service", "services"),
        resource("", "Node", "nodes"),
        resource("", "Namespace", "namespaces"),
        resource("", "Event", "events"),
        resource("apps", "Deployment", "deployments"),
        resource("events.k8s.io", "Event", "events"),
        resource("networking.k8s.io", "Ingress", "ingresses"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, app: &str) -> (GroupResource, ObjectMetadata) {
        let metadata = ObjectMetadata {
            key: ObjectKey::new("shop", name),
            labels: [("app".to_owned(), app.to_owned())].into(),
            creation_timestamp: None,
        };
        (GroupResource::pods(), metadata)
    }

    #[tokio::test]
    async fn double_answers_by_name_and_by_selector() {
        let kind = ObjectKind {
            resource: GroupResource::pods(),
            version: "v1".into(),
            kind: "Pod".into(),
        };
        let custom = |name: &str, quantity: &str| {
            (kind.clone(), "rps".to_owned(), ObjectKey::new("shop", name), value(quantity))
        };
        let provider = FixedProvider {
            custom: vec![custom("web-0", "5"), custom("api-0", "7")],
            objects: FixedObjects {
                objects: vec![pod("web-0", "web"), pod("api-0", "api")],
                ..FixedObjects::default()
            },
            ..FixedProvider::default()
        };
        let request = CustomRequest {
            resource: GroupResource::pods(),
            namespace: "shop".to_owned(),
            metric: "rps".to_owned(),
            metric_selector: Selector::everything(),
        };
        let selector = Selector::parse("app=api").unwrap();
        let values = provider.custom_by_selector(&request, &selector).await.unwrap();
        let names: Vec<_> = values.items.iter().map(|item| &*item.object.name).collect();
        assert_eq!(names, ["api-0"]);
        assert!(provider.custom_by_name(&request, "web-0").await.is_ok());
        let error = provider.custom_by_name(&request, "other").await.unwrap_err();
        assert!(error.is_not_found());
    }
}
