//! Creates and updates pod objects.

use hpa_simulate::workload::{
    model::{Container, Pod, PodState},
    number,
    profile::{PodProfile, Sidecar},
    seconds::timestamp_at,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::owner::Owner;
use crate::{clock::format_time, json_fields};

pub(super) fn new_object(
    owner: &Owner,
    name: &str,
    labels: &[(&str, &str)],
    profile: &PodProfile,
) -> Value {
    let template = owner.object.pointer("/spec/template");
    let mut pod = template.cloned().unwrap_or_else(|| {
        let image = format!("{}:1", owner.name());
        json!({ "spec": { "containers": profile.containers(&image) } })
    });
    json_fields::set(&mut pod, &["apiVersion"], "v1");
    json_fields::set(&mut pod, &["kind"], "Pod");
    json_fields::set(&mut pod, &["metadata", "name"], name);
    json_fields::set(&mut pod, &["metadata", "namespace"], owner.namespace());
    json_fields::set(&mut pod, &["metadata", "labels"], owner.pod_labels());
    for (key, value) in labels {
        json_fields::set(&mut pod, &["metadata", "labels", key], *value);
    }
    json_fields::set(&mut pod, &["metadata", "ownerReferences"], json!([owner.reference()]));
    pod
}

/// The containers of a pod for the model. The main container is the one with the profile's name, or
/// else the first one.
pub(super) fn containers(pod: &Value, profile: &PodProfile) -> Vec<Container> {
    let mut names: Vec<&str> = json_fields::array_at(pod, "/spec/containers")
        .map(|one| json_fields::str_at(one, "/name"))
        .collect();
    if names.is_empty() {
        names.push(&profile.container);
    }
    let main = names.iter().position(|name| *name == profile.container).unwrap_or_default();
    let container = |(index, name): (usize, &&str)| {
        let sidecar = profile.sidecars.iter().find(|sidecar| sidecar.name == *name);
        let usage = sidecar.map(Sidecar::usage).unwrap_or_default();
        Container::new(name, (index != main).then_some(usage))
    };
    names.iter().enumerate().map(container).collect()
}

/// Writes the state of the model's pod into its object.
pub(super) fn update_object(object: &mut Value, pod: &Pod, start: Timestamp) {
    let at = |second: f64| format_time(timestamp_at(start, second));
    let lifecycle = &pod.lifecycle;
    if lifecycle.created_at < 0.0 {
        json_fields::set(object, &["metadata", "creationTimestamp"], at(lifecycle.created_at));
    }
    if lifecycle.scheduled_at.is_some() {
        json_fields::set(object, &["spec", "nodeName"], pod.node.as_str());
    }
    if let PodState::Terminating { until } = lifecycle.state {
        json_fields::set(object, &["metadata", "deletionTimestamp"], at(until));
        let grace = number::round(lifecycle.delays.termination);
        json_fields::set(object, &["metadata", "deletionGracePeriodSeconds"], grace);
    }
    let statuses = container_statuses(object, pod, &at);
    let status = status(pod, statuses, &at);
    json_fields::set(object, &["status"], status);
}

fn status(pod: &Pod, statuses: Vec<Value>, at: &impl Fn(f64) -> String) -> Value {
    let lifecycle = &pod.lifecycle;
    let mut status =
        json!({ "phase": phase(pod), "qosClass": "Burstable", "conditions": conditions(pod, at) });
    if let Some(scheduled) = lifecycle.scheduled_at {
        json_fields::set(&mut status, &["startTime"], at(scheduled));
        json_fields::set(&mut status, &["containerStatuses"], statuses);
    }
    if lifecycle.has_run() {
        json_fields::set(&mut status, &["podIP"], pod.ip.as_str());
        json_fields::set(&mut status, &["podIPs"], json!([{ "ip": pod.ip }]));
    }
    if let PodState::Evicted { .. } = lifecycle.state {
        json_fields::set(&mut status, &["reason"], "Evicted");
        json_fields::set(&mut status, &["message"], "The node was low on resource: memory.");
    }
    status
}

fn phase(pod: &Pod) -> &'static str {
    let lifecycle = &pod.lifecycle;
    match lifecycle.state {
        PodState::Evicted { .. } => "Failed",
        _ if lifecycle.has_run() => "Running",
        _ => "Pending",
    }
}

fn conditions(pod: &Pod, at: &impl Fn(f64) -> String) -> Value {
    let lifecycle = &pod.lifecycle;
    let Some(scheduled) = lifecycle.scheduled_at else {
        let mut condition = json!({
            "type": "PodScheduled", "status": "False",
            "lastTransitionTime": at(lifecycle.created_at),
        });
        if lifecycle.unschedulable {
            json_fields::set(&mut condition, &["reason"], "Unschedulable");
            json_fields::set(
                &mut condition,
                &["message"],
                "0/3 nodes are available: 3 Too many pods.",
            );
        }
        return json!([condition]);
    };
    let condition = |name: &str, is_true: bool, since: f64| {
        let status = if is_true { "True" } else { "False" };
        json!({ "type": name, "status": status, "lastTransitionTime": at(since) })
    };
    let ready = |name: &str| {
        let mut condition = condition(name, lifecycle.is_ready(), lifecycle.ready_transition);
        if !lifecycle.is_ready() {
            json_fields::set(&mut condition, &["reason"], "ContainersNotReady");
            let names: Vec<&str> =
                pod.containers.iter().map(|container| container.name.as_str()).collect();
            let message = format!("containers with unready status: [{}]", names.join(" "));
            json_fields::set(&mut condition, &["message"], message);
        }
        condition
    };
    json!([
        condition("PodScheduled", true, scheduled),
        condition("Initialized", true, scheduled),
        ready("ContainersReady"),
        ready("Ready")
    ])
}

fn container_statuses(object: &Value, pod: &Pod, at: &impl Fn(f64) -> String) -> Vec<Value> {
    let image = |name: &str| {
        let mut containers = json_fields::array_at(object, "/spec/containers");
        let container = containers.find(|one| json_fields::str_at(one, "/name") == name);
        container.map_or("", |container| json_fields::str_at(container, "/image"))
    };
    let status = |container: &Container| {
        let restarts = if container.is_main() { pod.lifecycle.restarts } else { 0 };
        let state = state(pod, at);
        let started = state.get("running").is_some();
        let mut status = json!({
            "name": container.name, "image": image(&container.name), "imageID": "",
            "ready": pod.lifecycle.is_ready(), "started": started, "restartCount": restarts,
            "state": state, "lastState": {},
        });
        if let Some(crash) = pod.lifecycle.last_crash_at.filter(|_| container.is_main()) {
            let last = json!({ "exitCode": 137, "reason": "Error", "finishedAt": at(crash) });
            let last = json!({ "terminated": last });
            json_fields::set(&mut status, &["lastState"], last);
        }
        status
    };
    pod.containers.iter().map(status).collect()
}

fn state(pod: &Pod, at: &impl Fn(f64) -> String) -> Value {
    let lifecycle = &pod.lifecycle;
    match (lifecycle.state, lifecycle.running_since) {
        (PodState::Backoff { .. }, _) => json!({ "waiting": { "reason": "CrashLoopBackOff",
            "message": "back-off restarting failed container" } }),
        (PodState::Evicted { since }, _) => {
            json!({ "terminated": { "exitCode": 137, "reason": "Error",
            "finishedAt": at(since) } })
        }
        (_, Some(since)) => json!({ "running": { "startedAt": at(since) } }),
        _ => json!({ "waiting": { "reason": "ContainerCreating" } }),
    }
}
