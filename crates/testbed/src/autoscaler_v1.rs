//! Converts autoscalers between `autoscaling/v2`, the storage version, and `autoscaling/v1`, which
//! has annotations in place of newer fields.

use hpa_calc::crd::versions::{
    BEHAVIOR_ANNOTATION as BEHAVIOR, CONDITIONS_ANNOTATION as CONDITIONS,
    CURRENT_METRICS_ANNOTATION as CURRENT_METRICS, METRICS_ANNOTATION as METRICS, SOURCES,
    TARGET_CPU, V1, V2, source_members, to_v2,
};
use serde_json::{Map, Value, json};

use crate::json_fields;

/// The section of an autoscaler that a metric is in.
#[derive(Clone, Copy)]
enum Section {
    /// `spec.metrics`
    Spec,
    /// `status.currentMetrics`
    Status,
}

impl Section {
    /// The pointers in v2 and the names in v1 of the fields of a metric source. The annotations of
    /// v1 have the names of v2beta1. In a status, `current` replaces `target` in them.
    fn fields(self, source: &str) -> impl Iterator<Item = (String, String)> {
        let value_field = match self {
            Self::Spec => "target",
            Self::Status => "current",
        };
        source_members(source).map(move |(name, path)| match path.strip_prefix("target.") {
            Some(field) => {
                (format!("/{value_field}/{field}"), name.replacen("target", value_field, 1))
            }
            None => (format!("/{}", path.replace('.', "/")), name.to_owned()),
        })
    }

    /// The field of v1 that is present even without a value, if there is one.
    fn required_field(self, source: &str) -> Option<&'static str> {
        match (self, source) {
            (Self::Spec, "object") => Some("targetValue"),
            (Self::Spec, "pods") => Some("targetAverageValue"),
            (Self::Spec, _) => None,
            (Self::Status, "object" | "external") => Some("currentValue"),
            (Self::Status, _) => Some("currentAverageValue"),
        }
    }
}

pub(crate) fn is_v1(object: &Value) -> bool {
    json_fields::str_at(object, "/apiVersion") == V1
        && json_fields::str_at(object, "/kind") == "HorizontalPodAutoscaler"
}

/// Converts an autoscaler from `autoscaling/v2` to `autoscaling/v1`.
pub(crate) fn to_v1(object: &Value) -> Value {
    let mut v1 = json!({
        "kind": object.get("kind"), "apiVersion": V1, "metadata": object.get("metadata"),
        "spec": {}, "status": { "currentReplicas": 0, "desiredReplicas": 0 },
    });
    for field in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        json_fields::copy(object, &mut v1, &["spec", field]);
    }
    for field in ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"] {
        if object.pointer(&format!("/status/{field}")).is_some_and(|value| !value.is_null()) {
            json_fields::copy(object, &mut v1, &["status", field]);
        }
    }
    let targets = || json_fields::array_at(object, "/spec/metrics");
    let statuses = || json_fields::array_at(object, "/status/currentMetrics");
    let target_cpu = |metric: &Value| cpu_utilization(metric, "target");
    if let Some(percent) = targets().find_map(target_cpu) {
        json_fields::set(&mut v1, &["spec", TARGET_CPU], percent);
    }
    if let Some(percent) = statuses().find_map(|metric| cpu_utilization(metric, "current")) {
        json_fields::set(&mut v1, &["status", "currentCPUUtilizationPercentage"], percent);
    }
    let others = targets().filter(|metric| target_cpu(metric).is_none());
    let others: Vec<Value> = others.map(|metric| metric_to_v1(metric, Section::Spec)).collect();
    let conditions = json_fields::array_at(object, "/status/conditions").cloned();
    for (annotation, values) in [
        (METRICS, others),
        (CURRENT_METRICS, statuses().map(|one| metric_to_v1(one, Section::Status)).collect()),
        (CONDITIONS, conditions.collect()),
    ] {
        if !values.is_empty() {
            annotate(&mut v1, annotation, &Value::Array(values));
        }
    }
    if let Some(behavior) = object.pointer("/spec/behavior").filter(|value| !value.is_null()) {
        annotate(&mut v1, BEHAVIOR, &upper_camel_case(behavior));
    }
    v1
}

/// Converts an autoscaler from `autoscaling/v1` to `autoscaling/v2`.
pub(crate) fn from_v1(mut object: Value) -> Value {
    let mut status = json_fields::remove(&mut object, &["status"]).unwrap_or_default();
    json_fields::remove(&mut status, &["currentCPUUtilizationPercentage"]);
    if let Some(Value::Array(metrics)) = parse_annotation(&object, CURRENT_METRICS) {
        let metrics: Vec<Value> = metrics.iter().map(current_metric_from_v1).collect();
        json_fields::set(&mut status, &["currentMetrics"], metrics);
    }
    if let Some(conditions) = parse_annotation(&object, CONDITIONS) {
        json_fields::set(&mut status, &["conditions"], conditions);
    }
    to_v2(&mut object);
    json_fields::set(&mut object, &["apiVersion"], V2);
    if !status.is_null() {
        json_fields::set(&mut object, &["status"], status);
    }
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    if annotations.is_some_and(Map::is_empty) {
        json_fields::remove(&mut object, &["metadata", "annotations"]);
    }
    object
}

