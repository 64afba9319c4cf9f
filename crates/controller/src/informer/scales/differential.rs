//! Compares derived scales with the tests' plain decoder, in tests and fuzz targets.

use hpa_calc::selector::{LabelSelector, MAX_TEXT_BYTES, Selector};
use hpa_testbed::decoder_tests::{Document, DocumentResult};
use serde::{Deserialize, de::Error};
use serde_json::Value;

use super::{
    definition::Definition,
    scale_paths::{ScalePaths, SelectorField, split_path},
};
use crate::k8s::{
    PartialObject,
    differential::{PlainMeta, non_null, object_members, optional},
};

/// Replicas of spec and status, and the selector.
type PlainScale = (i32, i32, String);

/// Whether the object can be decoded and has a scale. Panics if the result differs from the tests'
/// plain decoder.
pub(crate) fn check_workload(body: &[u8]) -> bool {
    check_scale(body, &ScalePaths::of_workloads(), plain_workload(body))
}

/// Whether the object can be decoded and has a scale. Panics if the result differs from the tests'
/// plain decoder.
pub(crate) fn check_custom(body: &[u8]) -> bool {
    let paths = ScalePaths {
        spec_replicas: split_path("spec.pool.size"),
        status_replicas: split_path("status.pool.size"),
        selector: SelectorField::Text(split_path("status.selector")),
    };
    check_scale(body, &paths, plain_custom(body))
}

fn check_scale(
    body: &[u8],
    paths: &ScalePaths,
    plain: DocumentResult<(PlainMeta, Option<PlainScale>)>,
) -> bool {
    // kube decodes a response as text.
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let decoded = serde_json::from_str::<PartialObject>(text);
    assert_eq!(decoded.is_ok(), plain.is_ok(), "{text}\n{decoded:?}\n{plain:?}");
    let (Ok(decoded), Ok((meta, plain))) = (decoded, plain) else { return false };

    let is_named = !meta.namespace.is_empty() && !meta.name.is_empty();
    assert_eq!(decoded.is_named(), is_named, "{text}");
    let names = [decoded.namespace(), decoded.name(), decoded.resource_version()];
    let plain_names = [&meta.namespace, &meta.name, &meta.resource_version];
    assert_eq!(names, plain_names.map(String::as_str), "{text}");
    let scale = paths.scale(&decoded);
    let identity = scale.as_ref().map(|scale| (scale.uid.clone(), scale.resource_version.clone()));
    let scale = scale.map(|object| {
        (object.scale.spec_replicas, object.scale.status_replicas, object.scale.selector)
    });
    assert_eq!(scale, plain, "{text}");
    assert_eq!(identity, plain.map(|_| (meta.uid, meta.resource_version)), "{text}");
    scale.is_some()
}

fn plain_workload(body: &[u8]) -> DocumentResult<(PlainMeta, Option<PlainScale>)> {
    let [metadata, spec, status] = object_members(body)?;
    let meta = PlainMeta::decode(metadata)?;
    let scale = || -> DocumentResult<Option<PlainScale>> {
        let selector = nested(spec, &["selector"])?.unwrap_or_default();
        let selector: Option<LabelSelector> = Option::deserialize(selector)?;
        let selector =
            Selector::from_label_selector(selector.as_ref()).map_err(serde_json::Error::custom)?;
        let replicas = nested(spec, &["replicas"])?;
        plain_scale(replicas, nested(status, &["replicas"])?, selector.to_string())
    };
    Ok((meta, scale().unwrap_or_default()))
}

fn plain_scale(
    replicas: Option<Value>,
    status_replicas: Option<Value>,
    selector: String,
) -> DocumentResult<Option<PlainScale>> {
    let number = |value: Option<Value>| value.map(i32::deserialize).transpose();
    let status_replicas = number(status_replicas)?.unwrap_or_default();
    Ok(number(replicas)?.map(|replicas| (replicas, status_replicas, selector)))
}

fn plain_custom(body: &[u8]) -> DocumentResult<(PlainMeta, Option<PlainScale>)> {
    let [metadata, spec, status] = object_members(body)?;
    let meta = PlainMeta::decode(metadata)?;
    let scale = || -> DocumentResult<Option<PlainScale>> {
        let [replicas, status_replicas, selector] = [
            nested(spec, &["pool", "size"])?,
            nested(status, &["pool", "size"])?,
            nested(status, &["selector"])?,
        ];
        let selector = match selector {
            None => String::new(),
            Some(Value::String(selector)) if selector.len() <= MAX_TEXT_BYTES => selector,
            Some(_) => return Err(serde_json::Error::custom("not a selector in text form")),
        };
        plain_scale(replicas, status_replicas, selector)
    };
    Ok((meta, scale().unwrap_or_default()))
}

