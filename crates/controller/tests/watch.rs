//! Informers against an API server that fails, in virtual time.

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
    AutoscalerApi, HpaKey, SystemClock,
    cache::{Caches, Origin},
    informer::{Informers, WatchIntervals},
    k8s::FieldManager,
    queue::WorkQueue,
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
    let queue = Arc::new(WorkQueue::default());
    queue.start();
    Informers {
        caches: Caches::new(&[None]),
        queue,
        undecodable_count: Arc::new(AtomicU64::new(0)),
        intervals: WatchIntervals { relist: PERIOD, max_age: 2 * PERIOD },
        sync_period: PERIOD,
        dry_run: false,
        settings: Arc::default(),
        field_manager: Some(FieldManager::default()),
        clock: Arc::new(SystemClock::default()),
    }
}

fn hpa(name: &str) -> Value {
    hpa_with_max_replicas(name, &json!(3))
}

fn undecodable_hpa(name: &str) -> Value {
    hpa_with_max_replicas(name, &json!("many"))
}

fn hpa_with_max_replicas(name: &str, max_replicas: &Value) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name, "resourceVersion": "5" },
        "spec": {
            "maxReplicas": max_replicas,
            "scaleTargetRef": { "kind": "Deployment", "name": "x", "apiVersion": "apps/v1" },
        },
    })
}

fn page(items: &[Value], next: &str) -> (u16, Value) {
    let metadata = json!({ "resourceVersion": "9", "continue": next });
    let kind = "HorizontalPodAutoscalerList";
    let list = json!({
        "kind": kind,
        "apiVersion": "autoscaling/v2",
        "metadata": metadata,
        "items": items,
    });
    (200, list)
}

fn failure(code: u16) -> (u16, Value) {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "no",
        "code": code,
    });
    (code, status)
}

/// A client whose server responds to lists by their query, and never to watches.
fn client(respond: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Client {
    let respond = Arc::new(respond);
    let service = tower::service_fn(move |request: Request<Body>| {
        let respond = respond.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("watch=") {
                std::future::pending::<()>().await;
            }
            let (code, body) = respond(query);
            let response =
                Response::builder().status(code).header("content-type", "application/json");
            Ok::<_, Infallible>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
        }
    });
    Client::new(service, "default")
}

async fn wait_until_synced(mut is_synced: watch::Receiver<bool>, limit: Duration) {
    let synced = is_synced.wait_for(|synced| *synced);
    tokio::time::timeout(limit, synced).await.unwrap().unwrap();
}

/// Starts the informer of autoscalers, and waits until it is synced.
async fn watch_until_synced(
    informers: &Informers,
    api: AutoscalerApi,
    client: Client,
    limit: Duration,
) {
    let (synced, is_synced) = watch::channel(false);
    tokio::spawn(informers.clone().watch_autoscalers(api, client, None, synced));
    wait_until_synced(is_synced, limit).await;
}

async fn synced_informers(client: Client) -> Informers {
    let informers = informers();
    let limit = Duration::from_mins(10);
    watch_until_synced(&informers, AutoscalerApi::Core, client, limit).await;
    informers
}

