use hpa_calc::api::Scale;
use serde_json::{Value, json};

use super::workload::{ScalePaths, ScaleSource, Workload};
use crate::scale_target::ScaleObject;

fn scale(object: Value) -> Option<ScaleObject> {
    let workload: Workload = serde_json::from_value(object).expect("an object");
    workload.scale(&ScalePaths::default())
}

fn deployment() -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "tier": "front", "app": "web" },
                "matchExpressions": [
                    { "key": "env", "operator": "In", "values": ["test", "prod"] },
                ] },
            "template": { "spec": { "containers": [] } },
        },
        "status": { "replicas": 2, "readyReplicas": 1 },
    })
}

#[test]
fn derived_scale_equals_that_of_the_api_server() {
    let expected = Scale {
        spec_replicas: 3,
        status_replicas: 2,
        selector: "app=web,env in (prod,test),tier=front".into(),
    };
    let expected = ScaleObject { scale: expected, uid: "u".into(), resource_version: "5".into() };
    assert_eq!(scale(deployment()), Some(expected));
}

#[test]
fn missing_status_replicas_are_zero() {
    let mut object = deployment();
    object["status"] = json!({});
    assert_eq!(scale(object).map(|object| object.scale.status_replicas), Some(0));
}

#[test]
fn invalid_workload_has_no_scale_and_does_not_fail_its_list() {
    for (field, value) in [
        ("/spec/replicas", json!("three")),
        ("/spec/replicas", Value::Null),
        ("/spec/selector/matchLabels", json!(7)),
        ("/spec/selector/matchExpressions/0/operator", json!("Near")),
        ("/spec", json!([1, 2])),
        ("/spec", json!("x")),
        ("/status/replicas", json!(true)),
    ] {
        let mut object = deployment();
        *object.pointer_mut(field).expect("a field") = value;
        let text = serde_json::to_string(&[object, deployment()]).expect("JSON");
        let objects: Vec<Workload> = serde_json::from_str(&text).expect("a list");
        let scales: Vec<_> = objects
            .iter()
            .map(|workload| workload.scale(&ScalePaths::default()).is_some())
            .collect();
        assert_eq!(scales, [false, true], "{field}");
    }
}
