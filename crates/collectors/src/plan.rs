//! How a metric is collected.

use std::collections::BTreeSet;

use crate::jsonpath::{Aggregator, Extractor, Query};
use hpa_calc::{api::CrossVersionObjectReference, go_duration};

use crate::{
    Compat,
    annotations::MetricType,
    config::{MetricConfig, ObjectReference},
    destination,
    error::PlanError,
    promql,
};

/// Settings of the operator that decide which metrics can be collected.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Names of further Prometheus servers.
    pub prometheus_aliases: BTreeSet<String>,
    /// Regions of queues.
    pub sqs_regions: BTreeSet<String>,
    /// The series of `requests-per-second`.
    pub external_rps_metric: String,
    /// Nanoseconds between collections, if the metric doesn't set it.
    pub default_interval: i64,
    /// Whether to reproduce the reference.
    pub compat: Compat,
}

impl Default for Environment {
    /// The defaults of the flags of kube-metrics-adapter.
    fn default() -> Self {
        Self {
            prometheus_aliases: BTreeSet::new(),
            sqs_regions: BTreeSet::new(),
            external_rps_metric: "skipper_serve_host_duration_seconds_count".to_owned(),
            default_interval: 60_000_000_000,
            compat: Compat::Off,
        }
    }
}

/// What to collect, and how often.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The collector and its settings.
    pub source: Source,
    /// Nanoseconds between collections.
    pub interval: i64,
}

/// A collector and its settings.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as the keys of annotations")]
pub enum Source {
    /// A document of each pod of the target.
    Pods(Box<PodSource>),
    /// A query to Prometheus.
    Prometheus { query: String, server: Server, per_replica: bool },
    /// Requests per second of an Ingress or `RouteGroup`. The query depends on the object.
    Skipper { object: ObjectReference, backend: String, is_averaged: bool },
    /// Requests per second of host names.
    ExternalRps { query: String },
    /// A document of an endpoint.
    Http { endpoint: String, extractor: Box<Extractor> },
    /// A query to `InfluxDB`. Without a value, the operator's applies.
    Influx { query: String, address: Option<String>, token: Option<String>, org: Option<String> },
    /// The length of a queue.
    Sqs(SqsSource),
    /// A check of ZMON.
    Zmon(ZmonSource),
    /// Lag of, or events for, a subscription of Nakadi.
    Nakadi(NakadiSource),
    /// The value of a `ScalingSchedule` or `ClusterScalingSchedule`.
    Schedule { object: ObjectReference, is_cluster: bool },
}

/// A Prometheus server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// The default one.
    Default,
    /// One that the operator has named.
    Alias(String),
    /// One that the autoscaler names by its URL.
    Url(String),
}

/// How to read a document of each pod.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as the keys of annotations")]
pub struct PodSource {
    pub extractor: Extractor,
    pub scheme: String,
    pub path: String,
    pub port: i64,
    pub raw_query: String,
    /// Nanoseconds.
    pub request_timeout: i64,
    /// Nanoseconds.
    pub connect_timeout: i64,
    /// Nanoseconds.
    pub min_pod_ready_age: i64,
}

/// A queue of Amazon SQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqsSource {
    /// Its name.
    pub queue: String,
    /// Its region.
    pub region: String,
    /// Whether messages count that were received, but not deleted yet. Not in the reference.
    pub in_flight: bool,
    /// Whether messages count that can't be received yet. Not in the reference.
    pub delayed: bool,
}

/// A check of ZMON.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the keys of annotations")]
pub struct ZmonSource {
    pub check_id: i64,
    pub key: String,
    /// Without the prefix `tag-`.
    pub tags: Vec<(String, String)>,
    pub aggregators: Vec<String>,
    /// Nanoseconds.
    pub duration: i64,
}

/// A subscription of Nakadi.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the keys of annotations")]
pub struct NakadiSource {
    /// Whether the lag in seconds is read, not the number of events.
    pub is_lag: bool,
    pub subscription_id: String,
    pub owning_application: String,
    pub event_types: Vec<String>,
    pub consumer_group: String,
}

