//! The four kinds of patches.

mod apply;
mod fields;
mod record;
mod strategic;

use serde_json::Value;

pub(crate) use self::{apply::Applier, record::Writer};
use crate::{error::ApiError, request::Call};

const MEDIA_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
const REJECTED: &str = "the server rejected our request due to an error in our request";

/// A patch whose kind is known.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' merge patch, which merges lists by keys.
    Strategic(Value),
    /// Server-side apply: the whole of what the manager wants.
    Apply(Value),
}

impl Patch {
    /// Reads a patch of an object, or of its scale, whose kind is built in or not.
    pub(crate) fn new(call: &Call, is_builtin: bool) -> Result<Self, ApiError> {
        match call.content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => operations(decoded(call)?).map(Self::Json),
            "application/merge-patch+json" => object(call).map(Self::Merge),
            "application/strategic-merge-patch+json" => object(call).map(Self::Strategic),
            "application/apply-patch+yaml" => call.any_json().map(Self::Apply),
            _ if is_builtin => {
                let (code, reason) = (415, "UnsupportedMediaType");
                Err(ApiError::about_nothing(code, reason, "415: Unsupported Media Type"))
            }
            _ => Err(ApiError::unsupported_media_type(MEDIA_TYPES)),
        }
    }

    /// What the patch makes of an object. Only built-in kinds know how to merge their lists.
    pub(crate) fn apply_to(&self, object: &Value, is_builtin: bool) -> Result<Value, ApiError> {
        let mut object = object.clone();
        match self {
            Self::Json(operations) => {
                json_patch::patch(&mut object, operations).map_err(|_| rejected())?
            }
            Self::Merge(patch) | Self::Apply(patch) => json_patch::merge(&mut object, patch),
            Self::Strategic(patch) if is_builtin => strategic::apply(&mut object, patch),
            Self::Strategic(_) => return Err(ApiError::unsupported_media_type(MEDIA_TYPES)),
        }
        Ok(object)
    }
}

/// The answer to operations that do not fit; why, the server keeps to itself.
fn rejected() -> ApiError {
    ApiError::about_nothing(422, "Invalid", REJECTED)
}

fn decoded(call: &Call) -> Result<Value, ApiError> {
    serde_json::from_slice(&call.body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
}

fn object(call: &Call) -> Result<Value, ApiError> {
    let patch = decoded(call)?;
    if patch.is_object() {
        Ok(patch)
    } else {
        Err(ApiError::bad_request("error decoding patch: not an object"))
    }
}

fn operations(patch: Value) -> Result<json_patch::Patch, ApiError> {
    if !patch.is_array() {
        return Err(ApiError::bad_request("error decoding patch: not a list of operations"));
    }
    serde_json::from_value(patch).map_err(|_| rejected())
}
