//! The trait [`Collector`], its registration, and the inputs and results of a read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use hpa_calc::{MilliValue, api::CrossVersionObjectReference, suggestions::most_similar};
use hpa_go_compat::truncate_to_i64;
use http::Uri;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::{
    Compat,
    annotations::MetricType,
    clients::Clients,
    cluster::LookupError,
    config::MetricConfig,
    error::{ConfigError, FetchError, QueryError},
    guarded_http::{Destination, HttpRequest, Reply},
    registry::COLLECTORS,
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

    /// Whether each value is divided by the replicas of the target when it is used. [`Self::read`]
    /// then returns undivided values, because the caller reuses them, and the autoscaler may have
    /// changed the replicas since.
    fn is_per_replica(&self) -> bool {
        false
    }

    /// Reads the current values. The caller caches them and decides when to read again. Dropping
    /// the future must close its connections.
    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError>;

    /// The time limit of [`Self::read`], with all its requests.
    fn time_limit(&self, limits: &Limits) -> Duration {
        limits.request_timeout * REQUEST_TIMEOUTS_PER_READ
    }
}

/// The default time limit of a read, in request timeouts.
pub(crate) const REQUEST_TIMEOUTS_PER_READ: u32 = 4;

/// A server that a collector sends requests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// The pods of the autoscaler's target.
    Pods,
    /// A URL in the settings of the metric. `guarded_http` checks its address.
    Url(String),
    /// A server of the operator, by its name.
    Operator(String),
}

/// Parses the settings of one metric.
type Parse = fn(&MetricConfig, &Environment) -> Result<Arc<dyn Collector>, ConfigError>;

/// The names of the settings that all collectors have.
const COMMON_KEYS: [&str; 3] = ["interval", "min-pod-ready-age", "per-replica"];

/// One line of the table of collectors.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The name in flags, metrics and documentation.
    pub name: &'static str,
    selectors: &'static [MetricSelector],
    keys: &'static [&'static str],
    pub(crate) parse: Parse,
}

/// Selects the metrics of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricSelector {
    /// All metrics of the type Pods.
    Pods,
    /// Object metrics of these kinds of objects.
    ObjectKind(&'static [&'static str]),
    /// Object metrics whose annotations, or else whose label `type`, name this collector. With
    /// compatibility, the label doesn't count.
    ObjectAnnotation(&'static str),
    /// External metrics whose label `type`, or else their name, is one of these.
    ExternalType(&'static [&'static str]),
}

impl MetricSelector {
    fn matches(self, metric: &MetricConfig) -> bool {
        match (self, metric.metric_type) {
            (Self::Pods, MetricType::Pods) => true,
            (Self::ObjectKind(kinds), MetricType::Object) => {
                metric.object.as_ref().is_some_and(|object| kinds.contains(&&*object.kind))
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
    /// Registers a collector for the metrics that any of `selectors` matches. `keys` are the names
    /// of its settings. `tag-*` stands for all names that start with `tag-`.
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

    fn matches(&self, metric: &MetricConfig) -> bool {
        self.selectors.iter().any(|selector| selector.matches(metric))
    }

    /// The types of external metrics that the collector reads.
    pub(crate) fn external_types(&self) -> impl Iterator<Item = &'static str> {
        let types = self.selectors.iter().filter_map(|selector| match selector {
            MetricSelector::ExternalType(types) => Some(*types),
            _ => None,
        });
        types.flatten().copied()
    }

    /// Whether the collector reads external metrics of this type.
    pub(crate) fn reads_external_type(&self, name: &str) -> bool {
        self.external_types().any(|known| known == name)
    }

    /// Whether the collector has a setting of this name. The settings that all collectors have
    /// don't count.
    pub fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == *pattern,
        })
    }

    /// The setting of the collector, or of all collectors, with the most similar name.
    pub(crate) fn most_similar_key(&self, key: &str) -> Option<&'static str> {
        let keys = self.keys.iter().chain(&COMMON_KEYS).copied();
        most_similar(key, keys.filter(|key| !key.ends_with('*')))
    }
}

/// The operator's settings that determine how the configurations of metrics are parsed.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The available collectors.
    pub collectors: Vec<Registration>,
    /// The names of additional Prometheus servers.
    pub prometheus_aliases: BTreeSet<String>,
    /// The configured AWS regions of queues.
    pub sqs_regions: BTreeSet<String>,
    /// The name of the series for external metrics `requests-per-second`.
    pub external_rps_metric: String,
    /// The time between collections, if the metric doesn't set it.
    pub default_interval_nanos: i64,
    /// The namespaces that may read from a server, by the server's name. All namespaces may read
    /// from a server without an entry. `url` stands for URLs in the settings of metrics, `pods` for
    /// pods.
    pub permissions: BTreeMap<String, BTreeSet<String>>,
    pub compat: Compat,
}

