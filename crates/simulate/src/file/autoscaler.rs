//! The autoscaler of a scenario: its manifest, checked as the API server does.

use hpa_calc::{
    HorizontalPodAutoscaler,
    api::UnknownFields,
    defaults::apply_defaults,
    validation::{ValidationOptions, validate},
};
use serde_json::Value;

use super::error::FieldProblem;

const FIELD: &str = "autoscaler";

/// Decodes a manifest, applies the defaults of the API server and validates.
pub(super) fn decode(manifest: &Value) -> Result<HorizontalPodAutoscaler, FieldProblem> {
    if let Some(kind) = manifest.get("kind").and_then(Value::as_str)
        && kind != "HorizontalPodAutoscaler"
    {
        let message = format!("must be HorizontalPodAutoscaler, not {kind}");
        return Err(FieldProblem::new("autoscaler.kind", message));
    }
    let mut hpa: HorizontalPodAutoscaler = serde_path_to_error::deserialize(manifest)
        .map_err(|error| FieldProblem::new(format!("{FIELD}.{}", error.path()), error.inner()))?;
    if let Some(path) = unknown_field(&hpa) {
        return Err(FieldProblem::new(format!("{FIELD}.{path}"), "unknown field"));
    }
    apply_defaults(&mut hpa.spec);
    if hpa.metadata.name.is_empty() {
        hpa.metadata.name.clone_from(&hpa.spec.scale_target_ref.name);
    }
    if hpa.metadata.namespace.is_empty() {
        "default".clone_into(&mut hpa.metadata.namespace);
    }
    match validate(&hpa.spec, &ValidationOptions::default()).into_iter().next() {
        Some(cause) => Err(FieldProblem::new(format!("{FIELD}.{}", cause.field), cause.message)),
        None => Ok(hpa),
    }
}

/// The path of a field that autoscaling/v2 doesn't have.
fn unknown_field(hpa: &HorizontalPodAutoscaler) -> Option<String> {
    let first = |path: &str, fields: &UnknownFields| {
        fields.keys().next().map(|name| format!("{path}.{name}"))
    };
    let behavior = hpa.spec.behavior.as_ref();
    let rules = behavior.into_iter().flat_map(|behavior| {
        [("scaleUp", &behavior.scale_up), ("scaleDown", &behavior.scale_down)]
    });
    let rules = rules.filter_map(|(name, rules)| Some((name, rules.as_ref()?)));
    let rules: Vec<_> =
        rules.map(|(name, rules)| (format!("spec.behavior.{name}"), &rules.unknown)).collect();
    let metrics = hpa.spec.metrics.iter().enumerate();
    let metrics =
        metrics.map(|(index, metric)| (format!("spec.metrics[{index}]"), &metric.unknown));
    first("spec", &hpa.spec.unknown)
        .or_else(|| first("spec.behavior", &behavior?.unknown))
        .or_else(|| rules.iter().find_map(|(path, fields)| first(path, fields)))
        .or_else(|| metrics.into_iter().find_map(|(path, fields)| first(&path, fields)))
}
