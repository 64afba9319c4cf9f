//! The fields of `autoscaling/v1` and `autoscaling/v2beta1` that v2 doesn't have.

use hpa_calc::crd::versions::{SOURCES, TARGET_CPU, V1, V2_BETA_1, source_members};

/// A field of an older version that v2 doesn't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OldField {
    pub(super) version: &'static str,
    /// The replacement in v2, as YAML in flow style.
    pub(super) v2_form: &'static str,
}

/// Recognizes a field of an older version by its path in an object of v2.
pub(super) fn old_field(path: &str) -> Option<OldField> {
    if path.strip_prefix("spec.") == Some(TARGET_CPU) {
        let v2_form = "metrics: [{type: Resource, resource: {name: cpu, target: {type: \
                       Utilization, averageUtilization: N}}}]";
        return Some(OldField { version: V1, v2_form });
    }
    let source = source_of_field(path)?;
    let (_, source_name) = source.rsplit_once('.')?;
    let member = match path.strip_prefix(source)?.strip_prefix('.')? {
        // The `target` of v2 has other members.
        "target.apiVersion" | "target.kind" | "target.name" => "target",
        member => member,
    };
    let (_, path_in_v2) = source_members(source_name).find(|(old, _)| *old == member)?;
    let v2_form = match path_in_v2 {
        "target.averageUtilization" => "target: {type: Utilization, averageUtilization: N}",
        "target.averageValue" => "target: {type: AverageValue, averageValue: N}",
        "target.value" => "target: {type: Value, value: N}",
        "metric.name" => "metric: {name: NAME}",
        "metric.selector" => "metric: {selector: SELECTOR}",
        "describedObject" => "describedObject: {apiVersion: VERSION, kind: KIND, name: NAME}",
        // v2 has the other members at the same path.
        _ => return None,
    };
    Some(OldField { version: V2_BETA_1, v2_form })
}

/// The path of the source that has the field, such as `spec.metrics[0].resource`. `None` unless the
/// field is a member of a source, or of the `target` of an Object metric.
pub(super) fn source_of_field(path: &str) -> Option<&str> {
    let (parent, _) = path.rsplit_once('.')?;
    let source = match parent.strip_suffix(".target") {
        Some(source) if source.ends_with(".object") => source,
        _ => parent,
    };
    let (metric, name) = source.rsplit_once('.')?;
    let is_metric = metric.starts_with("spec.metrics[") && metric.ends_with(']');
    (is_metric && SOURCES.contains(&name)).then_some(source)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::utilization("resource.targetAverageUtilization", Some("target: {type: Utilization, "))]
    #[case::average("pods.targetAverageValue", Some("target: {type: AverageValue, "))]
    #[case::object_average("object.averageValue", Some("target: {type: AverageValue, "))]
    #[case::value("external.targetValue", Some("target: {type: Value, "))]
    #[case::metric_name("pods.metricName", Some("metric: {name: "))]
    #[case::selector("external.metricSelector", Some("metric: {selector: "))]
    #[case::object("object.target.kind", Some("describedObject: {"))]
    #[case::other_target("pods.target.kind", None)]
    #[case::misplaced("pods.averageValue", None)]
    #[case::misplaced_in_an_object("object.targetAverageValue", None)]
    #[case::in_the_target("object.target.targetValue", None)]
    #[case::average_in_the_target("object.target.targetAverageValue", None)]
    #[case::other_name("pods.targetAverageValues", None)]
    #[case::of_the_metric("targetAverageValue", None)]
    fn field_of_v2beta1_is_recognized(#[case] path: &str, #[case] v2_form: Option<&str>) {
        let old = old_field(&format!("spec.metrics[3].{path}"));
        assert_eq!(old.is_some(), v2_form.is_some(), "{old:?}");
        if let (Some(old), Some(v2_form)) = (old, v2_form) {
            assert!(old.version == V2_BETA_1 && old.v2_form.starts_with(v2_form), "{old:?}");
        }
    }
}
