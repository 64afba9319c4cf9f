//! Tables of autoscalers.

use jiff::Timestamp;
use serde_json::Value;

use super::cell::{age, name};
use crate::json_fields;

/// The maximum number of printed metrics.
const MAX_TARGETS: usize = 2;
const UNKNOWN: &str = "<unknown>";

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
    let statuses: Vec<&Value> = json_fields::array_at(object, "/status/currentMetrics").collect();
    let specs = json_fields::array_at(object, "/spec/metrics").enumerate();
    let texts: Vec<String> =
        specs.map(|(index, spec)| target(spec, statuses.get(index).copied())).collect();
    let first_targets = texts.iter().take(MAX_TARGETS).cloned().collect::<Vec<_>>().join(", ");
    match texts.len() {
        0 => "<none>".to_owned(),
        count if count > MAX_TARGETS => {
            format!("{first_targets} + {} more...", count - MAX_TARGETS)
        }
        _ => first_targets,
    }
}

/// The target of one metric, from the entries of spec and status at the same index.
fn target(spec: &Value, status: Option<&Value>) -> String {
    let source = match json_fields::str_at(spec, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target_value = |field: &str| spec.get(source)?.get("target")?.get(field);
    let current = status.and_then(|status| status.get(source)?.get("current"));
    let current = |field: &str| text_or_unknown(current.and_then(|current| current.get(field)));
    let average = target_value("averageValue").filter(|value| !value.is_null());
    match (source, average) {
        ("pods", _) => format!("{}/{}", current("averageValue"), text_or_unknown(average)),
        ("resource" | "containerResource", Some(_)) => {
            let name = json_fields::str_at(spec, &format!("/{source}/name"));
            format!("{name}: {}/{}", current("averageValue"), text_or_unknown(average))
        }
        ("resource" | "containerResource", None) => {
            let name = json_fields::str_at(spec, &format!("/{source}/name"));
            let target_value = target_value("averageUtilization").and_then(Value::as_i64);
            let target_value = target_value
                .map_or_else(|| "<auto>".to_owned(), |target_value| format!("{target_value}%"));
            match current("averageUtilization") {
                unknown if unknown == UNKNOWN => format!("{name}: {unknown}/{target_value}"),
                value => format!("{name}: {value}%/{target_value}"),
            }
        }
        (_, Some(_)) => format!("{}/{} (avg)", current("averageValue"), text_or_unknown(average)),
        (_, None) => format!("{}/{}", current("value"), text_or_unknown(target_value("value"))),
    }
}

/// A value of a metric in a cell.
fn text_or_unknown(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => UNKNOWN.to_owned(),
    }
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
