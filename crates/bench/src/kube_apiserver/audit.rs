//! The audit log of the API server: what the controller asked, and what became of it.

use std::time::Duration;

use http::Uri;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::ChildStdout,
};

use crate::{cluster::Cluster, request::About};

/// Who the controller is to the API server.
pub(super) const CONTROLLER: &str = "measured-controller";

/// Requests of the controller and of nobody else, without their bodies.
pub(super) fn policy() -> String {
    let rules =
        serde_json::json!([{ "level": "Metadata", "users": [CONTROLLER] }, { "level": "None" }]);
    serde_json::json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules,
    })
    .to_string()
}

/// A line of the log.
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

/// A request that was answered.
#[derive(Debug, PartialEq)]
struct Answered {
    about: About,
    at: Timestamp,
    took: Duration,
    success: bool,
}

/// Notes all that the log tells, until the API server ends.
pub(super) async fn follow(log: ChildStdout, cluster: Cluster) {
    let mut lines = BufReader::new(log).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match parse(&line) {
            Ok(None) => {}
            Ok(Some(Answered { about, at, took, success })) => {
                cluster.answered(&about, cluster.record.at(at), took, success);
            }
            Err(error) => {
                eprintln!("hpa-bench: cannot read a line of the audit log: {error}\n{line}")
            }
        }
    }
}

/// None if it is about a request that was counted already: a watch is answered when it begins.
fn parse(line: &str) -> anyhow::Result<Option<Answered>> {
    let event: Event = serde_json::from_str(line)?;
    let is_watch = event.verb == "watch";
    let is_answer = match event.stage.as_str() {
        "ResponseStarted" => is_watch,
        "ResponseComplete" => !is_watch,
        // Panic.
        _ => true,
    };
    if !is_answer {
        return Ok(None);
    }
    let code = event.response_status.and_then(|status| status.code).unwrap_or_default();
    let took = event.stage_timestamp.duration_since(event.request_received_timestamp);
    Ok(Some(Answered {
        about: About::with_verb(&event.verb, &event.request_uri.parse::<Uri>()?),
        at: event.stage_timestamp,
        took: took.try_into().unwrap_or_default(),
        success: (200..300).contains(&code),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test may stop where it was misled")]

    use rstest::rstest;

    use super::*;

    /// As kube-apiserver 1.36 writes it.
    fn line(stage: &str, verb: &str, uri: &str, code: u16) -> String {
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"8ab1a4f4","stage":"{stage}","requestURI":"{uri}","verb":"{verb}","user":{{"username":"measured-controller","groups":["system:masters","system:authenticated"]}},"sourceIPs":["127.0.0.1"],"userAgent":"hpa","objectRef":{{"resource":"x"}},"responseStatus":{{"metadata":{{}},"code":{code}}},"requestReceivedTimestamp":"2026-11-21T10:00:00.000100Z","stageTimestamp":"2026-11-21T10:00:00.002600Z","annotations":{{"authorization.k8s.io/decision":"allow"}}}}"#
        )
    }

    #[test]
    fn status_that_is_written_is_an_answer_with_its_time() {
        let uri =
            "/apis/autoscaling/v2/namespaces/n/horizontalpodautoscalers/a/status?fieldManager=hpa";
        let answered = parse(&line("ResponseComplete", "update", uri, 200))
            .expect("a line")
            .expect("an answer");
        assert!(answered.about.is(&["update"], "horizontalpodautoscalers.autoscaling", "status"));
        assert_eq!((answered.about.namespace.as_str(), answered.about.name.as_str()), ("n", "a"));
        assert_eq!(answered.at, "2026-11-21T10:00:00.0026Z".parse().expect("a time"));
        assert_eq!((answered.took, answered.success), (Duration::from_micros(2500), true));
    }

    #[rstest]
    #[case::a_watch_begins("ResponseStarted", "watch", 200, Some(true))]
    #[case::a_watch_is_refused("ResponseStarted", "watch", 410, Some(false))]
    #[case::a_watch_ends("ResponseComplete", "watch", 200, None)]
    #[case::a_list("ResponseComplete", "list", 200, Some(true))]
    #[case::a_list_is_refused("ResponseComplete", "list", 429, Some(false))]
    #[case::the_server_fails("Panic", "list", 500, Some(false))]
    fn each_request_is_answered_once(
        #[case] stage: &str,
        #[case] verb: &str,
        #[case] code: u16,
        #[case] expected: Option<bool>,
    ) {
        let answered = parse(&line(stage, verb, "/api/v1/pods?watch=true", code)).expect("a line");
        assert_eq!(answered.as_ref().map(|answered| answered.success), expected);
        assert!(answered.is_none_or(|answered| answered.about.kind.resource == "pods"));
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        assert!(parse("{}").is_err());
        assert!(parse("I1121 10:00:00 1 main.go] a log line").is_err());
    }
}
