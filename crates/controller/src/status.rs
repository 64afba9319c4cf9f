//! Writing an autoscaler's status: only what differs, as a patch that leaves alone what we do not know.

use hpa_calc::api::{Condition, ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The status as the API stores it: times in whole seconds.
pub(crate) fn as_stored(mut status: HorizontalPodAutoscalerStatus) -> HorizontalPodAutoscalerStatus {
    status.last_scale_time = status.last_scale_time.map(whole_seconds);
    for condition in &mut status.conditions {
        condition.last_transition_time = condition.last_transition_time.map(whole_seconds);
    }
    status
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Makes the `ScaledToZero` condition what it is in another status.
pub(crate) fn keep_scaled_to_zero(
    status: &mut HorizontalPodAutoscalerStatus,
    of: &HorizontalPodAutoscalerStatus,
) {
    let is_it = |condition: &&Condition| condition.condition_type == ConditionType::ScaledToZero;
    let Some(kept) = of.conditions.iter().find(is_it) else { return };
    match status.conditions.iter_mut().find(|condition| is_it(&&**condition)) {
        Some(condition) => *condition = kept.clone(),
        None => status.conditions.push(kept.clone()),
    }
}

/// The JSON merge patch (RFC 7386) that makes `status` of the object's status; `None` where it is so already.
///
/// It names the object's UID, so that it cannot land on a re-created object of the same name. It names no version:
/// a spec that was edited meanwhile is no reason to lose a status.
pub(crate) fn patch(
    object: &HorizontalPodAutoscaler,
    status: &HorizontalPodAutoscalerStatus,
) -> Result<Option<Value>, serde_json::Error> {
    let members = changed_members(&object.status, status)?;
    if members.is_empty() {
        return Ok(None);
    }
    Ok(Some(json!({ "metadata": { "uid": object.metadata.uid }, "status": members })))
}

/// The members of a status that differ; one that is no longer there is `null`, by which a merge patch removes it.
fn changed_members(
    old: &HorizontalPodAutoscalerStatus,
    new: &HorizontalPodAutoscalerStatus,
) -> Result<Map<String, Value>, serde_json::Error> {
    // So that a new member is not forgotten here.
    let HorizontalPodAutoscalerStatus {
        observed_generation,
        last_scale_time,
        current_replicas,
        desired_replicas,
        current_metrics,
        conditions,
        unknown,
    } = new;
    // Only what differs is made JSON of: most of a status is conditions that stay.
    let mut told = HorizontalPodAutoscalerStatus::default();
    let mut names = Vec::new();
    if old.observed_generation != *observed_generation {
        told.observed_generation = *observed_generation;
        names.push("observedGeneration");
    }
    if old.last_scale_time != *last_scale_time {
        told.last_scale_time = *last_scale_time;
        names.push("lastScaleTime");
    }
    if old.current_replicas != *current_replicas {
        told.current_replicas = *current_replicas;
        names.push("currentReplicas");
    }
    if old.desired_replicas != *desired_replicas {
        told.desired_replicas = *desired_replicas;
        names.push("desiredReplicas");
    }
    if old.current_metrics != *current_metrics {
        told.current_metrics.clone_from(current_metrics);
        names.push("currentMetrics");
    }
    if old.conditions != *conditions {
        told.conditions.clone_from(conditions);
        names.push("conditions");
    }
    let mut changed = Map::new();
    if !names.is_empty()
        && let Value::Object(mut members) = serde_json::to_value(&told)?
    {
        changed.extend(
            names.into_iter().map(|name| (name.to_owned(), members.remove(name).unwrap_or_default())),
        );
    }
    for (name, value) in unknown {
        if old.unknown.get(name) != Some(value) {
            changed.insert(name.clone(), value.clone());
        }
    }
    let gone = old.unknown.keys().filter(|name| !unknown.contains_key(*name));
    changed.extend(gone.map(|name| (name.clone(), Value::Null)));
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> HorizontalPodAutoscaler {
        let mut object = HorizontalPodAutoscaler::default();
        object.metadata.uid = "a".into();
        object.status.current_replicas = 3;
        object.status.desired_replicas = 3;
        object
    }

    #[test]
    fn equal_status_is_not_written() {
        let object = object();
        assert_eq!(patch(&object, &object.status.clone()).expect("JSON"), None);
    }

    #[test]
    fn only_what_differs_is_written() {
        let object = object();
        let mut status = object.status.clone();
        status.desired_replicas = 4;
        let patch = patch(&object, &status).expect("JSON");
        assert_eq!(patch, Some(json!({ "metadata": { "uid": "a" }, "status": { "desiredReplicas": 4 } })));
    }

    #[test]
    fn zero_that_is_left_out_on_the_wire_removes_what_was_there() {
        let object = object();
        let mut status = object.status.clone();
        status.current_replicas = 0;
        let patch = patch(&object, &status).expect("JSON").expect("a change");
        assert_eq!(patch["status"], json!({ "currentReplicas": null }));
    }

    #[test]
    fn times_are_cut_to_whole_seconds() {
        let time: Timestamp = "2026-01-01T00:00:00.999Z".parse().expect("a time");
        let mut status = HorizontalPodAutoscalerStatus { last_scale_time: Some(time), ..Default::default() };
        let condition_type = ConditionType::AbleToScale;
        status.conditions =
            vec![Condition { condition_type, last_transition_time: Some(time), ..Condition::default() }];
        let stored = as_stored(status);
        let whole: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        assert_eq!(stored.last_scale_time, Some(whole));
        assert_eq!(stored.conditions[0].last_transition_time, Some(whole));
    }

    #[test]
    fn fields_of_a_newer_kubernetes_survive() {
        let mut object = object();
        object.status = serde_json::from_value(json!({
            "desiredReplicas": 3,
            "currentMetrics": null,
            "fromTheFuture": { "kept": true },
            "conditions": [{ "type": "AbleToScale", "status": "True", "severity": "low" }],
        }))
        .expect("a status");
        let mut status = object.status.clone();
        status.conditions[0].message = "changed".into();
        let patch = patch(&object, &status).expect("JSON").expect("a change");
        assert_eq!(patch["status"].get("fromTheFuture"), None);
        assert_eq!(patch["status"]["conditions"][0]["severity"], "low");
    }
}
