//! Records the requests of the controller.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use hpa_testbed::name_with_group;
use http::Uri;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::ChildStdout,
};

use crate::{
    exposition::samples,
    request_info::{RequestInfo, RequestKind},
    stats::{AutoscalerRecord, Progress, RequestCount, Stats},
};

/// Collects [`Stats`].
#[derive(Debug)]
pub(crate) struct Recorder {
    start: Instant,
    /// The wall-clock time at `start`.
    start_time: Timestamp,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<RequestKind, Counters>,
    response_times: Vec<u32>,
    autoscalers: BTreeMap<String, AutoscalerRecord>,
    decided_count: usize,
}

#[derive(Debug, Default)]
struct Counters {
    count: u64,
    failed: u64,
    bytes: Arc<AtomicU64>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), start_time: Timestamp::now(), state: Mutex::default() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// Returns the seconds from the start to `time`.
    pub(crate) fn seconds_from_start(&self, time: Timestamp) -> f64 {
        time.duration_since(self.start_time).as_secs_f64()
    }

    /// Records that an autoscaler is about to be created.
    pub(crate) fn record_creation(&self, namespace: &str, name: &str) {
        let autoscaler = AutoscalerRecord { created: self.now(), ..AutoscalerRecord::default() };
        self.state.lock().autoscalers.insert(format!("{namespace}/{name}"), autoscaler);
    }

    /// Records a response at time `at`, in seconds since the start.
    pub(crate) fn record_response(
        &self,
        request: &RequestInfo,
        at: f64,
        duration: Duration,
        is_success: bool,
    ) {
        let micros = u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
        let mut state = self.state.lock();
        state.response_times.push(micros);
        let counters = state.requests.entry(request.kind.clone()).or_default();
        counters.count += 1;
        counters.failed += u64::from(!is_success);
        let is_status_write =
            request.matches(&["update", "patch"], "horizontalpodautoscalers.autoscaling", "status");
        if !is_success || !is_status_write {
            return;
        }
        let key = format!("{}/{}", request.namespace, request.name);
        let autoscaler = state.autoscalers.entry(key).or_default();
        autoscaler.written.push(at);
        let is_first = autoscaler.written.len() == 1;
        state.decided_count += usize::from(is_first);
    }

    /// Returns the counter of response bytes for a kind of request.
    pub(crate) fn byte_counter(&self, kind: &RequestKind) -> Arc<AtomicU64> {
        Arc::clone(&self.state.lock().requests.entry(kind.clone()).or_default().bytes)
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress { now: self.now(), decided_count: self.state.lock().decided_count }
    }

    /// Returns everything except [`Stats::prometheus`] and [`Stats::server`].
    pub(crate) fn stats(&self) -> Stats {
        let state = self.state.lock();
        let count = |(kind, counters): (&RequestKind, &Counters)| RequestCount {
            kind: kind.clone(),
            count: counters.count,
            failed: counters.failed,
            bytes: counters.bytes.load(Ordering::Relaxed),
        };
        Stats {
            now: self.now(),
            requests: state.requests.iter().map(count).collect(),
            response_times: state.response_times.clone(),
            autoscalers: state.autoscalers.clone(),
            ..Stats::default()
        }
    }
}

pub(super) const CONTROLLER_USER: &str = "measured-controller";

/// An audit policy that logs only the requests of a user, without their bodies.
pub(super) fn audit_policy(user: &str) -> Value {
    let rules = serde_json::json!([{ "level": "Metadata", "users": [user] }, { "level": "None" }]);
    serde_json::json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "omitStages": ["RequestReceived"], "rules": rules,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    response_status: Option<Status>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct Status {
    code: Option<u16>,
}

/// A request in the audit log.
#[derive(Debug, PartialEq)]
pub(crate) struct CompletedRequest {
    pub(crate) request: RequestInfo,
    /// The time of the response. For a watch, its start.
    pub(crate) at: Timestamp,
    pub(crate) duration: Duration,
    pub(crate) is_success: bool,
}

/// Passes completed requests to `record` until the API server closes the log.
pub(crate) async fn follow_audit_log(log: ChildStdout, record: impl Fn(CompletedRequest)) {
    let mut lines = BufReader::new(log).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match parse_audit_event(&line) {
            Ok(None) => {}
            Ok(Some(completed)) => record(completed),
            Err(error) => {
                eprintln!("hpa-bench: cannot parse a line of the audit log: {error}\n{line}");
            }
        }
    }
}

/// Parses a line of the audit log. Returns `None` for a stage that isn't counted: the end of a
/// watch, which was counted when it started, or the start of any other response.
fn parse_audit_event(line: &str) -> Result<Option<CompletedRequest>> {
    let event: Event = serde_json::from_str(line)?;
    let is_watch = event.verb == "watch";
    let is_counted = match event.stage.as_str() {
        "ResponseStarted" => is_watch,
        "ResponseComplete" => !is_watch,
        // The stage "Panic" also ends a request.
        _ => true,
    };
    if !is_counted {
        return Ok(None);
    }
    let code = event.response_status.and_then(|status| status.code).unwrap_or_default();
    let duration = event.stage_timestamp.duration_since(event.request_received_timestamp);
    Ok(Some(CompletedRequest {
        request: RequestInfo::with_verb(&event.verb, &event.request_uri.parse::<Uri>()?),
        at: event.stage_timestamp,
        duration: duration.try_into().unwrap_or_default(),
        is_success: (200..300).contains(&code),
    }))
}

