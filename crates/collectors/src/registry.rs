//! The trait [`Collector`], and the table of all collectors.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use hpa_calc::{MilliValue, api::CrossVersionObjectReference};
use http::Uri;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, timeout};

use crate::{
    Compat,
    annotations::MetricType,
    clients::Clients,
    collectors::{
        http::HttpDocument,
        influx::FluxQuery,
        nakadi::NakadiSubscription,
        pods::PodDocuments,
        prometheus::PrometheusQuery,
        schedule::ScheduleValue,
        skipper::{ExternalRps, RequestRate},
        sqs::SqsQueue,
        zmon::ZmonCheck,
    },
    config::MetricConfig,
    error::{ConfigError, FetchError},
    guarded_http::{Call, Destination, Reply},
    settings::Limits,
};

/// Reads one metric of an autoscaler. An implementation is the parsed configuration of the metric.
///
/// `docs/contributing/add-a-collector.md` shows how to add one.
#[async_trait]
pub trait Collector: fmt::Debug + Send + Sync {
    /// Parses the settings of a metric, without I/O. Errors become events, so they must name what
    /// the user has to change.
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError>
    where
        Self: Sized;

    /// The servers that [`Self::read`] sends requests to. The operator's permissions for them are
    /// checked before anything is read.
    fn servers(&self) -> Vec<Server>;

    /// Reads the values once, without caches and background tasks. Dropping the future must close
    /// its connections.
    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError>;

    /// The time limit of [`Self::read`], with all its requests.
    fn time_limit(&self, limits: &Limits) -> Duration {
        limits.request_timeout * REQUEST_TIMEOUTS_PER_READ
    }
}

/// The default time limit of a read, in request timeouts.
pub(crate) const REQUEST_TIMEOUTS_PER_READ: u32 = 4;

/// The minimum interval of a metric in nanoseconds. With shorter intervals, every request would
/// start a collection.
const MIN_INTERVAL: i64 = 1_000_000_000;

/// A server that a collector sends requests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// The pods of the autoscaler's target.
    Pods,
    /// A URL that the autoscaler names. The guarded client checks its address.
    Url(String),
    /// A server of the operator, by its name.
    Operator(String),
}

/// Parses the settings of one metric.
type Parse = fn(&MetricConfig, &Environment) -> Result<Arc<dyn Collector>, ConfigError>;

/// One line of the table of collectors.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The name in flags, metrics and documentation.
    pub name: &'static str,
    selectors: &'static [MetricSelector],
    keys: &'static [&'static str],
    parse: Parse,
}

/// Selects the metrics of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricSelector {
    /// All metrics of the type Pods.
    Pods,
    /// Object metrics of these kinds of objects.
    ObjectKind(&'static [&'static str]),
    /// Object metrics whose annotations name this collector.
    ObjectAnnotation(&'static str),
    /// External metrics whose label `type`, or else their name, is one of these.
    ExternalType(&'static [&'static str]),
}

impl MetricSelector {
    fn external_types(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::ExternalType(types) => Some(types),
            _ => None,
        }
    }

    fn matches(self, metric: &MetricConfig) -> bool {
        let kind = metric.object.as_ref().map(|object| object.kind.as_str());
        match (self, metric.metric_type) {
            (Self::Pods, MetricType::Pods) => true,
            (Self::ObjectKind(kinds), MetricType::Object) => {
                kind.is_some_and(|kind| kinds.contains(&kind))
            }
            (Self::ObjectAnnotation(name), MetricType::Object) => metric.collector == name,
            (Self::ExternalType(types), MetricType::External) => {
                types.contains(&metric.external_type())
            }
            _ => false,
        }
    }
}

impl Registration {
    /// Registers a collector for the metrics that any of `selectors` matches. `keys` are its
    /// settings; `tag-*` means all that start with `tag-`.
    pub const fn new<C: Collector + 'static>(
        name: &'static str,
        selectors: &'static [MetricSelector],
        keys: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            selectors,
            keys,
            parse: |metric, environment| Ok(Arc::new(C::parse(metric, environment)?)),
        }
    }

    fn is_for(&self, metric: &MetricConfig) -> bool {
        self.selectors.iter().any(|selector| selector.matches(metric))
    }

    /// Whether the collector reads external metrics of this type.
    pub(crate) fn is_type(&self, name: &str) -> bool {
        let mut types = self.selectors.iter().filter_map(MetricSelector::external_types);
        types.any(|types| types.contains(&name))
    }

    /// Whether the collector has a setting.
    pub fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == *pattern,
        })
    }
}

/// The types of external metrics that collectors read.
pub fn external_types() -> impl Iterator<Item = &'static str> {
    let selectors = COLLECTORS.iter().flat_map(|collector| collector.selectors);
    selectors.filter_map(MetricSelector::external_types).flatten().copied()
}

use MetricSelector::{ExternalType, ObjectAnnotation, ObjectKind, Pods};

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
    Registration::new::<ExternalRps>(
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

/// The operator's settings for parsing configurations.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The available collectors.
    pub collectors: Vec<Registration>,
    /// The names of additional Prometheus servers.
    pub prometheus_aliases: BTreeSet<String>,
    /// The configured AWS regions of queues.
    pub sqs_regions: BTreeSet<String>,
    /// The name of the series for `requests-per-second`.
    pub external_rps_metric: String,
    /// Nanoseconds between collections, if the metric doesn't set it.
    pub default_interval: i64,
    /// The namespaces that may read from a server, by its name. Servers without an entry are open
    /// to all. `url` stands for URLs in annotations, `pods` for pods.
    pub permissions: BTreeMap<String, BTreeSet<String>>,
    pub compat: Compat,
}

