//! Tables of built-in resources other than autoscalers.

use hpa_calc::selector::LabelSelector;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::cell::{age, name, since};
use crate::json_fields;

pub(super) const DEPLOYMENT_COLUMNS: &str =
    "Name|Ready|Up-to-date|Available|Age|+Containers|+Images|+Selector";
pub(super) const STATEFUL_SET_COLUMNS: &str = "Name|Ready|Age|+Containers|+Images";
pub(super) const REPLICA_SET_COLUMNS: &str =
    "Name|#Desired|#Current|#Ready|Age|+Containers|+Images|+Selector";
pub(super) const CONFIG_MAP_COLUMNS: &str = "Name|Data|Age";
pub(super) const POD_COLUMNS: &str =
    "Name|Ready|Status|Restarts|Age|+IP|+Node|+Nominated Node|+Readiness Gates";
pub(super) const NAMESPACE_COLUMNS: &str = "Name|Status|Age";
pub(super) const EVENT_COLUMNS: &str = "Last Seen|Type|Reason|Object|Message";

pub(super) fn deployment_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let (updated, available) =
        (count(object, "/status/updatedReplicas"), count(object, "/status/availableReplicas"));
    let [containers, images] = containers(object);
    let counts = [ready_of_desired(object), updated.into(), available.into()];
    let last = [age(object, now), containers, images, selector(object)];
    [name(object)].into_iter().chain(counts).chain(last).collect()
}

pub(super) fn stateful_set_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object);
    vec![name(object), ready_of_desired(object), age(object, now), containers, images]
}

pub(super) fn replica_set_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let counts = ["/spec/replicas", "/status/replicas", "/status/readyReplicas"];
    let counts = counts.map(|pointer| Value::from(count(object, pointer)));
    let [containers, images] = containers(object);
    let last = [age(object, now), containers, images, selector(object)];
    [name(object)].into_iter().chain(counts).chain(last).collect()
}

fn containers(object: &Value) -> [Value; 2] {
    ["/name", "/image"].map(|field| {
        let containers = json_fields::array_at(object, "/spec/template/spec/containers");
        containers
            .map(|container| json_fields::str_at(container, field))
            .collect::<Vec<_>>()
            .join(",")
            .into()
    })
}

/// The selector as a string. For a ReplicationController it is a map of labels.
fn selector(object: &Value) -> Value {
    let selector = object.pointer("/spec/selector").cloned().unwrap_or_default();
    let selector = match json_fields::str_at(object, "/kind") {
        "ReplicationController" => json!({ "matchLabels": selector }),
        _ => selector,
    };
    let selector = serde_json::from_value::<LabelSelector>(selector).ok();
    let selector = selector.and_then(|selector| selector.to_selector().ok());
    selector.map(|selector| selector.to_string()).unwrap_or_default().into()
}

pub(super) fn config_map_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let fields =
        ["/data", "/binaryData"].map(|pointer| object.pointer(pointer).and_then(Value::as_object));
    let count: usize = fields.into_iter().flatten().map(Map::len).sum();
    vec![name(object), count.into(), age(object, now)]
}

pub(super) fn pod_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let statuses = || json_fields::array_at(object, "/status/containerStatuses");
    let ready = statuses()
        .filter(|status| status.get("ready").and_then(Value::as_bool) == Some(true))
        .count();
    let containers = json_fields::array_at(object, "/spec/containers").count();
    let restarts: i64 =
        statuses().filter_map(|status| json_fields::i64_at(status, "/restartCount")).sum();
    vec![
        name(object),
        format!("{ready}/{containers}").into(),
        pod_status(object).into(),
        restarts.to_string().into(),
        age(object, now),
        or_none(object, "/status/podIP"),
        or_none(object, "/spec/nodeName"),
        or_none(object, "/status/nominatedNodeName"),
        "<none>".into(),
    ]
}

/// The `STATUS` column: the first that exists of `Terminating`, a container's reason, the pod's
/// reason, and the phase.
fn pod_status(object: &Value) -> &str {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    let containers = json_fields::array_at(object, "/status/containerStatuses");
    let container_reasons = containers.flat_map(|container| {
        ["/state/waiting/reason", "/state/terminated/reason"]
            .map(|pointer| json_fields::str_at(container, pointer))
    });
    let pod_texts =
        ["/status/reason", "/status/phase"].map(|pointer| json_fields::str_at(object, pointer));
    let mut texts = container_reasons.chain(pod_texts);
    texts.find(|text| !text.is_empty()).unwrap_or_default()
}

pub(super) fn namespace_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json_fields::str_at(object, "/status/phase").into(), age(object, now)]
}

pub(super) fn event_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let last = json_fields::str_at(object, "/lastTimestamp");
    let last = if last.is_empty() { json_fields::str_at(object, "/eventTime") } else { last };
    let kind = json_fields::str_at(object, "/involvedObject/kind").to_lowercase();
    vec![
        since(last, now).into(),
        json_fields::str_at(object, "/type").into(),
        json_fields::str_at(object, "/reason").into(),
        format!("{kind}/{}", json_fields::str_at(object, "/involvedObject/name")).into(),
        json_fields::str_at(object, "/message").trim().into(),
    ]
}

/// The ready replicas of the desired ones: `2/3`.
fn ready_of_desired(object: &Value) -> Value {
    let (ready, desired) =
        (count(object, "/status/readyReplicas"), count(object, "/spec/replicas"));
    format!("{ready}/{desired}").into()
}

fn count(object: &Value, pointer: &str) -> i64 {
    json_fields::i64_at(object, pointer).unwrap_or_default()
}

fn or_none(object: &Value, pointer: &str) -> Value {
    let text = json_fields::str_at(object, pointer);
    if text.is_empty() { "<none>".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_status_is_the_reason_of_the_first_container_that_has_one() {
        let statuses = json!([
            { "state": { "running": {} } },
            { "state": { "waiting": { "reason": "CrashLoopBackOff" } } },
            { "state": { "terminated": { "reason": "Error" } } },
        ]);
        let mut pod = json!({ "status": { "phase": "Running", "containerStatuses": statuses } });
        assert_eq!(pod_status(&pod), "CrashLoopBackOff");
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(pod_status(&pod), "Terminating");
    }
}
