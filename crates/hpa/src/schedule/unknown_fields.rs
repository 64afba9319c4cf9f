//! Finds fields of the previewed objects that the API server's strict decoding rejects: fields that
//! the API doesn't have, and fields that occur twice.

use hpa_collectors::schedules::definition::unknown_schedule_fields;
use hpa_crd::{DefinitionError, UnknownField};
use serde_json::Value;

use super::preview::is_schedule;
use crate::{
    autoscaler_name::describe,
    convert::versions,
    lint::is_autoscaler,
    manifests::{DuplicateKey, Manifest},
};

/// A line for each unknown and each repeated field of schedules and autoscalers, with the place,
/// the object and the field.
pub(super) fn field_warnings(manifests: &[Manifest]) -> anyhow::Result<Vec<String>> {
    let mut warnings = Vec::new();
    for manifest in manifests {
        let fields = if is_schedule(&manifest.object) {
            describe_unknown(unknown_schedule_fields(&manifest.object)?)
        } else if is_autoscaler(manifest) {
            unknown_in_autoscaler(&manifest.object)?
        } else {
            continue;
        };
        let name = describe(&manifest.object);
        let warning = |line: usize, field: &str, message: &str| {
            format!("{}:{line}: warning: {name}: {field}: {message}", manifest.file)
        };
        for (field, message) in fields {
            warnings.push(warning(manifest.position(&field).line, &field, &message));
        }
        for DuplicateKey { field, position, last_position, .. } in manifest.duplicates() {
            let message = format!("occurs twice: the value in line {} is used", last_position.line);
            warnings.push(warning(position.line, &field, &message));
        }
    }
    Ok(warnings)
}

/// The unknown fields of an autoscaler of any version, with messages.
fn unknown_in_autoscaler(object: &Value) -> Result<Vec<(String, String)>, DefinitionError> {
    let mut object = versions::without_nulls(object.clone());
    let dropped = versions::to_v2(&mut object).into_iter();
    let mut fields: Vec<_> = dropped.map(|error| (error.field, error.message)).collect();
    fields.extend(describe_unknown(hpa_crd::unknown_fields(&object)?));
    Ok(fields)
}

fn describe_unknown(fields: Vec<UnknownField>) -> Vec<(String, String)> {
    let described = fields.into_iter().map(|UnknownField { path, similar }| {
        let advice = match similar {
            Some(name) => format!("did you mean {name}?"),
            None => "check its spelling and indentation".to_owned(),
        };
        (path, format!("unknown field, which has no effect: {advice}"))
    });
    described.collect()
}
