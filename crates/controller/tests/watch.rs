//! The watches against an API server that fails, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test may stop where its stub is wrong")]

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use hpa_controller::{
    AutoscalerApi, HpaKey,
    cache::{Caches, Origin},
    informer::Informers,
    queue::{InitialDelay, WorkQueue},
};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::bytes::Bytes;

const PERIOD: Duration = Duration::from_secs(15);

fn informers() -> Informers {
    Informers {
        caches: Caches::new(&[None]),
        queue: Arc::new(WorkQueue::default()),
        undecodable: Arc::new(AtomicU64::new(0)),
        relist_interval: PERIOD,
        dry_run: false,
    }
}

fn hpa(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name, "resourceVersion": "5" },
        "spec": { "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": "x", "apiVersion": "apps/v1" } },
    })
}

fn page(items: &[Value], next: &str) -> (u16, Value) {
    let metadata = json!({ "resourceVersion": "9", "continue": next });
    let kind = "HorizontalPodAutoscalerList";
    (
        200,
        json!({ "kind": kind, "apiVersion": "autoscaling/v2", "metadata": metadata, "items": items }),
    )
}

fn failure(code: u16) -> (u16, Value) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code });
    (code, status)
}

/// A client whose lists are answered by their query; a watch stays silent.
fn client(answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("watch=") {
                std::future::pending::<()>().await;
            }
            let (code, body) = answer(query);
            let response =
                Response::builder().status(code).header("content-type", "application/json");
            Ok::<_, Infallible>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
        }
    });
    Client::new(service, "default")
}

/// Fills the caches with what is listed.
async fn sync(client: Client) -> Informers {
    let informers = informers();
    let (synced, mut is_synced) = watch::channel(false);
    let spread = InitialDelay::for_period(Duration::from_secs(15));
    tokio::spawn(informers.clone().watch_autoscalers(
        AutoscalerApi::Core,
        client,
        None,
        synced,
        spread,
    ));
    let wait = is_synced.wait_for(|synced| *synced);
    tokio::time::timeout(Duration::from_mins(10), wait).await.unwrap().unwrap();
    informers
}

#[tokio::test(start_paused = true)]
async fn autoscaler_of_a_list_that_broke_off_is_reconciled_too() {
    let second_pages = AtomicUsize::new(0);
    let informers = sync(client(move |query| match query.contains("continue=next") {
        false => page(&[hpa("one")], "next"),
        true if second_pages.fetch_add(1, Ordering::SeqCst) == 0 => failure(503),
        true => page(&[hpa("two")], ""),
    }))
    .await;
    assert_eq!((informers.caches.autoscalers.len(), informers.queue.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn object_that_cannot_be_decoded_is_counted_and_the_others_are_read() {
    let mut bad = hpa("bad");
    bad["spec"]["maxReplicas"] = json!("many");
    let mut odd = hpa("odd");
    odd["metadata"]["managedFields"] = json!([{ "time": "9999-12-31T23:59:59Z" }]);
    let informers = sync(client(move |_| page(&[hpa("one"), bad.clone(), odd.clone()], ""))).await;
    assert_eq!(informers.undecodable.load(Ordering::Relaxed), 1);
    let mut known: Vec<HpaKey> = informers.caches.autoscalers.keys_where(|_| true);
    known.sort();
    assert_eq!(known, [HpaKey::new("shop", "odd"), HpaKey::new("shop", "one")]);
}

#[tokio::test(start_paused = true)]
async fn failing_list_is_backed_off() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let client = client(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        failure(503)
    });
    let (synced, _is_synced) = watch::channel(false);
    let endless = informers().watch_pods(client, None, synced);
    tokio::time::timeout(Duration::from_mins(10), endless).await.unwrap_err();
    let lists = lists.load(Ordering::SeqCst);
    assert!((10..60).contains(&lists), "{lists} lists in ten minutes");
}

/// How long it takes until the lists number this many.
async fn lists_reach(lists: &AtomicUsize, count: usize) -> Duration {
    let start = tokio::time::Instant::now();
    while lists.load(Ordering::SeqCst) < count {
        assert!(start.elapsed() < Duration::from_hours(1), "there are no {count} lists");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn what_was_garbled_on_its_way_is_read_again() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let mut garbled = hpa("one");
    garbled["spec"]["maxReplicas"] = json!("many");
    let informers = sync(client(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => page(&[garbled.clone()], ""),
        _ => page(&[hpa("one")], ""),
    }))
    .await;
    assert!(informers.caches.autoscalers.is_empty());
    let waited = lists_reach(&lists, 2).await;
    assert!(waited <= PERIOD + Duration::from_secs(1), "{waited:?}");
    tokio::task::yield_now().await;
    assert_eq!(informers.caches.autoscalers.len(), 1);
    // All is well: there is no third list.
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
}

/// The next event would go on after the one that nobody could read.
#[tokio::test(start_paused = true)]
async fn what_a_watch_lost_is_listed() {
    let lists = Arc::new(AtomicUsize::new(0));
    let (count, watches) = (lists.clone(), AtomicUsize::new(0));
    let is_first = move || watches.fetch_add(1, Ordering::SeqCst) == 0;
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
        if !is_watch {
            count.fetch_add(1, Ordering::SeqCst);
        }
        let text = match (is_watch, is_watch && is_first()) {
            (true, true) => "{\"type\": \"MODIFIED\", \"object\": {]\n".to_owned(),
            (true, false) => String::new(),
            (false, _) => page(&[], "").1.to_string(),
        };
        let frame = futures::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(text)))]);
        let body = if is_watch {
            StreamBody::new(frame.chain(futures::stream::pending()).left_stream())
        } else {
            StreamBody::new(frame.right_stream())
        };
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    sync(Client::new(service, "default")).await;
    let waited = lists_reach(&lists, 2).await;
    assert!(waited <= PERIOD + Duration::from_secs(1), "{waited:?}");
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_garbled_is_listed_ever_less_often() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let mut garbled = hpa("one");
    garbled["spec"]["maxReplicas"] = json!("many");
    sync(client(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        page(&[garbled.clone()], "")
    }))
    .await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let lists = lists.load(Ordering::SeqCst);
    assert!((8..=20).contains(&lists), "{lists} lists in an hour");
}

