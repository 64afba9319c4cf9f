//! Errors of configurations and of reads. A configuration error that kube-metrics-adapter also
//! reports has the same message, which users know from its events.

use std::{borrow::Cow, io, net::IpAddr, time::Duration};

use hpa_calc::{explain::counted, report::error_texts};
use hpa_metrics::describe;
use hpa_prometheus::{client::QueryFailure, promql::SyntaxError};

use crate::{
    cluster::LookupError, guarded_http::policy::Refusal, jsonpath::ExtractError,
    settings::SettingsError,
};

/// The maximum length of a setting in a [`FetchError`]. Annotations have up to 256 KiB.
const MAX_VALUE_CHARS: usize = 300;

/// An annotation that is invalid or ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {reason}")]
pub struct AnnotationProblem {
    /// The key of the annotation.
    pub annotation: String,
    pub reason: String,
}

/// An invalid configuration of a metric.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A duration in an annotation or a label is invalid.
    #[error("{0}")]
    Duration(String),
    #[error("no plugin found for {0}")]
    NoCollector(String),
    #[error(
        "failed to get pod label selector: unable to get pod label selector for scale target ref \
         '{0}'"
    )]
    TargetKind(String),
    #[error("format '{0}' not supported")]
    PodFormat(String),
    /// A setting is missing.
    #[error("config value {0} not found")]
    Missing(&'static str),
    /// The URL in a setting is invalid.
    #[error("parse {url:?}: {problem}")]
    Url { key: &'static str, url: String, problem: &'static str },
    #[error("aggregator function: {0} is unknown")]
    Aggregator(String),
    /// A setting is invalid: its name and value.
    #[error("invalid {0} config value: {1}")]
    Invalid(&'static str, String),
    /// The setting `json-key` is invalid.
    #[error(transparent)]
    JsonPath(ExtractError),
    #[error("no prometheus query defined for metric")]
    NoQuery,
    #[error("metric '{0}' not supported")]
    SkipperMetric(String),
    #[error("no Flux query defined for metric \"{0}\"")]
    NoFluxQuery(String),
    #[error("the metric region: {0} is not configured")]
    SqsRegion(String),
    /// A setting is missing or invalid, with the message of one collector.
    #[error("{message}")]
    Setting { key: &'static str, message: Cow<'static, str> },
    /// Another problem, with the message of one collector.
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl ConfigError {
    /// An error with the message of one collector.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Other(message.into())
    }

    /// An error of the setting `key`, with the message of one collector.
    pub fn of_setting(key: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Setting { key, message: message.into() }
    }

    /// The setting that is missing or invalid, if the error is about one.
    pub(crate) fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Missing(key)
            | Self::Url { key, .. }
            | Self::Invalid(key, _)
            | Self::Setting { key, .. } => Some(*key),
            Self::Aggregator(_) => Some("aggregator"),
            Self::JsonPath(_) => Some("json-key"),
            Self::NoQuery | Self::NoFluxQuery(_) => Some("query-name"),
            Self::SqsRegion(_) => Some("region"),
            Self::Duration(_)
            | Self::NoCollector(_)
            | Self::TargetKind(_)
            | Self::PodFormat(_)
            | Self::SkipperMetric(_)
            | Self::Other(_) => None,
        }
    }
}

/// A failed collection. Tenants see the message, so it must not reveal credentials or the data in
/// responses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// An object of the cluster is missing or unreadable.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A setting of the operator is invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{}{server} failed", error_texts::REQUEST_TO)]
    Http {
        /// Scheme, host and port.
        server: String,
        source: HttpError,
    },
    /// No number could be extracted from a document.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// A query can't be built, or its result has no value.
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("{}{server} failed", error_texts::QUERY_TO)]
    Prometheus {
        /// The name of the operator's server, or scheme, host and port of the tenant's one.
        server: String,
        source: QueryFailure,
    },
    /// The operator has not configured what the collector needs, for example its server.
    #[error("{0} is not configured")]
    NotConfigured(&'static str),
    /// The URL of an AWS service, by default or from an environment variable, is invalid. The text
    /// is the service: `sqs`, `sts` or `for credentials`.
    #[error("the endpoint URL of the AWS service {0} is invalid")]
    AwsEndpoint(&'static str),
    /// A setting of the metric is invalid.
    #[error("invalid {key} config value: {value}")]
    Setting { key: &'static str, value: String },
    /// A response violates the protocol.
    #[error("unexpected response of {service}: {problem}")]
    Response {
        /// The kind of server.
        service: &'static str,
        problem: &'static str,
    },
    /// A server of the operator refused a query of the tenant.
    #[error("{service}{}{reason}", error_texts::REFUSES_THE_QUERY)]
    QueryRefused {
        /// The kind of server.
        service: &'static str,
        reason: &'static str,
    },
    /// An annotation or label contains a token, readable for everyone who can read the autoscaler.
    #[error(
        "a token in an annotation is not permitted: the operator can set a credential for the \
         server"
    )]
    TokenInAnnotation,
    /// The operator restricts queries to the series of the namespace.
    #[error("{start}{0}", start = error_texts::QUERY_NOT_RESTRICTED)]
    NotRestricted(SyntaxError),
    /// The operator restricts queries to the series of the namespace, and this one can't be parsed.
    #[error("{start}{at}: {0}", start = error_texts::QUERY_SYNTAX, at = .0.at)]
    QuerySyntax(SyntaxError),
    /// The operator restricts queries, but can't restrict those to a tenant's URL.
    #[error(
        "prometheus-server is not permitted, because queries are restricted to the namespace: \
         leave it out, or the operator lists its host (--collector-host)"
    )]
    UrlNotRestricted,
    /// A pod has no usable address.
    #[error("the pod has no IP address")]
    NoPodIp,
    /// The collector has a bug. The panic is in the log.
    #[error("the collector panicked")]
    Panicked,
    #[error("the process is stopping")]
    Stopping,
    /// The collection exceeded its time limit. Each pod that wasn't read by then has this error.
    #[error("{start}{} s", .0.as_secs_f64(), start = error_texts::NOT_READ_WITHIN)]
    Timeout(Duration),
    /// No value of a pod could be read. Pods that aren't ready, or are terminating, are not read.
    #[error("none of {} has a value; {pod}: {}", counted(*.pods, "pod"), describe(.first))]
    AllPods {
        /// The number of pods to read.
        pods: usize,
        /// The first pod by name.
        pod: String,
        /// The error of this pod.
        first: Box<FetchError>,
    },
}

