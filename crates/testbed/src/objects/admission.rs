//! Defaults and validation by kind.

use hpa_calc::{
    api::HorizontalPodAutoscalerSpec,
    defaults::apply_defaults,
    validation::{Cause, CauseReason, ValidationOptions, validate, validate_name},
};
use serde_json::{Value, json};

use crate::{
    config::Config,
    error::{ApiError, new_cause},
    json_fields,
    request_target::RequestTarget,
};

/// Sets defaults and validates a new or an updated object.
pub(crate) fn admit(
    config: &Config,
    target: &RequestTarget,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let mut causes = if old.is_none() { validate_name(&target.name) } else { Vec::new() };
    match (target.resource.group.as_str(), target.resource.plural.as_str()) {
        ("autoscaling", "horizontalpodautoscalers") => {
            causes.extend(admit_autoscaler(config, object, old)?);
        }
        ("apps", _) | ("", "replicationcontrollers") => set_workload_defaults(object),
        ("", "pods") => {
            json_fields::set_default(object, &["status", "phase"], "Pending");
            set_port_defaults(object.pointer_mut("/spec/containers"));
        }
        ("", "namespaces") => set_namespace_defaults(target, object),
        _ => {}
    }
    if !target.resource.is_custom {
        causes.extend(negative_counts(object, &["spec.replicas"]));
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(&target.reference(), &causes)) }
}

/// Sets defaults and validates a written status.
pub(crate) fn admit_status(target: &RequestTarget, object: &mut Value) -> Result<(), ApiError> {
    let causes = match (target.resource.group.as_str(), target.resource.plural.as_str()) {
        ("autoscaling", "horizontalpodautoscalers") => admit_autoscaler_status(object),
        ("apps", _) | ("", "replicationcontrollers") => {
            omit_zero_counters(object);
            Vec::new()
        }
        _ => Vec::new(),
    };
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(&target.reference(), &causes)) }
}

/// Writes empty and absent fields of an autoscaler's status as kube-apiserver stores them, and
/// validates its counts.
fn admit_autoscaler_status(object: &mut Value) -> Vec<Cause> {
    if json_fields::array_at(object, "/status/currentMetrics").next().is_none() {
        json_fields::set(object, &["status", "currentMetrics"], Value::Null);
    }
    json_fields::set_default(object, &["status", "desiredReplicas"], 0);
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if condition.get("lastTransitionTime").is_none() {
            json_fields::set(condition, &["lastTransitionTime"], Value::Null);
        }
    }
    if json_fields::i64_at(object, "/status/currentReplicas") == Some(0) {
        json_fields::remove(object, &["status", "currentReplicas"]);
    }
    negative_counts(object, &["status.currentReplicas", "status.desiredReplicas"])
}

/// Removes counters that are 0 from a workload's status. Those that the API always has are kept,
/// and added if they are missing.
fn omit_zero_counters(object: &mut Value) {
    let always_present: &[&str] = match json_fields::str_at(object, "/kind") {
        "StatefulSet" => &["replicas", "availableReplicas"],
        "Deployment" => &[],
        _ => &["replicas"],
    };
    if !object.get("status").is_some_and(Value::is_object) {
        json_fields::set(object, &["status"], json!({}));
    }
    let Some(status) = object.pointer_mut("/status").and_then(Value::as_object_mut) else { return };
    status
        .retain(|name, value| always_present.contains(&name.as_str()) || value.as_i64() != Some(0));
    for name in always_present {
        status.entry(*name).or_insert_with(|| 0.into());
    }
}

fn admit_autoscaler(
    config: &Config,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Vec<Cause>, ApiError> {
    let mut spec = hpa_spec(object).map_err(|error| {
        let kind = "HorizontalPodAutoscaler";
        ApiError::unreadable_body(kind, "v2", kind, &error.to_string())
    })?;
    let old = old.and_then(|old| hpa_spec(old).ok());
    apply_defaults(&mut spec);
    let mut options = ValidationOptions::default();
    options.scale_to_zero = config.scale_to_zero;
    options.old = old.as_ref();
    let causes = validate(&spec, &options);
    json_fields::set(object, &["spec"], serde_json::to_value(&spec).map_err(ApiError::internal)?);
    json_fields::set_default(
        object,
        &["status"],
        json!({ "currentMetrics": null, "desiredReplicas": 0 }),
    );
    Ok(causes)
}

fn hpa_spec(object: &Value) -> Result<HorizontalPodAutoscalerSpec, serde_json::Error> {
    let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
    serde_json::from_value(spec)
}

fn set_workload_defaults(object: &mut Value) {
    json_fields::set_default(object, &["spec", "replicas"], 1);
    omit_zero_counters(object);
    if json_fields::str_at(object, "/kind") == "Deployment" {
        let bounds = json!({ "maxSurge": "25%", "maxUnavailable": "25%" });
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": bounds });
        json_fields::set_default(object, &["spec", "strategy"], strategy);
    }
    set_port_defaults(object.pointer_mut("/spec/template/spec/containers"));
    if json_fields::str_at(object, "/kind") != "ReplicationController" {
        return;
    }
    if let Some(labels) = object.pointer("/spec/template/metadata/labels").cloned() {
        json_fields::set_default(object, &["spec", "selector"], labels);
    }
}

/// Sets the default protocol of container ports, TCP.
fn set_port_defaults(containers: Option<&mut Value>) {
    for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            json_fields::set_default(port, &["protocol"], "TCP");
        }
    }
}

fn set_namespace_defaults(target: &RequestTarget, object: &mut Value) {
    let label = ["metadata", "labels", "kubernetes.io/metadata.name"];
    json_fields::set_default(object, &label, target.name.as_str());
    json_fields::set_default(object, &["status", "phase"], "Active");
}

/// The causes for negative fields. `fields` are paths such as `spec.replicas`.
fn negative_counts(object: &Value, fields: &[&str]) -> Vec<Cause> {
    let negative = fields.iter().filter_map(|field| {
        let count = json_fields::i64_at(object, &format!("/{}", field.replace('.', "/")))?;
        (count < 0).then(|| negative_value(field, count))
    });
    negative.collect()
}

/// The cause for a field that must not be negative.
pub(crate) fn negative_value(field: &str, value: i64) -> Cause {
    let message = format!("Invalid value: {value}: must be greater than or equal to 0");
    new_cause(CauseReason::Invalid, field, message)
}
