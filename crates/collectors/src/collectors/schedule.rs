//! Recognizes metrics of `ScalingSchedule` and `ClusterScalingSchedule` objects.

use async_trait::async_trait;

use crate::{
    collector::{Collector, Context, Environment, Server, Values},
    config::MetricConfig,
    error::{ConfigError, FetchError},
};

/// Claims the metrics of schedules. Without it, those with annotations would be reported as metrics
/// without a collector. The values come from [`crate::schedules::source`], which watches the
/// schedules.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleValue;

#[async_trait]
impl Collector for ScheduleValue {
    fn parse(_: &MetricConfig, _: &Environment) -> Result<Self, ConfigError> {
        Ok(Self)
    }

    fn servers(&self) -> Vec<Server> {
        Vec::new()
    }

    async fn read(&self, _: &Context<'_>) -> Result<Values, FetchError> {
        Err(FetchError::NotConfigured("the source of scaling schedules"))
    }
}