/// A query that can't be built, or a result without a value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QueryError {
    /// The object has several backends, and the metric names none.
    #[error(
        "backend name must be specified for requests-per-second when traffic switching is used"
    )]
    NoBackend,
    /// The hosts or the weights of the object can't be used.
    #[error("{0}")]
    Object(String),
    /// The result has no value.
    #[error(
        "query '{query}'{}: {reason}{}",
        error_texts::NO_RESULT,
        restriction(.namespace.as_deref())
    )]
    NoResult {
        /// The query as sent.
        query: String,
        /// A reason of [`error_texts`].
        reason: &'static str,
        /// The namespace to which the query was restricted.
        namespace: Option<String>,
    },
    /// The target has no replicas.
    #[error("unable to get average value for {0} replicas")]
    NoReplicas(i32),
    /// The value in thousandths is NaN or doesn't fit into 64 bits.
    #[error("the value {0:e} is out of range")]
    OutOfRange(f64),
}

/// The end of an error about a query that was restricted to a namespace.
fn restriction(namespace: Option<&str>) -> String {
    let Some(namespace) = namespace else { return String::new() };
    let restricted = error_texts::RESTRICTED_TO_NAMESPACE;
    format!("; {restricted}{namespace} (--collector-namespace-label)")
}

/// A failed request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// Not a valid HTTP URL.
    #[error("the URL {0}")]
    Url(&'static str),
    /// The destination is not permitted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("unable to resolve {host}")]
    Resolve { host: String, source: io::Error },
    #[error("unable to connect to {address}")]
    Connect {
        /// The last attempted address.
        address: IpAddr,
        source: io::Error,
    },
    /// The proxy is unreachable, refuses the request, or is misconfigured. The text has no
    /// credentials of the proxy.
    #[error("unable to use the proxy: {0}")]
    Proxy(String),
    #[error("the TLS handshake failed: {0}")]
    Tls(String),
    /// TLS could not be set up with the CA certificates.
    #[error("unable to use the CA certificates")]
    CaCertificates(#[source] SettingsError),
    /// All connections, or all that the namespace may have, are in use.
    #[error("no free connection within {} s: too many concurrent requests", .0.as_secs_f64())]
    Busy(Duration),
    /// The response was large, and the permits for large responses, or those of the namespace, were
    /// in use until the end of the time limit.
    #[error(
        "a response of more than 64 KiB could not be read within {} s: too many other large \
         responses were being read. A shorter response doesn't wait for them",
        .0.as_secs_f64()
    )]
    BusyReading(Duration),
    /// The connection wasn't opened in time.
    #[error("no connection within {} s", .0.as_secs_f64())]
    ConnectTimeout(Duration),
    /// The head of the response wasn't complete in time, or a request with all its redirections
    /// took too long.
    #[error("{start}{} s", .0.as_secs_f64(), start = error_texts::NO_RESPONSE_WITHIN)]
    Timeout(Duration),
    /// The response began in time, but wasn't complete in time.
    #[error("the response took longer than {} s", .0.as_secs_f64())]
    SlowResponse(Duration),
    /// The connection failed, or the response is not HTTP.
    #[error("the connection failed")]
    Connection(#[source] hyper::Error),
    /// A credential is not a valid header value.
    #[error("a credential has characters that a header can't have")]
    Header,
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    /// The response has a content encoding, which the client didn't request.
    #[error("the response has a content encoding")]
    Encoding,
    /// The status of the response is not the expected one, usually 200.
    #[error("{unsuccessful}{0}", unsuccessful = error_texts::UNSUCCESSFUL_RESPONSE)]
    Status(http::StatusCode),
    #[error("evaluating the document panicked")]
    EvaluationPanicked(#[source] tokio::task::JoinError),
    /// The redirection is not followed, or leads to an unreachable server.
    #[error("the redirection {0}")]
    Redirect(&'static str),
}

impl FetchError {
    /// An invalid setting, with the start of its value.
    pub(crate) fn setting(key: &'static str, value: &str) -> Self {
        Self::Setting { key, value: value.chars().take(MAX_VALUE_CHARS).collect() }
    }
}

impl HttpError {
    /// The error of a redirected request, without its destination.
    pub(crate) fn after_redirection(self) -> Self {
        match self {
            Self::Url(_) | Self::Refused(_) => Self::Redirect("has a refused destination"),
            Self::Resolve { .. } | Self::Connect { .. } | Self::Proxy(_) | Self::Tls(_) => {
                Self::Redirect("leads to an unreachable server")
            }
            other => other,
        }
    }
}
