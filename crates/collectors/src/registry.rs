//! The table of all collectors, and the selection of a metric's collector.

use std::sync::Arc;

use hpa_calc::MilliValue;
use tokio::time::timeout;

use crate::{
    Compat,
    collector::divide,
    collectors::{
        http::HttpDocument,
        influx::FluxQuery,
        nakadi::NakadiSubscription,
        pods::PodDocuments,
        prometheus::PrometheusQuery,
        schedule::ScheduleValue,
        skipper::{HostRequestRate, RequestRate},
        sqs::SqsQueue,
        zmon::ZmonCheck,
    },
    config::MetricConfig,
    error::{ConfigError, FetchError},
};

pub use crate::collector::{
    Collector, Context, Environment, MetricSelector, PodFailure, Registration, Sample, Server,
    Values,
};

use MetricSelector::{ExternalType, ObjectAnnotation, ObjectKind, Pods};

/// The minimum interval of a metric, unless compatibility is selected. With shorter intervals,
/// almost every request would start a collection.
const MIN_INTERVAL_NANOS: i64 = 1_000_000_000;

/// All collectors. The first collector that matches a metric reads it.
pub const COLLECTORS: &[Registration] = &[
    Registration::new::<PodDocuments>("pods", &[Pods], PodDocuments::KEYS),
    Registration::new::<RequestRate>(
        "skipper",
        &[ObjectKind(&["Ingress", "RouteGroup"])],
        &["backend"],
    ),
    Registration::new::<ScheduleValue>(
        "schedule",
        &[ObjectKind(&["ScalingSchedule", "ClusterScalingSchedule"])],
        &[],
    ),
    Registration::new::<PrometheusQuery>(
        "prometheus",
        &[ObjectAnnotation("prometheus"), ExternalType(&["prometheus", "prometheus-query"])],
        &["query", "query-name", "prometheus-server", "prometheus-server-alias"],
    ),
    Registration::new::<HostRequestRate>(
        "external-rps",
        &[ExternalType(&["requests-per-second"])],
        &["hostnames", "weight"],
    ),
    Registration::new::<HttpDocument>(
        "http",
        &[ExternalType(&["json-path", "http"])],
        &["endpoint", "json-key", "json-eval", "aggregator"],
    ),
    Registration::new::<FluxQuery>(
        "influxdb",
        &[ExternalType(&["influxdb", "flux-query"])],
        &["query", "query-name", "address", "token", "org"],
    ),
    Registration::new::<SqsQueue>(
        "sqs",
        &[ExternalType(&["sqs-queue-length"])],
        &["queue-name", "region", "in-flight", "delayed"],
    ),
    Registration::new::<ZmonCheck>(
        "zmon",
        &[ExternalType(&["zmon", "zmon-check"])],
        &["check-id", "key", "aggregators", "duration", "tag-*"],
    ),
    Registration::new::<NakadiSubscription>(
        "nakadi",
        &[ExternalType(&["nakadi"])],
        NakadiSubscription::KEYS,
    ),
];

/// The types of external metrics that collectors read.
pub fn external_types() -> impl Iterator<Item = &'static str> {
    COLLECTORS.iter().flat_map(Registration::external_types)
}

/// The collector of a metric, with the parsed settings.
#[derive(Clone, Debug)]
pub struct CollectorPlan {
    /// The name of the collector.
    pub name: &'static str,
    /// The time between collections. With compatibility, it may be negative.
    pub interval_nanos: i64,
    collector: Arc<dyn Collector>,
}

impl CollectorPlan {
    /// Finds the collector of a metric, parses its configuration and checks the permissions for its
    /// servers.
    pub fn new(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        if let Some(error) = &metric.duration_error {
            return Err(ConfigError::Duration(error.clone()));
        }
        let registration = environment
            .collector_for(metric)
            .ok_or_else(|| ConfigError::NoCollector(metric.display_name()))?;
        let is_too_short = metric.interval != 0 && metric.interval < MIN_INTERVAL_NANOS;
        if environment.compat == Compat::Off && is_too_short {
            return Err(ConfigError::of_setting("interval", "the interval must be at least 1s"));
        }
        let collector = (registration.parse)(metric, environment)?;
        let servers = collector.servers();
        servers.iter().try_for_each(|server| environment.check_permission(server, metric))?;
        let interval_nanos = match metric.interval {
            0 => environment.default_interval_nanos,
            interval => interval,
        };
        Ok(Self { name: registration.name, interval_nanos, collector })
    }

    #[cfg(test)]
    pub(crate) fn for_collector(collector: impl Collector + 'static) -> Self {
        Self { name: "test", interval_nanos: 0, collector: Arc::new(collector) }
    }

    /// The servers that [`Self::read`] sends requests to.
    pub fn servers(&self) -> Vec<Server> {
        self.collector.servers()
    }

    /// Whether [`Self::current_value`] divides by the replicas.
    pub(crate) fn is_per_replica(&self) -> bool {
        self.collector.is_per_replica()
    }

    /// Reads the values once, within the time limit of the collector. [`Self::current_value`]
    /// completes them.
    pub async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let limit = self.collector.time_limit(context.clients.limits());
        let values = timeout(limit, self.collector.read(context)).await;
        values.unwrap_or(Err(FetchError::Timeout(limit)))
    }

    /// The value of a sample to use now. If the collector's values are per replica, divides it by
    /// the replicas that the target has now. Reads these within the time limit of the collector.
    pub async fn current_value(
        &self,
        sample: &Sample,
        context: &Context<'_>,
    ) -> Result<MilliValue, FetchError> {
        if !self.is_per_replica() {
            return Ok(sample.value);
        }
        let limit = self.collector.time_limit(context.clients.limits());
        let replicas = timeout(limit, context.replicas()).await;
        let replicas = replicas.map_err(|_| FetchError::Timeout(limit))??;
        Ok(MilliValue::from_milli(divide(sample.value.as_milli(), replicas)?))
    }
}
