//! Lists of series, which are read while they arrive.

use std::{convert::Infallible, sync::Arc, task::Poll, time::Duration};

use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use jiff::Timestamp;
use kube::client::Body;
use rstest::rstest;
use tokio::sync::Notify;
use tokio_util::bytes::Bytes;

use super::requests::{Server, VECTOR, settings};
use crate::client::{Client, QueryFailure, Settings};

/// Virtual time doesn't advance on its own while a thread reads the series.
#[tokio::test(start_paused = true)]
async fn stalled_response_with_series_is_a_timeout() {
    let stalled = Arc::new(Notify::new());
    let notifier = stalled.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let start = Bytes::from(r#"{"status":"success","data":[{"__name__":"a"},"#);
        let start = futures::stream::iter([Ok::<_, Infallible>(Frame::data(start))]);
        let notifier = notifier.clone();
        let rest = futures::stream::poll_fn(move |_| {
            notifier.notify_one();
            Poll::Pending
        });
        async move { Ok::<_, Infallible>(Response::new(StreamBody::new(start.chain(rest)))) }
    });
    let client = Client::from_kube_client(settings(), kube::Client::new(service, "default"));
    let read = client
        .read_series("up", Timestamp::UNIX_EPOCH, 1 << 20, |reader| reader.for_each(|_, _| {}));
    let advance = async {
        stalled.notified().await;
        tokio::time::advance(Duration::from_secs(61)).await;
    };
    let (result, ()) = tokio::join!(read, advance);
    let error = result.unwrap_err();
    assert!(matches!(error, QueryFailure::SlowResponse { .. }), "{error}");
    assert!(error.to_string().ends_with(" took longer than 60 s"), "{error}");
}

/// Without a limit for lists of series, a command would never end if the server hangs.
#[rstest]
#[case::floor(2, 60)]
#[case::default_limit(10, 60)]
#[case::long(20, 120)]
#[tokio::test(start_paused = true)]
async fn list_of_series_has_six_times_the_limit_of_a_query_but_at_least_a_minute(
    #[case] query_seconds: u64,
    #[case] series_seconds: u64,
) {
    let settings = Settings { query_timeout: Duration::from_secs(query_seconds), ..settings() };
    let client = Server::with_closed_gate(VECTOR).client(settings);
    let start = tokio::time::Instant::now();
    let read = client
        .read_series("up", Timestamp::UNIX_EPOCH, 1 << 20, |reader| reader.for_each(|_, _| {}));
    let error = read.await.unwrap_err();
    assert!(matches!(error, QueryFailure::Timeout { .. }), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(series_seconds));
}

#[tokio::test]
async fn series_are_streamed() {
    let server = Server::new(200, r#"{"status":"success","data":[{"__name__":"a","pod":"p"}]}"#);
    let client = server.client(settings());
    let since = Timestamp::from_second(5).unwrap();
    let series = client.read_series(r#"{pod!=""}"#, since, 1 << 20, |reader| {
        let mut all = Vec::new();
        reader.for_each(|name, labels| all.push((name.to_owned(), labels.to_vec())))?;
        Ok(all)
    });
    assert_eq!(series.await.unwrap(), [("a".to_owned(), vec!["pod".to_owned()])]);
    let sent = server.sent.lock().remove(0);
    assert_eq!(sent.uri, "/api/v1/series?tenant=a");
    assert_eq!(sent.body, "match%5B%5D=%7Bpod%21%3D%22%22%7D&start=5");
}

#[tokio::test]
async fn incomplete_list_of_series_is_an_error() {
    let client = Server::new(200, r#"{"status":"success","data":[{"__na"#).client(settings());
    let read = client
        .read_series("up", Timestamp::UNIX_EPOCH, 1 << 20, |reader| reader.for_each(|_, _| {}));
    let error = read.await.unwrap_err();
    assert!(matches!(error, QueryFailure::Decode(_)), "{error}");
}
