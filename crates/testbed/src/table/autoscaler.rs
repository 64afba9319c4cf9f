//! Tables of autoscalers.

use hpa_calc::crd::targets_text;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cell::{age, name};
use crate::json_fields;

pub(super) const COLUMNS: &str = "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age";

pub(super) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let reference =
        |field: &str| json_fields::str_at(object, &format!("/spec/scaleTargetRef/{field}"));
    let min = json_fields::i64_at(object, "/spec/minReplicas");
    vec![
        name(object),
        format!("{}/{}", reference("kind"), reference("name")).into(),
        targets(object).into(),
        min.map_or_else(|| "<unset>".to_owned(), |min| min.to_string()).into(),
        json_fields::i64_at(object, "/spec/maxReplicas").unwrap_or_default().into(),
        json_fields::i64_at(object, "/status/currentReplicas").unwrap_or_default().into(),
        age(object, now),
    ]
}

fn targets(object: &Value) -> String {
    targets_text(&section(object, "spec"), &section(object, "status"))
}

/// Decodes the spec or the status.
fn section<T: DeserializeOwned + Default>(object: &Value, name: &str) -> T {
    let section = object.get(name).cloned().unwrap_or_default();
    serde_json::from_value(section).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn cpu(target: Value) -> Value {
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
    }

    fn external(target: Value) -> Value {
        let external = json!({ "metric": { "name": "queue" }, "target": target });
        json!({ "type": "External", "external": external })
    }

    fn usage(source: &str, kind: &str, current: Value) -> Value {
        json!({ "type": kind, source: { "current": current } })
    }

    #[rstest]
    #[case::none(json!([]), json!([]), "<none>")]
    #[case::unknown(
        json!([cpu(json!({ "averageUtilization": 80 }))]),
        json!([]),
        "cpu: <unknown>/80%"
    )]
    #[case::utilization(
        json!([cpu(json!({ "averageUtilization": 80 }))]),
        json!([usage("resource", "Resource", json!({
            "averageUtilization": 50, "averageValue": "500m",
        }))]),
        "cpu: 50%/80%"
    )]
    #[case::resource_average(
        json!([cpu(json!({ "averageValue": "1" }))]),
        json!([usage("resource", "Resource", json!({ "averageValue": "500m" }))]),
        "cpu: 500m/1"
    )]
    #[case::average(
        json!([external(json!({ "averageValue": "20" }))]),
        json!([usage("external", "External", json!({ "averageValue": "10" }))]),
        "10/20 (avg)"
    )]
    #[case::value(
        json!([external(json!({ "value": "20" }))]),
        json!([usage("external", "External", json!({ "value": "10" }))]),
        "10/20"
    )]
    #[case::many(
        json!([external(json!({ "value": "1" })), external(json!({ "value": "2" })),
            external(json!({ "value": "3" })), external(json!({ "value": "4" }))]),
        json!([]),
        "<unknown>/1, <unknown>/2 + 2 more..."
    )]
    fn targets_are_printed_as_by_kube_apiserver(
        #[case] spec: Value,
        #[case] status: Value,
        #[case] expected: &str,
    ) {
        let object = json!({ "spec": { "metrics": spec }, "status": { "currentMetrics": status } });
        assert_eq!(targets(&object), expected);
    }
}
