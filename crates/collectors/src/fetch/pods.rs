//! A document of each pod of the target.

use std::{collections::HashSet, sync::Arc, time::Duration};

use crate::jsonpath::Extractor;
use crate::plan::PodSource;
use futures::{StreamExt, stream};
use hpa_calc::MilliValue;
use http::Uri;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep_until};

use crate::fetch::{
    cluster::Pod,
    error::FetchError,
    fetchers::{Context, Fetched, Fetchers, PodFailure, Sample},
    http::{Call, Destination, url},
    json,
};

/// A collection may take twice as long as one request, so that half of the connections can wait for
/// pods that don't respond.
const ROUNDS: u32 = 2;

impl Fetchers {
    /// Reads all pods that are ready. Pods that fail don't affect others.
    pub(crate) async fn pods(
        &self,
        source: &PodSource,
        context: &Context<'_>,
    ) -> Result<Fetched, FetchError> {
        let request = PodRequest::new(self, source)?;
        let mut pods = self.cluster.pods(context.namespace, context.target).await?;
        pods.retain(|pod| is_eligible(pod, source.min_pod_ready_age, context.now));
        if pods.is_empty() {
            return Ok(Fetched::default());
        }
        // So that the time limit doesn't always hit the same pods.
        let turn = usize::try_from(context.now.as_second()).unwrap_or_default();
        let first = turn % pods.len();
        pods.rotate_left(first);
        let start = Instant::now();
        let limit = request.timeout * ROUNDS;
        // Collected first: the compiler can't show that a stream of closures is `Send`.
        let reads = pods.iter().map(|pod| {
            let request = &request;
            async move {
                let value = request.send(self, pod).await;
                (pod, value, context.time_since(start))
            }
        });
        let reads: Vec<_> = reads.collect();
        let results: Vec<_> = stream::iter(reads)
            .buffer_unordered(self.http.limits().connections_per_fetch)
            .take_until(sleep_until(start + limit))
            .collect()
            .await;
        collected(&pods, results, limit)
    }
}

/// What is equal for all pods.
struct PodRequest {
    extractor: Arc<Extractor>,
    scheme: String,
    port: u16,
    path_and_query: String,
    connect_timeout: Duration,
    timeout: Duration,
}

impl PodRequest {
    fn new(fetchers: &Fetchers, source: &PodSource) -> Result<Self, FetchError> {
        let setting = |key, value: String| FetchError::Setting { key, value };
        let scheme = source.scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err(setting("scheme", scheme));
        }
        let port = u16::try_from(source.port).ok().filter(|port| *port != 0);
        let port = port.ok_or_else(|| setting("port", source.port.to_string()))?;
        let max = fetchers.http.limits().max_request_timeout;
        // As in Go, 0 is no limit.
        let timeout = |nanos: i64| match u64::try_from(nanos) {
            Ok(0) | Err(_) => max,
            Ok(nanos) => Duration::from_nanos(nanos).min(max),
        };
        Ok(Self {
            extractor: Arc::new(source.extractor.clone()),
            scheme,
            port,
            path_and_query: url::path_and_query(&source.path, &source.raw_query),
            connect_timeout: timeout(source.connect_timeout),
            timeout: timeout(source.request_timeout),
        })
    }

    async fn send(&self, fetchers: &Fetchers, pod: &Pod) -> Result<MilliValue, FetchError> {
        let uri = self.uri(&pod.ip)?;
        let mut call = Call::new(uri, Destination::Pod, fetchers.http.limits());
        (call.connect_timeout, call.timeout) = (self.connect_timeout, self.timeout);
        let reply = fetchers.http.get(&call).await?;
        json::number(&fetchers.http, &call.uri, reply, &self.extractor, fetchers.compat).await
    }

    fn uri(&self, ip: &str) -> Result<Uri, FetchError> {
        let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
        let is_address = ip.parse::<std::net::IpAddr>().is_ok();
        let host = Some(host).filter(|_| is_address).ok_or(FetchError::NoPodIp)?;
        let text = format!("{}://{host}:{}{}", self.scheme, self.port, self.path_and_query);
        let invalid = |_| FetchError::Setting { key: "path", value: self.path_and_query.clone() };
        text.parse().map_err(invalid)
    }
}

/// Whether a pod is ready, has been for long enough, and is not terminating.
fn is_eligible(pod: &Pod, min_ready_age: i64, now: Timestamp) -> bool {
    let Some(since) = pod.ready_since.filter(|_| !pod.is_terminating) else { return false };
    // A clock that is behind must not make all pods too young.
    min_ready_age <= 0 || now.duration_since(since) >= SignedDuration::from_nanos(min_ready_age)
}

type PodResult<'p> = (&'p Pod, Result<MilliValue, FetchError>, Timestamp);

fn collected(
    pods: &[Pod],
    results: Vec<PodResult<'_>>,
    limit: Duration,
) -> Result<Fetched, FetchError> {
    let mut fetched = Fetched::default();
    if results.len() < pods.len() {
        let done: HashSet<&str> = results.iter().map(|(pod, ..)| pod.name.as_str()).collect();
        let late = pods.iter().filter(|pod| !done.contains(pod.name.as_str()));
        fetched.failures.extend(
            late.map(|pod| PodFailure { pod: pod.name.clone(), error: FetchError::Timeout(limit) }),
        );
    }
    for (pod, value, at) in results {
        let pod = pod.name.clone();
        match value {
            Ok(value) => fetched.samples.push(Sample { pod: Some(pod), value, at }),
            Err(error) => fetched.failures.push(PodFailure { pod, error }),
        }
    }
    fetched.samples.sort_by(|left, right| left.pod.cmp(&right.pod));
    fetched.failures.sort_by(|left, right| right.pod.cmp(&left.pod));
    if fetched.samples.is_empty()
        && let Some(PodFailure { pod, error }) = fetched.failures.pop()
    {
        return Err(FetchError::AllPods { pods: pods.len(), pod, first: Box::new(error) });
    }
    fetched.failures.reverse();
    Ok(fetched)
}