impl Source {
    /// The name of the collector, for metrics and messages.
    pub fn collector(&self) -> &'static str {
        match self {
            Self::Pods(_) => "pods",
            Self::Prometheus { .. } => "prometheus",
            Self::Skipper { .. } => "skipper",
            Self::ExternalRps { .. } => "external-rps",
            Self::Http { .. } => "http",
            Self::Influx { .. } => "influxdb",
            Self::Sqs(_) => "sqs",
            Self::Zmon(_) => "zmon",
            Self::Nakadi(_) => "nakadi",
            Self::Schedule { .. } => "schedule",
        }
    }
}

const DEFAULT_TIMEOUT: i64 = 15_000_000_000;
const DEFAULT_ZMON_DURATION: i64 = 600_000_000_000;

impl Plan {
    /// The plan of a metric of an autoscaler with this target.
    pub fn new(
        config: &MetricConfig,
        target: &CrossVersionObjectReference,
        environment: &Environment,
    ) -> Result<Self, PlanError> {
        if let Some(error) = &config.invalid {
            return Err(PlanError::Annotation(error.clone()));
        }
        let source = match config.metric_type {
            MetricType::Pods => pods(config, target, environment)?,
            MetricType::Object => object(config)?,
            MetricType::External => external(config, environment)?,
        };
        let is_default = config.interval == 0;
        let interval = if is_default { environment.default_interval } else { config.interval };
        Ok(Self { source, interval })
    }
}

fn pods(
    config: &MetricConfig,
    target: &CrossVersionObjectReference,
    environment: &Environment,
) -> Result<Source, PlanError> {
    if !matches!(target.kind.as_str(), "Deployment" | "StatefulSet" | "Rollout") {
        return Err(PlanError::TargetKind(target.kind.clone()));
    }
    if config.collector != "json-path" {
        return Err(PlanError::PodFormat(config.collector.clone()));
    }
    let (key, eval) = json_settings(config);
    match (key.is_empty(), eval.is_empty()) {
        (true, true) => return Err(PlanError::PodNoJson),
        (false, false) => return Err(PlanError::PodTwoJson),
        _ => {}
    }
    let text = |name: &str| config.value(name).unwrap_or_default().to_owned();
    let port = config.value("port").map_or(Ok(0), integer)?;
    let aggregator = aggregator(config)?;
    let request_timeout = timeout(config, "request-timeout")?;
    let connect_timeout = timeout(config, "connect-timeout")?;
    let scheme = text("scheme");
    Ok(Source::Pods(Box::new(PodSource {
        extractor: extractor(key, eval, aggregator, environment.compat)?,
        scheme: if scheme.is_empty() { "http".to_owned() } else { scheme },
        path: text("path"),
        port,
        raw_query: text("raw-query"),
        request_timeout,
        connect_timeout,
        min_pod_ready_age: config.min_pod_ready_age,
    })))
}

fn object(config: &MetricConfig) -> Result<Source, PlanError> {
    let object = config.object.clone();
    let object = object.ok_or_else(|| PlanError::NoCollector(config.display_name()))?;
    match object.kind.as_str() {
        "Ingress" | "RouteGroup" => skipper(config, object),
        "ScalingSchedule" => Ok(Source::Schedule { object, is_cluster: false }),
        "ClusterScalingSchedule" => Ok(Source::Schedule { object, is_cluster: true }),
        _ if config.collector == "prometheus" => {
            let query = config.value("query").ok_or(PlanError::NoObjectQuery)?.to_owned();
            let per_replica = config.per_replica;
            Ok(Source::Prometheus { query, server: Server::Default, per_replica })
        }
        _ => Err(PlanError::NoCollector(config.display_name())),
    }
}

fn skipper(config: &MetricConfig, object: ObjectReference) -> Result<Source, PlanError> {
    let name = &config.metric.name;
    if !name.starts_with("requests-per-second") {
        return Err(PlanError::SkipperMetric(name.clone()));
    }
    // The name may have the backend, for old autoscalers.
    let legacy = || match name.split(',').collect::<Vec<_>>().as_slice() {
        [_, backend] => (*backend).to_owned(),
        _ => String::new(),
    };
    let backend = config.value("backend").map_or_else(legacy, str::to_owned);
    Ok(Source::Skipper { object, backend, is_averaged: !config.has_average_target })
}

