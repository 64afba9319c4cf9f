//! Serves metrics of schedules as a metric source, for the adapter.

use async_trait::async_trait;
use hpa_calc::{MilliValue, Selector, report::error_texts::not_discovered};
use hpa_metrics::{
    ApiGroups, Catalog, CustomQuery, CustomValues, MetricError, MetricSource, NotFound, ObjectKind,
    Objects, Origin, Query, Values,
    source::{ListedCustomMetric, ListedExternalMetric},
    wire::MetricValue,
};
use jiff::Timestamp;
use tracing::debug;

use super::{
    NoScheduleValue, Schedules,
    kind::{ScheduleKey, ScheduleKind, VERSION},
};

impl Schedules {
    /// The kind of a requested resource. Autoscalers request metrics of a `ClusterScalingSchedule`
    /// in their own namespace.
    fn requested_kind(query: &CustomQuery) -> Result<ScheduleKind, MetricError> {
        let is_in_scope =
            |kind: &ScheduleKind| query.is_namespaced() || *kind == ScheduleKind::Cluster;
        ScheduleKind::for_resource(&query.resource).filter(is_in_scope).ok_or_else(|| {
            let reason = format!("{} is not a kind of schedule", query.resource);
            MetricError::UnknownMetric(NotFound::Other(reason))
        })
    }

    async fn custom_by_name(
        &self,
        query: &CustomQuery,
        name: &str,
    ) -> Result<CustomValues, MetricError> {
        let kind = Self::requested_kind(query)?;
        let value = self.value(&ScheduleKey::new(kind, &query.namespace, name)).await;
        let value = value.map_err(|error| match error {
            NoScheduleValue::NotFound(_) | NoScheduleValue::NotInstalled(_) => {
                MetricError::NoValueForObject(NotFound::Other(error.to_string()))
            }
            other => MetricError::from_fetch_error(other),
        })?;
        Ok(custom_values(kind, vec![metric_value(name, value)]))
    }

    async fn custom_by_selector(
        &self,
        query: &CustomQuery,
        objects: &Selector,
    ) -> Result<CustomValues, MetricError> {
        let kind = Self::requested_kind(query)?;
        let schedules = self.cache.in_namespace(kind, &query.namespace).into_iter();
        let selected = schedules.filter(|(_, entry)| objects.matches(&entry.labels));
        let selected: Vec<ScheduleKey> = selected.map(|(key, _)| key).collect();
        let mut items = Vec::new();
        for key in selected {
            match self.value(&key).await {
                Ok(value) => items.push(metric_value(&key.name, value)),
                Err(error) => debug!(%error, "a schedule has no value"),
            }
        }
        Ok(custom_values(kind, items))
    }
}

fn custom_values(kind: ScheduleKind, items: Vec<MetricValue>) -> CustomValues {
    let object_kind = ObjectKind {
        resource: kind.resource(),
        version: VERSION.to_owned(),
        kind: kind.name().to_owned(),
    };
    let origin = Origin { rule: "schedule".to_owned(), ..Origin::default() };
    CustomValues { object_kind, items, omitted: Vec::new(), origin }
}

fn metric_value(name: &str, (value, timestamp): (i64, Timestamp)) -> MetricValue {
    let value = MilliValue::from_units(value);
    MetricValue { object: name.into(), timestamp, window_seconds: None, value }
}

impl Catalog for Schedules {
    fn groups(&self) -> ApiGroups {
        ApiGroups { custom: true, ..ApiGroups::default() }
    }

    /// Fails with a message for each kind with a watch that has not synced. The watch of a kind
    /// that is not installed counts as synced.
    fn readiness(&self) -> Result<(), Vec<String>> {
        let problems = self.cache.problems();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Only metrics of schedules may be missing because the schedules are not listed yet. Metrics
    /// of all other objects are those of other sources.
    fn undiscovered(&self, query: &Query) -> Option<String> {
        if !self.has(query) {
            return None;
        }
        Some(not_discovered("schedules", &self.readiness().err()?))
    }

    fn has(&self, query: &Query) -> bool {
        matches!(query, Query::Custom(query) if Self::requested_kind(query).is_ok())
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        Vec::new()
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        Vec::new()
    }
}

/// Every metric of a schedule has the schedule's value: the name of the metric doesn't matter.
/// Discovery therefore lists no metrics.
#[async_trait]
impl MetricSource for Schedules {
    fn catalog(&self) -> &dyn Catalog {
        self
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        let reason = match query {
            Query::Custom(query) => {
                let values = match &query.objects {
                    Objects::Named(name) => self.custom_by_name(query, name).await,
                    Objects::Selected(selector) => self.custom_by_selector(query, selector).await,
                };
                return values.map(Values::Custom);
            }
            Query::External(query) => NotFound::External(query.metric.clone()),
            Query::PodUsage { .. } | Query::NodeUsage { .. } => NotFound::NotConfigured,
        };
        Err(MetricError::UnknownMetric(reason))
    }
}
