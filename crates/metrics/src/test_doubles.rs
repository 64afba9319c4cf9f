//! A source and a lister with fixed contents, for tests.

use async_trait::async_trait;
use hpa_calc::{MilliValue, Quantity, Selector};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    CustomQuery, ExternalQuery, MetricError, MetricSource, NotFound, ObjectKind, Objects, Query,
    UsageList, Values,
    objects::{ListError, ObjectLister, ObjectMetadata},
    resource::{ApiResource, ApiResources, GroupResource},
    source::{ApiGroups, Catalog, ListedCustomMetric, ListedExternalMetric},
    values::{CustomValues, ExternalValues},
    wire::{ExternalMetricValue, MetricValue, NodeMetrics, PodMetrics},
};

/// A lister of fixed objects. `names` keeps the order of `objects`. Pods and nodes are sorted.
#[derive(Debug, Default)]
pub struct FixedObjects {
    /// The objects by resource. All pods are running.
    pub objects: Vec<(GroupResource, ObjectMetadata)>,
    /// The requested lists: resource, namespace and selector.
    pub lists: Mutex<Vec<(GroupResource, String, String)>>,
    /// The texts of the caches that have not synced.
    pub unsynced: Vec<String>,
}

impl FixedObjects {
    fn select(
        &self,
        resource: &GroupResource,
        namespace: &str,
        selector: &Selector,
    ) -> Vec<ObjectMetadata> {
        self.lists.lock().push((resource.clone(), namespace.to_owned(), selector.to_string()));
        let selected = self.objects.iter().filter(|(object_resource, object)| {
            object_resource == resource
                && (namespace.is_empty() || object.key.namespace == namespace)
                && object.labels.are_selected_by(selector)
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

    async fn nodes(&self, selector: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        let mut nodes = self.select(&GroupResource::nodes(), "", selector);
        nodes.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(nodes)
    }

    fn unsynced_caches(&self) -> Vec<String> {
        self.unsynced.clone()
    }
}

/// A source with fixed values.
#[derive(Debug, Default)]
pub struct FixedSource {
    /// The APIs that it has metrics for.
    pub groups: ApiGroups,
    /// Values of custom metrics: kind of the objects, metric, namespace, value. Unlike those of
    /// external metrics, they have no labels, so queries ignore `metric_selector`.
    pub custom: Vec<(ObjectKind, String, String, MetricValue)>,
    /// Values of external metrics: metric, namespace, value.
    pub external: Vec<(String, String, ExternalMetricValue)>,
    /// The usage of pods.
    pub pods: Vec<PodMetrics>,
    /// The usage of nodes.
    pub nodes: Vec<NodeMetrics>,
    /// The objects that queries select from.
    pub objects: FixedObjects,
    /// The problems that prevent discovery. If there are none, the metrics are discovered.
    pub problems: Vec<String>,
    /// If set, queries for custom and external metrics fail with this error, and each list of usage
    /// has it among its failures.
    pub error: Option<MetricError>,
}

/// A value of an object, measured at the Unix epoch.
pub fn value(object: &str, quantity: &str) -> MetricValue {
    MetricValue {
        object: object.into(),
        timestamp: Timestamp::UNIX_EPOCH,
        window_seconds: None,
        value: milli(quantity),
    }
}

/// A value of a series, measured at the Unix epoch.
pub fn external_value(labels: Option<&[(&str, &str)]>, quantity: &str) -> ExternalMetricValue {
    ExternalMetricValue {
        labels: labels.map(|labels| labels.iter().copied().collect()),
        timestamp: Timestamp::UNIX_EPOCH,
        value: milli(quantity),
    }
}

fn milli(quantity: &str) -> MilliValue {
    quantity.parse::<Quantity>().unwrap_or_default().milli_value()
}

impl FixedSource {
    fn custom(&self, query: &CustomQuery) -> Result<CustomValues, MetricError> {
        let CustomQuery { resource, namespace, objects, metric, .. } = query;
        let queried: Vec<String> = match objects {
            Objects::Named(name) => vec![name.clone()],
            Objects::Selected(selector) => {
                let selected = self.objects.select(resource, namespace, selector);
                selected.into_iter().map(|object| object.key.name).collect()
            }
        };
        if queried.is_empty() {
            let reason = NotFound::Other("no resource names requested".to_owned());
            return Err(MetricError::UnknownMetric(reason));
        }
        let is_queried = |value: &&MetricValue| queried.iter().any(|name| **name == *value.object);
        let mut metric_values = self.custom.iter().filter(|(kind, name, in_namespace, _)| {
            kind.resource == *resource && name == metric && in_namespace == namespace
        });
        let Some(first) = metric_values.next() else {
            let (resource, metric) = (resource.clone(), metric.clone());
            return Err(MetricError::UnknownMetric(NotFound::Custom { resource, metric }));
        };
        let values = std::iter::once(first).chain(metric_values).map(|(.., value)| value);
        let items: Vec<_> = values.filter(is_queried).cloned().collect();
        if items.is_empty() && matches!(objects, Objects::Named(_)) {
            let reason = NotFound::NoResult { query: String::new() };
            return Err(MetricError::NoValueForObject(reason));
        }
        Ok(CustomValues { object_kind: first.0.clone(), items, ..CustomValues::default() })
    }

    fn external(&self, query: &ExternalQuery) -> Result<ExternalValues, MetricError> {
        if !self.external.iter().any(|(metric, ..)| *metric == query.metric) {
            return Err(MetricError::UnknownMetric(NotFound::External(query.metric.clone())));
        }
        let items = self.external.iter().filter(|(metric, namespace, value)| {
            *metric == query.metric
                && *namespace == query.namespace
                && query.metric_selector.matches(&value.labels.clone().unwrap_or_default())
        });
        let items = items.map(|(.., value)| value.clone()).collect();
        Ok(ExternalValues { items, ..ExternalValues::default() })
    }
}

impl Catalog for FixedSource {
    fn groups(&self) -> ApiGroups {
        self.groups
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems.clone()) }
    }

    fn has(&self, query: &Query) -> bool {
        match query {
            Query::PodUsage { .. } | Query::NodeUsage { .. } => self.groups.resource,
            Query::Custom(query) => self.custom_metrics().iter().any(|listed| {
                listed.resource == query.resource
                    && listed.is_namespaced == query.is_namespaced()
                    && listed.metric == query.metric
            }),
            Query::External(query) => {
                self.external.iter().any(|(metric, ..)| *metric == query.metric)
            }
        }
    }

    fn absence(&self, query: &Query) -> Option<String> {
        match query {
            Query::Custom(CustomQuery { metric, .. })
            | Query::External(ExternalQuery { metric, .. }) => {
                Some(format!("no value of {metric} is fixed"))
            }
            Query::PodUsage { .. } | Query::NodeUsage { .. } => None,
        }
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
}

#[async_trait]
impl MetricSource for FixedSource {
    fn catalog(&self) -> &dyn Catalog {
        self
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        let configured_error = || self.error.clone().map_or(Ok(()), Err);
        let failures = self.error.iter().cloned().collect();
        match query {
            Query::PodUsage { namespace, pods, fields } => {
                let pods = self.objects.pods_of(namespace, pods, fields).await?;
                let usage = |pod: &ObjectMetadata| {
                    self.pods.iter().find(|item| item.metadata.key() == pod.key).cloned()
                };
                let items: Vec<_> = pods.iter().filter_map(usage).collect();
                Ok(Values::PodMetrics(UsageList { failures, ..items.into() }))
            }
            Query::NodeUsage { nodes, fields } => {
                let nodes = self.objects.nodes_of(nodes, fields).await?;
                let usage = |node: &ObjectMetadata| {
                    self.nodes.iter().find(|item| item.metadata.key() == node.key).cloned()
                };
                let items: Vec<_> = nodes.iter().filter_map(usage).collect();
                Ok(Values::NodeMetrics(UsageList { failures, ..items.into() }))
            }
            Query::Custom(query) => {
                configured_error().and_then(|()| self.custom(query)).map(Values::Custom)
            }
            Query::External(query) => {
                configured_error().and_then(|()| self.external(query)).map(Values::External)
            }
        }
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
    use crate::ObjectKey;

    fn pod(name: &str, app: &str) -> (GroupResource, ObjectMetadata) {
        let metadata = ObjectMetadata {
            key: ObjectKey::new("shop", name),
            labels: [("app", app)].into_iter().collect(),
        };
        (GroupResource::pods(), metadata)
    }

    #[tokio::test]
    async fn fixed_source_answers_by_name_and_by_selector() {
        let kind = ObjectKind {
            resource: GroupResource::pods(),
            version: "v1".into(),
            kind: "Pod".into(),
        };
        let custom = |name: &str, quantity: &str| {
            (kind.clone(), "rps".to_owned(), "shop".to_owned(), value(name, quantity))
        };
        let source = FixedSource {
            custom: vec![custom("web-0", "5"), custom("api-0", "7")],
            objects: FixedObjects {
                objects: vec![pod("web-0", "web"), pod("api-0", "api")],
                ..FixedObjects::default()
            },
            ..FixedSource::default()
        };
        let read = async |objects| {
            let query = CustomQuery {
                resource: GroupResource::pods(),
                namespace: "shop".to_owned(),
                objects,
                metric: "rps".to_owned(),
                metric_selector: Selector::everything(),
            };
            source.read(&query.into()).await.and_then(Values::into_custom)
        };
        let selector = Selector::parse("app=api").unwrap();
        let values = read(Objects::Selected(selector)).await.unwrap();
        let names: Vec<_> = values.items.iter().map(|item| &*item.object).collect();
        assert_eq!(names, ["api-0"]);
        assert!(read(Objects::Named("web-0".to_owned())).await.is_ok());
        let error = read(Objects::Named("other".to_owned())).await.unwrap_err();
        assert!(error.is_not_found());
    }
}
