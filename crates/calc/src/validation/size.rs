//! The limit of a spec's size.

use serde::Serialize;

use crate::api::{HorizontalPodAutoscalerSpec, UnknownFields};

/// The maximum size of a spec as compact JSON, in bytes. The core API has no limit of its own, so
/// the API server accepts up to about 1 MB, and decisions reject more than this. Annotations, and
/// the rest of the metadata, don't count.
pub const MAX_SPEC_BYTES: usize = 64 << 10;

/// A refused spec keeps this part of each text of its target, in bytes. No name of an object, kind
/// or API version is longer, so a truncated text can't name another target.
const MAX_TARGET_TEXT_BYTES: usize = 512;

/// The maximum size of the unknown fields that a refused spec keeps, as JSON, in bytes. Settings
/// are such fields.
const MAX_KEPT_FIELD_BYTES: usize = 8 << 10;

/// Measures a spec with defaults, and sets [`HorizontalPodAutoscalerSpec::excessive_bytes`] if it
/// is larger than [`MAX_SPEC_BYTES`]. A spec that was measured as too large before stays too large,
/// because parts of it may be dropped.
pub(crate) fn measure_spec(spec: &mut HorizontalPodAutoscalerSpec) {
    if spec.excessive_bytes.is_none() {
        spec.excessive_bytes = Some(json_bytes(spec)).filter(|bytes| *bytes > MAX_SPEC_BYTES);
    }
}

/// Drops the parts of a spec that [`prepare_spec`](crate::defaults::prepare_spec) has found too
/// large, so that a cache of specs needs little memory for it: metrics and behavior. Decisions
/// don't need them, because they reject the spec. Target, bounds and settings stay. Other specs
/// stay as they are.
pub fn drop_refused_parts(spec: &mut HorizontalPodAutoscalerSpec) {
    if spec.excessive_bytes.is_none() {
        return;
    }
    spec.metrics = Vec::new();
    spec.behavior = None;
    let target = &mut spec.scale_target_ref;
    target.unknown = UnknownFields::new();
    for text in [&mut target.api_version, &mut target.kind, &mut target.name] {
        text.truncate(text.floor_char_boundary(MAX_TARGET_TEXT_BYTES));
        text.shrink_to_fit();
    }
    let mut free_bytes = MAX_KEPT_FIELD_BYTES;
    spec.unknown.retain(|name, value| {
        let rest = free_bytes.checked_sub(name.len().saturating_add(json_bytes(value)));
        free_bytes = rest.unwrap_or(free_bytes);
        rest.is_some()
    });
}

/// The length of the value's compact JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    // Maps of these types have texts as keys, so they can always be written.
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(json: Value) -> HorizontalPodAutoscalerSpec {
        serde_json::from_value(json).unwrap()
    }

    /// A spec whose JSON has this size. Most of it is the selector of its only metric.
    fn spec_of_bytes(bytes: usize) -> HorizontalPodAutoscalerSpec {
        let with_label = |value: &str| {
            let metric = json!({ "name": "m", "selector": { "matchLabels": { "queue": value } } });
            let target = json!({ "type": "Value", "value": "1" });
            spec(json!({
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 2,
                "maxReplicas": 3,
                "metrics": [
                    { "type": "External", "external": { "metric": metric, "target": target } },
                ],
                "dryRun": true,
            }))
        };
        let rest = json_bytes(&with_label(""));
        with_label(&"x".repeat(bytes - rest))
    }

    #[test]
    fn spec_is_too_large_above_the_limit() {
        let excessive_bytes = |bytes| {
            let mut spec = spec_of_bytes(bytes);
            measure_spec(&mut spec);
            spec.excessive_bytes
        };
        assert_eq!(excessive_bytes(MAX_SPEC_BYTES), None);
        assert_eq!(excessive_bytes(MAX_SPEC_BYTES + 1), Some(MAX_SPEC_BYTES + 1));
    }

    #[test]
    fn refused_spec_keeps_target_bounds_and_settings() {
        let mut refused = spec_of_bytes(MAX_SPEC_BYTES + 1);
        measure_spec(&mut refused);
        drop_refused_parts(&mut refused);
        let mut expected = spec(json!({
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2,
            "maxReplicas": 3,
            "dryRun": true,
        }));
        expected.excessive_bytes = Some(MAX_SPEC_BYTES + 1);
        assert_eq!(refused, expected);
        // It is small now, and still refused.
        measure_spec(&mut refused);
        assert_eq!(refused, expected);
    }

    #[test]
    fn refused_spec_is_small_whichever_part_is_large() {
        let large = "ä".repeat(MAX_SPEC_BYTES);
        let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": 1 });
        let parts = [
            json!({ "scaleTargetRef": { "kind": large } }),
            json!({ "scaleTargetRef": { "name": large } }),
            json!({ "scaleTargetRef": { "apiVersion": large } }),
            json!({ "scaleTargetRef": { "other": large } }),
            json!({ "metrics": [{ "type": large }] }),
            json!({ "behavior": { "scaleUp": { "policies": vec![policy; 2000] } } }),
            json!({ "other": large }),
        ];
        for part in parts {
            let mut refused = spec(part);
            measure_spec(&mut refused);
            drop_refused_parts(&mut refused);
            assert!(refused.excessive_bytes.is_some());
            assert!(json_bytes(&refused) < 1000, "{refused:?}");
        }
    }

    #[test]
    fn spec_within_the_limit_stays_as_it_is() {
        let mut kept = spec_of_bytes(MAX_SPEC_BYTES);
        measure_spec(&mut kept);
        drop_refused_parts(&mut kept);
        assert_eq!(kept, spec_of_bytes(MAX_SPEC_BYTES));
    }
}
