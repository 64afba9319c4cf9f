//! Reads the requests of the controller from the audit log of the API server.

use std::time::Duration;

use http::Uri;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::ChildStdout,
};

use crate::request_info::RequestInfo;

/// The user name of the controller.
pub(super) const CONTROLLER: &str = "measured-controller";

/// Logs the requests of a user only, without their bodies.
pub(crate) fn policy(user: &str) -> Value {
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

/// A completed request.
#[derive(Debug, PartialEq)]
pub(crate) struct Completed {
    pub(crate) request: RequestInfo,
    pub(crate) at: Timestamp,
    pub(crate) took: Duration,
    pub(crate) success: bool,
}

/// Passes requests on until the API server closes the log.
pub(crate) async fn follow(log: ChildStdout, record: impl Fn(Completed)) {
    let mut lines = BufReader::new(log).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match parse(&line) {
            Ok(None) => {}
            Ok(Some(completed)) => record(completed),
            Err(error) => {
                eprintln!("hpa-bench: cannot parse a line of the audit log: {error}\n{line}");
            }
        }
    }
}

/// Parses a line. Returns `None` for the end of a watch, which was counted when it started.
fn parse(line: &str) -> anyhow::Result<Option<Completed>> {
    let event: Event = serde_json::from_str(line)?;
    let is_watch = event.verb == "watch";
    let is_counted = match event.stage.as_str() {
        "ResponseStarted" => is_watch,
        "ResponseComplete" => !is_watch,
        // The stage "Panic", which ends a request too.
        _ => true,
    };
    if !is_counted {
        return Ok(None);
    }
    let code = event.response_status.and_then(|status| status.code).unwrap_or_default();
    let took = event.stage_timestamp.duration_since(event.request_received_timestamp);
    Ok(Some(Completed {
        request: RequestInfo::with_verb(&event.verb, &event.request_uri.parse::<Uri>()?),
        at: event.stage_timestamp,
        took: took.try_into().unwrap_or_default(),
        success: (200..300).contains(&code),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a failed setup fails the test")]

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
        let completed = parse(&line("ResponseComplete", "update", uri, 200))
            .expect("a line")
            .expect("a request");
        assert!(completed.request.is(
            &["update"],
            "horizontalpodautoscalers.autoscaling",
            "status"
        ));
        assert_eq!(
            (completed.request.namespace.as_str(), completed.request.name.as_str()),
            ("n", "a")
        );
        assert_eq!(completed.at, "2026-11-21T10:00:00.0026Z".parse().expect("a time"));
        assert_eq!((completed.took, completed.success), (Duration::from_micros(2500), true));
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
        let completed = parse(&line(stage, verb, "/api/v1/pods?watch=true", code)).expect("a line");
        assert_eq!(completed.as_ref().map(|one| one.success), expected);
        assert!(completed.is_none_or(|one| one.request.kind.resource == "pods"));
    }

    #[test]
    fn line_that_is_not_an_event_is_an_error() {
        assert!(parse("{}").is_err());
        assert!(parse("I1121 10:00:00 1 main.go] a log line").is_err());
    }
}
