//! Decodes protobuf bodies: `k8s\0`, then a `runtime.Unknown` that contains the object.

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::message::{Field, Message, Type, message_for_kind};

const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const PREFIX: &[u8] = b"k8s\0";

/// An invalid body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    Prefix,
    #[error(transparent)]
    Message(#[from] InvalidMessage),
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    Kind { api_version: String, kind: String },
}

pub(crate) fn is_protobuf(media_type: &str) -> bool {
    media_type == MEDIA_TYPE
}

/// Decodes an object to JSON, with `apiVersion` and `kind`.
pub(crate) fn decode_protobuf(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(PREFIX).ok_or(ProtobufError::Prefix)?;
    let [type_meta, raw] = leading_fields(envelope)?.map(bytes);
    let [api_version, kind] = leading_fields(type_meta)?.map(text);
    let Some(message) = find_message(&api_version, &kind) else {
        return Err(ProtobufError::Kind { api_version, kind });
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    decode_fields(message, raw, &mut object)?;
    Ok(object.into())
}

fn find_message(api_version: &str, kind: &str) -> Option<&'static Message> {
    if kind == "DeleteOptions" {
        return message_for_kind("meta", "v1", kind);
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    message_for_kind(group, version, kind)
}

/// Adds the fields of a message to an object. As in Go, unknown fields are omitted.
fn decode_fields(
    message: &'static Message,
    encoded: &[u8],
    object: &mut Map<String, Value>,
) -> Result<(), InvalidMessage> {
    for field in Fields(encoded) {
        let (number, value) = field?;
        let known = message.fields.iter().find(|field| field.number == Some(number));
        if let Some(field) = known {
            decode_field(field, value, object)?;
        }
    }
    Ok(())
}

fn decode_field(
    field: &'static Field,
    value: WireValue<'_>,
    object: &mut Map<String, Value>,
) -> Result<(), InvalidMessage> {
    let Some(name) = field.name else {
        let Some(message) = field.kind.message() else { return Ok(()) };
        return decode_fields(message, bytes(value), object);
    };
    match &field.kind {
        Type::List(element) => {
            let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let (Value::Array(list), Some(element)) = (list, decode_value(element, value)?) {
                list.push(element);
            }
        }
        Type::Map(kind) => {
            let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let (Value::Object(map), Some((key, value))) = (map, decode_entry(kind, value)?) {
                map.insert(key, value);
            }
        }
        kind => {
            let decoded = decode_value(kind, value)?;
            let is_present = |value: &Value| !(field.omits_zero && is_zero(value));
            if let Some(decoded) = decoded.filter(is_present) {
                object.insert(name.to_owned(), decoded);
            }
        }
    }
    Ok(())
}

/// Decodes an entry of a map: a message with key and value.
fn decode_entry(
    kind: &'static Type,
    value: WireValue<'_>,
) -> Result<Option<(String, Value)>, InvalidMessage> {
    let [key, value] = leading_fields(bytes(value))?;
    // A missing string is empty.
    if value == WireValue::Missing && !matches!(kind, Type::String) {
        return Ok(None);
    }
    Ok(decode_value(kind, value)?.map(|value| (text(key), value)))
}

/// Decodes a value to JSON. Returns `None` if JSON omits the value.
fn decode_value(
    kind: &'static Type,
    value: WireValue<'_>,
) -> Result<Option<Value>, InvalidMessage> {
    Ok(match kind {
        Type::String => Some(text(value).into()),
        Type::Bool => Some((integer(value) != 0).into()),
        Type::Int32 | Type::Int64 => Some(integer(value).into()),
        Type::Bytes => Some(BASE64_STANDARD.encode(bytes(value)).into()),
        Type::Json => serde_json::from_slice(first_bytes(value)?).ok(),
        Type::Quantity => Some(String::from_utf8_lossy(first_bytes(value)?).into()),
        Type::IntOrString => Some(int_or_string(value)?),
        Type::Time => time(value, "%Y-%m-%dT%H:%M:%SZ")?,
        Type::MicroTime => time(value, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        Type::Message(_) => {
            let mut object = Map::new();
            if let Some(message) = kind.message() {
                decode_fields(message, bytes(value), &mut object)?;
            }
            Some(object.into())
        }
        // Protobuf has no lists of lists or maps.
        Type::List(_) | Type::Map(_) => None,
    })
}

/// The bytes of field 1 of a message, which is a quantity or raw JSON.
fn first_bytes(value: WireValue<'_>) -> Result<&[u8], InvalidMessage> {
    let [first] = leading_fields(bytes(value))?;
    Ok(bytes(first))
}

/// Decodes a message with a type (1 for a string), an integer and a string.
fn int_or_string(value: WireValue<'_>) -> Result<Value, InvalidMessage> {
    let [kind, number, string] = leading_fields(bytes(value))?;
    Ok(if integer(kind) == 1 { text(string).into() } else { integer(number).into() })
}

/// Decodes a message with seconds and nanoseconds. Returns `None` if it has no seconds, or if the
/// time is out of range.
fn time(value: WireValue<'_>, format: &str) -> Result<Option<Value>, InvalidMessage> {
    let [seconds, nanos] = leading_fields(bytes(value))?;
    let nanos = i32::try_from(integer(nanos)).unwrap_or_default();
    let time = Timestamp::new(integer(seconds), nanos).ok();
    let time = time.filter(|_| seconds != WireValue::Missing);
    Ok(time.map(|time| time.strftime(format).to_string().into()))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn bytes(value: WireValue<'_>) -> &[u8] {
    match value {
        WireValue::Bytes(bytes) => bytes,
        WireValue::Varint(_) | WireValue::Missing => &[],
    }
}

fn text(value: WireValue<'_>) -> String {
    String::from_utf8_lossy(bytes(value)).into_owned()
}

/// A signed number, as two's complement.
fn integer(value: WireValue<'_>) -> i64 {
    match value {
        WireValue::Varint(number) => number.cast_signed(),
        WireValue::Bytes(_) | WireValue::Missing => 0,
    }
}

/// The value of an encoded field. Fixed-size values are bytes, because no message needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WireValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// The message doesn't have the field.
    Missing,
}

/// The values of the fields 1 to `N` of a message.
fn leading_fields<const N: usize>(message: &[u8]) -> Result<[WireValue<'_>; N], InvalidMessage> {
    let mut values = [WireValue::Missing; N];
    for field in Fields(message) {
        let (number, value) = field?;
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        if let Some(known) = index.and_then(|index| values.get_mut(index)) {
            *known = value;
        }
    }
    Ok(values)
}

/// The encoded message ends in the middle of a field, or has a field of an unknown type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("proto: illegal wireType or unexpected EOF")]
pub(crate) struct InvalidMessage;

/// Iterates over numbers and values of the fields in an encoded message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn read_field(&mut self) -> Option<(u64, WireValue<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, WireValue<'a>), InvalidMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read_field().ok_or(InvalidMessage);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order() {
        // Field 3 has a fixed size of eight bytes.
        let message = [8, 0xac, 2, 0x12, 2, b'h', b'i', 0x19, 1, 2, 3, 4, 5, 6, 7, 8];
        let fields: Vec<_> = Fields(&message).map(Result::unwrap).collect();
        let expected = [
            (1, WireValue::Varint(300)),
            (2, WireValue::Bytes(b"hi")),
            (3, WireValue::Bytes(&[1, 2, 3, 4, 5, 6, 7, 8])),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn truncated_message_is_an_error() {
        for message in [&[8_u8, 0x80][..], &[0x12, 5, b'h'], &[0x0b], &[0x80; 11]] {
            let fields: Vec<_> = Fields(message).collect();
            assert_eq!(fields, [Err(InvalidMessage)], "{message:?}");
        }
    }
}
