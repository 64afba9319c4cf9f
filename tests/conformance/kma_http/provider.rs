//! Answers from the store, as the reference gives them.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::{Quantity, Selector};
use hpa_metrics::provider::{
    ApiGroups, CustomRequest, ExternalRequest, ObjectKey, ProviderError,
    error::NotFound,
    interface::Provider,
    objects::ObjectLister,
    test_doubles::FixedObjects,
    value::{
        CustomValue, CustomValues, ExternalValue, ExternalValues, ListedCustomMetric,
        ListedExternalMetric, NodeUsage, ObjectKind, Origin, PodUsage, Usage, Value,
    },
};
use hpa_metrics::resource::GroupResource;
use jiff::Timestamp;

use super::collect::StoredValue;
use crate::store::{GroupResource as StoredResource, Store, Stored};

pub(super) struct StoredMetrics {
    store: Store<StoredValue>,
    objects: FixedObjects,
}

impl StoredMetrics {
    pub(super) fn new(store: Store<StoredValue>) -> Self {
        Self { store, objects: FixedObjects::default() }
    }
}

fn stored_resource(request: &CustomRequest) -> StoredResource {
    let GroupResource { group, resource } = &request.resource;
    StoredResource { group: group.clone(), resource: resource.clone() }
}

fn namespace(request: &CustomRequest) -> Option<&str> {
    Some(request.namespace.as_str()).filter(|namespace| !namespace.is_empty())
}

fn value(stored: &Stored<StoredValue>) -> Value {
    let quantity = Quantity::from(stored.value.value);
    Value { quantity, timestamp: stored.at, window: None }
}

fn custom_values(request: &CustomRequest, stored: &[&Stored<StoredValue>]) -> CustomValues {
    let (api_version, kind) = stored
        .first()
        .map(|first| (first.value.api_version.as_str(), first.value.kind.as_str()))
        .unwrap_or_default();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let resource = request.resource.resource.clone();
    let items = stored.iter().map(|stored| CustomValue {
        object: ObjectKey::new(&request.namespace, &stored.value.name),
        value: value(stored),
    });
    CustomValues {
        object_kind: ObjectKind {
            resource: GroupResource { group: group.to_owned(), resource },
            version: version.to_owned(),
            kind: kind.to_owned(),
        },
        items: items.collect(),
        omitted: Vec::new(),
        origin: Arc::new(Origin::default()),
    }
}

#[async_trait]
impl Provider for StoredMetrics {
    fn groups(&self) -> ApiGroups {
        ApiGroups { custom: true, external: true, resource: false }
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        Ok(())
    }

    fn has_custom(&self, _: &GroupResource, _: bool, _: &str) -> bool {
        true
    }

    fn has_external(&self, _: &str) -> bool {
        true
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        let metrics = self.store.metrics().into_iter();
        let listed = |(metric, resource, namespace): (&str, &StoredResource, &str)| {
            let StoredResource { group, resource } = resource.clone();
            ListedCustomMetric {
                resource: GroupResource { group, resource },
                metric: metric.to_owned(),
                is_namespaced: !namespace.is_empty(),
            }
        };
        metrics.map(listed).collect()
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        let metrics = self.store.external_metrics();
        let listed = |(_, metric): (&str, &str)| ListedExternalMetric {
            metric: metric.to_owned(),
            is_namespaced: true,
        };
        metrics.map(listed).collect()
    }

    async fn custom_by_name(
        &self,
        request: &CustomRequest,
        name: &str,
    ) -> Result<CustomValues, ProviderError> {
        let (resource, selector) = (stored_resource(request), &request.metric_selector);
        let found = self.store.by_name(
            &request.metric,
            &resource,
            namespace(request),
            name,
            selector,
            Timestamp::now(),
        );
        let missing = || ProviderError::NoValueForObject(NotFound::Other("not stored".to_owned()));
        Ok(custom_values(request, &[found.ok_or_else(missing)?]))
    }

    async fn custom_by_selector(
        &self,
        request: &CustomRequest,
        objects: &Selector,
    ) -> Result<CustomValues, ProviderError> {
        let found = self.store.by_selector(
            &request.metric,
            &stored_resource(request),
            namespace(request),
            objects,
            Timestamp::now(),
        );
        Ok(custom_values(request, &found.unwrap_or_default()))
    }

    async fn external(&self, request: &ExternalRequest) -> Result<ExternalValues, ProviderError> {
        let found = self.store.external(
            &request.namespace,
            &request.metric,
            &request.metric_selector,
            Timestamp::now(),
        );
        let item = |stored: &Stored<StoredValue>| ExternalValue {
            labels: stored.labels.clone(),
            value: value(stored),
        };
        let items = found.into_iter().map(item).collect();
        Ok(ExternalValues { items, omitted: Vec::new(), origin: Arc::new(Origin::default()) })
    }

    async fn pod_usage(&self, _: &[ObjectKey]) -> Usage<PodUsage> {
        Usage::default()
    }

    async fn node_usage(&self, _: &[String]) -> Usage<NodeUsage> {
        Usage::default()
    }

    fn objects(&self) -> &dyn ObjectLister {
        &self.objects
    }
}