#[tokio::test(start_paused = true)]
async fn api_of_our_own_that_is_not_installed_is_not_waited_for_and_found_later() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let client = client(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0..3 => failure(404),
        _ => page(&[hpa("one")], ""),
    });
    let informers = informers();
    let (synced, mut is_synced) = watch::channel(false);
    tokio::spawn(informers.clone().watch_autoscalers(
        AutoscalerApi::Custom,
        client,
        None,
        synced,
        InitialDelay::for_period(PERIOD),
    ));
    tokio::time::timeout(PERIOD, is_synced.wait_for(|synced| *synced)).await.unwrap().unwrap();
    assert!(informers.caches.autoscalers.is_empty());
    let waited = lists_reach(&lists, 4).await;
    assert!(waited < PERIOD * 4, "{waited:?}");
    tokio::task::yield_now().await;
    let own = HpaKey::for_api(AutoscalerApi::Custom, "shop", "one");
    assert_eq!(informers.caches.autoscalers.keys_where(|_| true), [own]);
    assert_eq!(informers.queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn list_of_one_api_forgets_no_autoscaler_of_the_other() {
    let informers = informers();
    let own = HpaKey::for_api(AutoscalerApi::Custom, "shop", "one");
    informers.caches.autoscalers.apply(
        &own,
        serde_json::from_value(hpa("one")).unwrap(),
        Origin::List,
    );
    let (synced, mut is_synced) = watch::channel(false);
    let client = client(|_| page(&[], ""));
    tokio::spawn(informers.clone().watch_autoscalers(
        AutoscalerApi::Core,
        client,
        None,
        synced,
        InitialDelay::for_period(PERIOD),
    ));
    tokio::time::timeout(PERIOD, is_synced.wait_for(|synced| *synced)).await.unwrap().unwrap();
    assert!(informers.caches.autoscalers.get(&own).is_some());
}

#[tokio::test(start_paused = true)]
async fn missing_right_is_waited_for() {
    let (synced, mut is_synced) = watch::channel(false);
    let client = client(|_| failure(403));
    tokio::spawn(informers().watch_autoscalers(
        AutoscalerApi::Custom,
        client,
        None,
        synced,
        InitialDelay::for_period(PERIOD),
    ));
    tokio::time::timeout(PERIOD * 4, is_synced.wait_for(|synced| *synced)).await.unwrap_err();
}