impl Default for Environment {
    /// The defaults of the flags of kube-metrics-adapter.
    fn default() -> Self {
        Self {
            collectors: COLLECTORS.to_vec(),
            prometheus_aliases: BTreeSet::new(),
            sqs_regions: BTreeSet::new(),
            external_rps_metric: "skipper_serve_host_duration_seconds_count".to_owned(),
            default_interval: 60_000_000_000,
            permissions: BTreeMap::new(),
            compat: Compat::Off,
        }
    }
}

impl Environment {
    pub fn collector_for(&self, metric: &MetricConfig) -> Option<&Registration> {
        self.collectors.iter().find(|collector| collector.is_for(metric))
    }

    fn check_permission(&self, server: &Server, metric: &MetricConfig) -> Result<(), ConfigError> {
        let name = match server {
            Server::Pods => "pods",
            Server::Url(_) => "url",
            Server::Operator(name) => name,
        };
        let namespace = &metric.namespace;
        let is_permitted = |namespaces: &BTreeSet<String>| namespaces.contains(namespace.as_str());
        if self.permissions.get(name).is_none_or(is_permitted) {
            return Ok(());
        }
        let (server, namespace) = (name.to_owned(), namespace.clone());
        Err(ConfigError::NotPermitted { server, namespace })
    }
}

/// A metric with its collector.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the collector.
    pub name: &'static str,
    /// Nanoseconds between collections.
    pub interval: i64,
    collector: Arc<dyn Collector>,
}

impl Plan {
    /// Finds the collector of a metric and parses its configuration.
    pub fn new(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        if let Some(error) = &metric.invalid {
            return Err(ConfigError::Annotation(error.clone()));
        }
        let registration = environment
            .collector_for(metric)
            .ok_or_else(|| ConfigError::NoCollector(metric.display_name()))?;
        let is_too_short = metric.interval != 0 && metric.interval < MIN_INTERVAL;
        if environment.compat == Compat::Off && is_too_short {
            return Err(ConfigError::ShortInterval);
        }
        let collector = (registration.parse)(metric, environment)?;
        let servers = collector.servers();
        servers.iter().try_for_each(|server| environment.check_permission(server, metric))?;
        let is_default = metric.interval == 0;
        let interval = if is_default { environment.default_interval } else { metric.interval };
        Ok(Self { name: registration.name, interval, collector })
    }

    #[cfg(test)]
    pub(crate) fn of(collector: impl Collector + 'static) -> Self {
        Self { name: "test", interval: 0, collector: Arc::new(collector) }
    }

    /// The servers that [`Self::read`] sends requests to.
    pub fn servers(&self) -> Vec<Server> {
        self.collector.servers()
    }

    /// Reads the values once, within the time limit of the collector.
    pub async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let limit = self.collector.time_limit(context.clients.limits());
        let values = timeout(limit, self.collector.read(context)).await;
        values.unwrap_or(Err(FetchError::Timeout(limit)))
    }
}

/// The context of a read.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// The clients of servers and of the cluster.
    pub clients: &'c Clients,
    /// The namespace of the autoscaler.
    pub namespace: &'c str,
    /// The `scaleTargetRef` of the autoscaler.
    pub target: &'c CrossVersionObjectReference,
    /// The start time of the read.
    pub now: Timestamp,
    start: Instant,
}

impl<'c> Context<'c> {
    /// The context of a read that starts now.
    pub fn new(
        clients: &'c Clients,
        namespace: &'c str,
        target: &'c CrossVersionObjectReference,
        now: Timestamp,
    ) -> Self {
        Self { clients, namespace, target, now, start: Instant::now() }
    }

    /// The current time.
    pub(crate) fn time(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
        self.now.checked_add(elapsed).unwrap_or(self.now)
    }

    /// A GET request within the limits of the namespace. Use [`Destination::Tenant`] for every URL
    /// in an annotation.
    pub fn call(&self, uri: Uri, destination: Destination) -> Call {
        Call::new(uri, destination, self.clients.limits(), self.namespace)
    }

    /// Sends a request. Redirections are errors.
    pub async fn send(&self, call: &Call) -> Result<Reply, FetchError> {
        self.clients.http.send(call).await
    }

    /// Sends a GET request and follows redirections. Each destination is checked.
    pub async fn get(&self, call: &Call) -> Result<Reply, FetchError> {
        self.clients.http.get(call).await
    }

    /// One value, measured now.
    pub fn single(&self, value: MilliValue) -> Values {
        Values::single(value, self.time())
    }
}

/// The values of a metric.
#[derive(Debug, Default)]
pub struct Values {
    /// One sample for each pod, sorted by name, or one sample.
    pub samples: Vec<Sample>,
    /// Pods without a value, sorted by name.
    pub failures: Vec<PodFailure>,
}

impl Values {
    pub(crate) fn single(value: MilliValue, at: Timestamp) -> Self {
        Self { samples: vec![Sample { pod: None, value, at }], failures: Vec::new() }
    }
}

/// A value with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The pod, for Pods metrics.
    pub pod: Option<String>,
    pub value: MilliValue,
    /// The time of the measurement.
    pub at: Timestamp,
}

/// A pod without a value.
#[derive(Debug)]
pub struct PodFailure {
    pub pod: String,
    pub error: FetchError,
}
