use std::{sync::Arc, time::Duration};

use ::http::Request;
use axum::body::Body;
use hpa_testbed::{Action, Config, Effect, Gate, RequestInfo, Restart, Testbed};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{DEPLOYMENTS, PODS, Watch, at, deployment, get, patch, pod, put};

fn testbed(interceptor: impl Fn(&RequestInfo) -> Action + Send + Sync + 'static) -> Testbed {
    Testbed::new(Config { interceptor: Some(Arc::new(interceptor)), ..Config::default() })
}

#[tokio::test]
async fn interceptor_returns_a_status() {
    let testbed = testbed(|request| {
        let expected = RequestInfo {
            verb: "update".into(),
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            subresource: "scale".into(),
            namespace: "default".into(),
            name: "web".into(),
            path: format!("{DEPLOYMENTS}/web/scale"),
            client: String::new(),
        };
        if *request != expected {
            return Action::Pass;
        }
        let (reason, message) = ("TooManyRequests".to_owned(), "slow down".to_owned());
        Effect::Status { code: 429, reason, message, retry_after_seconds: Some(3) }.into()
    });
    let (code, status) = put(&testbed, &format!("{DEPLOYMENTS}/web/scale"), &json!({})).await;
    assert_eq!((code, at(&status, "/message")), (429, &json!("slow down")));
    assert_eq!(at(&status, "/details/retryAfterSeconds"), 3);
    assert_eq!(get(&testbed, PODS).await.0, 200);
}

#[tokio::test]
async fn interceptor_ends_a_watch() {
    let testbed = testbed(|_| Effect::DropWatch { after: 2 }.into());
    for name in ["a", "b", "c"] {
        testbed.apply(pod(name, json!({}))).unwrap();
    }
    let mut watch = Watch::pods(&testbed, "").await;
    for name in ["a", "b"] {
        assert_eq!(watch.event().await.1, name);
    }
    assert_eq!(watch.next().await, None::<Value>);
}

#[tokio::test]
async fn held_write_conflicts_with_a_later_one() {
    let (gate, release) = Gate::new();
    let testbed = testbed(move |request| match request.verb.as_str() {
        "update" => Action::Hold(gate.clone()),
        _ => Action::Pass,
    });
    let stored = testbed.apply(deployment("web")).unwrap();
    let path = format!("{DEPLOYMENTS}/web");
    let mut held = std::pin::pin!(put(&testbed, &path, &stored));
    assert!(futures::poll!(&mut held).is_pending());
    let annotations = json!({ "metadata": { "annotations": { "a": "b" } } });
    assert_eq!(patch(&testbed, &path, "merge-patch+json", &annotations).await.0, 200);
    assert!(futures::poll!(&mut held).is_pending());
    drop(release);
    let (code, status) = held.await;
    assert_eq!((code, at(&status, "/reason")), (409, &json!("Conflict")));
}

#[tokio::test]
async fn held_request_is_aborted_by_a_restart() {
    let (gate, release) = Gate::new();
    let testbed = testbed(move |_| Action::Hold(gate.clone()));
    let request = Request::get(PODS).body(Body::empty()).unwrap();
    let mut held = std::pin::pin!(testbed.service().oneshot(request));
    assert!(futures::poll!(&mut held).is_pending());
    testbed.restart(Restart::Same, Duration::ZERO);
    drop(release);
    assert!(held.await.is_err());
}
