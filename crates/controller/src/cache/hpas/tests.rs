use std::time::Duration;

use jiff::Timestamp;

use super::*;

fn moment() -> Instants {
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

#[test]
fn status_only_change_is_told_apart() {
    let autoscalers = Autoscalers::default();
    assert_eq!(autoscalers.apply(&key(), object("a", "1", 5), Origin::Watch), Change::Created);
    let mut next = object("a", "2", 5);
    next.status.desired_replicas = 3;
    assert_eq!(autoscalers.apply(&key(), next, Origin::Watch), Change::StatusChanged);
    let known = autoscalers.get(&key()).expect("it was applied");
    assert_eq!(known.object().status.desired_replicas, 3);
}

#[test]
fn spec_change_is_told() {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object("a", "1", 5), Origin::Watch);
    assert_eq!(autoscalers.apply(&key(), object("a", "2", 6), Origin::Watch), Change::SpecChanged);
}

#[test]
fn changed_annotation_for_us_is_told_like_a_changed_spec() {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object("a", "1", 5), Origin::Watch);
    let mut next = object("a", "2", 5);
    next.metadata.annotations.insert(crate::annotations::PAUSE.into(), "true".into());
    assert_eq!(autoscalers.apply(&key(), next, Origin::Watch), Change::SpecChanged);
}

#[test]
fn fault_of_annotations_is_news_once() {
    let autoscaler = Autoscaler::new(object("a", "1", 5));
    let told = [Some("x"), Some("x"), Some("y"), None, None, Some("y")]
        .map(|fault| autoscaler.set_invalid_annotations(fault));
    assert_eq!(told, [true, false, true, false, false, true]);
}

#[test]
fn older_version_is_not_taken_over() {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object("a", "10", 6), Origin::Watch);
    assert_eq!(autoscalers.apply(&key(), object("a", "9", 5), Origin::Watch), Change::Unchanged);
    let known = autoscalers.get(&key()).expect("it was applied");
    assert_eq!(known.object().spec.max_replicas, 6);
}

#[test]
fn re_created_object_inherits_no_history() {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object("a", "1", 5), Origin::Watch);
    let mut history = History::default();
    history.scale_ups.push(hpa_calc::history::ScaleEvent {
        change: 1,
        at: Timestamp::UNIX_EPOCH,
        outdated: false,
    });
    autoscalers.get(&key()).expect("it was applied").set_history(history, moment());
    assert_eq!(autoscalers.apply(&key(), object("b", "2", 5), Origin::Watch), Change::Created);
    let known = autoscalers.get(&key()).expect("it was applied");
    assert_eq!(known.history(moment()), History::default());
}

#[test]
fn suspended_object_keeps_its_history() {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object("a", "1", 5), Origin::Watch);
    let known = autoscalers.get(&key()).expect("it was applied");
    autoscalers.suspend(&key());
    assert!(known.is_suspended());
    assert_eq!(autoscalers.apply(&key(), object("a", "2", 5), Origin::List), Change::SpecChanged);
    assert!(!known.is_suspended());
    assert!(Arc::ptr_eq(&known, &autoscalers.get(&key()).expect("it is still there")));
}

#[test]
fn failure_is_news_when_it_begins_changes_or_ends() {
    use FailureChange::{Ended, New, None as Nothing, Same};
    let autoscaler = Autoscaler::new(object("a", "1", 5));
    let told = [None, Some("x"), Some("x"), Some("y"), None, None]
        .map(|failure| autoscaler.set_failure(failure.map(ToOwned::to_owned)));
    assert_eq!(told, [Nothing, New, Same, New, Ended, Nothing]);
}

#[test]
fn relist_counts_even_if_versions_went_back() {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object("a", "10", 6), Origin::Watch);
    assert_eq!(autoscalers.apply(&key(), object("a", "9", 5), Origin::List), Change::SpecChanged);
}

#[test]
fn clock_that_was_set_is_noticed_and_one_that_runs_is_not() {
    let before = moment();
    let monotonic = before.monotonic + Duration::from_secs(60);
    let at =
        |seconds| Instants { wall: before.wall + SignedDuration::from_secs(seconds), monotonic };
    assert_eq!(wall_clock_step(before, at(60)), SignedDuration::ZERO);
    assert_eq!(wall_clock_step(before, at(3660)), SignedDuration::from_hours(1));
    assert_eq!(wall_clock_step(before, at(-3540)), SignedDuration::from_hours(-1));
}

#[test]
fn spec_is_known_by_its_hash_until_it_changes() {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object("a", "1", 5), Origin::Watch);
    let known = autoscalers.get(&key()).expect("it was applied");
    assert_eq!(known.spec_with_hash(7), None);
    assert!(
        autoscalers
            .apply_own_write(&key(), StoredHpa { object: object("a", "2", 5), spec_hash: 7 })
    );
    autoscalers.apply(&key(), object("a", "3", 5), Origin::Watch);
    assert_eq!(known.spec_with_hash(7), Some(object("a", "3", 5).spec));
    assert_eq!(known.spec_with_hash(8), None);
    autoscalers.apply(&key(), object("a", "4", 6), Origin::Watch);
    assert_eq!(known.spec_with_hash(7), None);
}

#[test]
fn answer_of_an_older_version_or_of_another_spec_changes_nothing() {
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), object("a", "5", 5), Origin::Watch);
    let known = autoscalers.get(&key()).expect("it was applied");
    autoscalers.apply_own_write(&key(), StoredHpa { object: object("a", "4", 5), spec_hash: 7 });
    assert!(
        !autoscalers
            .apply_own_write(&key(), StoredHpa { object: object("a", "6", 6), spec_hash: 8 })
    );
    assert_eq!((known.spec_with_hash(7), known.spec_with_hash(8)), (None, None));
    assert_eq!(known.object().metadata.resource_version, "5");
}
