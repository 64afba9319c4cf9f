//! Decodes JSON with errors that name the field.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// The reason why JSON can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}{}{message}", if field.is_empty() { "" } else { ": " })]
pub struct DecodeError {
    /// The path of the field: `status.conditions[0].lastTransitionTime`. Empty if the error
    /// concerns the whole value.
    pub field: String,
    /// The problem, as `serde_json` describes it.
    pub message: String,
}

impl DecodeError {
    /// An error that concerns a whole value.
    #[must_use]
    pub fn of_value(message: impl Into<String>) -> Self {
        Self { field: String::new(), message: message.into() }
    }

    /// The error about an object whose member `name` is the decoded value.
    #[must_use]
    pub fn in_member(self, name: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        Self { field: format!("{name}{dot}{}", self.field), ..self }
    }
}

/// Decodes a JSON value.
///
/// # Errors
///
/// Fails if a field of `T` is missing or has another type. The error names the field.
pub fn decode_value<T: DeserializeOwned>(value: Value) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path();
        let is_root = path.iter().next().is_none();
        let field = if is_root { String::new() } else { path.to_string() };
        DecodeError { field, message: error.inner().to_string() }
    })
}

/// Decodes a JSON text. If this fails, parses the text again to find the field, which takes longer.
///
/// # Errors
///
/// Fails as [`decode_value`] does, and if the text isn't JSON.
pub fn decode_json<T: DeserializeOwned>(text: &str) -> Result<T, DecodeError> {
    serde_json::from_str(text).map_err(|error| {
        let value = serde_json::from_str::<Value>(text).ok();
        let named = value.and_then(|value| decode_value::<T>(value).err());
        named.unwrap_or_else(|| DecodeError::of_value(error.to_string()))
    })
}

/// Reads `null` as the default, as Go does, for `deserialize_with`. The field also needs `default`.
///
/// # Errors
///
/// Fails if the value is neither `null` nor a `T`.
pub fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use hpa_calc::{HorizontalPodAutoscaler, Pod};
    use serde_json::json;

    use super::*;

    /// A time that the API server accepts and a `Timestamp` can't represent.
    const END: &str = "9999-12-31T23:59:59Z";

    #[test]
    fn error_names_the_field() {
        let pod = json!({ "metadata": { "name": "web-0" }, "status": { "startTime": END } });
        let error = decode_value::<Pod>(pod.clone()).unwrap_err();
        assert_eq!(error.field, "status.startTime");
        let text = error.to_string();
        assert!(text.starts_with("status.startTime: failed to convert "), "{text}");
        assert_eq!(decode_json::<Pod>(&pod.to_string()).unwrap_err(), error);
        let condition =
            json!({ "type": "AbleToScale", "status": "True", "lastTransitionTime": END });
        let hpa = |status: Value| {
            let target = json!({ "kind": "Deployment", "name": "web" });
            json!({ "spec": { "maxReplicas": 3, "scaleTargetRef": target }, "status": status })
        };
        for (status, field) in [
            (json!({ "lastScaleTime": END }), "status.lastScaleTime"),
            (json!({ "conditions": [condition] }), "status.conditions[0].lastTransitionTime"),
        ] {
            let error = decode_value::<HorizontalPodAutoscaler>(hpa(status)).unwrap_err();
            assert_eq!(error.field, field, "{error}");
        }
    }

    #[test]
    fn error_about_the_whole_value_has_no_field() {
        let error = decode_value::<Vec<u8>>(json!(7)).unwrap_err();
        assert_eq!(error.field, "");
        assert!(error.to_string().starts_with("invalid type: integer `7`"), "{error}");
        assert_eq!(error.in_member("spec").field, "spec");
        let error = decode_json::<Vec<u8>>("[").unwrap_err();
        assert!(error.to_string().starts_with("EOF while parsing"), "{error}");
    }

    #[test]
    fn field_of_a_member_has_the_path_in_the_object() {
        let error = |field: &str| DecodeError { field: field.into(), message: "none".into() };
        assert_eq!(error("a[0].b").in_member("spec").to_string(), "spec.a[0].b: none");
        assert_eq!(error("[0].b").in_member("spec").to_string(), "spec[0].b: none");
    }
}
