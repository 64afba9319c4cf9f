//! The tables of workloads and pods.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age::{age, since},
    name,
};
use crate::json;

pub(super) const DEPLOYMENT: &[(&str, bool)] =
    &[("Name", false), ("Ready", false), ("Up-to-date", false), ("Available", false), ("Age", false)];
pub(super) const STATEFUL_SET: &[(&str, bool)] = &[("Name", false), ("Ready", false), ("Age", false)];
pub(super) const REPLICA_SET: &[(&str, bool)] =
    &[("Name", false), ("Desired", false), ("Current", false), ("Ready", false), ("Age", false)];
pub(super) const POD: &[(&str, bool)] = &[
    ("Name", false),
    ("Ready", false),
    ("Status", false),
    ("Restarts", false),
    ("Age", false),
    ("IP", true),
    ("Node", true),
    ("Nominated Node", true),
    ("Readiness Gates", true),
];
pub(super) const NAMESPACE: &[(&str, bool)] = &[("Name", false), ("Status", false), ("Age", false)];
pub(super) const EVENT: &[(&str, bool)] =
    &[("Last Seen", false), ("Type", false), ("Reason", false), ("Object", false), ("Message", false)];

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", count(object, "/status/readyReplicas"), count(object, "/spec/replicas"));
    let (updated, available) =
        (count(object, "/status/updatedReplicas"), count(object, "/status/availableReplicas"));
    vec![name(object), ready.into(), updated.into(), available.into(), age(object, now)]
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", count(object, "/status/readyReplicas"), count(object, "/spec/replicas"));
    vec![name(object), ready.into(), age(object, now)]
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let counts = ["/spec/replicas", "/status/replicas", "/status/readyReplicas"];
    let counts = counts.map(|pointer| Value::from(count(object, pointer)));
    [name(object)].into_iter().chain(counts).chain([age(object, now)]).collect()
}

pub(super) fn pod(object: &Value, now: Timestamp) -> Vec<Value> {
    let statuses = || json::items(object, "/status/containerStatuses");
    let ready =
        statuses().filter(|status| status.get("ready").and_then(Value::as_bool) == Some(true)).count();
    let containers = json::items(object, "/spec/containers").count();
    let restarts: i64 = statuses().filter_map(|status| json::number(status, "/restartCount")).sum();
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

/// What a pod is at: on its way out, held up, or in a phase.
fn pod_status(object: &Value) -> String {
    let mut status = json::text(object, "/status/phase");
    let reason = json::text(object, "/status/reason");
    if !reason.is_empty() {
        status = reason;
    }
    for container in json::items(object, "/status/containerStatuses") {
        for state in ["waiting", "terminated"] {
            let reason = json::text(container, &format!("/state/{state}/reason"));
            status = if reason.is_empty() { status } else { reason };
        }
    }
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        status = "Terminating";
    }
    status.to_owned()
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json::text(object, "/status/phase").into(), age(object, now)]
}

pub(super) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let last = json::text(object, "/lastTimestamp");
    let last = if last.is_empty() { json::text(object, "/eventTime") } else { last };
    let kind = json::text(object, "/involvedObject/kind").to_lowercase();
    vec![
        since(last, now).into(),
        json::text(object, "/type").into(),
        json::text(object, "/reason").into(),
        format!("{kind}/{}", json::text(object, "/involvedObject/name")).into(),
        json::text(object, "/message").trim().into(),
    ]
}

fn count(object: &Value, pointer: &str) -> i64 {
    json::number(object, pointer).unwrap_or_default()
}

fn or_none(object: &Value, pointer: &str) -> Value {
    let text = json::text(object, pointer);
    if text.is_empty() { "<none>".into() } else { text.into() }
}