fn external(config: &MetricConfig, environment: &Environment) -> Result<Source, PlanError> {
    let by_label = config.labels().and_then(|labels| labels.get("type"));
    let kind = by_label.filter(|kind| !kind.is_empty()).unwrap_or(&config.metric.name);
    match kind.as_str() {
        "prometheus" | "prometheus-query" => prometheus(config, environment),
        "requests-per-second" => {
            let query =
                promql::external_rps(config, &environment.external_rps_metric, environment.compat)?;
            config.labels().ok_or(PlanError::PrometheusNoSelector)?;
            Ok(Source::ExternalRps { query })
        }
        "json-path" | "http" => http(config, environment),
        "influxdb" | "flux-query" => influx(config, environment),
        "sqs-queue-length" => sqs(config, environment),
        "zmon" | "zmon-check" => zmon(config),
        "nakadi" => nakadi(config),
        _ => Err(PlanError::NoCollector(config.display_name())),
    }
}

fn prometheus(config: &MetricConfig, environment: &Environment) -> Result<Source, PlanError> {
    config.labels().ok_or(PlanError::PrometheusNoSelector)?;
    let query = if let Some(query) = config.value("query") {
        query
    } else {
        // Old autoscalers have the query under a name of their own.
        let name = config.value("query-name").ok_or(PlanError::NoQueryName)?;
        config.value(name).ok_or(PlanError::NoQuery)?
    };
    let server = match (config.value("prometheus-server"), config.value("prometheus-server-alias"))
    {
        (Some(url), _) => {
            destination::check_url(url, environment.compat)
                .map_err(|problem| PlanError::Url(url.to_owned(), problem))?;
            Server::Url(url.to_owned())
        }
        (None, Some(alias)) if !environment.prometheus_aliases.contains(alias) => {
            return Err(PlanError::PrometheusAlias(alias.to_owned()));
        }
        (None, Some(alias)) => Server::Alias(alias.to_owned()),
        (None, None) => Server::Default,
    };
    Ok(Source::Prometheus { query: query.to_owned(), server, per_replica: false })
}

fn http(config: &MetricConfig, environment: &Environment) -> Result<Source, PlanError> {
    let (key, eval) = json_settings(config);
    match (key.is_empty(), eval.is_empty()) {
        (true, true) => return Err(PlanError::HttpNoJson),
        (false, false) => return Err(PlanError::HttpTwoJson),
        _ => {}
    }
    let endpoint = config.value("endpoint").ok_or(PlanError::NoEndpoint)?.to_owned();
    destination::check_url(&endpoint, environment.compat)
        .map_err(|problem| PlanError::Url(endpoint.clone(), problem))?;
    if config.labels().is_none_or(std::collections::BTreeMap::is_empty) {
        return Err(PlanError::HttpNoSelector(config.metric.name.clone()));
    }
    let aggregator = aggregator(config)?;
    let extractor = extractor(key, eval, aggregator, environment.compat)?;
    Ok(Source::Http { endpoint, extractor: Box::new(extractor) })
}

fn influx(config: &MetricConfig, environment: &Environment) -> Result<Source, PlanError> {
    let query = match (config.value("query-name"), config.value("query")) {
        (Some(name), _) => {
            let query = config.value(name);
            query.ok_or_else(|| PlanError::FluxNoQuery(config.metric.name.clone()))?
        }
        // Documented by the reference, but not accepted by it.
        (None, Some(query)) if environment.compat == Compat::Off => query,
        (None, _) => return Err(PlanError::FluxNoQueryName),
    };
    let value = |name: &str| config.value(name).map(str::to_owned);
    Ok(Source::Influx {
        query: query.to_owned(),
        address: value("address"),
        token: value("token"),
        org: value("org"),
    })
}

