//! Encodes bodies as Kubernetes protobuf, for clients that accept nothing else.
//!
//! Documents are encoded from JSON by the tables below, with the field numbers in the
//! `generated.proto` files of apimachinery and `k8s.io/metrics`. Like their generated code,
//! [`encode`] writes required fields even if they are empty.

use hpa_calc::go_duration;
use jiff::Timestamp;
use serde_json::Value;

/// The prefix of each document.
const MAGIC: &[u8] = b"k8s\0";

/// A field of a message: its number, its name in JSON, and its type.
type Field = (u8, &'static str, Type);

enum Type {
    Text,
    /// A boolean counts as 0 or 1.
    Integer,
    OptionalInteger,
    Message(&'static [Field]),
    OptionalMessage(&'static [Field]),
    Messages(&'static [Field]),
    RepeatedText,
    /// `Verbs` of apimachinery: a message with repeated texts.
    Verbs,
    TextMap,
    QuantityMap,
    Quantity,
    /// A time, in a message.
    Time,
    /// A duration in Go's notation, in a message.
    Duration,
}

use Type::{
    Duration, Integer, Message, Messages, OptionalInteger, OptionalMessage, Quantity, QuantityMap,
    RepeatedText, Text, TextMap, Time, Verbs,
};

const LIST_META: &[Field] =
    &[(1, "selfLink", Text), (2, "resourceVersion", Text), (3, "continue", Text)];

const OBJECT_META: &[Field] = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Integer),
    (8, "creationTimestamp", Time),
    (11, "labels", TextMap),
];

const CAUSE: &[Field] = &[(1, "reason", Text), (2, "message", Text), (3, "field", Text)];

const DETAILS: &[Field] = &[
    (1, "name", Text),
    (2, "group", Text),
    (3, "kind", Text),
    (4, "causes", Messages(CAUSE)),
    (5, "retryAfterSeconds", Integer),
    (6, "uid", Text),
];

const STATUS: &[Field] = &[
    (1, "metadata", Message(LIST_META)),
    (2, "status", Text),
    (3, "message", Text),
    (4, "reason", Text),
    (5, "details", OptionalMessage(DETAILS)),
    (6, "code", Integer),
];

const RESOURCE: &[Field] = &[
    (1, "name", Text),
    (2, "namespaced", Integer),
    (3, "kind", Text),
    (4, "verbs", Verbs),
    (6, "singularName", Text),
    (8, "group", Text),
    (9, "version", Text),
    (10, "storageVersionHash", Text),
];

const RESOURCES: &[Field] = &[(1, "groupVersion", Text), (2, "resources", Messages(RESOURCE))];

const VERSION: &[Field] = &[(1, "groupVersion", Text), (2, "version", Text)];

const GROUP: &[Field] = &[
    (1, "name", Text),
    (2, "versions", Messages(VERSION)),
    (3, "preferredVersion", Message(VERSION)),
    (
        4,
        "serverAddressByClientCIDRs",
        Messages(&[(1, "clientCIDR", Text), (2, "serverAddress", Text)]),
    ),
];

const SELECTOR: &[Field] = &[
    (1, "matchLabels", TextMap),
    (
        2,
        "matchExpressions",
        Messages(&[(1, "key", Text), (2, "operator", Text), (3, "values", RepeatedText)]),
    ),
];

const OBJECT: &[Field] = &[
    (1, "kind", Text),
    (2, "namespace", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "resourceVersion", Text),
    (7, "fieldPath", Text),
];

const CUSTOM_V1BETA1: &[Field] = &[
    (1, "describedObject", Message(OBJECT)),
    (2, "metricName", Text),
    (3, "timestamp", Time),
    (4, "window", OptionalInteger),
    (5, "value", Quantity),
    (6, "selector", OptionalMessage(SELECTOR)),
];

const CUSTOM_V1BETA2: &[Field] = &[
    (1, "describedObject", Message(OBJECT)),
    (2, "metric", Message(&[(1, "name", Text), (2, "selector", OptionalMessage(SELECTOR))])),
    (3, "timestamp", Time),
    (4, "windowSeconds", OptionalInteger),
    (5, "value", Quantity),
];

const EXTERNAL: &[Field] = &[
    (1, "metricName", Text),
    (2, "metricLabels", TextMap),
    (3, "timestamp", Time),
    (4, "window", OptionalInteger),
    (5, "value", Quantity),
];

const NODE: &[Field] = &[
    (1, "metadata", Message(OBJECT_META)),
    (2, "timestamp", Time),
    (3, "window", Duration),
    (4, "usage", QuantityMap),
];

const POD: &[Field] = &[
    (1, "metadata", Message(OBJECT_META)),
    (2, "timestamp", Time),
    (3, "window", Duration),
    (4, "containers", Messages(&[(1, "name", Text), (2, "usage", QuantityMap)])),
];

const fn list(items: &'static [Field]) -> [Field; 2] {
    [(1, "metadata", Message(LIST_META)), (2, "items", Messages(items))]
}

fn fields_of(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    const CUSTOM_V1BETA1_LIST: &[Field] = &list(CUSTOM_V1BETA1);
    const CUSTOM_V1BETA2_LIST: &[Field] = &list(CUSTOM_V1BETA2);
    const EXTERNAL_LIST: &[Field] = &list(EXTERNAL);
    const NODES: &[Field] = &list(NODE);
    const PODS: &[Field] = &list(POD);
    Some(match kind {
        "Status" => STATUS,
        "APIGroup" => GROUP,
        "APIGroupList" => &[(1, "groups", Messages(GROUP))],
        "APIResourceList" => RESOURCES,
        "MetricValueList" if api_version.ends_with("/v1beta1") => CUSTOM_V1BETA1_LIST,
        "MetricValueList" => CUSTOM_V1BETA2_LIST,
        "ExternalMetricValueList" => EXTERNAL_LIST,
        "NodeMetrics" => NODE,
        "NodeMetricsList" => NODES,
        "PodMetrics" => POD,
        "PodMetricsList" => PODS,
        _ => return None,
    })
}

/// Encodes a document from its JSON form. `None` if its kind has no protobuf form.
pub(super) fn encode(document: &Value) -> Option<Vec<u8>> {
    let text = |name| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let raw = encode_message(document, fields_of(api_version, kind)?);
    let mut type_meta = Vec::new();
    push_bytes(&mut type_meta, 1, api_version.as_bytes());
    push_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut bytes = MAGIC.to_vec();
    push_bytes(&mut bytes, 1, &type_meta);
    push_bytes(&mut bytes, 2, &raw);
    // The encoding and type of the content are empty.
    push_bytes(&mut bytes, 3, b"");
    push_bytes(&mut bytes, 4, b"");
    Some(bytes)
}

fn encode_message(object: &Value, fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, name, field_type) in fields {
        let (number, value) = (*number, object.get(name).unwrap_or(&Value::Null));
        let text = value.as_str().unwrap_or_default();
        match field_type {
            OptionalInteger | OptionalMessage(_) if value.is_null() => {}
            Text => push_bytes(&mut bytes, number, text.as_bytes()),
            Integer | OptionalInteger => push_integer(&mut bytes, number, integer(value)),
            Message(fields) | OptionalMessage(fields) => {
                push_bytes(&mut bytes, number, &encode_message(value, fields));
            }
            Messages(fields) => {
                for item in items(value) {
                    push_bytes(&mut bytes, number, &encode_message(item, fields));
                }
            }
            RepeatedText => push_texts(&mut bytes, number, value),
            Verbs => {
                let mut verbs = Vec::new();
                push_texts(&mut verbs, 1, value);
                push_bytes(&mut bytes, number, &verbs);
            }
            TextMap => push_map(&mut bytes, number, value, <[u8]>::to_vec),
            QuantityMap => push_map(&mut bytes, number, value, quantity),
            Quantity => push_bytes(&mut bytes, number, &quantity(text.as_bytes())),
            Time => push_bytes(&mut bytes, number, &time(text)),
            Duration => {
                let nanos = go_duration::parse(text).map_or(0, |duration| duration.as_nanos());
                let mut duration = Vec::new();
                push_integer(&mut duration, 1, i64::try_from(nanos).unwrap_or(i64::MAX));
                push_bytes(&mut bytes, number, &duration);
            }
        }
    }
    bytes
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| i64::from(value.as_bool().unwrap_or_default()))
}