/// The average utilization in the `target` or `current` value of a metric of the resource `cpu`.
fn cpu_utilization(metric: &Value, value: &str) -> Option<i64> {
    let is_cpu = json_fields::str_at(metric, "/resource/name") == "cpu";
    let pointer = format!("/resource/{value}/averageUtilization");
    json_fields::i64_at(metric, &pointer).filter(|_| is_cpu)
}

fn metric_to_v1(metric: &Value, section: Section) -> Value {
    let mut v1 = json!({ "type": metric.get("type") });
    for source in SOURCES {
        let Some(from) = metric.get(source) else { continue };
        let mut to = json!({});
        for (pointer, name) in section.fields(source) {
            if let Some(value) = from.pointer(&pointer).filter(|value| !value.is_null()) {
                json_fields::set(&mut to, &[&name], value.clone());
            }
        }
        if let Some(required) = section.required_field(source) {
            json_fields::set_default(&mut to, &[required], "0");
        }
        json_fields::set(&mut v1, &[source], to);
    }
    v1
}

/// Converts a metric of the status.
fn current_metric_from_v1(metric: &Value) -> Value {
    let mut v2 = json!({ "type": metric.get("type") });
    for source in SOURCES {
        let Some(from) = metric.get(source) else { continue };
        let mut to = json!({});
        for (pointer, name) in Section::Status.fields(source) {
            if let Some(value) = from.get(&name) {
                json_fields::set_pointer(&mut to, &pointer, value.clone());
            }
        }
        json_fields::set(&mut v2, &[source], to);
    }
    v2
}

fn annotate(object: &mut Value, name: &str, value: &Value) {
    json_fields::set(object, &["metadata", "annotations", name], value.to_string());
}

/// Parses an annotation. Returns `None` if it is absent or not JSON.
fn parse_annotation(object: &Value, name: &str) -> Option<Value> {
    let text = object.pointer("/metadata/annotations")?.get(name)?.as_str()?;
    serde_json::from_str(text).ok()
}

/// Changes the first letter of all field names to upper case, and omits null fields. The annotation
/// of the behavior has the names of the fields in the Go struct.
fn upper_camel_case(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let renamed = fields.map(|(name, value)| {
                let (first, rest) = name.split_at_checked(1).unwrap_or(("", name));
                (first.to_ascii_uppercase() + rest, upper_camel_case(value))
            });
            renamed.collect()
        }
        Value::Array(elements) => elements.iter().map(upper_camel_case).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2() -> Value {
        let metric = json!({ "name": "m", "selector": { "matchLabels": { "a": "b" } } });
        let described = json!({ "kind": "Service", "name": "s", "apiVersion": "v1" });
        let average = json!({ "type": "AverageValue", "averageValue": "50" });
        json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": V2,
            "metadata": { "name": "web", "annotations": { "note": "kept" } },
            "spec": {
                "scaleTargetRef": { "kind": "Deployment", "name": "web" },
                "minReplicas": 2, "maxReplicas": 5,
                "metrics": [
                    { "type": "Pods", "pods": { "metric": metric, "target": average } },
                    { "type": "Object", "object": {
                        "describedObject": described, "metric": { "name": "o" },
                        "target": { "type": "Value", "value": "3" },
                    } },
                    { "type": "Object", "object": {
                        "describedObject": described, "metric": { "name": "o" }, "target": average,
                    } },
                    { "type": "External", "external": { "metric": metric, "target": average } },
                    { "type": "ContainerResource", "containerResource": {
                        "name": "cpu", "container": "main",
                        "target": { "type": "Utilization", "averageUtilization": 40 },
                    } },
                    { "type": "Resource", "resource": {
                        "name": "cpu",
                        "target": { "type": "Utilization", "averageUtilization": 60 },
                    } },
                ],
                "behavior": { "scaleDown": {
                    "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }],
                    "stabilizationWindowSeconds": 180,
                } },
            },
            "status": {
                "currentReplicas": 2, "desiredReplicas": 2,
                "currentMetrics": [{ "type": "Resource", "resource": {
                    "name": "cpu", "current": { "averageUtilization": 55, "averageValue": "110m" },
                } }],
                "conditions": [{ "type": "AbleToScale", "status": "True" }],
            },
        })
    }

    #[test]
    fn v1_has_the_cpu_target_in_a_field_and_the_rest_in_annotations() {
        let v1 = to_v1(&v2());
        let expected = json!({
            "scaleTargetRef": { "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": 60,
        });
        assert_eq!(v1["spec"], expected);
        assert_eq!(v1["status"]["currentCPUUtilizationPercentage"], 55);
        let annotation = |name: &str| {
            let text = v1["metadata"]["annotations"][name].as_str().unwrap();
            serde_json::from_str::<Value>(text).unwrap()
        };
        let pods = json!({
            "metricName": "m", "selector": { "matchLabels": { "a": "b" } },
            "targetAverageValue": "50",
        });
        assert_eq!(annotation(METRICS)[0], json!({ "type": "Pods", "pods": pods }));
        assert_eq!(annotation(METRICS)[2]["object"]["targetValue"], "0");
        assert_eq!(annotation(BEHAVIOR)["ScaleDown"]["StabilizationWindowSeconds"], 180);
        assert_eq!(annotation(CONDITIONS)[0]["type"], "AbleToScale");
    }

    #[test]
    fn conversion_to_v1_and_back_loses_nothing() {
        assert_eq!(from_v1(to_v1(&v2())), v2());
    }
}
