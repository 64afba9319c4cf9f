//! The patch of an autoscaler's status: only the fields that differ. Fields that this controller
//! does not know stay as they are.

use hpa_calc::{
    api::{Condition, ConditionType, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
    crd::{TARGETS_FIELD, targets_text},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The status as the API server stores it: with times in whole seconds.
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

/// Copies the `ScaledToZero` condition from another status.
pub(crate) fn copy_scaled_to_zero(
    status: &mut HorizontalPodAutoscalerStatus,
    from: &HorizontalPodAutoscalerStatus,
) {
    let Some(source) = from.condition(&ConditionType::ScaledToZero).cloned() else { return };
    let is_same_type =
        |condition: &&mut Condition| condition.condition_type == source.condition_type;
    match status.conditions.iter_mut().find(is_same_type) {
        Some(condition) => *condition = source,
        None => status.conditions.push(source),
    }
}

/// Replaces the fields that this controller doesn't know with those of a newer version of the
/// status, but keeps the text of the column `Targets`.
pub(crate) fn with_unknown_fields_of(
    mut status: HorizontalPodAutoscalerStatus,
    latest: &HorizontalPodAutoscalerStatus,
) -> HorizontalPodAutoscalerStatus {
    let targets = status.unknown.remove_entry(TARGETS_FIELD);
    status.unknown.clone_from(&latest.unknown);
    status.unknown.extend(targets);
    status
}

/// Sets the text of the column `Targets` in an object of the custom API. If only this text would be
/// new, it isn't added: a CRD of an older version drops the text, and each reconcile would write it
/// again.
pub(crate) fn set_targets(
    object: &HorizontalPodAutoscaler,
    status: &mut HorizontalPodAutoscalerStatus,
) {
    if object.status.unknown.contains_key(TARGETS_FIELD) || object.status != *status {
        let text = targets_text(&object.spec, status);
        status.unknown.insert(TARGETS_FIELD.to_owned(), text.into());
    }
}

/// The JSON merge patch (RFC 7386) from the object's status to `status`: the fields that differ,
/// and `null` for those that `status` lacks. `None` if both are equal.
///
/// The patch has the object's UID, so that the API server refuses it for a re-created object, and
/// its resource version, so that it refuses a delayed patch of a former leader.
pub(crate) fn patch(
    object: &HorizontalPodAutoscaler,
    status: &HorizontalPodAutoscalerStatus,
) -> Option<Value> {
    let HorizontalPodAutoscaler { metadata, status: old_status, .. } = object;
    if old_status == status {
        return None;
    }
    let (mut old, mut changes) = (fields(old_status), fields(status));
    changes.retain(|name, value| old.remove(name).as_ref() != Some(&*value));
    changes.extend(old.into_iter().map(|(name, _)| (name, Value::Null)));
    // If zero replicas were read, they are in each patch: the custom API stores a zero only if it
    // is written, and otherwise the column `Replicas` would be empty. The core API omits a zero,
    // and kubectl prints 0.
    let is_zero_read = status.is_true(&ConditionType::AbleToScale);
    if status.current_replicas == 0 && (is_zero_read || old_status.current_replicas != 0) {
        changes.insert("currentReplicas".to_owned(), 0.into());
    }
    let (uid, resource_version) = (&metadata.uid, &metadata.resource_version);
    let metadata = json!({ "uid": uid, "resourceVersion": resource_version });
    Some(json!({ "metadata": metadata, "status": changes }))
}

fn fields(status: &HorizontalPodAutoscalerStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        // A status is always an object.
        _ => Map::new(),
    }
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
    fn equal_status_has_no_patch() {
        let object = object();
        assert_eq!(patch(&object, &object.status.clone()), None);
    }

    #[test]
    fn patch_has_only_the_fields_that_differ() {
        let mut object = object();
        object.metadata.resource_version = "7".into();
        let mut status = object.status.clone();
        status.desired_replicas = 4;
        let metadata = json!({ "uid": "a", "resourceVersion": "7" });
        let expected = json!({ "metadata": metadata, "status": { "desiredReplicas": 4 } });
        assert_eq!(patch(&object, &status), Some(expected));
    }

    #[test]
    fn zero_replicas_are_written() {
        let object = object();
        let mut status = object.status.clone();
        status.current_replicas = 0;
        let patch = patch(&object, &status).expect("a change");
        assert_eq!(patch["status"], json!({ "currentReplicas": 0 }));
    }

    /// An absent field is decoded as 0.
    #[test]
    fn zero_replicas_of_a_readable_target_are_in_each_patch() {
        let mut object = object();
        object.status.current_replicas = 0;
        let mut status = object.status.clone();
        status.desired_replicas = 4;
        let mut patched = |able: &str| {
            let condition = json!([{ "type": "AbleToScale", "status": able }]);
            let conditions: Vec<Condition> = serde_json::from_value(condition).expect("conditions");
            object.status.conditions.clone_from(&conditions);
            status.conditions = conditions;
            patch(&object, &status).expect("a change")["status"].clone()
        };
        assert_eq!(patched("True"), json!({ "currentReplicas": 0, "desiredReplicas": 4 }));
        assert_eq!(patched("False"), json!({ "desiredReplicas": 4 }));
    }

    #[test]
    fn unset_fields_are_removed() {
        let mut object = object();
        object.status = serde_json::from_value(json!({
            "observedGeneration": 2,
            "lastScaleTime": "2026-01-01T00:00:00Z",
            "currentMetrics": [{ "type": "Resource" }],
            "conditions": [{ "type": "AbleToScale", "status": "True" }],
            "unknown": 1,
        }))
        .expect("a status");
        let patch = patch(&object, &HorizontalPodAutoscalerStatus::default()).expect("a change");
        assert_eq!(
            patch["status"],
            json!({ "observedGeneration": null, "lastScaleTime": null, "currentMetrics": [],
                    "conditions": null, "unknown": null })
        );
    }

    #[test]
    fn stored_times_are_truncated_to_seconds() {
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

    /// Object and status after a reconcile that measured this utilization.
    fn measured(utilization: i32) -> (HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus) {
        let mut object = object();
        object.spec = serde_json::from_value(json!({ "metrics": [{
            "type": "Resource",
            "resource": { "name": "cpu", "target": { "averageUtilization": 50 } },
        }] }))
        .expect("a spec");
        let mut status = object.status.clone();
        status.current_metrics = serde_json::from_value(json!([{
            "type": "Resource",
            "resource": { "name": "cpu", "current": { "averageUtilization": utilization } },
        }]))
        .expect("metrics");
        (object, status)
    }

    #[test]
    fn unknown_fields_of_a_newer_status_stay() {
        let status = |unknown: Value| -> HorizontalPodAutoscalerStatus {
            serde_json::from_value(unknown).expect("a status")
        };
        let mut latest = HorizontalPodAutoscaler {
            status: status(json!({ "new": 1, "targets": "cpu: 8%/50%" })),
            ..object()
        };
        latest.metadata.resource_version = "7".into();
        let decided = status(json!({ "old": 2, "targets": "cpu: 9%/50%" }));
        let merged = with_unknown_fields_of(decided, &latest.status);
        let patch = patch(&latest, &merged).expect("a change");
        assert_eq!(patch["metadata"], json!({ "uid": "a", "resourceVersion": "7" }));
        assert_eq!(patch["status"], json!({ "targets": "cpu: 9%/50%" }));
    }

    #[test]
    fn targets_are_written_with_the_values_they_show() {
        let (object, mut status) = measured(8);
        set_targets(&object, &mut status);
        let written = patch(&object, &status).expect("a change");
        assert_eq!(written["status"]["targets"], "cpu: 8%/50%");
        let stored = HorizontalPodAutoscaler { status: status.clone(), ..object };
        set_targets(&stored, &mut status);
        assert_eq!(patch(&stored, &status), None);
    }

    #[test]
    fn targets_follow_a_changed_spec() {
        let (mut object, mut status) = measured(8);
        set_targets(&object, &mut status);
        object.status = status.clone();
        object.spec.metrics[0].resource.as_mut().expect("a resource").target.average_utilization =
            Some(60);
        set_targets(&object, &mut status);
        let written = patch(&object, &status).expect("a change");
        assert_eq!(written["status"], json!({ "targets": "cpu: 8%/60%" }));
    }

    #[test]
    fn dropped_targets_are_not_written_again() {
        let (mut object, mut status) = measured(8);
        object.status = status.clone();
        set_targets(&object, &mut status);
        assert_eq!(patch(&object, &status), None);
    }

    #[test]
    fn unknown_fields_stay() {
        let mut object = object();
        object.status = serde_json::from_value(json!({
            "desiredReplicas": 3,
            "currentMetrics": null,
            "unknown": { "kept": true },
            "conditions": [{ "type": "AbleToScale", "status": "True", "severity": "low" }],
        }))
        .expect("a status");
        let mut status = object.status.clone();
        status.conditions[0].message = "changed".into();
        let patch = patch(&object, &status).expect("a change");
        assert_eq!(patch["status"].get("unknown"), None);
        assert_eq!(patch["status"]["conditions"][0]["severity"], "low");
    }
}
