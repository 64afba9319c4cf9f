//! Turns the older versions of autoscaling into v2, as the API server does.

use serde_json::{Map, Value, json};

use super::types::{FieldError, member_path};

/// The `apiVersion` of the oldest version that the API server serves.
pub const V1: &str = "autoscaling/v1";
/// The `apiVersion` of the latest version.
pub const V2: &str = "autoscaling/v2";
/// The `apiVersion` of a removed version. The metrics in [`METRICS_ANNOTATION`] have its form.
pub const V2_BETA_1: &str = "autoscaling/v2beta1";
const V2_BETA_2: &str = "autoscaling/v2beta2";

/// The members that a metric's source can be in. The metric's type names one of them.
pub const SOURCES: [&str; 5] = ["resource", "containerResource", "pods", "object", "external"];
/// The field of v1 that became a metric in v2.
pub const TARGET_CPU: &str = "targetCPUUtilizationPercentage";

/// The annotation in which the API server stores the metrics that v1 lacks, encoded as in v2beta1.
pub const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// The annotation in which the API server stores `spec.behavior`, which an older version lacks. Its
/// field names begin with capitals.
pub const BEHAVIOR_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// The annotation in which the API server stores `status.conditions`, which v1 lacks.
pub const CONDITIONS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// The annotation in which the API server stores `status.currentMetrics`, which v1 lacks.
pub const CURRENT_METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// Whether an `apiVersion` is a version of `autoscaling`, or that of the custom API.
pub fn is_known(api_version: &str) -> bool {
    [V1, V2, V2_BETA_1, V2_BETA_2, super::API_VERSION].contains(&api_version)
}

/// The release of Kubernetes that removed a version of autoscaling. `None` if none did.
pub fn removed_in(api_version: &str) -> Option<&'static str> {
    match api_version {
        V2_BETA_1 => Some("1.25"),
        V2_BETA_2 => Some("1.26"),
        _ => None,
    }
}

/// Removes null fields, which templates can produce. The API server treats them as absent.
pub fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let present = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(present.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        value => value,
    }
}

/// Converts an autoscaler of `autoscaling/v1` or `autoscaling/v2beta1` to v2, except its
/// `apiVersion`. Leaves other versions unchanged: v2beta2 has the fields of v2.
///
/// Drops the status, which has other fields than in v2, and the fields that the version doesn't
/// have: in v2, they might have an effect that they never had. Returns an error for each dropped
/// field of the spec, unless it is null or in an annotation.
pub fn to_v2(object: &mut Value) -> Vec<FieldError> {
    let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    if version != V1 && version != V2_BETA_1 {
        return Vec::new();
    }
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let (metrics, behavior) = annotations.map_or((None, None), take_annotations);
    let Some(object) = object.as_object_mut() else { return Vec::new() };
    object.remove("status");
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return Vec::new() };
    let mut old = OldFields { version: &version, path: "spec", fields: std::mem::take(spec) };
    for name in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        spec.extend(old.take(name).map(|value| (name.to_owned(), value)));
    }
    let mut errors = Vec::new();
    let mut converted = Vec::new();
    if version == V1 {
        converted.extend(
            metrics.into_iter().flatten().map(|metric| convert_metric(metric, "", &mut Vec::new())),
        );
        if let Some(percent) = old.take(TARGET_CPU) {
            let target = json!({ "type": "Utilization", "averageUtilization": percent });
            converted.push(json!({
                "type": "Resource", "resource": { "name": "cpu", "target": target },
            }));
        }
    } else {
        match old.take("metrics") {
            Some(Value::Array(items)) => {
                for (index, item) in items.into_iter().enumerate() {
                    converted.push(convert_metric(
                        item,
                        &format!("spec.metrics[{index}]"),
                        &mut errors,
                    ));
                }
            }
            other => spec.extend(other.map(|value| ("metrics".to_owned(), value))),
        }
    }
    if !converted.is_empty() {
        spec.insert("metrics".to_owned(), converted.into());
    }
    spec.extend(behavior.map(|behavior| ("behavior".to_owned(), behavior)));
    errors.extend(old.unknown_field_errors());
    errors
}

/// Removes the annotations with fields of v2, and returns their metrics and behavior. As in the API
/// server, an annotation that can't be decoded counts as absent.
fn take_annotations(annotations: &mut Map<String, Value>) -> (Option<Vec<Value>>, Option<Value>) {
    let of_status = [CONDITIONS_ANNOTATION, CURRENT_METRICS_ANNOTATION];
    annotations.retain(|name, _| !of_status.contains(&name.as_str()));
    let mut decode = |name| {
        let text = annotations.remove(name)?;
        serde_json::from_str::<Value>(text.as_str()?).ok().map(without_nulls)
    };
    let metrics = decode(METRICS_ANNOTATION).and_then(|metrics| match metrics {
        Value::Array(metrics) => Some(metrics),
        _ => None,
    });
    (metrics, decode(BEHAVIOR_ANNOTATION).filter(Value::is_object).map(lower_camel_case))
}

