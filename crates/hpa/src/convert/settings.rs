//! Settings of autoscalers: annotations in autoscaling/v2, fields in the custom API.
//!
//! An invalid value is not moved: the controller ignores it. `hpa convert` then prints the warning
//! of `hpa lint`.

use hpa_calc::{
    api::MetricSourceType,
    settings::{SETTINGS, Setting},
};
use serde_json::{Map, Value};

use crate::manifests::string_at;

/// Turns annotations into fields. If the field is set, it takes precedence and the annotation is
/// dropped.
pub(super) fn annotations_to_fields(object: &mut Value) {
    for setting in SETTINGS {
        let Some(annotation) = annotation_value(object, setting) else { continue };
        let is_moved = match setting.metric_types() {
            None => setting.annotation_to_field(&annotation).is_ok_and(|field| {
                let spec = object.get_mut("spec").and_then(Value::as_object_mut);
                spec.map(|spec| spec.entry(setting.field).or_insert(field)).is_some()
            }),
            Some(types) => set_on_metrics(object, setting, types, &annotation),
        };
        if is_moved && let Some(annotations) = annotations(object) {
            annotations.remove(&setting.annotation());
        }
    }
}

/// Turns fields into annotations.
pub(crate) fn fields_to_annotations(object: &mut Value) {
    for setting in SETTINGS {
        let annotation = match setting.metric_types() {
            None => {
                let spec = object.get_mut("spec").and_then(Value::as_object_mut);
                let field = spec.and_then(|spec| take_valid(spec, setting));
                field.and_then(|field| setting.field_to_annotation(&field).ok())
            }
            Some(types) => take_from_metrics(object, setting, types),
        };
        let Some(annotation) = annotation else { continue };
        let Some(object) = object.as_object_mut() else { continue };
        let metadata = object.entry("metadata").or_insert_with(|| Map::new().into());
        let Some(metadata) = metadata.as_object_mut() else { continue };
        let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(setting.annotation(), annotation.into());
        }
    }
}

pub(super) fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.pointer_mut("/metadata/annotations")?.as_object_mut()
}

fn annotation_value(object: &mut Value, setting: &Setting) -> Option<String> {
    let annotation = annotations(object)?.get(&setting.annotation())?;
    annotation.as_str().map(ToOwned::to_owned)
}

/// The sources of metrics of these types. Each comes with the two names by which an annotation can
/// refer to its metric: the metric's name, and its index.
fn metric_sources<'a>(
    object: &'a mut Value,
    types: &'a [MetricSourceType],
) -> impl Iterator<Item = ([String; 2], &'a mut Map<String, Value>)> {
    let metrics = object.pointer_mut("/spec/metrics").and_then(Value::as_array_mut);
    metrics.into_iter().flatten().enumerate().filter_map(|(index, metric)| {
        let kind = MetricSourceType::from(string_at(metric, "/type"));
        let source = metric.get_mut(kind.member()?).filter(|_| types.contains(&kind))?;
        let name = match string_at(source, "/metric/name") {
            "" => string_at(source, "/name"),
            name => name,
        };
        Some(([name.to_owned(), index.to_string()], source.as_object_mut()?))
    })
}

/// Sets the field on the metrics to which an annotation applies. If the annotation is invalid,
/// names an unknown metric, or applies to no metric, changes nothing and returns false.
fn set_on_metrics(
    object: &mut Value,
    setting: &Setting,
    types: &[MetricSourceType],
    annotation: &str,
) -> bool {
    let fields: Result<Vec<(Option<String>, Value)>, String> =
        match setting.values_by_metric(annotation) {
            None => setting.annotation_to_field(annotation).map(|field| vec![(None, field)]),
            Some(by_metric) => {
                let fields = by_metric.into_iter();
                fields
                    .map(|(name, value)| Ok((Some(name), setting.metric_value_to_field(&value)?)))
                    .collect()
            }
        };
    let Ok(fields) = fields else { return false };
    let names: Vec<[String; 2]> = metric_sources(object, types).map(|(names, _)| names).collect();
    let is_named = |name: &Option<String>| match name {
        None => !names.is_empty(),
        Some(name) => names.iter().any(|names| names.contains(name)),
    };
    if !fields.iter().all(|(name, _)| is_named(name)) {
        return false;
    }
    for (names, source) in metric_sources(object, types) {
        let is_for_source = |(name, _): &&(Option<String>, Value)| {
            name.as_ref().is_none_or(|name| names.contains(name))
        };
        if let Some((_, field)) = fields.iter().find(is_for_source) {
            source.entry(setting.field).or_insert_with(|| field.clone());
        }
    }
    true
}

/// Removes the field from each metric on which it is valid. Returns the equivalent annotation, or
/// `None` if no metric has the field.
fn take_from_metrics(
    object: &mut Value,
    setting: &Setting,
    types: &[MetricSourceType],
) -> Option<String> {
    let mut fields: Vec<([String; 2], Option<Value>)> = Vec::new();
    for (names, source) in metric_sources(object, types) {
        fields.push((names, take_valid(source, setting)));
    }
    let (_, first) = fields.first()?;
    if let Some(first) = first
        && fields.iter().all(|(_, field)| field.as_ref() == Some(first))
    {
        return setting.field_to_annotation(first).ok();
    }
    let is_unique =
        |name: &String| fields.iter().filter(|(names, _)| names.first() == Some(name)).count() == 1;
    let mut by_metric = Map::new();
    for ([name, index], field) in &fields {
        let Some(field) = field else { continue };
        let key = if is_unique(name) { name } else { index };
        by_metric.insert(key.clone(), setting.field_to_metric_value(field).ok()?);
    }
    (!by_metric.is_empty()).then(|| Value::from(by_metric).to_string())
}

/// Removes and returns the field if it is valid.
fn take_valid(members: &mut Map<String, Value>, setting: &Setting) -> Option<Value> {
    let field = members.get(setting.field)?;
    setting.field_to_annotation(field).ok()?;
    members.remove(setting.field)
}
