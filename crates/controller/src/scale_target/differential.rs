//! Compares scales in responses with the tests' plain decoder, in tests and fuzz targets.

use hpa_calc::api::Scale;
use hpa_testbed::decoder_tests::DocumentResult;

use super::scale::{RawScale, ScaleObject};
use crate::k8s::differential::{non_null, object_members, optional, text};

/// Whether the scale can be decoded. Panics if the result differs from the tests' plain decoder.
pub(crate) fn check_scale(body: &[u8]) -> bool {
    let decode = |body| serde_json::from_slice::<RawScale>(body).ok().map(ScaleObject::from);
    let decoded = decode(body);
    if std::str::from_utf8(body).is_ok() {
        let plain = plain_scale(body);
        assert_eq!(decoded.as_ref(), plain.as_ref().ok(), "{}", String::from_utf8_lossy(body));
    } else if decoded.is_some() {
        // Invalid bytes are accepted only in members that are not read.
        let valid = String::from_utf8_lossy(body);
        assert_eq!(decoded, decode(valid.as_bytes()), "{valid}");
    }
    decoded.is_some()
}

fn plain_scale(body: &[u8]) -> DocumentResult<ScaleObject> {
    let [metadata, spec, status] = object_members(body)?.map(non_null);
    let [uid, version] = match metadata {
        Some(metadata) => metadata.struct_fields(["uid", "resourceVersion"])?,
        None => [None; 2],
    };
    let [spec_replicas] = spec.map_or(Ok([None]), |spec| spec.struct_fields(["replicas"]))?;
    let [status_replicas, selector] = match status {
        Some(status) => status.struct_fields(["replicas", "selector"])?,
        None => [None; 2],
    };
    Ok(ScaleObject {
        scale: Scale {
            spec_replicas: optional(spec_replicas)?.unwrap_or_default(),
            status_replicas: optional(status_replicas)?.unwrap_or_default(),
            selector: text(selector)?,
        },
        uid: text(uid)?,
        resource_version: text(version)?,
    })
}

/// Scales that are compared, also after edits.
pub(crate) const SCALES: [&str; 2] = [
    r#"{"kind":"Scale","apiVersion":"autoscaling/v1",
        "metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"7"},
        "spec":{"replicas":3},"status":{"replicas":2,"selector":"app=web"}}"#,
    r#"{"metadata":null,"spec":{}}"#,
];

#[cfg(test)]
mod tests {
    use hpa_testbed::decoder_tests::compare;

    use super::*;

    #[test]
    fn scales_are_decoded_as_with_plain_decoding() {
        compare(&SCALES, check_scale);
    }
}
