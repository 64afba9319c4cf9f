//! Metrics of schedules for an aggregated API server.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::{MilliValue, Selector};
use hpa_metrics::resource::GroupResource;
use jiff::Timestamp;
use tracing::debug;

use super::{
    NoScheduleValue, Schedules,
    kind::{ScheduleKey, ScheduleKind, VERSION},
};
use hpa_metrics::provider::{
    error::{NotFound, ProviderError},
    interface::{ApiGroups, Provider},
    objects::{NoObjects, ObjectLister},
    request::{CustomRequest, ExternalRequest, ObjectKey},
    value::{
        CustomValue, CustomValues, ExternalValues, ListedCustomMetric, ListedExternalMetric,
        NodeUsage, ObjectKind, Origin, PodUsage, Usage, Value,
    },
};

/// Has every metric of schedules: whatever the name of a metric is, its value is that of the
/// schedule. Discovery doesn't list them.
pub struct ScheduleProvider(Arc<Schedules>);

impl ScheduleProvider {
    /// A provider for the values of these schedules.
    pub fn new(schedules: Arc<Schedules>) -> Self {
        Self(schedules)
    }

    /// The kind that a request is for. Autoscalers ask for metrics of a `ClusterScalingSchedule` in
    /// their own namespace.
    fn kind(resource: &GroupResource, is_namespaced: bool) -> Option<ScheduleKind> {
        let kind = ScheduleKind::for_resource(resource)?;
        (is_namespaced || kind == ScheduleKind::Cluster).then_some(kind)
    }

    fn kind_of(request: &CustomRequest) -> Result<ScheduleKind, ProviderError> {
        Self::kind(&request.resource, request.is_namespaced()).ok_or_else(|| {
            let reason = format!("{} have no schedule", request.resource);
            ProviderError::UnknownMetric(NotFound::Other(reason))
        })
    }
}

fn values(kind: ScheduleKind, items: Vec<CustomValue>) -> CustomValues {
    let object_kind = ObjectKind {
        resource: kind.resource(),
        version: VERSION.to_owned(),
        kind: kind.name().to_owned(),
    };
    let origin = Origin { rule: "schedule".to_owned(), ..Origin::default() };
    CustomValues { object_kind, items, omitted: Vec::new(), origin: Arc::new(origin) }
}

fn item(namespace: &str, name: &str, (value, timestamp): (i64, Timestamp)) -> CustomValue {
    let quantity = MilliValue::from_units(value).into();
    CustomValue {
        object: ObjectKey::new(namespace, name),
        value: Value { quantity, timestamp, window: None },
    }
}

#[async_trait]
impl Provider for ScheduleProvider {
    fn groups(&self) -> ApiGroups {
        ApiGroups { custom: true, ..ApiGroups::default() }
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        self.0.readiness()
    }

    fn has_custom(&self, resource: &GroupResource, is_namespaced: bool, _: &str) -> bool {
        Self::kind(resource, is_namespaced).is_some()
    }

    fn has_external(&self, _: &str) -> bool {
        false
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        Vec::new()
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        Vec::new()
    }

    async fn custom_by_name(
        &self,
        request: &CustomRequest,
        name: &str,
    ) -> Result<CustomValues, ProviderError> {
        let kind = Self::kind_of(request)?;
        let value = self.0.value(&ScheduleKey::new(kind, &request.namespace, name));
        let value = value.map_err(|error| match error {
            NoScheduleValue::NotFound(_) | NoScheduleValue::NotInstalled(_) => {
                ProviderError::NoValueForObject(NotFound::Other(error.to_string()))
            }
            other => ProviderError::fetch(other),
        })?;
        Ok(values(kind, vec![item(&request.namespace, name, value)]))
    }

    async fn custom_by_selector(
        &self,
        request: &CustomRequest,
        objects: &Selector,
    ) -> Result<CustomValues, ProviderError> {
        let kind = Self::kind_of(request)?;
        let schedules = self.0.cache.of_namespace(kind, &request.namespace).into_iter();
        let selected = schedules.filter(|(_, entry)| objects.matches(&entry.labels));
        let items = selected.filter_map(|(key, _)| match self.0.value(&key) {
            Ok(value) => Some(item(&request.namespace, &key.name, value)),
            Err(error) => {
                debug!(%error, "a schedule has no value");
                None
            }
        });
        Ok(values(kind, items.collect()))
    }

    async fn external(&self, request: &ExternalRequest) -> Result<ExternalValues, ProviderError> {
        Err(ProviderError::UnknownMetric(NotFound::External(request.metric.clone())))
    }

    async fn pod_usage(&self, _: &[ObjectKey]) -> Usage<PodUsage> {
        Usage::default()
    }

    async fn node_usage(&self, _: &[String]) -> Usage<NodeUsage> {
        Usage::default()
    }

    fn objects(&self) -> &dyn ObjectLister {
        &NoObjects
    }
}
