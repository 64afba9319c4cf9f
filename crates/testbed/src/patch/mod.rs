//! Applies the four kinds of patches to JSON.

mod apply;
mod field_manager;
mod strategic;

use serde_json::Value;

pub(crate) use self::field_manager::FieldManager;
use crate::{
    error::ApiError,
    request::ApiRequest,
    schema::{FieldProblem, Shape, decode_json},
};

const CUSTOM_RESOURCE_MEDIA_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

#[derive(Clone, Debug)]
pub(crate) enum Patch {
    /// JSON patch (RFC 6902).
    Json(json_patch::Patch),
    /// JSON merge patch (RFC 7386).
    Merge(Value),
    /// Strategic merge patch, which merges lists by key. Only for built-in kinds.
    Strategic(Value),
    /// Server-side apply.
    Apply(Value),
}

impl Patch {
    /// Parses a patch by its media type.
    pub(crate) fn new(request: &ApiRequest, is_builtin: bool) -> Result<Self, ApiError> {
        match request.media_type() {
            "application/json-patch+json" => {
                parse_operations(decode_body(request)?).map(Self::Json)
            }
            "application/merge-patch+json" => decode_object(request).map(Self::Merge),
            "application/strategic-merge-patch+json" if is_builtin => {
                decode_object(request).map(Self::Strategic)
            }
            "application/apply-patch+yaml" => request.parse_json_body().map(Self::Apply),
            _ if is_builtin => {
                let (code, reason) = (415, "UnsupportedMediaType");
                Err(ApiError::with_empty_details(code, reason, "415: Unsupported Media Type"))
            }
            _ => Err(ApiError::unsupported_media_type(CUSTOM_RESOURCE_MEDIA_TYPES)),
        }
    }

    /// The repeated fields of a merge patch, such as `duplicate field "spec.replicas"`. Other
    /// patches are not checked.
    pub(crate) fn duplicate_fields(&self, request: &ApiRequest) -> Vec<FieldProblem> {
        match self {
            Self::Merge(_) | Self::Strategic(_) => {
                let decoded = decode_json(&request.body, Shape::Any);
                decoded.map(|decoded| decoded.problems).unwrap_or_default()
            }
            Self::Json(_) | Self::Apply(_) => Vec::new(),
        }
    }

    /// The text that identifies the patch in error messages. `patched` is its result.
    pub(crate) fn describe(&self, patched: &Value) -> String {
        match self {
            Self::Strategic(patch) => go_text(patch),
            _ => patched.to_string(),
        }
    }

    /// Applies the patch to a copy of the object. Server-side apply, which gets here only for a
    /// scale, counts as a merge patch.
    pub(crate) fn apply_to(&self, object: &Value) -> Result<Value, ApiError> {
        let mut object = object.clone();
        match self {
            Self::Json(operations) => {
                json_patch::patch(&mut object, operations).map_err(|_| rejected())?;
            }
            Self::Merge(patch) | Self::Apply(patch) => json_patch::merge(&mut object, patch),
            Self::Strategic(patch) => strategic::apply(&mut object, patch),
        }
        Ok(object)
    }
}

/// A value as Go prints it: `map[spec:map[maxReplicas:8]]`.
fn go_text(value: &Value) -> String {
    let join = |texts: Vec<String>| texts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(elements) => format!("[{}]", join(elements.iter().map(go_text).collect())),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}:{}", go_text(value));
            format!("map[{}]", join(fields.iter().map(field).collect()))
        }
        other => other.to_string(),
    }
}

/// The error for a JSON patch with an invalid operation, or one that fails. As in kube-apiserver,
/// it has no details.
fn rejected() -> ApiError {
    let text = "the server rejected our request due to an error in our request";
    ApiError::with_empty_details(422, "Invalid", text)
}

fn decode_body(request: &ApiRequest) -> Result<Value, ApiError> {
    serde_json::from_slice(&request.body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
}

fn decode_object(request: &ApiRequest) -> Result<Value, ApiError> {
    let patch = decode_body(request)?;
    if patch.is_object() {
        Ok(patch)
    } else {
        Err(ApiError::bad_request("error decoding patch: not an object"))
    }
}

fn parse_operations(patch: Value) -> Result<json_patch::Patch, ApiError> {
    if !patch.is_array() {
        return Err(ApiError::bad_request("error decoding patch: not a list of operations"));
    }
    serde_json::from_value(patch).map_err(|_| rejected())
}