/// Changes the first letter of all field names to lower case.
fn lower_camel_case(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let lower = |name: String| {
                let (first, rest) = name.split_at_checked(1).unwrap_or(("", &name));
                first.to_ascii_lowercase() + rest
            };
            let members = members.into_iter();
            Value::Object(members.map(|(k, value)| (lower(k), lower_camel_case(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(lower_camel_case).collect()),
        value => value,
    }
}

/// The fields of an object of an older version that are not converted yet.
struct OldFields<'a> {
    version: &'a str,
    /// The path of the object.
    path: &'a str,
    fields: Map<String, Value>,
}

impl OldFields<'_> {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    /// An error for each field that was not taken.
    fn unknown_field_errors(self) -> impl Iterator<Item = FieldError> {
        let Self { version, path, fields } = self;
        fields.into_iter().filter(|(_, value)| !value.is_null()).map(move |(name, _)| {
            let message = format!("unknown field: {version} doesn't have it");
            FieldError { field: member_path(path, &name), message }
        })
    }
}

/// Converts a metric of v2beta1 to v2.
fn convert_metric(metric: Value, path: &str, errors: &mut Vec<FieldError>) -> Value {
    let Value::Object(fields) = metric else { return metric };
    let mut old = OldFields { version: V2_BETA_1, path, fields };
    let mut new = Map::new();
    new.extend(old.take("type").map(|value| ("type".to_owned(), value)));
    for name in SOURCES {
        let converted = match old.take(name) {
            Some(Value::Object(fields)) => {
                let path = &member_path(path, name);
                let mut source = OldFields { version: V2_BETA_1, path, fields };
                let converted = convert_source(name, &mut source);
                errors.extend(source.unknown_field_errors());
                converted
            }
            Some(other) => other,
            None => continue,
        };
        new.insert(name.to_owned(), converted);
    }
    errors.extend(old.unknown_field_errors());
    Value::Object(new)
}

/// The members of a metric's source in v2beta1, each with the sources that have it and its path in
/// v2. A source is named after the member of the metric that has it.
const SOURCE_MEMBERS: &[(&[&str], &str, &str)] = &[
    (&["resource", "containerResource"], "name", "name"),
    (&["containerResource"], "container", "container"),
    (&["object"], "target", "describedObject"),
    (&["pods", "object", "external"], "metricName", "metric.name"),
    (&["pods", "object"], "selector", "metric.selector"),
    (&["external"], "metricSelector", "metric.selector"),
    (&["resource", "containerResource"], "targetAverageUtilization", "target.averageUtilization"),
    (&["object"], "averageValue", "target.averageValue"),
    (
        &["resource", "containerResource", "pods", "external"],
        "targetAverageValue",
        "target.averageValue",
    ),
    (&["object", "external"], "targetValue", "target.value"),
];

/// The members of a source in v2beta1, each with its path in v2.
pub fn source_members(source: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let members = SOURCE_MEMBERS.iter().filter(move |(sources, ..)| sources.contains(&source));
    members.map(|(_, old, new)| (*old, *new))
}

