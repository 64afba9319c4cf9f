//! Writing an autoscaler's status: only what differs, as a patch that leaves alone what we do not know.

use hpa_calc::api::{
    Condition, ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus,
};
use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeMap};

/// The status as the API stores it: times in whole seconds.
pub(crate) fn as_stored(
    mut status: HorizontalPodAutoscalerStatus,
) -> HorizontalPodAutoscalerStatus {
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
pub(crate) fn patch<'a>(
    object: &'a HorizontalPodAutoscaler,
    status: &'a HorizontalPodAutoscalerStatus,
) -> Option<StatusPatch<'a>> {
    let metadata = Identity { uid: &object.metadata.uid };
    let changes = Changes { old: &object.status, new: status };
    (object.status != *status).then_some(StatusPatch { metadata, status: changes })
}

/// See [`patch`].
#[derive(Debug, Serialize)]
pub(crate) struct StatusPatch<'a> {
    metadata: Identity<'a>,
    status: Changes<'a>,
}

#[derive(Debug, Serialize)]
struct Identity<'a> {
    uid: &'a str,
}

/// The members of a status that differ: most of one is conditions that stay. A member that is no longer there, or that is
/// left out on the wire for what it is, is `null`, by which a merge patch removes it.
#[derive(Debug)]
struct Changes<'a> {
    old: &'a HorizontalPodAutoscalerStatus,
    new: &'a HorizontalPodAutoscalerStatus,
}

impl Serialize for Changes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // So that a new member is not forgotten here.
        let HorizontalPodAutoscalerStatus {
            observed_generation,
            last_scale_time,
            current_replicas,
            desired_replicas,
            current_metrics,
            conditions,
            unknown,
        } = self.new;
        let old = self.old;
        let mut changes = serializer.serialize_map(None)?;
        if old.observed_generation != *observed_generation {
            changes.serialize_entry("observedGeneration", observed_generation)?;
        }
        if old.last_scale_time != *last_scale_time {
            changes.serialize_entry("lastScaleTime", last_scale_time)?;
        }
        if old.current_replicas != *current_replicas {
            let told = Some(current_replicas).filter(|replicas| **replicas != 0);
            changes.serialize_entry("currentReplicas", &told)?;
        }
        if old.desired_replicas != *desired_replicas {
            changes.serialize_entry("desiredReplicas", desired_replicas)?;
        }
        if old.current_metrics != *current_metrics {
            changes.serialize_entry("currentMetrics", current_metrics)?;
        }
        if old.conditions != *conditions {
            changes
                .serialize_entry("conditions", &Some(conditions).filter(|all| !all.is_empty()))?;
        }
        for (name, value) in unknown {
            if old.unknown.get(name) != Some(value) {
                changes.serialize_entry(name, value)?;
            }
        }
        for name in old.unknown.keys().filter(|name| !unknown.contains_key(*name)) {
            changes.serialize_entry(name, &())?;
        }
        changes.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn patch(
        object: &HorizontalPodAutoscaler,
        status: &HorizontalPodAutoscalerStatus,
    ) -> Option<Value> {
        super::patch(object, status).map(|patch| serde_json::to_value(patch).expect("JSON"))
    }

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
        assert_eq!(patch(&object, &object.status.clone()), None);
    }

    #[test]
    fn only_what_differs_is_written() {
        let object = object();
        let mut status = object.status.clone();
        status.desired_replicas = 4;
        let patch = patch(&object, &status);
        assert_eq!(
            patch,
            Some(json!({ "metadata": { "uid": "a" }, "status": { "desiredReplicas": 4 } }))
        );
    }

    #[test]
    fn zero_that_is_left_out_on_the_wire_removes_what_was_there() {
        let object = object();
        let mut status = object.status.clone();
        status.current_replicas = 0;
        let patch = patch(&object, &status).expect("a change");
        assert_eq!(patch["status"], json!({ "currentReplicas": null }));
    }

    #[test]
    fn what_is_gone_is_removed() {
        let mut object = object();
        object.status = serde_json::from_value(json!({
            "observedGeneration": 2,
            "lastScaleTime": "2026-01-01T00:00:00Z",
            "currentMetrics": [{ "type": "Resource" }],
            "conditions": [{ "type": "AbleToScale", "status": "True" }],
            "fromThePast": 1,
        }))
        .expect("a status");
        let patch = patch(&object, &HorizontalPodAutoscalerStatus::default()).expect("a change");
        assert_eq!(
            patch["status"],
            json!({ "observedGeneration": null, "lastScaleTime": null, "currentMetrics": [],
                    "conditions": null, "fromThePast": null })
        );
    }

    #[test]
    fn time_is_written_as_the_api_stores_it() {
        let object = object();
        let mut status = object.status.clone();
        status.last_scale_time = Some("2026-01-01T00:00:00.5Z".parse().expect("a time"));
        let patch = patch(&object, &as_stored(status)).expect("a change");
        assert_eq!(patch["status"], json!({ "lastScaleTime": "2026-01-01T00:00:00Z" }));
    }

    #[test]
    fn times_are_cut_to_whole_seconds() {
        let time: Timestamp = "2026-01-01T00:00:00.999Z".parse().expect("a time");
        let mut status =
            HorizontalPodAutoscalerStatus { last_scale_time: Some(time), ..Default::default() };
        let condition_type = ConditionType::AbleToScale;
        status.conditions = vec![Condition {
            condition_type,
            last_transition_time: Some(time),
            ..Condition::default()
        }];
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
        let patch = patch(&object, &status).expect("a change");
        assert_eq!(patch["status"].get("fromTheFuture"), None);
        assert_eq!(patch["status"]["conditions"][0]["severity"], "low");
    }
}
