//! Errors of configurations and of reads. The texts of configurations are those of the reference,
//! which users know from its events.

use std::{io, net::IpAddr, time::Duration};

use hpa_calc::go_duration::DurationError;
use hpa_go_compat::proxy::ProxyError;
use hpa_metrics::describe;
use hpa_prometheus::{client::QueryFailure, promql::SyntaxError};

use crate::{
    cluster::LookupError, collectors::skipper::QueryError, guarded_http::Refusal,
    jsonpath::ExtractError, settings::SettingsError,
};

/// An annotation that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {reason}")]
pub struct AnnotationProblem {
    /// The key of the annotation.
    pub annotation: String,
    /// Why it can't be used.
    pub reason: AnnotationError,
}

/// Why an annotation can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// The key has another form.
    #[error("the key is not metric-config.TYPE.METRIC.COLLECTOR/NAME")]
    Key,
    /// Another annotation names another collector for the metric.
    #[error("ignored, because the metric is collected by {0}")]
    OtherCollector(String),
    /// The interval is no duration.
    #[error("failed to parse interval value {value} for {metric}: {error}")]
    Interval {
        value: String,
        /// Type and name of the metric.
        metric: String,
        error: DurationError,
    },
    /// The age is no duration.
    #[error("failed to parse min-pod-ready-age value {value} for {metric}: {error}")]
    MinPodReadyAge {
        value: String,
        /// Type and name of the metric.
        metric: String,
        error: DurationError,
    },
}

/// Why a metric can't be collected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    Annotation(AnnotationError),
    #[error("the operator doesn't permit {server} in the namespace {namespace}")]
    NotPermitted { server: String, namespace: String },
    #[error("no plugin found for {0}")]
    NoCollector(String),
    #[error(
        "failed to get pod label selector: unable to get pod label selector for scale target ref '{0}'"
    )]
    TargetKind(String),
    #[error("format '{0}' not supported")]
    PodFormat(String),
    #[error("config value json-key or json-eval must be set")]
    PodNoJson,
    #[error("config value json-key and json-eval are mutually exclusive")]
    PodTwoJson,
    #[error("config value json-key or json-eval not found")]
    HttpNoJson,
    #[error("config value json-key and json-eval cannot be used together")]
    HttpTwoJson,
    /// A setting is missing.
    #[error("config value {0} not found")]
    Missing(&'static str),
    #[error("parse {0:?}: {1}")]
    Url(String, &'static str),
    #[error("no label selector specified for metric: {0}")]
    HttpNoSelector(String),
    #[error("strconv.Atoi: parsing {0:?}: {1}")]
    Integer(String, &'static str),
    #[error("aggregator function: {0} is unknown")]
    Aggregator(String),
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error("invalid {0} config value: {1}")]
    Invalid(&'static str, String),
    #[error(transparent)]
    JsonPath(ExtractError),
    #[error("no prometheus query defined")]
    NoObjectQuery,
    #[error("selector for prometheus query is not specified")]
    PrometheusNoSelector,
    #[error("query or query name not specified on metric")]
    NoQueryName,
    #[error("no prometheus query defined for metric")]
    NoQuery,
    #[error("no additional prometheus server found for alias {0}")]
    PrometheusAlias(String),
    #[error("metric '{0}' not supported")]
    SkipperMetric(String),
    #[error("hostname is not specified, unable to create collector")]
    NoHostname,
    #[error("invalid hostname format, unable to create collector: {0}")]
    Hostname(String),
    #[error("could not parse weight annotation, unable to create collector: {0}")]
    Weight(String),
    #[error(
        "selector for Flux query is not specified, please add \
         metricSelector.matchLabels.query-name: <...> to .yml description"
    )]
    FluxNoQueryName,
    #[error("no Flux query defined for metric \"{0}\"")]
    FluxNoQuery(String),
    #[error("selector for queue is not specified")]
    SqsNoSelector,
    #[error("sqs queue name not specified on metric")]
    SqsNoName,
    #[error("sqs queue region is not specified on metric")]
    SqsNoRegion,
    #[error("the metric region: {0} is not configured")]
    SqsRegion(String),
    #[error("selector for zmon-check is not specified")]
    ZmonNoSelector,
    #[error("ZMON check ID not specified on metric")]
    ZmonNoCheck,
    #[error("selector for nakadi is not specified")]
    NakadiNoSelector,
    #[error("metric-type not specified on metric")]
    NakadiNoType,
    #[error("metric-type must be either 'consumer-lag-seconds' or 'unconsumed-events', was '{0}'")]
    NakadiType(String),
    #[error(
        "either subscription-id or all of [owning-application, event-types, consumer-group] must \
         be specified on the metric"
    )]
    NakadiSubscription,
}

