use hpa_calc::api::Scale;

use super::ScaleCache;
use crate::scale_target::ScaleObject;

fn read(version: &str, replicas: i32) -> ScaleObject {
    let scale = Scale { spec_replicas: replicas, status_replicas: 1, selector: "app=web".into() };
    ScaleObject { scale, uid: "u".into(), resource_version: version.into() }
}

/// The replicas and the version that are known.
fn known(store: &ScaleCache) -> Option<(i32, String)> {
    store.get("shop", "web").map(|read| (read.scale.spec_replicas, read.resource_version))
}

/// What a list of one object at this version comes to.
fn listed(version: &str, replicas: i32) -> ScaleCache {
    let store = ScaleCache::default();
    store.begin_list();
    store.list_apply("shop", "web", &read(version, replicas));
    store.finish_list();
    store
}

#[test]
fn nothing_is_known_before_the_first_list_has_ended() {
    let store = ScaleCache::default();
    store.begin_list();
    store.list_apply("shop", "web", &read("5", 2));
    assert_eq!(known(&store), None);
    store.finish_list();
    assert_eq!(known(&store), Some((2, "5".into())));
    assert_eq!(store.get("bank", "web"), None);
}

#[test]
fn change_replaces_what_was_known() {
    let store = listed("5", 2);
    store.apply("shop", "web", &read("7", 3));
    assert_eq!(known(&store), Some((3, "7".into())));
}

#[test]
fn own_write_is_known_before_the_watch_tells_and_not_undone_by_it() {
    let store = listed("5", 2);
    store.observe_response("shop", "web", &read("9", 4));
    assert_eq!(known(&store), Some((4, "9".into())));
    store.apply("shop", "web", &read("7", 3));
    assert_eq!(known(&store), Some((4, "9".into())));
    store.apply("shop", "web", &read("10", 5));
    assert_eq!(known(&store), Some((5, "10".into())));
}

#[test]
fn answer_that_is_older_than_what_is_known_is_left_out() {
    let store = listed("5", 2);
    store.observe_response("shop", "web", &read("4", 9));
    assert_eq!(known(&store), Some((2, "5".into())));
}

#[test]
fn answer_does_not_bring_back_what_is_gone() {
    let store = listed("5", 2);
    store.delete("shop", "web", "6");
    store.observe_response("shop", "web", &read("5", 2));
    assert_eq!(known(&store), None);
}

#[test]
fn deletion_of_an_earlier_object_leaves_the_later_one() {
    let store = listed("5", 2);
    store.observe_response("shop", "web", &read("9", 4));
    store.delete("shop", "web", "8");
    assert_eq!(known(&store), Some((4, "9".into())));
}

#[test]
fn nothing_is_known_from_a_failure_to_the_next_list() {
    let store = listed("5", 2);
    store.invalidate();
    assert_eq!(known(&store), None);
    store.apply("shop", "web", &read("7", 3));
    assert_eq!(known(&store), None);
    store.begin_list();
    store.list_apply("shop", "web", &read("8", 6));
    store.finish_list();
    assert_eq!(known(&store), Some((6, "8".into())));
}

#[test]
fn list_does_not_undo_what_was_learned_since_it_began() {
    let store = listed("5", 2);
    store.begin_list();
    store.list_apply("shop", "web", &read("6", 3));
    store.observe_response("shop", "web", &read("9", 4));
    store.finish_list();
    assert_eq!(known(&store), Some((4, "9".into())));
}

#[test]
fn list_counts_even_if_versions_went_back() {
    let store = listed("500", 2);
    store.observe_response("shop", "web", &read("900", 4));
    store.begin_list();
    store.list_apply("shop", "web", &read("6", 3));
    store.finish_list();
    assert_eq!(known(&store), Some((3, "6".into())));
}