#[tokio::test(start_paused = true)]
async fn autoscaler_from_a_list_that_failed_midway_is_queued() {
    let second_pages = AtomicUsize::new(0);
    let informers = synced_informers(client(move |query| match query.contains("continue=next") {
        false => page(&[hpa("one")], "next"),
        true if second_pages.fetch_add(1, Ordering::SeqCst) == 0 => failure(503),
        true => page(&[hpa("two")], ""),
    }))
    .await;
    assert_eq!((informers.caches.autoscalers.len(), informers.queue.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_is_counted_and_the_others_are_cached() {
    let mut unusual = hpa("odd");
    unusual["metadata"]["managedFields"] = json!([{ "time": "9999-12-31T23:59:59Z" }]);
    let objects = [hpa("one"), undecodable_hpa("bad"), unusual];
    let informers = synced_informers(client(move |_| page(&objects, ""))).await;
    assert_eq!(informers.undecodable_count.load(Ordering::Relaxed), 1);
    let mut keys: Vec<HpaKey> = informers.caches.autoscalers.keys_where(|_| true);
    keys.sort();
    assert_eq!(keys, [HpaKey::new("shop", "odd"), HpaKey::new("shop", "one")]);
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
    // The backoff grows to 15 s: about 40 lists.
    assert!((10..60).contains(&lists), "{lists} lists in ten minutes");
}

/// The time until the server has received this many list requests.
async fn time_until_lists(lists: &AtomicUsize, count: usize) -> Duration {
    let start = tokio::time::Instant::now();
    while lists.load(Ordering::SeqCst) < count {
        assert!(start.elapsed() < Duration::from_hours(1), "fewer than {count} lists in an hour");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn relist_reads_an_object_that_was_damaged_in_transit() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let informers = synced_informers(client(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => page(&[undecodable_hpa("one")], ""),
        _ => page(&[hpa("one")], ""),
    }))
    .await;
    assert!(informers.caches.autoscalers.is_empty());
    let delay = time_until_lists(&lists, 2).await;
    assert!(delay <= PERIOD + Duration::from_secs(1), "{delay:?}");
    tokio::task::yield_now().await;
    assert_eq!(informers.caches.autoscalers.len(), 1);
    // There is no third list, because the second was complete.
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
}

/// A client whose server counts the lists and responds to them by their index. The first watch
/// delivers `event`. Watches don't end.
fn client_with_event(
    event: &'static str,
    lists: &Arc<AtomicUsize>,
    respond: impl Fn(usize) -> Value + Send + 'static,
) -> Client {
    let (lists, watches) = (lists.clone(), AtomicUsize::new(0));
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=");
        // A list of one object checks the resource version when a silent watch resumes.
        let is_check = query.split('&').any(|parameter| parameter == "limit=1");
        let text = if is_watch {
            let is_first = watches.fetch_add(1, Ordering::SeqCst) == 0;
            if is_first { format!("{event}\n") } else { String::new() }
        } else {
            respond(lists.fetch_add(usize::from(!is_check), Ordering::SeqCst)).to_string()
        };
        let frame = futures::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(text)))]);
        let body = if is_watch {
            StreamBody::new(frame.chain(futures::stream::pending()).left_stream())
        } else {
            StreamBody::new(frame.right_stream())
        };
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    Client::new(service, "default")
}

/// Without a relist, the watch would resume after the event that could not be parsed.
#[tokio::test(start_paused = true)]
async fn relist_recovers_a_watch_event_that_cannot_be_parsed() {
    let lists = Arc::new(AtomicUsize::new(0));
    let event = r#"{"type": "MODIFIED", "object": {]"#;
    synced_informers(client_with_event(event, &lists, |_| page(&[], "").1)).await;
    let delay = time_until_lists(&lists, 2).await;
    assert!(delay <= PERIOD + Duration::from_secs(1), "{delay:?}");
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn relist_removes_a_pod_whose_deletion_has_no_name() {
    let lists = Arc::new(AtomicUsize::new(0));
    let event =
        r#"{"type": "DELETED", "object": {"metadata": {"uid": "a", "resourceVersion": "10"}}}"#;
    let client = client_with_event(event, &lists, |index| {
        let pod = json!({
            "metadata": { "name": "a", "namespace": "shop", "uid": "a", "resourceVersion": "5" },
        });
        let pods = if index == 0 { vec![pod] } else { Vec::new() };
        page(&pods, "").1
    });
    let informers = informers();
    let pods = informers.caches.pods.clone();
    let (synced, is_synced) = watch::channel(false);
    tokio::spawn(informers.watch_pods(client, None, synced));
    wait_until_synced(is_synced, PERIOD).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((pods.len(), pods.is_incomplete("shop")), (1, true));
    time_until_lists(&lists, 2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((pods.len(), pods.is_incomplete("shop")), (0, false));
}

#[tokio::test(start_paused = true)]
async fn relists_back_off_while_an_object_stays_undecodable() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    synced_informers(client(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        page(&[undecodable_hpa("one")], "")
    }))
    .await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let lists = lists.load(Ordering::SeqCst);
    // The intervals grow from 15 s to 5 min: about 16 lists.
    assert!((8..=20).contains(&lists), "{lists} lists in an hour");
}