/// Adds the bytes that an API server sent for each kind of request, by its own metrics. They cover
/// only reads and watches, and include requests of the same kinds by other clients.
pub(super) async fn add_bytes(client: &Client, requests: &mut [RequestCount]) -> Result<()> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text = client.request_text(request).await;
    let text = text.context("cannot read the API server's metrics")?;
    for request in requests {
        request.bytes += response_bytes(&text, request);
    }
    Ok(())
}

/// Returns the bytes of all responses to a kind of request, by the metrics of the API server.
fn response_bytes(text: &str, request: &RequestCount) -> u64 {
    let kind = &request.kind;
    let name = match kind.verb.as_str() {
        "watch" => "apiserver_watch_events_sizes_sum",
        "get" | "list" => "apiserver_response_sizes_sum",
        _ => return 0,
    };
    let of_kind = samples(text, name).filter(|sample| {
        let verb = sample.label("verb");
        name_with_group(sample.label("resource"), sample.label("group")) == kind.resource
            && sample.label("subresource") == kind.subresource
            && (verb.is_empty() || verb.eq_ignore_ascii_case(&kind.verb))
    });
    let bytes: f64 = of_kind.map(|sample| sample.value).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    let bytes = bytes as u64;
    bytes
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// As kube-apiserver 1.36 writes it.
    fn line(stage: &str, verb: &str, uri: &str, code: u16) -> String {
        format!(
            concat!(
                r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","#,
                r#""auditID":"8ab1a4f4","stage":"{stage}","requestURI":"{uri}","verb":"{verb}","#,
                r#""user":{{"username":"measured-controller","#,
                r#""groups":["system:masters","system:authenticated"]}},"#,
                r#""sourceIPs":["127.0.0.1"],"userAgent":"hpa","objectRef":{{"resource":"x"}},"#,
                r#""responseStatus":{{"metadata":{{}},"code":{code}}},"#,
                r#""requestReceivedTimestamp":"2026-11-21T10:00:00.000100Z","#,
                r#""stageTimestamp":"2026-11-21T10:00:00.002600Z","#,
                r#""annotations":{{"authorization.k8s.io/decision":"allow"}}}}"#,
            ),
            stage = stage,
            uri = uri,
            verb = verb,
            code = code,
        )
    }

    #[test]
    fn status_write_is_parsed_with_its_time() {
        let uri =
            "/apis/autoscaling/v2/namespaces/n/horizontalpodautoscalers/a/status?fieldManager=hpa";
        let completed = parse_audit_event(&line("ResponseComplete", "update", uri, 200))
            .expect("a line")
            .expect("a request");
        assert!(completed.request.matches(
            &["update"],
            "horizontalpodautoscalers.autoscaling",
            "status"
        ));
        assert_eq!(
            (completed.request.namespace.as_str(), completed.request.name.as_str()),
            ("n", "a")
        );
        assert_eq!(completed.at, "2026-11-21T10:00:00.0026Z".parse().expect("a time"));
        assert_eq!((completed.duration, completed.is_success), (Duration::from_micros(2500), true));
    }

    #[rstest]
    #[case::watch_starts("ResponseStarted", "watch", 200, Some(true))]
    #[case::watch_fails("ResponseStarted", "watch", 410, Some(false))]
    #[case::watch_ends("ResponseComplete", "watch", 200, None)]
    #[case::list("ResponseComplete", "list", 200, Some(true))]
    #[case::list_fails("ResponseComplete", "list", 429, Some(false))]
    #[case::server_panics("Panic", "list", 500, Some(false))]
    fn each_request_is_counted_once(
        #[case] stage: &str,
        #[case] verb: &str,
        #[case] code: u16,
        #[case] expected: Option<bool>,
    ) {
        let completed =
            parse_audit_event(&line(stage, verb, "/api/v1/pods?watch=true", code)).expect("a line");
        assert_eq!(completed.as_ref().map(|one| one.is_success), expected);
        assert!(completed.is_none_or(|one| one.request.kind.resource == "pods"));
    }

    #[test]
    fn line_that_is_not_an_event_is_an_error() {
        assert!(parse_audit_event("{}").is_err());
        assert!(parse_audit_event("I1121 10:00:00 1 main.go] a log line").is_err());
    }

    /// As kube-apiserver 1.36 writes it.
    const TEXT: &str = r#"apiserver_response_sizes_bucket{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1",le="+Inf"} 3
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 114980
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 20
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 0
apiserver_response_sizes_sum{component="apiserver",group="apps",resource="deployments",scope="resource",subresource="scale",verb="GET",version="v1"} 279
apiserver_watch_events_sizes_sum{group="",resource="pods",version="v1"} 217381
"#;

    #[test]
    fn bytes_are_summed_by_verb_and_resource() {
        let bytes_of = |verb: &str, resource: &str, subresource: &str| {
            let [verb, resource, subresource] =
                [verb, resource, subresource].map(ToOwned::to_owned);
            let kind = RequestKind { verb, resource, subresource };
            response_bytes(TEXT, &RequestCount { kind, count: 1, failed: 0, bytes: 0 })
        };
        assert_eq!(bytes_of("list", "pods", ""), 115_000);
        assert_eq!(bytes_of("watch", "pods", ""), 217_381);
        assert_eq!(bytes_of("get", "deployments.apps", "scale"), 279);
        assert_eq!(bytes_of("get", "deployments.apps", ""), 0);
        assert_eq!(bytes_of("patch", "pods", ""), 0);
    }
}
