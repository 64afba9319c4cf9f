//! Reads a number from a JSON document of each pod of the target.

use std::{collections::HashSet, net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use hpa_calc::MilliValue;
use http::Uri;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep_until};

use crate::{
    Compat,
    cluster::Pod,
    collector::{
        Collector, Context, Environment, PodFailure, REQUEST_TIMEOUTS_PER_READ, Sample, Server,
        Values,
    },
    config::{MetricConfig, integer_setting, nanos_setting},
    document::{self, JsonSettings},
    error::{ConfigError, FetchError},
    guarded_http::{Destination, url},
    jsonpath::Extractor,
    settings::Limits,
};

/// The time limit of a collection in request timeouts. With two of them, there is time for other
/// pods even if the first [`Limits::connections_per_collection`] pods don't respond.
const TIMEOUTS_PER_COLLECTION: u32 = 2;

/// The default of the request timeout and of the connect timeout, as in kube-metrics-adapter.
const DEFAULT_TIMEOUT_NANOS: i64 = 15_000_000_000;

/// The URL of the document and the settings of requests.
#[derive(Clone, Debug)]
pub(crate) struct PodDocuments {
    extractor: Arc<Extractor>,
    /// In lower case.
    scheme: String,
    port: i64,
    path_and_query: String,
    /// In nanoseconds. 0 stands for the operator's maximum.
    request_timeout: i64,
    /// In nanoseconds. 0 stands for the operator's maximum.
    connect_timeout: i64,
    /// In nanoseconds.
    min_pod_ready_age: i64,
}

impl PodDocuments {
    pub(crate) const KEYS: &[&str] = &[
        "json-key",
        "json-eval",
        "aggregator",
        "scheme",
        "path",
        "port",
        "raw-query",
        "request-timeout",
        "connect-timeout",
    ];

    /// Fails if the scheme or the port can't be that of a pod. As in kube-metrics-adapter, this is
    /// not an error of the configuration.
    fn check_scheme_and_port(&self) -> Result<(), FetchError> {
        let Self { scheme, port, .. } = self;
        if scheme != "http" && scheme != "https" {
            return Err(FetchError::setting("scheme", scheme));
        }
        if *port == 0 || u16::try_from(*port).is_err() {
            return Err(FetchError::setting("port", &port.to_string()));
        }
        Ok(())
    }

    async fn read_pod(&self, context: &Context<'_>, pod: &Pod) -> Result<MilliValue, FetchError> {
        let max_timeout = context.clients.limits().max_request_timeout;
        let mut request = context.request(self.uri(&pod.ip)?, Destination::Pod);
        request.connect_timeout = effective_timeout(self.connect_timeout, max_timeout);
        request.timeout = effective_timeout(self.request_timeout, max_timeout);
        let reply = context.get(&request).await?;
        document::extract_number(context, &request.uri, reply, &self.extractor).await
    }

    fn uri(&self, ip: &str) -> Result<Uri, FetchError> {
        let host = match ip.parse() {
            Ok(IpAddr::V4(_)) => ip.to_owned(),
            Ok(IpAddr::V6(_)) => format!("[{ip}]"),
            Err(_) => return Err(FetchError::NoPodIp),
        };
        let text = format!("{}://{host}:{}{}", self.scheme, self.port, self.path_and_query);
        let invalid = |_| FetchError::setting("path", &self.path_and_query);
        text.parse().map_err(invalid)
    }
}

