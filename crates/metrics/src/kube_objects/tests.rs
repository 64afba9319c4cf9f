use hpa_calc::selector::MAX_LABELS;

use super::*;

fn pod_json(namespace: &str, name: &str, app: &str, phase: &str) -> serde_json::Value {
    serde_json::json!({
        "metadata": { "namespace": namespace, "name": name, "labels": { "app": app } },
        "status": { "phase": phase },
    })
}

fn pod(namespace: &str, name: &str, app: &str, phase: &str) -> StoredObject {
    serde_json::from_value(pod_json(namespace, name, app, phase)).unwrap()
}

fn names(cache: &ObjectCache, namespace: &str, selector: &str) -> Option<Vec<String>> {
    let selector = Selector::parse(selector).unwrap();
    let pods = cache.select(namespace, &selector, |pod| pod.is_running).ok()?;
    Some(pods.iter().map(|pod| pod.key.to_string()).collect())
}

#[test]
fn cache_has_the_objects_of_the_last_list_and_later_changes() {
    let (cache, mut listed) = (ObjectCache::default(), ObjectsByNamespace::default());
    let mut apply = |event| cache.apply(event, &mut listed);
    apply(watcher::Event::Init);
    apply(watcher::Event::InitApply(pod("shop", "web-1", "web", "Running")));
    apply(watcher::Event::InitApply(pod("shop", "web-0", "web", "Running")));
    apply(watcher::Event::InitApply(pod("shop", "web-2", "web", "Pending")));
    assert_eq!(names(&cache, "shop", ""), None, "not synced");
    apply(watcher::Event::InitDone);
    assert_eq!(names(&cache, "shop", "app=web").unwrap(), ["shop/web-0", "shop/web-1"]);
    assert_eq!(names(&cache, "shop", "app=api").unwrap(), [""; 0]);

    apply(watcher::Event::Apply(pod("api", "api-0", "api", "Running")));
    apply(watcher::Event::Delete(pod("shop", "web-0", "web", "Running")));
    assert_eq!(names(&cache, "", "").unwrap(), ["api/api-0", "shop/web-1"]);

    apply(watcher::Event::Init);
    apply(watcher::Event::InitDone);
    assert_eq!(names(&cache, "", "").unwrap(), [""; 0]);
}

#[test]
fn pod_with_times_out_of_range_is_cached_beside_others() {
    let end = "9999-12-31T23:59:59Z";
    let hostile = serde_json::json!({
        "metadata": {
            "namespace": "evil",
            "name": "evil-0",
            "labels": { "app": "evil" },
            "creationTimestamp": end,
            "deletionTimestamp": end,
            "managedFields": [{ "time": end }],
        },
        "status": {
            "phase": "Running",
            "startTime": end,
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": end }],
        },
    });
    let list = serde_json::json!({
        "metadata": {}, "items": [hostile, pod_json("shop", "web-0", "web", "Running")],
    });
    let list: kube::core::ObjectList<StoredObject> = serde_json::from_value(list).unwrap();
    let (cache, mut listed) = (ObjectCache::default(), ObjectsByNamespace::default());
    for object in list.items {
        cache.apply(watcher::Event::InitApply(object), &mut listed);
    }
    cache.apply(watcher::Event::InitDone, &mut listed);
    assert_eq!(names(&cache, "", "").unwrap(), ["evil/evil-0", "shop/web-0"]);
    let evil = cache.select_pods("evil", &Selector::everything()).unwrap();
    assert_eq!((evil[0].is_terminating, evil[0].ready_since), (true, Some(Timestamp::default())));
}

#[test]
fn undecodable_object_leaves_the_cache() {
    let (cache, mut listed) = (ObjectCache::default(), ObjectsByNamespace::default());
    let undecodable = serde_json::json!({
        "metadata": { "namespace": "shop", "name": "web-0", "labels": ["web"] },
    });
    cache.apply(watcher::Event::InitApply(pod("shop", "web-0", "web", "Running")), &mut listed);
    cache.apply(watcher::Event::InitApply(pod("shop", "web-1", "web", "Running")), &mut listed);
    cache.apply(watcher::Event::InitDone, &mut listed);
    let undecodable = serde_json::from_value(undecodable).unwrap();
    cache.apply(watcher::Event::Apply(undecodable), &mut listed);
    assert_eq!(names(&cache, "", "").unwrap(), ["shop/web-1"]);
}

/// A pod with this many labels.
fn pod_with_labels(name: &str, count: usize) -> StoredObject {
    let labels: BTreeMap<_, _> = (0..count).map(|at| (format!("l{at}"), "a")).collect();
    serde_json::from_value(serde_json::json!({
        "metadata": { "namespace": "shop", "name": name, "labels": labels },
        "status": { "phase": "Running" },
    }))
    .unwrap()
}

#[test]
fn pod_with_too_many_labels_is_kept_without_them_and_not_selected() {
    let (cache, mut listed) = (ObjectCache::default(), ObjectsByNamespace::default());
    for (name, count) in [("web-0", MAX_LABELS + 1), ("web-1", MAX_LABELS)] {
        cache.apply(watcher::Event::InitApply(pod_with_labels(name, count)), &mut listed);
    }
    cache.apply(watcher::Event::InitDone, &mut listed);
    for selector in ["", "l0=a", "!other"] {
        assert_eq!(names(&cache, "shop", selector).unwrap(), ["shop/web-1"], "{selector}");
        let selected = cache.select_pods("shop", &Selector::parse(selector).unwrap());
        assert_eq!(selected.unwrap().len(), 1, "{selector}");
    }
    let pod = cache.get(&ObjectKey::new("shop", "web-0")).unwrap().unwrap();
    assert!(pod.metadata.labels.is_empty());
}

#[test]
fn node_with_many_labels_is_selected() {
    let cache = ObjectCache { has_unlimited_labels: true, ..ObjectCache::default() };
    let mut listed = ObjectsByNamespace::default();
    let node = pod_with_labels("node", MAX_LABELS + 1);
    cache.apply(watcher::Event::InitApply(node), &mut listed);
    cache.apply(watcher::Event::InitDone, &mut listed);
    assert_eq!(names(&cache, "shop", "l0=a").unwrap(), ["shop/node"]);
}

#[test]
fn watched_cache_is_unsynced_until_the_first_list() {
    let cache = ObjectCache { resource: "pods", ..ObjectCache::default() };
    assert_eq!(cache.unsynced_text(), None, "nothing is watched");
    cache.is_watched.store(true, Ordering::Relaxed);
    cache.sync_state.set_failed(&std::io::Error::other("refused"));
    let unsynced = cache.unsynced_text();
    assert_eq!(unsynced.as_deref(), Some("the cache of pods has not synced yet"));
    cache.apply(watcher::Event::InitDone, &mut ObjectsByNamespace::default());
    assert_eq!(cache.unsynced_text(), None);
}