/// Why a collection failed. Tenants may see the text: it has no content of a response and no
/// credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// An object of the cluster can't be looked up.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A setting of the operator can't be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A request failed.
    #[error("the request to {server} failed")]
    Http {
        /// Scheme, host and port.
        server: String,
        /// Why it failed.
        source: HttpError,
    },
    /// The document of a response has no number.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// A query can't be made, or has no value.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Prometheus can't be queried.
    #[error("the query to {server} failed")]
    Prometheus {
        /// The name or the URL of the server.
        server: String,
        /// Why it failed.
        source: QueryFailure,
    },
    /// The operator has not set up what the collector needs.
    #[error("{0} is not configured")]
    NotConfigured(&'static str),
    /// A setting of the metric can't be used.
    #[error("invalid {key} config value: {value}")]
    Setting { key: &'static str, value: String },
    /// A response isn't what the protocol says.
    #[error("unexpected response of {service}: {problem}")]
    Response {
        /// The kind of server.
        service: &'static str,
        problem: &'static str,
    },
    /// A server of the operator refuses a query of the tenant.
    #[error("{service} refuses the query: {message}")]
    Server {
        /// The kind of server.
        service: &'static str,
        /// The kind of refusal.
        message: &'static str,
    },
    /// An annotation has a token, which everybody who can read the autoscaler can read.
    #[error(
        "a token in an annotation is not permitted: the operator can set a credential for the \
         server"
    )]
    TokenInAnnotation,
    /// The operator restricts queries to the series of the namespace.
    #[error("the query can't be restricted to the namespace: {0}")]
    NotRestricted(SyntaxError),
    /// A pod has no usable address.
    #[error("the pod has no IP address")]
    NoPodIp,
    /// The collection as a whole took too long.
    #[error("the collection took longer than {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// No pod of the target gave a value.
    #[error("none of {pods} pods has a value; {pod}: {}", describe(.first))]
    AllPods {
        /// How many were read.
        pods: usize,
        /// The first one by name.
        pod: String,
        /// Its error.
        first: Box<FetchError>,
    },
}

impl FetchError {
    /// Whether the destination is not permitted.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Http { source: HttpError::Refused(_), .. } => true,
            Self::AllPods { first, .. } => first.is_refused(),
            _ => false,
        }
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The URL is not one of HTTP.
    #[error("the URL {0}")]
    Url(&'static str),
    /// The destination is not permitted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The name can't be resolved.
    #[error("unable to resolve {host}")]
    Resolve {
        /// The name.
        host: String,
        source: io::Error,
    },
    /// The connection can't be opened.
    #[error("unable to connect to {address}")]
    Connect {
        /// The last address that was tried.
        address: IpAddr,
        source: io::Error,
    },
    /// The proxy can't be used.
    #[error("unable to use the proxy")]
    Proxy(#[source] ProxyFailure),
    /// The handshake failed.
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    /// There is no authority to verify the server with.
    #[error("there are no certificates of authorities")]
    Authorities(#[source] SettingsError),
    /// All connections are in use.
    #[error("no free connection within {} s: too many requests at a time", .0.as_secs_f64())]
    Busy(Duration),
    /// No connection in time.
    #[error("no connection within {} s", .0.as_secs_f64())]
    ConnectTimeout(Duration),
    /// No complete response in time.
    #[error("no response within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The connection failed, or the response is not HTTP.
    #[error("the connection failed")]
    Connection(#[source] hyper::Error),
    /// A header can't be sent.
    #[error("a credential has characters that a header can't have")]
    Header,
    /// The response is too long.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    /// The response has an encoding that was not asked for.
    #[error("the response has a content encoding")]
    Encoding,
    /// The response is no success.
    #[error("unsuccessful response: {0}")]
    Status(http::StatusCode),
    /// Decoding the response failed.
    #[error("decoding the response panicked")]
    Task(#[source] tokio::task::JoinError),
    /// A redirection leads elsewhere.
    #[error("the redirection {0}")]
    Redirect(&'static str),
}

impl HttpError {
    /// The error of a request that another response has caused, without its destination.
    pub(crate) fn after_redirection(self) -> Self {
        match self {
            Self::Url(_) | Self::Refused(_) => Self::Redirect("has a refused destination"),
            Self::Resolve { .. } | Self::Connect { .. } | Self::Proxy(_) | Self::Tls(_) => {
                Self::Redirect("has a destination without a server")
            }
            other => other,
        }
    }
}

/// Why a proxy can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyFailure {
    /// The variable is wrong.
    #[error(transparent)]
    Settings(#[from] ProxyError),
    /// The proxy can't be reached, or refuses.
    #[error("{proxy}: {message}")]
    Connect {
        /// The proxy, without credentials.
        proxy: String,
        message: String,
    },
}
