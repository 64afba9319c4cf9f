//! Serves the values of the store as kube-metrics-adapter does.

use async_trait::async_trait;
use hpa_calc::Selector;
use hpa_metrics::{
    ApiGroups, Catalog, CustomQuery, CustomValues, ExternalQuery, ExternalValues, MetricError,
    MetricSource, NotFound, ObjectKind, Objects, Query, Values,
    resource::GroupResource,
    source::{ListedCustomMetric, ListedExternalMetric},
    wire::{ExternalMetricValue, MetricValue},
};
use jiff::Timestamp;

use super::collect::ObjectValue;
use crate::store::{CollectedValue, Store};

pub(super) struct StoredMetrics {
    pub(super) store: Store<ObjectValue>,
}

fn namespace(request: &CustomQuery) -> Option<&str> {
    Some(request.namespace.as_str()).filter(|namespace| !namespace.is_empty())
}

fn custom_values(request: &CustomQuery, stored: &[&CollectedValue<ObjectValue>]) -> CustomValues {
    let (api_version, kind) = stored
        .first()
        .map(|first| (first.value.api_version.as_str(), first.value.kind.as_str()))
        .unwrap_or_default();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let items = stored.iter().map(|stored| MetricValue {
        object: stored.value.name.as_str().into(),
        timestamp: stored.at,
        window_seconds: None,
        value: stored.value.value,
    });
    CustomValues {
        object_kind: ObjectKind {
            resource: GroupResource::new(group, &request.resource.resource),
            version: version.to_owned(),
            kind: kind.to_owned(),
        },
        items: items.collect(),
        ..CustomValues::default()
    }
}

impl StoredMetrics {
    fn custom_by_name(
        &self,
        request: &CustomQuery,
        name: &str,
    ) -> Result<CustomValues, MetricError> {
        let found = self.store.by_name(
            &request.metric,
            &request.resource,
            namespace(request),
            name,
            &request.metric_selector,
            Timestamp::now(),
        );
        let missing = || MetricError::NoValueForObject(NotFound::Other("not stored".to_owned()));
        Ok(custom_values(request, &[found.ok_or_else(missing)?]))
    }

    fn custom_by_selector(&self, request: &CustomQuery, selector: &Selector) -> CustomValues {
        let found = self.store.by_selector(
            &request.metric,
            &request.resource,
            namespace(request),
            selector,
            Timestamp::now(),
        );
        custom_values(request, &found.unwrap_or_default())
    }

    fn external(&self, request: &ExternalQuery) -> ExternalValues {
        let found = self.store.external(
            &request.namespace,
            &request.metric,
            &request.metric_selector,
            Timestamp::now(),
        );
        let item = |stored: &CollectedValue<ObjectValue>| ExternalMetricValue {
            labels: stored.labels.as_ref().map(|labels| labels.iter().collect()),
            timestamp: stored.at,
            value: stored.value.value,
        };
        let items = found.into_iter().map(item).collect();
        ExternalValues { items, ..ExternalValues::default() }
    }
}

impl Catalog for StoredMetrics {
    fn groups(&self) -> ApiGroups {
        ApiGroups { custom: true, external: true, resource: false }
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        Ok(())
    }

    fn has(&self, _: &Query) -> bool {
        true
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        let metrics = self.store.metrics().into_iter();
        let listed =
            |(metric, resource, namespace): (&str, &GroupResource, &str)| ListedCustomMetric {
                resource: resource.clone(),
                metric: metric.to_owned(),
                is_namespaced: !namespace.is_empty(),
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
}

#[async_trait]
impl MetricSource for StoredMetrics {
    fn catalog(&self) -> &dyn Catalog {
        self
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        match query {
            Query::PodUsage { .. } | Query::NodeUsage { .. } => {
                Err(MetricError::UnknownMetric(NotFound::NotConfigured))
            }
            Query::Custom(query) => match &query.objects {
                Objects::Named(name) => self.custom_by_name(query, name).map(Values::Custom),
                Objects::Selected(selector) => {
                    Ok(Values::Custom(self.custom_by_selector(query, selector)))
                }
            },
            Query::External(query) => Ok(Values::External(self.external(query))),
        }
    }
}
