use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{client::Body, core::Status};
use rstest::rstest;
use tokio::time::{sleep, timeout};
use tokio_util::bytes::Bytes;
use tower::service_fn;

use super::*;
use crate::k8s::is_watch;

const LIST: &str =
    r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;

/// A client of an API server without objects, which refuses the first watch request and sends no
/// events.
fn client_of_silent_server(watches: Arc<AtomicUsize>) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let watches = watches.clone();
        async move {
            let whole = |body: Vec<u8>| Full::new(Bytes::from(body)).boxed();
            let (code, body) = if !is_watch(&request) {
                (200, whole(LIST.as_bytes().to_vec()))
            } else if watches.fetch_add(1, Ordering::Relaxed) == 0 {
                let status = Status::failure("overloaded", "InternalError").with_code(500);
                (500, whole(serde_json::to_vec(&status).expect("JSON")))
            } else {
                let events = stream::pending::<Result<Frame<Bytes>, Infallible>>();
                (200, BodyExt::boxed(StreamBody::new(events)))
            };
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).expect("a code"))
        }
    });
    Client::new(service, "default")
}

/// A stream whose maximum age is longer than the tests take.
fn config_map_stream(client: &Client, age: Arc<WatchAge>, ages: &Arc<WatchAges>) -> WatchStream {
    let intervals =
        WatchIntervals { relist: Duration::from_secs(5), max_age: Duration::from_mins(4) };
    let resource = ApiResource::erase::<ConfigMap>(&());
    WatchStream::new("configmaps", &resource, client, &None, intervals, age, ages)
}

#[tokio::test(start_paused = true)]
async fn watch_recovers_when_it_is_accepted_and_not_at_the_next_event() {
    let watches = Arc::new(AtomicUsize::new(0));
    let client = client_of_silent_server(watches.clone());
    let (age, ages) = (Arc::<WatchAge>::default(), Arc::<WatchAges>::default());
    ages.add("configmaps".to_owned(), age.clone());
    let mut stream = config_map_stream(&client, age, &ages);
    let mut errors = Vec::new();
    while timeout(Duration::from_secs(20), stream.next_or_interrupted()).await.is_ok() {
        if stream.failures.last_logged.is_some() {
            errors.extend(ages.errors().into_values());
        }
    }
    errors.dedup();
    let is_refusal = |error: &String| error.ends_with(": overloaded");
    assert!(matches!(&*errors, [error] if is_refusal(error)), "{errors:?}");
    assert_eq!(ages.errors(), BTreeMap::new(), "the second watch is accepted");
    assert_eq!(watches.load(Ordering::Relaxed), 2);
    assert_eq!(stream.failures.last_logged, None);
}

#[tokio::test(start_paused = true)]
async fn lasting_failure_is_logged_every_minute() {
    let mut failures = FailureLog::new("pods".to_owned(), &None);
    let mut logged = Vec::new();
    for second in (0..=180).step_by(6) {
        if failures.mark_logged_if_due() {
            logged.push(second);
        }
        tokio::time::advance(Duration::from_secs(6)).await;
    }
    assert_eq!(logged, [0, 60, 120, 180]);
    failures.succeeded();
    assert!(failures.mark_logged_if_due(), "it failed again");
}

#[rstest]
#[case::forbidden(403, "pods is forbidden: User \"u\" cannot list resource \"pods\"")]
#[case::unauthorized(401, "Unauthorized")]
#[case::bad_request(400, "the field selector is invalid")]
fn refusal_is_described_by_its_message(#[case] code: u16, #[case] message: &str) {
    let status = Status::failure(message, "Reason").with_code(code);
    let error = watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()));
    assert_eq!(describe_failure(&error), format!("list failed: {message}"));
}

/// The age of a watch after two minutes, if each watch request is answered with `lines`, one every
/// ten seconds, and ends ten seconds later.
async fn age_after_two_minutes(lines: &'static [&'static str]) -> Duration {
    let service = service_fn(move |request: Request<Body>| async move {
        let list = [LIST].into_iter().filter(|_| !is_watch(&request));
        let watch = lines.iter().copied().filter(|_| is_watch(&request));
        let delay = if is_watch(&request) { Duration::from_secs(10) } else { Duration::ZERO };
        let lines: Vec<_> = list.chain(watch).collect();
        let frames = stream::iter(lines).then(move |line| async move {
            sleep(delay).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from(line)))
        });
        let end = stream::once(sleep(delay)).filter_map(|()| async { None });
        Ok::<_, kube::Error>(Response::new(StreamBody::new(Box::pin(frames.chain(end)))))
    });
    let client = Client::new(service, "default");
    let age = Arc::<WatchAge>::default();
    let mut stream = config_map_stream(&client, age.clone(), &Arc::default());
    let endless = async {
        loop {
            _ = stream.next_or_interrupted().await;
        }
    };
    _ = timeout(Duration::from_mins(2), endless).await;
    age.age().expect("a watch")
}

const BOOKMARK: &str = "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"ConfigMap\",\
    \"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"2\"}}}\n";

const EVENT: &str = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\
    \"resourceVersion\":\"2\"}}}\n";

const ERROR: &str = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\
    \"status\":\"Failure\",\"message\":\"no\",\"code\":500}}\n";

#[rstest]
#[case::bookmark(&[BOOKMARK; 100])]
#[case::event(&[EVENT; 100])]
#[case::end(&[])]
#[tokio::test(start_paused = true)]
async fn events_bookmarks_and_ends_confirm_the_cache(#[case] lines: &'static [&'static str]) {
    let age = age_after_two_minutes(lines).await;
    assert!(age <= Duration::from_secs(10), "{age:?}");
}

/// The API server accepts the watch, but the connection may be dead afterwards.
#[tokio::test(start_paused = true)]
async fn age_grows_while_the_watch_is_silent() {
    // Counting from 1, no watch request is the first, so none is refused.
    let client = client_of_silent_server(Arc::new(AtomicUsize::new(1)));
    let age = Arc::<WatchAge>::default();
    let mut stream = config_map_stream(&client, age.clone(), &Arc::default());
    while timeout(Duration::from_mins(2), stream.next_or_interrupted()).await.is_ok() {}
    assert_eq!(age.age(), Some(Duration::from_mins(2)));
}

#[tokio::test(start_paused = true)]
async fn age_grows_while_the_api_server_reports_failures() {
    let age = age_after_two_minutes(&[ERROR, BOOKMARK]).await;
    assert!(age >= Duration::from_secs(110), "{age:?}");
}
