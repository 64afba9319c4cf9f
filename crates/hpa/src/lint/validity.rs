//! What the API server refuses.

use hpa_calc::{
    HorizontalPodAutoscaler,
    defaults::apply_defaults,
    validation::{ValidationOptions, validate, validate_name},
};
use serde_json::{Value, json};

use super::finding::{Finding, INVALID, UNKNOWN_FIELD};
use crate::manifests::{Manifest, text};

/// Reports every error and unknown field of an autoscaler. Returns it with the API server's defaults if it can be
/// decoded and is valid.
pub(super) fn check(
    manifest: &Manifest,
    findings: &mut Vec<Finding>,
) -> Option<HorizontalPodAutoscaler> {
    let before = findings.len();
    let mut report = |field: &str, message: String| {
        findings.push(Finding::new(&INVALID, manifest, field, message));
    };
    let object = match text(&manifest.object, "/apiVersion") {
        "autoscaling/v2" | "autoscaling/v2beta2" | hpa_crd::API_VERSION => manifest.object.clone(),
        "autoscaling/v1" => from_v1(&manifest.object),
        version => {
            report("apiVersion", format!("{version} is not supported: use autoscaling/v2"));
            return None;
        }
    };
    if text(&object, "/apiVersion") == "autoscaling/v2beta2" {
        report("apiVersion", "autoscaling/v2beta2 was removed in Kubernetes 1.26".to_owned());
    }
    let object = without_nulls(object);
    for error in hpa_crd::type_errors(&object).unwrap_or_default() {
        let (field, message) = error.split_once(": ").unwrap_or(("spec", &error));
        report(field, message.to_owned());
    }
    if findings.len() > before {
        return None;
    }
    for field in hpa_crd::unknown_fields(&object).unwrap_or_default() {
        let message = "kubectl refuses a manifest with this unknown field, and the API server \
                       drops it: check its spelling and indentation";
        findings.push(Finding::new(&UNKNOWN_FIELD, manifest, field, message));
    }
    let before = findings.len();
    let mut report = |field: &str, message: String| {
        findings.push(Finding::new(&INVALID, manifest, field, message));
    };
    let mut hpa: HorizontalPodAutoscaler = match serde_json::from_value(object) {
        Ok(hpa) => hpa,
        Err(error) => {
            report("spec", error.to_string());
            return None;
        }
    };
    apply_defaults(&mut hpa.spec);
    for cause in validate_name(&hpa.metadata.name) {
        report(&cause.field, cause.message);
    }
    for cause in validate(&hpa.spec, &ValidationOptions::default()) {
        report(&cause.field, cause.message);
    }
    (findings.len() == before).then_some(hpa)
}

/// An object without the fields that are null, which templates leave behind. The API server treats
/// them as absent.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let present = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(present.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        value => value,
    }
}

/// An `autoscaling/v1` object as v2: its only metric is a CPU utilization.
fn from_v1(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut) else {
        return object;
    };
    if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
        let target = json!({ "type": "Utilization", "averageUtilization": percent });
        let metric = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    object
}