/// The value at a path, as in the API server's `NestedFieldNoCopy`: none if a member is missing or
/// `null` on the way, an error if a value on the way is not an object.
fn nested(document: Option<Document<'_>>, path: &[&str]) -> DocumentResult<Option<Value>> {
    let mut at = document;
    for field in path {
        let Some(object) = non_null(at) else { return Ok(None) };
        let members = object.members()?;
        at = members.iter().rfind(|(name, _)| name == field).map(|(_, value)| *value);
    }
    at.map(Document::decode).transpose()
}

/// Whether the definition can be decoded and has scale paths. Panics if the result differs from
/// the tests' plain decoder.
pub(crate) fn check_definition(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let decoded = serde_json::from_str::<Definition>(text);
    let plain = plain_definition(body);
    assert_eq!(decoded.is_ok(), plain.is_ok(), "{text}\n{plain:?}");
    let (Ok(decoded), Ok(plain)) = (decoded, plain) else { return false };
    let paths = decoded.paths("v2");
    assert_eq!(paths, plain, "{text}");
    paths.is_some()
}

fn plain_definition(body: &[u8]) -> DocumentResult<Option<ScalePaths>> {
    let [spec] = Document::parse(body)?.struct_fields(["spec"])?;
    let [versions] = spec.ok_or_else(missing)?.struct_fields(["versions"])?;
    let mut paths_by_version = Vec::new();
    for version in versions.ok_or_else(missing)?.elements()? {
        let [name, subresources] = version.struct_fields(["name", "subresources"])?;
        let scale = match non_null(subresources) {
            Some(subresources) => subresources.struct_fields(["scale"])?[0],
            None => None,
        };
        let paths = non_null(scale).map(plain_paths).transpose()?;
        paths_by_version.push((name.ok_or_else(missing)?.decode::<String>()?, paths));
    }
    let version = paths_by_version.into_iter().find(|(name, _)| name == "v2");
    Ok(version.and_then(|(_, paths)| paths))
}

fn plain_paths(scale: Document<'_>) -> DocumentResult<ScalePaths> {
    let [spec, status, selector] =
        scale.struct_fields(["specReplicasPath", "statusReplicasPath", "labelSelectorPath"])?;
    let path = |text: String| {
        text.strip_prefix('.').unwrap_or(&text).split('.').map(ToOwned::to_owned).collect()
    };
    let selector: Option<String> = optional(selector)?;
    let selector = selector.filter(|path| !path.is_empty()).map(path);
    Ok(ScalePaths {
        spec_replicas: path(spec.ok_or_else(missing)?.decode()?),
        status_replicas: path(status.ok_or_else(missing)?.decode()?),
        selector: selector.map_or(SelectorField::None, SelectorField::Text),
    })
}

fn missing() -> serde_json::Error {
    serde_json::Error::custom("a field is missing")
}

/// Workloads that are compared, also after edits.
pub(crate) const WORKLOADS: [&str; 1] = [r#"{
    "metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"5"},
    "spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"},
        "matchExpressions":[{"key":"env","operator":"In","values":["test","prod"]}]},
      "template":{"spec":{"containers":[]}}},
    "status":{"replicas":2,"readyReplicas":1}}"#];

/// Custom resources that are compared, also after edits.
pub(crate) const CUSTOM: [&str; 2] = [
    r#"{"metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"5"},
        "spec":{"other":{"size":9},"pool":{"deep":[[{"size":8}]],"size":3}},
        "status":{"pool":{"size":2},"selector":"app=web"}}"#,
    r#"{"metadata":{"name":"web","namespace":"shop"},"spec":{"pool":{"size":3}},"status":{}}"#,
];

/// Definitions of custom resources that are compared, also after edits.
pub(crate) const DEFINITIONS: [&str; 1] = [r#"{"spec":{"group":"g","versions":[
    {"name":"v1","served":true},
    {"name":"v2","subresources":{"status":{},"scale":{"specReplicasPath":".spec.pool.size",
        "statusReplicasPath":"status.size","labelSelectorPath":".status.selector"}}}]}}"#];

#[cfg(test)]
mod tests {
    use hpa_testbed::decoder_tests::compare;

    use super::*;

    #[test]
    fn workloads_have_the_same_scale_as_with_plain_decoding() {
        compare(&WORKLOADS, check_workload);
    }

    #[test]
    fn custom_resources_have_the_same_scale_as_with_plain_decoding() {
        compare(&CUSTOM, check_custom);
    }

    #[test]
    fn scale_paths_are_the_same_as_with_plain_decoding() {
        compare(&DEFINITIONS, check_definition);
    }
}