#[async_trait]
impl Collector for PodDocuments {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        if !matches!(metric.target.kind.as_str(), "Deployment" | "StatefulSet" | "Rollout") {
            return Err(ConfigError::TargetKind(metric.target.kind.clone()));
        }
        if metric.collector != "json-path" {
            return Err(ConfigError::PodFormat(metric.collector.clone()));
        }
        let json = JsonSettings::new(metric, "must be set", "are mutually exclusive")?;
        let text = |name: &str| metric.value(name).unwrap_or_default().to_owned();
        let port = metric.value("port").map_or(Ok(0), |text| integer_setting("port", text))?;
        let extractor = json.extractor(environment.compat);
        // Errors are in the order of kube-metrics-adapter: aggregator, timeouts, JSONPath.
        if let Err(error @ ConfigError::Aggregator(_)) = extractor {
            return Err(error);
        }
        let request_timeout = parse_timeout(metric, "request-timeout")?;
        let connect_timeout = parse_timeout(metric, "connect-timeout")?;
        if environment.compat == Compat::Off && metric.value("port").is_none() {
            return Err(ConfigError::Missing("port"));
        }
        let scheme = text("scheme");
        Ok(Self {
            extractor: extractor?,
            scheme: if scheme.is_empty() { "http".to_owned() } else { scheme.to_ascii_lowercase() },
            port,
            path_and_query: url::path_and_query(&text("path"), &text("raw-query")),
            request_timeout,
            connect_timeout,
            min_pod_ready_age: metric.min_pod_ready_age,
        })
    }

    fn servers(&self) -> Vec<Server> {
        vec![Server::Pods]
    }

    /// Reads all eligible pods. Pods that fail don't affect the others.
    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let clients = context.clients;
        self.check_scheme_and_port()?;
        let mut pods = clients.cluster.pods(context.namespace, context.target).await?;
        pods.retain(|pod| is_eligible(pod, self.min_pod_ready_age, context.now));
        if pods.is_empty() {
            return Ok(Values::default());
        }
        // The first pod depends on the time. Otherwise, the time limit would always cut off the
        // same pods. The milliseconds vary between collections. The seconds may not: with an
        // interval of 60 s, they would select the same one of 60 pods each time.
        let millis = usize::try_from(context.now.as_millisecond()).unwrap_or_default();
        let first = millis % pods.len();
        pods.rotate_left(first);
        let max_timeout = clients.limits().max_request_timeout;
        let limit = effective_timeout(self.request_timeout, max_timeout) * TIMEOUTS_PER_COLLECTION;
        // Collected first, because the compiler can't prove that a stream of closures is `Send`.
        let reads = pods.iter().map(|pod| async move {
            let value = self.read_pod(context, pod).await;
            (pod, value, context.current_time())
        });
        let reads: Vec<_> = reads.collect();
        let results: Vec<_> = stream::iter(reads)
            .buffer_unordered(clients.limits().connections_per_collection)
            .take_until(sleep_until(Instant::now() + limit))
            .collect()
            .await;
        values_of(&pods, results, limit)
    }

    /// Exceeds the limit of the requests to pods, even with the longest timeout that a tenant can
    /// set.
    fn time_limit(&self, limits: &Limits) -> Duration {
        limits.max_request_timeout * REQUEST_TIMEOUTS_PER_READ
    }
}

/// Parses a timeout into nanoseconds. Without the setting, it is the default.
fn parse_timeout(metric: &MetricConfig, name: &'static str) -> Result<i64, ConfigError> {
    let Some(text) = metric.value(name) else { return Ok(DEFAULT_TIMEOUT_NANOS) };
    let timeout = nanos_setting(name, text)?;
    if timeout < 0 { Err(ConfigError::Invalid(name, text.to_owned())) } else { Ok(timeout) }
}

/// The time limit for a timeout in nanoseconds. For 0, which means no limit in Go, it is the
/// operator's maximum.
fn effective_timeout(nanos: i64, max: Duration) -> Duration {
    match u64::try_from(nanos) {
        Ok(0) | Err(_) => max,
        Ok(nanos) => Duration::from_nanos(nanos).min(max),
    }
}

/// Whether a pod has been ready for long enough, and isn't terminating.
fn is_eligible(pod: &Pod, min_ready_age: i64, now: Timestamp) -> bool {
    let Some(since) = pod.ready_since.filter(|_| !pod.is_terminating) else { return false };
    // Without a minimum age, the clocks are not compared, because they may differ.
    min_ready_age <= 0 || now.duration_since(since) >= SignedDuration::from_nanos(min_ready_age)
}

/// A pod, its value, and the time of the value.
type PodResult<'p> = (&'p Pod, Result<MilliValue, FetchError>, Timestamp);

/// Sorts the results into samples and failures. Pods without a result exceeded the time limit.
/// Fails if no pod has a value.
fn values_of(
    pods: &[Pod],
    results: Vec<PodResult<'_>>,
    limit: Duration,
) -> Result<Values, FetchError> {
    let mut values = Values::default();
    if results.len() < pods.len() {
        let read: HashSet<&str> = results.iter().map(|(pod, ..)| pod.name.as_str()).collect();
        let unread = pods.iter().filter(|pod| !read.contains(pod.name.as_str()));
        let timed_out =
            |pod: &Pod| PodFailure { pod: pod.name.clone(), error: FetchError::Timeout(limit) };
        values.failures.extend(unread.map(timed_out));
    }
    for (pod, value, at) in results {
        let pod = pod.name.clone();
        match value {
            Ok(value) => values.samples.push(Sample { pod: Some(pod), value, at }),
            Err(error) => values.failures.push(PodFailure { pod, error }),
        }
    }
    values.samples.sort_by(|left, right| left.pod.cmp(&right.pod));
    values.failures.sort_by(|left, right| left.pod.cmp(&right.pod));
    if values.samples.is_empty() && !values.failures.is_empty() {
        let PodFailure { pod, error } = values.failures.swap_remove(0);
        return Err(FetchError::AllPods { pods: pods.len(), pod, first: Box::new(error) });
    }
    Ok(values)
}