#[tokio::test(start_paused = true)]
async fn custom_api_that_is_not_installed_counts_as_synced_and_is_found_later() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let client = client(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0..3 => failure(404),
        _ => page(&[hpa("one")], ""),
    });
    let informers = informers();
    watch_until_synced(&informers, AutoscalerApi::Custom, client, PERIOD).await;
    assert!(informers.caches.autoscalers.is_empty());
    let delay = time_until_lists(&lists, 4).await;
    assert!(delay < PERIOD * 4, "{delay:?}");
    tokio::task::yield_now().await;
    let custom = HpaKey::for_api(AutoscalerApi::Custom, "shop", "one");
    assert_eq!(informers.caches.autoscalers.keys_where(|_| true), [custom]);
    assert_eq!(informers.queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn autoscalers_are_deleted_with_the_definition_of_their_api() {
    let informers = informers();
    let core = HpaKey::for_api(AutoscalerApi::Core, "shop", "one");
    let custom = HpaKey::for_api(AutoscalerApi::Custom, "shop", "one");
    for key in [&core, &custom] {
        let object = serde_json::from_value(hpa("one")).unwrap();
        informers.caches.autoscalers.apply(key, object, Origin::List);
    }
    let client = client(|_| failure(404));
    watch_until_synced(&informers, AutoscalerApi::Custom, client, PERIOD).await;
    assert!(informers.caches.autoscalers.get(&custom).is_some(), "an API server may be starting");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(informers.caches.autoscalers.keys_where(|_| true), [core]);
}

/// A watch that resumes delivers only changes, so the deleted autoscalers are listed again.
#[tokio::test(start_paused = true)]
async fn deleted_autoscalers_return_if_the_definition_was_only_unavailable() {
    let start = tokio::time::Instant::now();
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
        // The first list succeeds, and each watch fails until the outage ends.
        let outage = Duration::from_secs(if is_watch { 0 } else { 5 })..Duration::from_mins(3);
        let (code, body) = match outage.contains(&start.elapsed()) {
            true => failure(404),
            false if is_watch => std::future::pending().await,
            false => page(&[hpa("one")], ""),
        };
        let response = Response::builder().status(code).header("content-type", "application/json");
        Ok::<_, Infallible>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
    });
    let informers = informers();
    let (synced, _is_synced) = watch::channel(false);
    tokio::spawn(informers.clone().watch_autoscalers(
        AutoscalerApi::Custom,
        Client::new(service, "default"),
        None,
        synced,
    ));
    tokio::time::sleep(Duration::from_secs(170)).await;
    assert!(informers.caches.autoscalers.is_empty());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(informers.caches.autoscalers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn list_of_one_api_keeps_autoscalers_of_the_other() {
    let informers = informers();
    let custom = HpaKey::for_api(AutoscalerApi::Custom, "shop", "one");
    informers.caches.autoscalers.apply(
        &custom,
        serde_json::from_value(hpa("one")).unwrap(),
        Origin::List,
    );
    let client = client(|_| page(&[], ""));
    watch_until_synced(&informers, AutoscalerApi::Core, client, PERIOD).await;
    assert!(informers.caches.autoscalers.get(&custom).is_some());
}

#[tokio::test(start_paused = true)]
async fn forbidden_list_does_not_count_as_synced() {
    let (synced, mut is_synced) = watch::channel(false);
    let client = client(|_| failure(403));
    tokio::spawn(informers().watch_autoscalers(AutoscalerApi::Custom, client, None, synced));
    tokio::time::timeout(PERIOD * 4, is_synced.wait_for(|synced| *synced)).await.unwrap_err();
}
