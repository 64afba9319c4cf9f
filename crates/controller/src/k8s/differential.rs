//! Compares decoded objects with the tests' plain decoder, in tests and fuzz targets.

use std::{collections::BTreeMap, fmt::Debug, hash::BuildHasher};

use hpa_calc::{
    api::{HorizontalPodAutoscaler, OwnerReference, Pod},
    defaults::prepare_spec,
    settings::AnnotationFilter,
    validation::{MAX_METRICS, drop_refused_parts},
};
use hpa_testbed::decoder_tests::{Document, DocumentResult};
use jiff::Timestamp;
use kube::core::{ObjectList, WatchEvent};
use serde::de::{DeserializeOwned, Error};
use serde_json::{Value, json};

use super::{CachedKind, HpaResponse, PartialObject};
use crate::hash::HASHER;

/// The metadata that the controller reads.
#[derive(Debug, Default)]
pub(crate) struct PlainMeta {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    generation: Option<i64>,
    labels: BTreeMap<String, String>,
    is_deleted: bool,
    owners: Vec<OwnerReference>,
    annotations: BTreeMap<String, String>,
    /// Manager and time of the newest status write.
    status_write: Option<(String, Timestamp)>,
}

impl PlainMeta {
    pub(crate) fn decode(metadata: Option<Document<'_>>) -> DocumentResult<Self> {
        let Some(metadata) = metadata else { return Ok(Self::default()) };
        let [
            name,
            namespace,
            uid,
            version,
            generation,
            labels,
            deletion,
            annotations,
            managed,
            owners,
        ] = metadata.struct_fields([
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "labels",
            "deletionTimestamp",
            "annotations",
            "managedFields",
            "ownerReferences",
        ])?;
        let annotations = match non_null(annotations) {
            Some(annotations) => known_annotations(annotations)?,
            None => BTreeMap::new(),
        };
        Ok(Self {
            name: text(name)?,
            namespace: text(namespace)?,
            uid: text(uid)?,
            resource_version: text(version)?,
            generation: optional(generation)?,
            labels: optional(labels)?.unwrap_or_default(),
            is_deleted: non_null(deletion).is_some(),
            owners: optional(owners)?.unwrap_or_default(),
            annotations,
            status_write: newest_status_write(managed)?,
        })
    }
}

/// The annotations of this controller.
fn known_annotations(annotations: Document<'_>) -> DocumentResult<BTreeMap<String, String>> {
    let (mut known, mut filter) = (BTreeMap::new(), AnnotationFilter::default());
    for (name, value) in annotations.members()? {
        if filter.accept(&name)
            && let Some(value) = optional::<String>(Some(value))?
        {
            let value = AnnotationFilter::truncate_value(&name, &value).to_owned();
            known.insert(name, value);
        }
    }
    Ok(known)
}

/// The newest status write. If several are equally new, the last one counts.
fn newest_status_write(list: Option<Document<'_>>) -> DocumentResult<Option<(String, Timestamp)>> {
    let mut newest: Option<(String, Timestamp)> = None;
    for entry in non_null(list).map_or(Ok(Vec::new()), Document::elements)? {
        let fields = entry.struct_fields(["manager", "subresource", "time"])?;
        let [manager, subresource, time] = fields.map(optional::<String>);
        let (manager, subresource, time) = (manager?, subresource?, time?);
        let time: Option<Timestamp> = time.and_then(|time| time.parse().ok());
        let (Some(manager), Some(time)) = (manager, time) else { continue };
        if manager.is_empty() {
            continue;
        }
        let is_newer = newest.as_ref().is_none_or(|(_, newest)| time >= *newest);
        if subresource.as_deref() == Some("status") && is_newer {
            newest = Some((manager, time));
        }
    }
    Ok(newest)
}

/// Metadata, spec and status of an object.
pub(crate) fn object_members(body: &[u8]) -> DocumentResult<[Option<Document<'_>>; 3]> {
    Document::parse(body)?.struct_fields(["metadata", "spec", "status"])
}