fn sqs(config: &MetricConfig, environment: &Environment) -> Result<Source, PlanError> {
    config.labels().ok_or(PlanError::SqsNoSelector)?;
    let queue = config.value("queue-name").ok_or(PlanError::SqsNoName)?.to_owned();
    let region = config.value("region").ok_or(PlanError::SqsNoRegion)?.to_owned();
    if !environment.sqs_regions.contains(&region) {
        return Err(PlanError::SqsRegion(region));
    }
    let is_set = |name| match config.value(name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(PlanError::Invalid(name, other.to_owned())),
    };
    let (in_flight, delayed) = (is_set("in-flight")?, is_set("delayed")?);
    Ok(Source::Sqs(SqsSource { queue, region, in_flight, delayed }))
}

fn zmon(config: &MetricConfig) -> Result<Source, PlanError> {
    config.labels().ok_or(PlanError::ZmonNoSelector)?;
    let check_id = integer(config.value("check-id").ok_or(PlanError::ZmonNoCheck)?)?;
    let duration = config.value("duration");
    let duration = duration.map_or(Ok(DEFAULT_ZMON_DURATION), go_duration::parse_nanos)?;
    let tag = |(key, value): (&String, &String)| {
        Some((key.strip_prefix("tag-")?.to_owned(), value.clone()))
    };
    let aggregators = config.value("aggregators").unwrap_or("last");
    Ok(Source::Zmon(ZmonSource {
        check_id,
        key: config.value("key").unwrap_or_default().to_owned(),
        tags: config.values.iter().filter_map(tag).collect(),
        aggregators: aggregators.split(',').map(str::to_owned).collect(),
        duration,
    }))
}

fn nakadi(config: &MetricConfig) -> Result<Source, PlanError> {
    config.labels().ok_or(PlanError::NakadiNoSelector)?;
    let is_lag = match config.value("metric-type").ok_or(PlanError::NakadiNoType)? {
        "consumer-lag-seconds" => true,
        "unconsumed-events" => false,
        other => return Err(PlanError::NakadiType(other.to_owned())),
    };
    let value = |name: &str| config.value(name).unwrap_or_default().to_owned();
    let event_types = value("event-types");
    let event_types = event_types.split(',').map(str::trim).filter(|name| !name.is_empty());
    let source = NakadiSource {
        is_lag,
        subscription_id: value("subscription-id"),
        owning_application: value("owning-application"),
        event_types: event_types.map(str::to_owned).collect(),
        consumer_group: value("consumer-group"),
    };
    let is_filter = !source.owning_application.is_empty()
        && !source.event_types.is_empty()
        && !source.consumer_group.is_empty();
    if source.subscription_id.is_empty() && !is_filter {
        return Err(PlanError::NakadiSubscription);
    }
    Ok(Source::Nakadi(source))
}

fn json_settings(config: &MetricConfig) -> (&str, &str) {
    let value = |name: &str| config.value(name).unwrap_or_default();
    (value("json-key"), value("json-eval"))
}

fn extractor(
    key: &str,
    eval: &str,
    aggregator: Option<Aggregator>,
    compat: Compat,
) -> Result<Extractor, PlanError> {
    let query = if key.is_empty() {
        Query::expression(eval)
    } else {
        Query::key(key).map_err(PlanError::JsonPath)?
    };
    let compat = match compat {
        Compat::Off => crate::jsonpath::Compat::Off,
        Compat::KubeMetricsAdapter => crate::jsonpath::Compat::KubeMetricsAdapter,
    };
    Ok(Extractor::new(query, aggregator).with_compat(compat))
}

fn aggregator(config: &MetricConfig) -> Result<Option<Aggregator>, PlanError> {
    let Some(name) = config.value("aggregator") else { return Ok(None) };
    name.parse().map(Some).map_err(|_| PlanError::Aggregator(name.to_owned()))
}

fn timeout(config: &MetricConfig, name: &'static str) -> Result<i64, PlanError> {
    let Some(text) = config.value(name) else { return Ok(DEFAULT_TIMEOUT) };
    let timeout = go_duration::parse_nanos(text)?;
    if timeout < 0 { Err(PlanError::Invalid(name, text.to_owned())) } else { Ok(timeout) }
}

/// An integer in Go's notation.
fn integer(text: &str) -> Result<i64, PlanError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let problem = if is_number { "value out of range" } else { "invalid syntax" };
    text.parse().map_err(|_| PlanError::Integer(text.to_owned(), problem))
}
