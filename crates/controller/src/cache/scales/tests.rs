use hpa_calc::api::Scale;
use serde_json::{Value, json};

use super::{
    scaled::{ScalePaths, Scaled, Workload},
    store::Store,
};
use crate::scale_target::ReadScale;

fn read(version: &str, replicas: i32) -> ReadScale {
    let scale = Scale { spec_replicas: replicas, status_replicas: 1, selector: "app=web".into() };
    ReadScale { scale, uid: "u".into(), resource_version: version.into() }
}

/// The replicas and the version that are known.
fn known(store: &Store) -> Option<(i32, String)> {
    store.get("shop", "web").map(|read| (read.scale.spec_replicas, read.resource_version))
}

/// What a list of one object at this version comes to.
fn listed(version: &str, replicas: i32) -> Store {
    let store = Store::default();
    store.begin_list();
    store.listed("shop", "web", &read(version, replicas));
    store.end_list();
    store
}

#[test]
fn nothing_is_known_before_the_first_list_has_ended() {
    let store = Store::default();
    store.begin_list();
    store.listed("shop", "web", &read("5", 2));
    assert_eq!(known(&store), None);
    store.end_list();
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
    store.lost();
    assert_eq!(known(&store), None);
    store.apply("shop", "web", &read("7", 3));
    assert_eq!(known(&store), None);
    store.begin_list();
    store.listed("shop", "web", &read("8", 6));
    store.end_list();
    assert_eq!(known(&store), Some((6, "8".into())));
}

#[test]
fn list_does_not_undo_what_was_learned_since_it_began() {
    let store = listed("5", 2);
    store.begin_list();
    store.listed("shop", "web", &read("6", 3));
    store.observe_response("shop", "web", &read("9", 4));
    store.end_list();
    assert_eq!(known(&store), Some((4, "9".into())));
}

#[test]
fn list_counts_even_if_versions_went_back() {
    let store = listed("500", 2);
    store.observe_response("shop", "web", &read("900", 4));
    store.begin_list();
    store.listed("shop", "web", &read("6", 3));
    store.end_list();
    assert_eq!(known(&store), Some((3, "6".into())));
}

fn scale(object: Value) -> Option<ReadScale> {
    let workload: Workload = serde_json::from_value(object).expect("an object");
    workload.scale(&ScalePaths::default())
}

fn deployment() -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "tier": "front", "app": "web" },
                "matchExpressions": [{ "key": "env", "operator": "In", "values": ["test", "prod"] }] },
            "template": { "spec": { "containers": [] } },
        },
        "status": { "replicas": 2, "readyReplicas": 1 },
    })
}

#[test]
fn scale_of_a_workload_is_what_the_api_server_makes_of_it() {
    let expected = Scale {
        spec_replicas: 3,
        status_replicas: 2,
        selector: "app=web,env in (prod,test),tier=front".into(),
    };
    let expected = ReadScale { scale: expected, uid: "u".into(), resource_version: "5".into() };
    assert_eq!(scale(deployment()), Some(expected));
}

#[test]
fn workload_without_pods_has_no_replicas_in_its_status() {
    let mut object = deployment();
    object["status"] = json!({});
    assert_eq!(scale(object).map(|read| read.scale.status_replicas), Some(0));
}

#[test]
fn garbled_workload_is_left_to_the_api_server_and_spoils_nothing() {
    for (member, value) in [
        ("/spec/replicas", json!("three")),
        ("/spec/replicas", Value::Null),
        ("/spec/selector/matchLabels", json!(7)),
        ("/spec/selector/matchExpressions/0/operator", json!("Near")),
        ("/spec", json!([1, 2])),
        ("/spec", json!("x")),
        ("/status/replicas", json!(true)),
    ] {
        let mut object = deployment();
        *object.pointer_mut(member).expect("a member") = value;
        let text = serde_json::to_string(&[object, deployment()]).expect("JSON");
        let objects: Vec<Workload> = serde_json::from_str(&text).expect("a list");
        let scales: Vec<_> =
            objects.iter().map(|one| one.scale(&ScalePaths::default()).is_some()).collect();
        assert_eq!(scales, [false, true], "{member}");
    }
}