pub(crate) fn non_null(document: Option<Document<'_>>) -> Option<Document<'_>> {
    document.filter(|document| !document.is_null())
}

pub(crate) fn optional<T: DeserializeOwned>(
    document: Option<Document<'_>>,
) -> DocumentResult<Option<T>> {
    document.map_or(Ok(None), Document::decode)
}

pub(crate) fn text(document: Option<Document<'_>>) -> DocumentResult<String> {
    optional(document).map(Option::unwrap_or_default)
}

/// The whole object as the engine decodes it. Its metadata has only what a decision reads, because
/// the engine's types reject more metadata.
fn decode_whole<T: DeserializeOwned>(
    metadata: &Value,
    spec: Option<Document<'_>>,
    status: Option<Document<'_>>,
) -> DocumentResult<T> {
    let metadata = metadata.to_string();
    let members = [
        Some(("metadata", metadata.as_str())),
        non_null(spec).map(|spec| ("spec", spec.text())),
        non_null(status).map(|status| ("status", status.text())),
    ];
    let members = members.into_iter().flatten();
    let members: Vec<_> = members.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    serde_json::from_str(&format!("{{{}}}", members.join(",")))
}

fn check_names(meta: PlainMeta) -> DocumentResult<PlainMeta> {
    let is_named = !meta.name.is_empty() && !meta.namespace.is_empty();
    is_named.then_some(meta).ok_or_else(|| serde_json::Error::custom("no name"))
}

fn plain_pod(body: &[u8]) -> DocumentResult<Pod> {
    let [metadata, spec, status] = object_members(body)?;
    let meta = check_names(PlainMeta::decode(metadata)?)?;
    let deleted = meta.is_deleted.then_some("2026-01-01T00:00:00Z");
    let metadata = json!({
        "name": meta.name,
        "labels": meta.labels,
        "deletionTimestamp": deleted,
        "ownerReferences": meta.owners,
    });
    decode_whole(&metadata, spec, status)
}

fn plain_hpa(body: &[u8]) -> DocumentResult<HorizontalPodAutoscaler> {
    let [metadata, spec, status] = object_members(body)?;
    let meta = check_names(PlainMeta::decode(metadata)?)?;
    if non_null(spec).is_none() {
        return Err(serde_json::Error::custom("no spec"));
    }
    let metadata = json!({
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "generation": meta.generation,
        "annotations": meta.annotations,
    });
    let mut hpa: HorizontalPodAutoscaler = decode_whole(&metadata, spec, status)?;
    prepare_spec(&mut hpa.spec);
    if hpa.spec.excessive_bytes.is_some() {
        hpa.status.current_metrics.clear();
    }
    drop_refused_parts(&mut hpa.spec);
    hpa.spec.metrics.truncate(MAX_METRICS + 1);
    Ok(hpa)
}

/// Whether the object can be decoded. Panics if the result differs from the tests' plain decoder.
pub(crate) fn check_pod(body: &[u8]) -> bool {
    check_object::<Pod>(body, plain_pod(body))
}

/// Whether the object can be decoded. Panics if the result differs from the tests' plain decoder,
/// or if it differs between a watch and the response to a write.
pub(crate) fn check_hpa(body: &[u8]) -> bool {
    let plain = plain_hpa(body);
    let expected = plain.as_ref().ok().cloned();
    let is_decoded = check_object::<HorizontalPodAutoscaler>(body, plain);
    let Ok(text) = std::str::from_utf8(body) else { return is_decoded };
    let response: Result<HpaResponse<'_>, _> = serde_json::from_str(text);
    if let Ok(response) = &response {
        let spec = object_members(body).ok().and_then(|[_, spec, _]| non_null(spec));
        let spec = spec.map(Document::text);
        assert_eq!(response.spec_hash(), HASHER.hash_one(spec), "{text}");
    }
    let decoded = response.ok().and_then(|response| response.decode(None).ok());
    assert_eq!(decoded, expected, "{text}");
    is_decoded
}

fn check_object<K: CachedKind + PartialEq + Debug>(body: &[u8], plain: DocumentResult<K>) -> bool {
    // kube decodes a response as text.
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let object = serde_json::from_str::<PartialObject>(text);
    let metadata = object_members(body).and_then(|[metadata, ..]| PlainMeta::decode(metadata));
    assert_eq!(object.is_ok(), metadata.is_ok(), "{text}\n{object:?}\n{metadata:?}");
    if Document::parse(body).is_ok() {
        check_envelopes(text, object.is_ok());
    }
    let (Ok(object), Ok(meta)) = (object, metadata) else { return false };

    let names = [object.name(), object.namespace(), object.uid(), object.resource_version()];
    let plain_names = [&meta.name, &meta.namespace, &meta.uid, &meta.resource_version];
    assert_eq!(names, plain_names.map(String::as_str), "{text}");
    let status_write = object.newest_status_write(None, Timestamp::MAX);
    let status_write = status_write.map(|write| (write.manager, write.at));
    assert_eq!(status_write, meta.status_write, "{text}");
    let decoded = object.decode::<K>();
    assert_eq!(decoded.as_ref().ok(), plain.as_ref().ok(), "{text}\n{decoded:?}\n{plain:?}");
    decoded.is_ok()
}

/// Checks that an object is accepted in a list and in a watch event if it is accepted on its own.
fn check_envelopes(text: &str, is_ok: bool) {
    let list = format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{{}},"items":[{text}]}}"#);
    let list = serde_json::from_str::<ObjectList<PartialObject>>(&list);
    assert_eq!(list.is_ok(), is_ok, "{text}");
    let event = format!(r#"{{"type":"MODIFIED","object":{text}}}"#);
    let event = serde_json::from_str::<WatchEvent<PartialObject>>(&event);
    assert_eq!(event.is_ok(), is_ok, "{text}");
}

