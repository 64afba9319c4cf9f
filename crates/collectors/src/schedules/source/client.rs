//! Serves metrics of schedules as a metrics client, for the controller.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::{MetricQuery, MetricsApi, MilliValue, ReadError, Reading, Selector};
use hpa_metrics::MetricsClient;

use super::{ScheduleKey, Schedules};

/// Reads metrics of schedules, and passes other queries to the next client. The coalescing client,
/// which reuses values, must be behind this client, because the value of a schedule must be
/// current.
pub struct ScheduleClient {
    schedules: Arc<Schedules>,
    next: Arc<dyn MetricsClient>,
}

impl ScheduleClient {
    /// A client that passes other queries to `next`.
    pub fn new(schedules: Arc<Schedules>, next: Arc<dyn MetricsClient>) -> Self {
        Self { schedules, next }
    }
}

#[async_trait]
impl MetricsClient for ScheduleClient {
    async fn read(
        &self,
        namespace: &str,
        pods: &Selector,
        query: &MetricQuery,
    ) -> Result<Reading, ReadError> {
        let schedule = match query {
            MetricQuery::Object { object, .. } => ScheduleKey::for_object(namespace, object),
            _ => None,
        };
        let Some(schedule) = schedule else { return self.next.read(namespace, pods, query).await };
        let value = self.schedules.value(&schedule).await;
        let (value, _) = value.map_err(|error| ReadError::fetch(MetricsApi::Custom, error))?;
        Ok(Reading::Object(MilliValue::from_units(value).into()))
    }
}
