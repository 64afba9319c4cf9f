use std::time::Duration;

use hpa_calc::{
    Settings,
    history::{History, Recommendation, ScaleEvent},
};
use hpa_lease::Instants;
use jiff::Timestamp;

use super::*;

fn instants() -> Instants {
    Instants { wall: Timestamp::UNIX_EPOCH, monotonic: Duration::from_secs(5) }
}

fn key() -> HpaKey {
    HpaKey::new("shop", "web")
}

fn object(uid: &str, version: &str, max_replicas: i32) -> HorizontalPodAutoscaler {
    let mut object = HorizontalPodAutoscaler::default();
    object.metadata.uid = uid.into();
    object.metadata.resource_version = version.into();
    object.spec.max_replicas = max_replicas;
    object
}

/// A cache of one autoscaler.
fn cache_with(object: HorizontalPodAutoscaler) -> (Autoscalers, Arc<Autoscaler>) {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object, Origin::WatchOrResponse);
    let cached = autoscalers.get(&key()).expect("cached");
    (autoscalers, cached)
}

#[test]
fn changed_status_is_a_status_change() {
    let autoscalers = Autoscalers::default();
    assert_eq!(
        autoscalers.apply(&key(), object("a", "1", 5), Origin::WatchOrResponse),
        Change::Created
    );
    let mut next = object("a", "2", 5);
    next.status.desired_replicas = 3;
    assert_eq!(autoscalers.apply(&key(), next, Origin::WatchOrResponse), Change::StatusChanged);
    let cached = autoscalers.get(&key()).expect("cached");
    assert_eq!(cached.object().status.desired_replicas, 3);
}

#[test]
fn changed_spec_is_a_spec_change() {
    let (autoscalers, _) = cache_with(object("a", "1", 5));
    assert_eq!(
        autoscalers.apply(&key(), object("a", "2", 6), Origin::WatchOrResponse),
        Change::SpecChanged
    );
}

#[test]
fn changed_annotation_is_a_spec_change() {
    let (autoscalers, _) = cache_with(object("a", "1", 5));
    let mut next = object("a", "2", 5);
    next.metadata.annotations.insert("autoscaling.hpa-rs.dev/pause".into(), "true".into());
    assert_eq!(autoscalers.apply(&key(), next, Origin::WatchOrResponse), Change::SpecChanged);
}

#[test]
fn older_version_from_a_watch_is_ignored() {
    let (autoscalers, cached) = cache_with(object("a", "10", 6));
    assert_eq!(
        autoscalers.apply(&key(), object("a", "9", 5), Origin::WatchOrResponse),
        Change::Unchanged
    );
    assert_eq!(cached.object().spec.max_replicas, 6);
}

#[test]
fn recreated_autoscaler_inherits_no_state() {
    let (autoscalers, cached) = cache_with(object("a", "1", 5));
    let mut history = History::default();
    history.scale_ups.push(ScaleEvent { change: 1, at: Timestamp::UNIX_EPOCH, outdated: false });
    cached.set_history(history, instants());
    drop(cached.shadow_record_or_new(&cached.object(), &Settings::default(), Duration::ZERO));
    assert_eq!(
        autoscalers.apply(&key(), object("b", "2", 5), Origin::WatchOrResponse),
        Change::Created
    );
    let cached = autoscalers.get(&key()).expect("cached");
    assert_eq!(cached.history(instants()), History::default());
    assert!(cached.shadow_record.lock().is_none());
}

#[test]
fn restored_history_is_checked_by_the_first_reconcile_that_reads_the_replicas() {
    let (_, cached) = cache_with(object("a", "1", 5));
    cached.restore_history(History::default(), None, instants());
    // The first reconcile can't read the target.
    cached.set_history(cached.history(instants()), instants());
    for replicas in [6, 7] {
        cached.check_restored_history(replicas, instants());
    }
    let expected = [Recommendation { replicas: 6, at: Timestamp::UNIX_EPOCH }];
    assert_eq!(cached.history(instants()).recommendations, expected);
}

#[test]
fn undecodable_autoscaler_keeps_its_state() {
    let (autoscalers, cached) = cache_with(object("a", "1", 5));
    autoscalers.mark_undecodable(&key());
    assert!(cached.is_undecodable());
    assert_eq!(autoscalers.apply(&key(), object("a", "2", 5), Origin::List), Change::SpecChanged);
    assert!(!cached.is_undecodable());
    assert!(Arc::ptr_eq(&cached, &autoscalers.get(&key()).expect("cached")));
}

#[test]
fn listed_object_replaces_a_cached_one_with_a_newer_version() {
    let (autoscalers, _) = cache_with(object("a", "10", 6));
    assert_eq!(autoscalers.apply(&key(), object("a", "9", 5), Origin::List), Change::SpecChanged);
}

#[test]
fn spec_hash_is_known_until_the_spec_changes() {
    let (autoscalers, cached) = cache_with(object("a", "1", 5));
    assert_eq!(cached.spec_with_hash(7), None);
    autoscalers.apply_own_write(&key(), StoredHpa { object: object("a", "2", 5), spec_hash: 7 });
    assert_eq!(cached.object().metadata.resource_version, "2");
    autoscalers.apply(&key(), object("a", "3", 5), Origin::WatchOrResponse);
    assert_eq!(cached.spec_with_hash(7), Some(object("a", "3", 5).spec));
    assert_eq!(cached.spec_with_hash(8), None);
    autoscalers.apply(&key(), object("a", "4", 6), Origin::WatchOrResponse);
    assert_eq!(cached.spec_with_hash(7), None);
}

#[test]
fn response_with_an_older_version_or_another_spec_is_ignored() {
    let (autoscalers, cached) = cache_with(object("a", "5", 5));
    autoscalers.apply_own_write(&key(), StoredHpa { object: object("a", "4", 5), spec_hash: 7 });
    autoscalers.apply_own_write(&key(), StoredHpa { object: object("a", "6", 6), spec_hash: 8 });
    assert_eq!((cached.spec_with_hash(7), cached.spec_with_hash(8)), (None, None));
    assert_eq!(cached.object().metadata.resource_version, "5");
}
