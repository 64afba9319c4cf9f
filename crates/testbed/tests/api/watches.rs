use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt};
use hpa_testbed::{Config, Testbed};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{PODS, TABLE, Watch, at, get, patch, pod, post};

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

async fn label(testbed: &Testbed, name: &str, app: &str) {
    let change = json!({ "metadata": { "labels": { "app": app } } });
    patch(testbed, &format!("{PODS}/{name}"), "merge-patch+json", &change).await;
}

#[tokio::test]
async fn watch_resumes_from_a_resource_version() {
    let testbed = Testbed::default();
    testbed.apply(pod("a", json!({}))).unwrap();
    let version = testbed.resource_version();
    testbed.apply(pod("b", json!({}))).unwrap();
    let mut watch = Watch::pods(&testbed, &format!("&resourceVersion={version}")).await;
    assert_eq!(watch.event().await, event("ADDED", "b"));
    label(&testbed, "b", "x").await;
    assert_eq!(watch.event().await, event("MODIFIED", "b"));
    testbed.delete("v1", "Pod", "default", "b").unwrap();
    let deleted = watch.next().await.unwrap();
    assert_eq!(at(&deleted, "/type"), "DELETED");
    assert_eq!(
        at(&deleted, "/object/metadata/resourceVersion"),
        &json!(testbed.resource_version().to_string())
    );
}

#[tokio::test]
async fn watch_without_resource_version_starts_with_existing_objects() {
    let testbed = Testbed::default();
    testbed.apply(pod("a", json!({}))).unwrap();
    let mut watch = Watch::pods(&testbed, "").await;
    assert_eq!(watch.event().await, event("ADDED", "a"));
}

#[tokio::test]
async fn watch_with_a_huge_timeout_is_served() {
    let testbed = Testbed::default();
    testbed.apply(pod("a", json!({}))).unwrap();
    let mut watch = Watch::pods(&testbed, &format!("&timeoutSeconds={}", u64::MAX)).await;
    assert_eq!(watch.event().await, event("ADDED", "a"));
}

#[tokio::test]
async fn object_that_stops_matching_is_reported_as_deleted() {
    let testbed = Testbed::default();
    testbed.apply(pod("a", json!({ "app": "db" }))).unwrap();
    let version = testbed.resource_version();
    let parameters = format!("&labelSelector=app%3Dweb&resourceVersion={version}");
    let mut watch = Watch::pods(&testbed, &parameters).await;
    for app in ["web", "db", "x", "web"] {
        label(&testbed, "a", app).await;
    }
    for expected in ["ADDED", "DELETED", "ADDED"] {
        assert_eq!(watch.event().await, event(expected, "a"));
    }
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let testbed = Testbed::default();
    testbed.apply(pod("a", json!({}))).unwrap();
    let parameters =
        "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut watch = Watch::pods(&testbed, parameters).await;
    assert_eq!(watch.event().await, event("ADDED", "a"));
    let bookmark = watch.next().await.unwrap();
    assert_eq!(at(&bookmark, "/type"), "BOOKMARK");
    assert_eq!(at(&bookmark, "/object/metadata/annotations/k8s.io~1initial-events-end"), "true");
    assert_eq!(at(&bookmark, "/object/kind"), "Pod");
    let (code, _) = get(&testbed, &format!("{PODS}?watch=1&sendInitialEvents=true")).await;
    assert_eq!(code, 422);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_periodically_and_at_the_timeout() {
    let testbed =
        Testbed::new(Config { bookmark_interval: Duration::from_secs(7), ..Config::default() });
    let version = testbed.resource_version();
    let parameters =
        format!("&allowWatchBookmarks=true&timeoutSeconds=10&resourceVersion={version}");
    let mut watch = Watch::pods(&testbed, &parameters).await;
    // A change of another resource increases the resource version.
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } });
    testbed.apply(config).unwrap();
    for _ in 0..2 {
        let bookmark = watch.next().await.unwrap();
        assert_eq!(at(&bookmark, "/type"), "BOOKMARK");
        assert_eq!(
            at(&bookmark, "/object/metadata/resourceVersion"),
            &json!(testbed.resource_version().to_string())
        );
    }
    assert_eq!(watch.next().await, None);
}

