use std::time::Duration;

use futures::FutureExt;
use hpa_calc::api::Scale;
use tokio::time::{Instant, advance};

use super::ScaleCache;
use crate::scale_target::ScaleObject;

fn scale(version: &str, replicas: i32) -> ScaleObject {
    let scale = Scale { spec_replicas: replicas, status_replicas: 1, selector: "app=web".into() };
    ScaleObject { scale, uid: "u".into(), resource_version: version.into() }
}

const MAX_AGE: Duration = Duration::from_secs(30);

/// Replicas and resource version of the cached scale.
fn cached_scale(cache: &ScaleCache) -> Option<(i32, String)> {
    cache
        .get("shop", "web", None)
        .map(|object| (object.scale.spec_replicas, object.resource_version))
}

/// A cache after a list of one object.
fn synced_cache(version: &str, replicas: i32) -> ScaleCache {
    let cache = ScaleCache::new(MAX_AGE);
    cache.begin_list();
    cache.list_apply("shop", "web", &scale(version, replicas));
    cache.finish_list();
    cache
}

#[test]
fn get_returns_nothing_before_the_first_list_is_complete() {
    let cache = ScaleCache::new(MAX_AGE);
    cache.begin_list();
    cache.list_apply("shop", "web", &scale("5", 2));
    assert_eq!(cached_scale(&cache), None);
    cache.finish_list();
    assert_eq!(cached_scale(&cache), Some((2, "5".into())));
    assert_eq!(cache.get("bank", "web", None), None);
}

#[test]
fn watch_event_replaces_the_cached_scale() {
    let cache = synced_cache("5", 2);
    cache.apply("shop", "web", &scale("7", 3));
    assert_eq!(cached_scale(&cache), Some((3, "7".into())));
}

#[test]
fn response_is_cached_and_not_undone_by_an_older_watch_event() {
    let cache = synced_cache("5", 2);
    cache.observe_response("shop", "web", &scale("9", 4));
    assert_eq!(cached_scale(&cache), Some((4, "9".into())));
    cache.apply("shop", "web", &scale("7", 3));
    assert_eq!(cached_scale(&cache), Some((4, "9".into())));
    cache.apply("shop", "web", &scale("10", 5));
    assert_eq!(cached_scale(&cache), Some((5, "10".into())));
}

#[test]
fn older_response_is_ignored() {
    let cache = synced_cache("5", 2);
    cache.observe_response("shop", "web", &scale("4", 9));
    assert_eq!(cached_scale(&cache), Some((2, "5".into())));
}

#[test]
fn response_that_contradicts_the_cached_scale_removes_it() {
    let cache = synced_cache("5", 2);
    assert_eq!(cache.contradicted().now_or_never(), None);
    cache.observe_response("shop", "web", &scale("5", 9));
    assert_eq!(cached_scale(&cache), None);
    assert_eq!(cache.contradicted().now_or_never(), Some(()));
}

#[test]
fn event_that_contradicts_a_response_removes_the_scale() {
    let cache = synced_cache("5", 2);
    cache.observe_response("shop", "web", &scale("9", 4));
    cache.apply("shop", "web", &scale("9", 4));
    assert_eq!(cache.contradicted().now_or_never(), None);
    cache.apply("shop", "web", &scale("9", 2));
    assert_eq!(cached_scale(&cache), None);
    assert_eq!(cache.contradicted().now_or_never(), Some(()));
}

#[test]
fn response_does_not_restore_a_deleted_scale() {
    let cache = synced_cache("5", 2);
    cache.delete("shop", "web", "6");
    cache.observe_response("shop", "web", &scale("5", 2));
    assert_eq!(cached_scale(&cache), None);
}

#[test]
fn deletion_at_an_older_version_is_ignored() {
    let cache = synced_cache("5", 2);
    cache.observe_response("shop", "web", &scale("9", 4));
    cache.delete("shop", "web", "8");
    assert_eq!(cached_scale(&cache), Some((4, "9".into())));
}

#[test]
fn get_returns_nothing_from_a_failed_watch_to_the_next_list() {
    let cache = synced_cache("5", 2);
    cache.invalidate();
    assert_eq!(cached_scale(&cache), None);
    cache.apply("shop", "web", &scale("7", 3));
    assert_eq!(cached_scale(&cache), None);
    cache.begin_list();
    cache.list_apply("shop", "web", &scale("8", 6));
    cache.finish_list();
    assert_eq!(cached_scale(&cache), Some((6, "8".into())));
}

#[test]
fn list_does_not_undo_a_newer_response() {
    let cache = synced_cache("5", 2);
    cache.begin_list();
    cache.list_apply("shop", "web", &scale("6", 3));
    cache.observe_response("shop", "web", &scale("9", 4));
    cache.finish_list();
    assert_eq!(cached_scale(&cache), Some((4, "9".into())));
}

#[test]
fn list_replaces_the_cache_even_with_older_versions() {
    let cache = synced_cache("500", 2);
    cache.observe_response("shop", "web", &scale("900", 4));
    cache.begin_list();
    cache.list_apply("shop", "web", &scale("6", 3));
    cache.finish_list();
    assert_eq!(cached_scale(&cache), Some((3, "6".into())));
}

#[tokio::test(start_paused = true)]
async fn get_returns_nothing_while_the_watch_is_silent_for_too_long() {
    let cache = synced_cache("5", 2);
    advance(MAX_AGE).await;
    assert!(cached_scale(&cache).is_some());
    advance(Duration::from_secs(1)).await;
    assert_eq!(cached_scale(&cache), None);
    cache.watch_age().confirm(Instant::now());
    assert_eq!(cached_scale(&cache), Some((2, "5".into())));
    cache.watch_age().set_unwatched();
    assert_eq!(cached_scale(&cache), None);
}

#[tokio::test(start_paused = true)]
async fn get_requires_a_list_that_started_after_the_given_time() {
    let before = Instant::now();
    advance(Duration::from_millis(1)).await;
    let cache = synced_cache("5", 2);
    let is_cached = |after| cache.get("shop", "web", Some(after)).is_some();
    assert!(is_cached(before));
    assert!(!is_cached(Instant::now()), "the list may have been answered before");
    advance(Duration::from_millis(1)).await;
    let after = Instant::now();
    cache.apply("shop", "web", &scale("7", 3));
    assert!(!is_cached(after), "the watch may lack a change from before");
    advance(Duration::from_millis(1)).await;
    cache.begin_list();
    cache.list_apply("shop", "web", &scale("7", 3));
    assert!(!is_cached(after), "the list is not complete");
    cache.finish_list();
    assert!(is_cached(after));
    cache.invalidate();
    assert!(!is_cached(after), "the watch failed");
}