impl Default for Environment {
    /// All collectors, and the defaults of the flags of kube-metrics-adapter.
    fn default() -> Self {
        Self {
            collectors: COLLECTORS.to_vec(),
            prometheus_aliases: BTreeSet::new(),
            sqs_regions: BTreeSet::new(),
            external_rps_metric: "skipper_serve_host_duration_seconds_count".to_owned(),
            default_interval_nanos: 60_000_000_000,
            permissions: BTreeMap::new(),
            compat: Compat::Off,
        }
    }
}

impl Environment {
    /// The first collector that matches a metric.
    pub fn collector_for(&self, metric: &MetricConfig) -> Option<&Registration> {
        self.collectors.iter().find(|collector| collector.matches(metric))
    }

    /// Checks that the operator permits the server in the metric's namespace.
    pub(crate) fn check_permission(
        &self,
        server: &Server,
        metric: &MetricConfig,
    ) -> Result<(), ConfigError> {
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
        let message = format!("the operator doesn't permit {name} in the namespace {namespace}");
        Err(ConfigError::new(message))
    }
}

/// The inputs of [`Collector::read`]: the clients, and the autoscaler whose metric it reads.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    pub clients: &'c Clients,
    /// The namespace of the autoscaler.
    pub namespace: &'c str,
    /// The `scaleTargetRef` of the autoscaler.
    pub target: &'c CrossVersionObjectReference,
    /// The time at which the read started.
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

    /// The start of the read plus the monotonic time since then.
    pub(crate) fn current_time(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
        self.now.checked_add(elapsed).unwrap_or(self.now)
    }

    /// The replicas that the target has now.
    pub(crate) async fn replicas(&self) -> Result<i32, LookupError> {
        self.clients.cluster.replicas(self.namespace, self.target).await
    }

    /// A GET request within the limits of the namespace. Use [`Destination::Tenant`] for every URL
    /// in the settings of a metric.
    pub fn request(&self, uri: Uri, destination: Destination) -> HttpRequest {
        HttpRequest::new(uri, destination, self.clients.limits(), self.namespace)
    }

    /// Sends a request. Redirections are errors.
    pub async fn send(&self, request: &HttpRequest) -> Result<Reply, FetchError> {
        self.clients.http.send(request).await
    }

    /// Sends a GET request and follows up to five redirections. Each destination is checked.
    pub async fn get(&self, request: &HttpRequest) -> Result<Reply, FetchError> {
        self.clients.http.get(request).await
    }

    /// One value, measured now.
    pub fn single(&self, value: MilliValue) -> Values {
        Values::single(value, self.current_time())
    }
}

/// The values of a metric.
#[derive(Debug, Default)]
pub struct Values {
    /// Of a Pods metric: one sample for each pod with a value, sorted by the pods' names. Of other
    /// metrics: one sample, or none if there is no value.
    pub samples: Vec<Sample>,
    /// The pods whose values could not be read, sorted by name.
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
    /// The pod's name. `None` unless the metric has the type Pods.
    pub pod: Option<String>,
    pub value: MilliValue,
    /// The time of the measurement.
    pub at: Timestamp,
}

/// A pod whose value could not be read.
#[derive(Debug)]
pub struct PodFailure {
    pub pod: String,
    pub error: FetchError,
}

/// Divides a value in thousandths by the number of replicas, truncated.
pub(crate) fn divide(milli: i64, replicas: i32) -> Result<i64, QueryError> {
    if replicas < 1 {
        return Err(QueryError::NoReplicas(replicas));
    }
    Ok(truncate_to_i64(milli as f64 / f64::from(replicas)).unwrap_or(i64::MIN))
}

/// Converts a value to thousandths, truncated. NaN or a value out of range is an error by default.
/// With compatibility, it becomes the smallest integer, as in Go on amd64.
pub(crate) fn to_milli(value: f64, compat: Compat) -> Result<i64, QueryError> {
    match (truncate_to_i64(value * 1000.0), compat) {
        (Some(milli), _) => Ok(milli),
        (None, Compat::Off) => Err(QueryError::OutOfRange(value)),
        (None, Compat::Reference) => Ok(i64::MIN),
    }
}