#[rstest]
#[case::compacted(Config::default(), true)]
#[case::watch_cache_full(Config { watch_cache_size: 2, ..Config::default() }, false)]
#[tokio::test]
async fn compacted_resource_version_gets_410(#[case] config: Config, #[case] compact: bool) {
    let testbed = Testbed::new(config);
    testbed.apply(pod("a", json!({}))).unwrap();
    let version = testbed.resource_version();
    for name in ["b", "c", "d"] {
        testbed.apply(pod(name, json!({}))).unwrap();
    }
    if compact {
        testbed.compact();
    }
    let mut watch = Watch::pods(&testbed, &format!("&resourceVersion={version}")).await;
    let error = watch.next().await.unwrap();
    assert_eq!((at(&error, "/type"), at(&error, "/object/code")), (&json!("ERROR"), &json!(410)));
    assert_eq!(at(&error, "/object/reason"), "Expired");
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn future_resource_version_is_awaited_without_initial_events() {
    let testbed = Testbed::default();
    let path = |version: u64| format!("{PODS}?watch=1&resourceVersion={version}");
    let streaming = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let (code, status) = get(&testbed, &format!("{}{streaming}", path(999))).await;
    assert_eq!((code, at(&status, "/reason")), (504, &json!("Timeout")));
    let mut watch = Watch::new(&testbed, &path(testbed.resource_version() + 1), "").await;
    for name in ["a", "b"] {
        testbed.apply(pod(name, json!({}))).unwrap();
    }
    assert_eq!(watch.event().await, event("ADDED", "b"));
}

/// A text for the next event.
async fn next(
    watch: &mut (impl Stream<Item = Result<Event<Pod>, watcher::Error>> + Unpin),
) -> String {
    let name = |pod: Pod| pod.metadata.name.unwrap();
    match watch.next().await.unwrap() {
        Ok(Event::Init) => "init".to_owned(),
        Ok(Event::InitApply(pod)) => format!("init {}", name(pod)),
        Ok(Event::InitDone) => "done".to_owned(),
        Ok(Event::Apply(pod)) => format!("apply {}", name(pod)),
        Ok(Event::Delete(pod)) => format!("delete {}", name(pod)),
        Err(error) => format!("error {error}"),
    }
}

#[rstest]
#[case::list_watch(watcher::Config::default())]
#[case::pages(watcher::Config::default().page_size(1))]
#[case::streaming(watcher::Config::default().streaming_lists())]
#[tokio::test]
async fn kube_runtime_watcher_relists_after_compaction(#[case] config: watcher::Config) {
    let testbed = Testbed::default();
    for name in ["a", "b"] {
        testbed.apply(pod(name, json!({}))).unwrap();
    }
    let api: Api<Pod> = Api::default_namespaced(testbed.client());
    let mut watch = pin!(watcher(api, config));
    for expected in ["init", "init a", "init b", "done"] {
        assert_eq!(next(&mut watch).await, expected);
    }
    post(&testbed, PODS, &pod("c", json!({}))).await;
    assert_eq!(next(&mut watch).await, "apply c");
    testbed.delete("v1", "Pod", "default", "a").unwrap();
    assert_eq!(next(&mut watch).await, "delete a");
    // The watch ends, and its resource version is compacted.
    testbed.end_watches();
    testbed.delete("v1", "Pod", "default", "b").unwrap();
    testbed.apply(pod("d", json!({}))).unwrap();
    testbed.compact();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "done") {
        seen.push(next(&mut watch).await);
    }
    assert_eq!(seen.split_off(seen.len() - 4), ["init", "init c", "init d", "done"]);
    assert!(seen.iter().all(|event| event.starts_with("error")), "{seen:?}");
}

#[tokio::test]
async fn only_the_first_table_of_a_watch_has_columns() {
    let testbed = Testbed::default();
    for name in ["a", "b"] {
        testbed.apply(pod(name, json!({}))).unwrap();
    }
    let mut watch = Watch::new(&testbed, &format!("{PODS}?watch=1"), TABLE).await;
    let columns = |event: Value| at(&event, "/object/columnDefinitions").as_array().unwrap().len();
    assert_eq!(columns(watch.next().await.unwrap()), 9);
    let second = watch.next().await.unwrap();
    assert_eq!(at(&second, "/object/rows/0/cells/0"), "b");
    assert_eq!(columns(second), 0);
}
