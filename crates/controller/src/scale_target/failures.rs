//! Reads from conditions why pods of a target can't be created or scheduled.

use std::collections::BTreeMap;

use hpa_calc::go_text::truncate;
use serde_json::Value;

/// The number of characters after which a [`replica_failure`] or [`scheduling_failure`] is cut off.
const MAX_FAILURE_CHARS: usize = 300;

/// The reason why the controller of this target can't create pods, such as an exceeded quota: the
/// message of its condition `ReplicaFailure`, as a Deployment and a `ReplicaSet` have it, without
/// the name of the refused pod. `None` without the condition.
pub fn replica_failure(target: &Value) -> Option<String> {
    let message = condition_message(target, &[("type", "ReplicaFailure"), ("status", "True")])?;
    let cause = message.split_once(" is forbidden: ").map_or(message, |(_, cause)| cause);
    Some(truncate(cause.to_owned(), MAX_FAILURE_CHARS))
}

/// The reason why the scheduler can't place this pod: the message of its condition `PodScheduled`
/// with the reason `Unschedulable`, without the result of preemption. `None` without the condition.
pub fn scheduling_failure(pod: &Value) -> Option<String> {
    let unschedulable =
        [("type", "PodScheduled"), ("status", "False"), ("reason", "Unschedulable")];
    let message = condition_message(pod, &unschedulable)?;
    let cause = message.split_once(" preemption: ").map_or(message, |(cause, _)| cause);
    Some(truncate(cause.trim_end_matches(['.', ',']).to_owned(), MAX_FAILURE_CHARS))
}

/// The [`scheduling_failure`] of each pod that has one, by the pod's name.
pub fn scheduling_failures<'a>(
    pods: impl IntoIterator<Item = &'a Value>,
) -> BTreeMap<String, String> {
    let named = |pod: &Value| {
        let name = pod.pointer("/metadata/name")?.as_str()?.to_owned();
        Some((name, scheduling_failure(pod)?))
    };
    pods.into_iter().filter_map(named).collect()
}

/// The message of the condition of an object that has these members. `None` if it is empty.
fn condition_message<'a>(object: &'a Value, members: &[(&str, &str)]) -> Option<&'a str> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let has_members = |condition: &&Value| {
        members.iter().all(|(name, text)| condition.get(name).is_some_and(|value| value == text))
    };
    let message = conditions.iter().find(has_members)?.get("message")?.as_str()?;
    (!message.is_empty()).then_some(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scheduling_failures_are_the_messages_of_unschedulable_pods() {
        let pod = |name: &str, status: &str, reason: &str, message: &str| {
            json!({ "metadata": { "name": name }, "status": { "conditions": [
                { "type": "Ready", "status": "False", "reason": "Unschedulable", "message": "no" },
                { "type": "PodScheduled", "status": status, "reason": reason, "message": message },
            ] } })
        };
        let cpu = "0/5 nodes are available: 5 Insufficient cpu";
        let preempted = format!("{cpu}. preemption: 0/5 nodes are available: 5 No victims.");
        let pods = [
            pod("cpu", "False", "Unschedulable", &preempted),
            pod("long", "False", "Unschedulable", &"x".repeat(1000)),
            pod("silent", "False", "Unschedulable", ""),
            pod("gated", "False", "SchedulingGated", "gates"),
            pod("scheduled", "True", "", ""),
            json!({ "metadata": { "name": "new" } }),
        ];
        let failures = scheduling_failures(&pods);
        assert_eq!(failures.keys().collect::<Vec<_>>(), ["cpu", "long"]);
        assert_eq!(failures["cpu"], cpu);
        assert_eq!(failures["long"], format!("{}…", "x".repeat(MAX_FAILURE_CHARS)));
    }
}
