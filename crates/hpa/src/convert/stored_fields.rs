//! The names that a field of v2 has in an object of `autoscaling/v1` or `autoscaling/v2beta1`.

use hpa_calc::crd::{
    member_path,
    versions::{
        BEHAVIOR_ANNOTATION, METRICS_ANNOTATION, TARGET_CPU, V1, V2_BETA_1, source_members,
    },
};
use serde_json::Value;

use crate::findings::capitalized;

/// The places of an autoscaler's metrics and behavior. In `autoscaling/v1`, the metric of CPU is
/// `targetCPUUtilizationPercentage`, and other metrics and `behavior` are in annotations. In
/// `autoscaling/v2beta1`, only `behavior` is in an annotation.
#[derive(Default)]
pub(crate) struct StoredFields {
    /// The number of metrics in the annotation. In v2, they precede that of CPU.
    annotated_metric_count: usize,
    has_target_cpu: bool,
    has_annotated_behavior: bool,
}

impl StoredFields {
    /// The places in an object as it was written. Objects of v2 and v2beta2 have all fields in
    /// their `spec`.
    pub(crate) fn of(object: &Value) -> Self {
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if version != V1 && version != V2_BETA_1 {
            return Self::default();
        }
        let annotation = |name| {
            let text = object.pointer("/metadata/annotations")?.get(name)?.as_str()?;
            serde_json::from_str::<Value>(text).ok()
        };
        let has_annotated_behavior =
            annotation(BEHAVIOR_ANNOTATION).is_some_and(|value| value.is_object());
        if version != V1 {
            return Self { has_annotated_behavior, ..Self::default() };
        }
        let target_cpu = object.get("spec").and_then(|spec| spec.get(TARGET_CPU));
        Self {
            annotated_metric_count: annotation(METRICS_ANNOTATION)
                .and_then(|metrics| Some(metrics.as_array()?.len()))
                .unwrap_or_default(),
            has_target_cpu: target_cpu.is_some_and(|percent| !percent.is_null()),
            has_annotated_behavior,
        }
    }

    /// The path of a field in the object as it was written. `field` is its path in the conversion
    /// to v2. Only fields of `behavior`, and of metrics of v1, have another path. Fields in metrics
    /// of v2beta1 are returned unchanged, although v2beta1 has other names for some.
    pub(crate) fn stored_field(&self, field: String) -> String {
        let path_in = |name, rest: String| member_path("metadata.annotations", name) + &rest;
        if let Some(path) = field.strip_prefix("spec.behavior.")
            && self.has_annotated_behavior
        {
            let members = path.split('.').map(|member| format!(".{}", capitalized(member)));
            return path_in(BEHAVIOR_ANNOTATION, members.collect());
        }
        let Some((index, path)) = split_metric(&field) else { return field };
        if index < self.annotated_metric_count {
            path_in(METRICS_ANNOTATION, format!("[{index}]{}", path_in_v2beta1(path)))
        } else if self.has_target_cpu {
            format!("spec.{TARGET_CPU}")
        } else {
            field
        }
    }
}

/// Splits `spec.metrics[INDEX]PATH`.
fn split_metric(field: &str) -> Option<(usize, &str)> {
    let (index, path) = field.strip_prefix("spec.metrics[")?.split_once(']')?;
    Some((index.parse().ok()?, path))
}

/// The path of a metric's field in v2beta1, the version in which the annotation encodes metrics. If
/// v2beta1 lacks the field, returns the path of the metric's source.
fn path_in_v2beta1(path: &str) -> String {
    let Some((source, member)) = path.strip_prefix('.').and_then(|path| path.split_once('.'))
    else {
        return path.to_owned();
    };
    let old = source_members(source).find_map(|(old, new)| {
        let rest = member.strip_prefix(new)?;
        Some(format!(".{source}.{old}{rest}"))
    });
    let is_new = ["metric", "target", "target.type"].contains(&member);
    old.unwrap_or_else(|| if is_new { format!(".{source}") } else { path.to_owned() })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::utilization(
        "metrics[0].resource.target.averageUtilization",
        "[0].resource.targetAverageUtilization"
    )]
    #[case::resource_name("metrics[0].resource.name", "[0].resource.name")]
    #[case::average("metrics[1].external.target.averageValue", "[1].external.targetAverageValue")]
    #[case::object("metrics[0].object.describedObject.kind", "[0].object.target.kind")]
    #[case::object_average("metrics[0].object.target.averageValue", "[0].object.averageValue")]
    #[case::value("metrics[0].object.target.value", "[0].object.targetValue")]
    #[case::metric_name("metrics[0].pods.metric.name", "[0].pods.metricName")]
    #[case::selector(
        "metrics[1].external.metric.selector.matchExpressions[0].key",
        "[1].external.metricSelector.matchExpressions[0].key"
    )]
    #[case::target_type("metrics[0].pods.target.type", "[0].pods")]
    #[case::source("metrics[0].type", "[0].type")]
    #[case::metric("metrics[1]", "[1]")]
    fn metric_of_v1_is_named_in_its_annotation(#[case] new: &str, #[case] stored: &str) {
        let object = json!({
            "apiVersion": V1, "metadata": { "annotations": { METRICS_ANNOTATION: "[{}, {}]" } },
            "spec": { TARGET_CPU: 50 },
        });
        let expected = format!("metadata.annotations[{METRICS_ANNOTATION}]{stored}");
        assert_eq!(StoredFields::of(&object).stored_field(format!("spec.{new}")), expected);
        let cpu =
            StoredFields::of(&object).stored_field("spec.metrics[2].resource.name".to_owned());
        assert_eq!(cpu, format!("spec.{TARGET_CPU}"));
    }

    #[test]
    fn behavior_in_an_annotation_has_capitals() {
        let annotations = json!({ BEHAVIOR_ANNOTATION: "{}" });
        let field = "spec.behavior.scaleDown.policies[0].value";
        for (version, prefix) in [
            (V1, Some("metadata.annotations")),
            (V2_BETA_1, Some("metadata.annotations")),
            ("autoscaling/v2", None),
        ] {
            let object =
                json!({ "apiVersion": version, "metadata": { "annotations": annotations } });
            let expected = prefix.map_or_else(
                || field.to_owned(),
                |prefix| format!("{prefix}[{BEHAVIOR_ANNOTATION}].ScaleDown.Policies[0].Value"),
            );
            assert_eq!(StoredFields::of(&object).stored_field(field.to_owned()), expected);
        }
    }

    #[rstest]
    #[case::undecodable("[{x", "spec.metrics[0]")]
    #[case::no_list("{}", "spec.metrics[0]")]
    #[case::unknown_field("[{}]", "spec.metrics")]
    fn other_fields_are_unchanged(#[case] metrics: &str, #[case] field: &str) {
        let object = json!({
            "apiVersion": V1, "spec": {},
            "metadata": { "annotations": { METRICS_ANNOTATION: metrics } },
        });
        assert_eq!(StoredFields::of(&object).stored_field(field.to_owned()), field);
    }
}