/// Pods that are compared, also after edits.
pub(crate) const PODS: [&str; 3] = [
    r#"{"metadata":{"name":"web-1","namespace":"shop","uid":"u","resourceVersion":"7",
        "creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-01T00:00:00Z",
        "labels":{"app":"web","tier":"front"}},
      "spec":{"nodeName":"n","containers":[{"name":"app","image":"i",
        "resources":{"requests":{"cpu":"100m","memory":"1Gi"}}}],
        "initContainers":[{"name":"side","restartPolicy":"Always"}],
        "resources":{"requests":{"cpu":1}}},
      "status":{"phase":"Running","startTime":"2026-01-01T00:00:00Z","conditions":[
        {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#,
    // A pod in an in-place resize, with limits, and with the resources that the kubelet applied.
    r#"{"metadata":{"name":"web-1","namespace":"shop","ownerReferences":[{"apiVersion":"apps/v1",
        "kind":"ReplicaSet","name":"web","uid":"r","controller":true}]},
      "spec":{"containers":[{"name":"app",
          "resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"2","memory":"1Gi"}}}],
        "initContainers":[{"name":"side","restartPolicy":"Always",
          "resources":{"limits":{"cpu":"50m"}}}],
        "resources":{"limits":{"cpu":"3"}}},
      "status":{"phase":"Running","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"3"}},
        "containerStatuses":[{"name":"app","ready":true,"restartCount":0,
          "allocatedResources":{"cpu":"1"},
          "resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}],
        "initContainerStatuses":[{"name":"side","resources":{"limits":{"cpu":"25m"}}}]}}"#,
    r#"{"metadata":{"name":"web-1","namespace":"shop"},"spec":null}"#,
];

/// Autoscalers that are compared, also after edits.
pub(crate) const HPAS: [&str; 2] = [
    r#"{"apiVersion":"autoscaling/v2","metadata":{"name":"web","namespace":"shop","uid":"u",
        "resourceVersion":"7","generation":2,"annotations":{"other":"x",
            "autoscaling.hpa-rs.dev/pause":"up","autoscaling.hpa-rs.dev/paused":"true",
            "autoscaling.hpa-rs.dev/dry-run":"true"},
        "managedFields":[
            {"manager":"a","subresource":"status","time":"2026-01-01T00:00:02Z","fieldsV1":{}},
            {"manager":"b","subresource":"status","time":"2026-01-01T00:00:01Z"}]},
      "spec":{"scaleTargetRef":{"kind":"Deployment","name":"web"},"maxReplicas":3,"metrics":[
        {"type":"Resource","resource":{"name":"cpu",
            "target":{"type":"Utilization","averageUtilization":50}}}]},
      "status":{"currentReplicas":2,"desiredReplicas":3,"lastScaleTime":"2026-01-01T00:00:00Z",
        "conditions":[{"type":"AbleToScale","status":"True","reason":"ReadyForNewScale",
            "message":"recommended size matches current size",
            "lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#,
    r#"{"metadata":{"name":"web","namespace":"shop"},"spec":{"maxReplicas":3}}"#,
];

#[cfg(test)]
mod tests {
    use hpa_calc::{
        selector::{MAX_LABEL_BYTES, MAX_LABELS},
        validation::MAX_SPEC_BYTES,
    };
    use hpa_testbed::decoder_tests::compare;

    use super::*;

    #[test]
    fn pods_are_decoded_as_with_plain_decoding() {
        compare(&PODS, check_pod);
    }

    #[test]
    fn autoscalers_are_decoded_as_with_plain_decoding() {
        compare(&HPAS, check_hpa);
    }

    #[test]
    fn refused_parts_are_dropped_as_with_plain_decoding() {
        for (label_len, is_refused) in [(MAX_SPEC_BYTES / 2, false), (MAX_SPEC_BYTES, true)] {
            let selector = json!({ "matchLabels": { "queue": "x".repeat(label_len) } });
            let source = json!({ "metric": { "name": "m", "selector": selector } });
            let hpa = json!({
                "metadata": { "name": "web", "namespace": "shop" },
                "spec": {
                    "maxReplicas": 3,
                    "metrics": [{ "type": "External", "external": source }],
                    "behavior": {},
                },
                "status": { "currentReplicas": 2, "currentMetrics": [{ "type": "External" }] },
            });
            let text = hpa.to_string();
            assert!(check_hpa(text.as_bytes()));
            let object: PartialObject = serde_json::from_str(&text).expect("an object");
            let HorizontalPodAutoscaler { spec, status, .. } =
                object.decode().expect("a valid object");
            assert_eq!(spec.excessive_bytes.is_some(), is_refused);
            assert_eq!(
                (spec.metrics.is_empty(), spec.behavior.is_none()),
                (is_refused, is_refused)
            );
            assert_eq!(status.current_metrics.is_empty(), is_refused);
            assert_eq!((spec.max_replicas, status.current_replicas), (3, 2));
        }
    }

    #[test]
    fn labels_beyond_the_limits_are_dropped_as_with_plain_decoding() {
        let text = |bytes: usize| BTreeMap::from([("a".to_owned(), "x".repeat(bytes - 1))]);
        let count = |labels: usize| -> BTreeMap<_, _> {
            (0..labels).map(|at| (format!("l{at}"), String::new())).collect()
        };
        for (labels, exceed_limits) in [
            (count(MAX_LABELS), false),
            (count(MAX_LABELS + 1), true),
            (text(MAX_LABEL_BYTES), false),
            (text(MAX_LABEL_BYTES + 1), true),
        ] {
            let pod = json!({
                "metadata": { "name": "web-0", "namespace": "shop", "labels": labels },
            });
            let pod = pod.to_string();
            assert!(check_pod(pod.as_bytes()));
            let object: PartialObject = serde_json::from_str(&pod).expect("an object");
            let pod: Pod = object.decode().expect("a pod");
            assert_eq!(pod.exceeds_label_limits, exceed_limits);
            assert_eq!(pod.labels.is_empty(), exceed_limits);
        }
    }

    #[test]
    fn metrics_beyond_the_limit_are_dropped_as_with_plain_decoding() {
        for count in [MAX_METRICS, MAX_METRICS + 1, MAX_METRICS + 2] {
            let metrics = vec![json!({ "type": "Pods" }); count];
            let hpa = json!({
                "metadata": { "name": "web", "namespace": "shop" },
                "spec": { "maxReplicas": 3, "metrics": metrics },
            });
            assert!(check_hpa(hpa.to_string().as_bytes()));
        }
    }
}