fn quantity(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_bytes(&mut bytes, 1, text);
    bytes
}

/// Encodes a time in whole seconds, as apimachinery does: its nanoseconds are 0. An unset time is
/// empty.
fn time(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(time) = text.parse::<Timestamp>() {
        push_integer(&mut bytes, 1, time.as_second());
        push_integer(&mut bytes, 2, 0);
    }
    bytes
}

fn push_texts(bytes: &mut Vec<u8>, number: u8, list: &Value) {
    for text in items(list) {
        push_bytes(bytes, number, text.as_str().unwrap_or_default().as_bytes());
    }
}

/// Pushes an entry for each member of an object. `encode` encodes the text of its value.
fn push_map(bytes: &mut Vec<u8>, number: u8, object: &Value, encode: fn(&[u8]) -> Vec<u8>) {
    for (key, value) in object.as_object().into_iter().flatten() {
        let mut entry = Vec::new();
        push_bytes(&mut entry, 1, key.as_bytes());
        push_bytes(&mut entry, 2, &encode(value.as_str().unwrap_or_default().as_bytes()));
        push_bytes(bytes, number, &entry);
    }
}

fn push_integer(bytes: &mut Vec<u8>, number: u8, value: i64) {
    bytes.push(number << 3);
    push_varint(bytes, value.cast_unsigned());
}

fn push_bytes(bytes: &mut Vec<u8>, number: u8, content: &[u8]) {
    bytes.push(number << 3 | 2);
    push_varint(bytes, content.len() as u64);
    bytes.extend(content);
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// The expected bytes are from apimachinery's generated code.
    #[test]
    fn status_has_the_bytes_of_apimachinery() {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "m", "reason": "r", "details": { "name": "n" }, "code": 404,
        });
        let expected = concat!(
            "6b387300",
            "0a0c",
            "0a027631",
            "1206537461747573",
            "1227",
            "0a06",
            "0a00",
            "1200",
            "1a00",
            "12074661696c757265",
            "1a016d",
            "220172",
            "2a0b",
            "0a016e",
            "1200",
            "1a00",
            "2800",
            "3200",
            "309403",
            "1a00",
            "2200",
        );
        assert_eq!(hex(&encode(&status).unwrap()), expected);
    }

    #[test]
    fn values_have_times_and_quantities() {
        let list = json!({
            "kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1",
            "metadata": {}, "items": [{
                "metricName": "q", "metricLabels": { "a": "1" },
                "timestamp": "1970-01-01T00:05:00Z", "value": "500m",
            }],
        });
        let bytes = hex(&encode(&list).unwrap());
        let item = concat!("0a0171", "12060a0161120131", "1a0508ac021000", "2a060a04", "3530306d");
        assert!(bytes.contains(item), "{item} in {bytes}");
        assert_eq!(encode(&json!({ "kind": "Table" })), None);
    }
}
