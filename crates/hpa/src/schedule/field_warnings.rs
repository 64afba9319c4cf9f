//! Warns of fields without the intended effect: fields that the API doesn't have, fields that occur
//! twice, and times that the preview can read but the API server refuses.

use hpa_calc::crd::{DefinitionError, UnknownField, versions};
use hpa_collectors::schedules::definition::unknown_schedule_fields;
use serde_json::Value;

use super::preview::is_schedule;
use crate::{
    autoscaler_name::describe,
    lint::is_autoscaler,
    manifests::{DuplicateKey, Manifest, items},
};

/// A line for each unknown, repeated or refused field of schedules and autoscalers, with the place,
/// the object and the field.
pub(super) fn field_warnings(manifests: &[Manifest]) -> anyhow::Result<Vec<String>> {
    let mut warnings = Vec::new();
    for manifest in manifests {
        let fields = if is_schedule(&manifest.object) {
            let mut fields = describe_unknown(unknown_schedule_fields(&manifest.object)?);
            fields.extend(times_with_short_hours(&manifest.object));
            fields
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

/// The times of day whose hour has one digit, with messages. The API doesn't allow them.
fn times_with_short_hours(object: &Value) -> Vec<(String, String)> {
    let entries = items(object.pointer("/spec/schedules"));
    let times = entries.enumerate().flat_map(|(index, entry)| {
        ["startTime", "endTime"].into_iter().filter_map(move |field| {
            let time = entry.get("period")?.get(field)?.as_str()?;
            let message = format!("the API server refuses {time:?}: write \"0{time}\"");
            let path = format!("spec.schedules[{index}].period.{field}");
            (time.find(':') == Some(1)).then_some((path, message))
        })
    });
    times.collect()
}

/// The unknown fields of an autoscaler of any version, with messages.
fn unknown_in_autoscaler(object: &Value) -> Result<Vec<(String, String)>, DefinitionError> {
    let mut object = versions::without_nulls(object.clone());
    let dropped = versions::to_v2(&mut object).into_iter();
    let mut fields: Vec<_> = dropped.map(|error| (error.field, error.message)).collect();
    fields.extend(describe_unknown(hpa_calc::crd::unknown_fields(&object)?));
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
