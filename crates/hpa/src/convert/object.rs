//! Converts one object to another API.

use hpa_calc::{
    api::HorizontalPodAutoscalerSpec,
    defaults::apply_defaults,
    validation::{ValidationOptions, validate},
};
use serde_json::{Map, Value, json};

use crate::args::TargetApi;

/// Metadata that the API server sets and rejects or ignores in a create.
const SET_BY_SERVER: [&str; 6] =
    ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
/// kubectl's copy of the applied manifest, which has the old API version.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations in which autoscaling/v1 encodes the v2 fields that it lacks. Only an API server can
/// decode them.
const V1_SPEC_ANNOTATIONS: [&str; 2] =
    ["autoscaling.alpha.kubernetes.io/metrics", "autoscaling.alpha.kubernetes.io/behavior"];
/// The same for status fields.
const V1_STATUS_ANNOTATIONS: [&str; 2] = [
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
];

/// Converts an autoscaler, or the autoscalers of a list; leaves other objects unchanged. Returns
/// the errors as ` (KIND NAMESPACE/NAME): FIELD: REASON`.
pub(super) fn convert(object: &mut Value, to: TargetApi) -> Vec<String> {
    let kind = text(object, "/kind").to_owned();
    let is_list = matches!(kind.as_str(), "List" | "HorizontalPodAutoscalerList");
    if let (true, Some(Value::Array(items))) = (is_list, object.get_mut("items")) {
        let errors = items.iter_mut().flat_map(|item| convert(item, to)).collect();
        if kind != "List" {
            set_api_version(object, to);
        }
        return errors;
    }
    if kind != hpa_crd::KIND {
        return Vec::new();
    }
    let name = name(object);
    let errors = match text(object, "/apiVersion") {
        version if version == to.api_version() => return Vec::new(),
        "autoscaling/v2" | "autoscaling/v2beta2" | hpa_crd::API_VERSION => Vec::new(),
        "autoscaling/v1" => from_v1(object),
        version if version.starts_with("autoscaling/") => {
            vec![format!(
                "apiVersion: {version} is not supported: get the object as autoscaling/v2"
            )]
        }
        // A kind of the same name in another group.
        _ => return Vec::new(),
    };
    set_api_version(object, to);
    drop_server_state(object);
    let errors = if errors.is_empty() { check(object) } else { errors };
    errors.into_iter().map(|error| format!(" ({name}): {error}")).collect()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn name(object: &Value) -> String {
    let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{name}", hpa_crd::KIND)
}

fn set_api_version(object: &mut Value, to: TargetApi) {
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), to.api_version().into());
    }
}

/// Turns `targetCPUUtilizationPercentage` into a metric.
fn from_v1(object: &mut Value) -> Vec<String> {
    let mut errors = Vec::new();
    if let Some(annotations) = annotations(object) {
        for name in V1_SPEC_ANNOTATIONS.iter().filter(|name| annotations.contains_key(**name)) {
            let reason = "only an API server can decode it: get the object as autoscaling/v2";
            errors.push(format!("metadata.annotations[{name}]: {reason}"));
        }
        annotations.retain(|name, _| !V1_STATUS_ANNOTATIONS.contains(&name.as_str()));
    }
    let Some(object) = object.as_object_mut() else { return errors };
    if let Some(Value::Object(spec)) = object.get_mut("spec")
        && let Some(percent) =
            spec.remove("targetCPUUtilizationPercentage").filter(|value| !value.is_null())
    {
        let target = json!({ "type": "Utilization", "averageUtilization": percent });
        let metric = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    errors
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.pointer_mut("/metadata/annotations")?.as_object_mut()
}

/// Drops what belongs to the object that was read: its status, and metadata that the API server
/// sets. A status would also fail strict validation, because the two APIs don't have the same
/// fields.
fn drop_server_state(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    let is_empty = annotations(object).is_some_and(|annotations| {
        annotations.remove(LAST_APPLIED);
        annotations.is_empty()
    });
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| {
            let is_dropped = SET_BY_SERVER.contains(&name.as_str());
            !is_dropped && (name != "annotations" || !is_empty)
        });
    }
}

/// Validates the object as both APIs do.
fn check(object: &Value) -> Vec<String> {
    match hpa_crd::type_errors(object) {
        Ok(errors) if errors.is_empty() => {}
        Ok(errors) => return errors,
        Err(error) => return vec![error.to_string()],
    }
    let spec =
        object.get("spec").cloned().filter(|spec| !spec.is_null()).unwrap_or_else(|| json!({}));
    match serde_json::from_value::<HorizontalPodAutoscalerSpec>(spec) {
        Ok(mut spec) => {
            apply_defaults(&mut spec);
            let causes = validate(&spec, &ValidationOptions::default());
            causes.iter().map(ToString::to_string).collect()
        }
        Err(error) => vec![format!("spec: {error}")],
    }
}
