use std::{
    borrow::Cow,
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};

use crate::events::{EventRecorder, EventType, ObjectReference, RecordedEvent};

type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A client whose server sends these responses, then 201 for everything. Code 0 means no response.
fn client(responses: Vec<(u16, Value)>) -> (Client, Requests) {
    let requests = Requests::default();
    let responses = Arc::new(Mutex::new(VecDeque::from(responses)));
    let received = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (received, responses) = (Arc::clone(&received), Arc::clone(&responses));
        async move {
            let line = format!("{} {}", request.method(), request.uri().path());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            received.lock().push((line, serde_json::from_slice(&body).unwrap()));
            let default = (201, json!({"metadata": {}, "involvedObject": {}}));
            let (code, body) = responses.lock().pop_front().unwrap_or(default);
            if code == 0 {
                std::future::pending::<()>().await;
            }
            let response = Response::builder().status(code);
            Ok::<_, Infallible>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
        }
    });
    (Client::new(service, "default"), requests)
}

fn event(message: &str, at: &str) -> RecordedEvent {
    let object = ObjectReference {
        api_version: "autoscaling/v2".into(),
        kind: "HorizontalPodAutoscaler".into(),
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u1".into(),
        resource_version: "41".into(),
    };
    RecordedEvent {
        object: Arc::new(object),
        event_type: EventType::Warning,
        reason: Cow::Borrowed("FailedGetScale"),
        message: message.into(),
        at: at.parse::<Timestamp>().unwrap(),
    }
}

fn status(code: u16, reason: &str, cause: &str) -> (u16, Value) {
    let details = json!({"causes": [{"reason": cause}]});
    (
        code,
        json!({
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": reason,
            "details": details,
        }),
    )
}

/// Records and writes events. Returns the requests, and the number of events whose write failed.
async fn write(
    responses: Vec<(u16, Value)>,
    events: Vec<RecordedEvent>,
) -> (Vec<(String, Value)>, u64) {
    let (client, requests) = client(responses);
    let (recorder, writer) = EventRecorder::new(client);
    for event in events {
        recorder.record(event);
    }
    let dropped = Arc::clone(recorder.dropped());
    drop(recorder);
    writer.run().await;
    let requests = requests.lock().clone();
    (requests, dropped.failed_write.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn event_is_created_and_then_patched() {
    let events = vec![event("no", "2026-09-21T14:13:20.5Z"), event("no", "2026-09-21T14:13:35Z")];
    let (requests, dropped) = write(vec![], events).await;
    let [(create, created), (patch, patched)] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(create, "POST /api/v1/namespaces/shop/events");
    let name = "web.18d75b8441c06500";
    assert_eq!(
        *created,
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": "shop"},
            "involvedObject": {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "namespace": "shop",
                "name": "web",
                "uid": "u1",
                "resourceVersion": "41",
            },
            "type": "Warning", "reason": "FailedGetScale", "message": "no", "count": 1,
            "firstTimestamp": "2026-09-21T14:13:20Z", "lastTimestamp": "2026-09-21T14:13:20Z",
            "source": {"component": "horizontal-pod-autoscaler"},
            "reportingComponent": "horizontal-pod-autoscaler", "reportingInstance": ""
        })
    );
    assert_eq!(patch, &format!("PATCH /api/v1/namespaces/shop/events/{name}"));
    assert_eq!(
        *patched,
        json!({"count": 2, "lastTimestamp": "2026-09-21T14:13:35Z", "message": "no"})
    );
    assert_eq!(dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn expired_event_is_created_again_with_its_count() {
    let responses =
        vec![(201, json!({"metadata": {}, "involvedObject": {}})), status(404, "NotFound", "")];
    let events = vec![event("no", "2026-09-21T14:13:20Z"), event("no", "2026-09-21T14:13:35Z")];
    let (requests, dropped) = write(responses, events).await;
    assert_eq!(requests.len(), 3);
    assert_eq!((&requests[2].1["count"], dropped), (&json!(2), 0));
    assert_eq!(requests[2].1["firstTimestamp"], json!("2026-09-21T14:13:20Z"));
}

#[rstest]
#[case::down_then_up(
    vec![status(503, "ServiceUnavailable", ""), status(429, "TooManyRequests", "")], 3, 0,
)]
#[case::hangs_then_up(vec![(0, json!(null))], 2, 0)]
#[case::down(vec![status(503, "ServiceUnavailable", ""); 9], 4, 1)]
#[case::refused(vec![status(403, "Forbidden", "")], 1, 1)]
#[case::namespace_is_terminating(vec![status(403, "Forbidden", "NamespaceTerminating")], 1, 0)]
#[case::namespace_is_deleted(vec![status(404, "NotFound", "")], 1, 0)]
#[case::written_before(vec![status(409, "AlreadyExists", "")], 1, 0)]
#[case::time_out_of_range(vec![(200, json!({"lastTimestamp": "9999-12-31T23:59:59Z"}))], 1, 0)]
#[tokio::test(start_paused = true)]
async fn write_is_retried_and_dropped_by_kind_of_failure(
    #[case] responses: Vec<(u16, Value)>,
    #[case] expected_requests: usize,
    #[case] expected_dropped: u64,
) {
    let (requests, dropped) = write(responses, vec![event("no", "2026-09-21T14:13:20Z")]).await;
    assert_eq!((requests.len(), dropped), (expected_requests, expected_dropped));
}

#[tokio::test(start_paused = true)]
async fn record_does_not_block_and_counts_dropped_events() {
    let (client, requests) = client(vec![]);
    let (recorder, writer) = EventRecorder::new(client);
    for _ in 0..1002 {
        recorder.record(event("a", "2026-09-21T14:13:20Z"));
    }
    assert_eq!(recorder.dropped().queue_full.load(Ordering::Relaxed), 2);
    let writer = tokio::spawn(writer.run());
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for _ in 0..30 {
            recorder.record(event("a", "2026-09-21T14:13:20Z"));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // 1000 events were queued before the writer started, and 90 after that. The object's budget is
    // 25 events.
    assert_eq!(recorder.dropped().over_budget.load(Ordering::Relaxed), 1090 - 25);
    assert_eq!(requests.lock().len(), 25);
    drop(recorder);
    writer.await.unwrap();
}