/// Converts the source of a metric of v2beta1 to v2. `name` is that of the member that has it.
#[expect(clippy::indexing_slicing, reason = "`new` is an object with the parents of all paths")]
fn convert_source(name: &str, old: &mut OldFields<'_>) -> Value {
    let mut new = match name {
        "resource" | "containerResource" => json!({ "target": {} }),
        _ => json!({ "metric": {}, "target": {} }),
    };
    for (member, path) in source_members(name) {
        let Some(value) = old.take(member) else { continue };
        match path.split_once('.') {
            Some((parent, member)) => new[parent][member] = value,
            None => new[path] = value,
        }
    }
    let Some(target) = new["target"].as_object_mut() else { return new };
    let is_zero = |value: &Value| value.as_str() == Some("0") || value.as_i64() == Some(0);
    // v2beta1 requires the `targetValue` of an object. If there is an average, zero stands for an
    // absent value.
    if name == "object"
        && target.contains_key("averageValue")
        && target.get("value").is_some_and(is_zero)
    {
        target.remove("value");
    }
    let target_type = match name {
        "object" if !target.contains_key("averageValue") => "Value",
        "external" if target.contains_key("value") => "Value",
        _ if target.contains_key("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    target.insert("type".to_owned(), target_type.into());
    new
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn converted(version: &str, spec: Value) -> (Value, Vec<String>) {
        let mut object = json!({ "apiVersion": version, "spec": spec });
        let errors = to_v2(&mut object);
        (object["spec"].take(), errors.iter().map(|error| error.field.clone()).collect())
    }

    /// The expected metrics are those of Kubernetes' conversion functions.
    #[rstest]
    #[case::utilization(
        "resource",
        json!({ "name": "cpu", "targetAverageUtilization": 50 }),
        json!({ "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } })
    )]
    #[case::raw_value(
        "resource",
        json!({ "name": "memory", "targetAverageValue": "1Gi" }),
        json!({ "name": "memory", "target": { "type": "AverageValue", "averageValue": "1Gi" } })
    )]
    #[case::container(
        "containerResource",
        json!({ "name": "cpu", "container": "app", "targetAverageUtilization": 50 }),
        json!({
            "name": "cpu", "container": "app",
            "target": { "type": "Utilization", "averageUtilization": 50 },
        })
    )]
    #[case::pods(
        "pods",
        json!({ "metricName": "rps", "targetAverageValue": 10, "selector": { "matchLabels": {} } }),
        json!({
            "metric": { "name": "rps", "selector": { "matchLabels": {} } },
            "target": { "type": "AverageValue", "averageValue": 10 },
        })
    )]
    #[case::object_value(
        "object",
        json!({ "target": { "kind": "Service", "name": "web" }, "metricName": "rps",
            "targetValue": "2k" }),
        json!({
            "describedObject": { "kind": "Service", "name": "web" },
            "metric": { "name": "rps" }, "target": { "type": "Value", "value": "2k" },
        })
    )]
    #[case::object_average(
        "object",
        json!({ "target": {}, "metricName": "rps", "targetValue": "0", "averageValue": "5" }),
        json!({
            "describedObject": {}, "metric": { "name": "rps" },
            "target": { "type": "AverageValue", "averageValue": "5" },
        })
    )]
    #[case::external(
        "external",
        json!({ "metricName": "queue", "metricSelector": { "matchLabels": { "a": "b" } },
            "targetAverageValue": "30" }),
        json!({
            "metric": { "name": "queue", "selector": { "matchLabels": { "a": "b" } } },
            "target": { "type": "AverageValue", "averageValue": "30" },
        })
    )]
    fn metrics_of_v2beta1_become_those_of_v2(
        #[case] kind: &str,
        #[case] old: Value,
        #[case] new: Value,
    ) {
        let spec = json!({ "metrics": [{ "type": "T", kind: old }] });
        let (spec, errors) = converted(V2_BETA_1, spec);
        assert_eq!(spec["metrics"], json!([{ "type": "T", kind: new }]));
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn fields_that_the_version_lacks_are_reported_and_dropped() {
        let spec = json!({
            "minReplicas": 1, "metrics": [], "behavior": {}, "targetCPUUtilizationPercentage": 5,
        });
        let (spec, errors) = converted(V1, spec);
        assert_eq!(errors, ["spec.behavior", "spec.metrics"]);
        assert_eq!(
            (spec["metrics"].as_array().map(Vec::len), spec.get("behavior")),
            (Some(1), None)
        );
        let resource = json!({ "name": "cpu", "target": { "averageUtilization": 5 } });
        let spec = json!({ "metrics": [{ "type": "Resource", "resource": resource }] });
        assert_eq!(converted(V2_BETA_1, spec).1, ["spec.metrics[0].resource.target"]);
    }

    #[test]
    fn annotations_of_the_api_server_are_decoded() {
        let metrics = r#"[{"type":"Pods","pods":{"metricName":"rps","targetAverageValue":"10"}}]"#;
        let behavior = r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":60,
            "SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":60}]}}"#;
        let mut object = json!({
            "apiVersion": V1,
            "metadata": { "annotations": {
                METRICS_ANNOTATION: metrics, BEHAVIOR_ANNOTATION: behavior,
                CONDITIONS_ANNOTATION: "[]",
            } },
            "spec": { "targetCPUUtilizationPercentage": 60 },
            "status": { "currentCPUUtilizationPercentage": 3 },
        });
        assert_eq!(to_v2(&mut object), []);
        assert_eq!(object["metadata"]["annotations"], json!({}));
        assert_eq!(object.get("status"), None);
        let pods = json!({ "metric": { "name": "rps" },
            "target": { "type": "AverageValue", "averageValue": "10" } });
        let cpu = json!({ "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": 60 } });
        assert_eq!(
            object["spec"],
            json!({
                "metrics": [
                    { "type": "Pods", "pods": pods }, { "type": "Resource", "resource": cpu },
                ],
                "behavior": { "scaleDown": {
                    "stabilizationWindowSeconds": 60, "selectPolicy": "Max",
                    "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }],
                } },
            })
        );
    }
}
