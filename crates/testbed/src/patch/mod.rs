//! The four kinds of patches.

mod apply;
mod fields;
mod json_patch;
mod merge;
mod record;
mod strategic;

pub(crate) use self::record::Writer;
use http::StatusCode;
use serde_json::Value;

use crate::{
    error::ApiError,
    request::Call,
    rest::{
        Target,
        write::{Part, update},
    },
    server::Server,
    store::Object,
};

const MEDIA_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// A patch whose kind is known.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(Vec<json_patch::Operation>),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' merge patch, which merges lists by keys.
    Strategic(Value),
    /// Server-side apply: the whole of what the manager wants.
    Apply(Value),
}

impl Patch {
    pub(crate) fn new(call: &Call) -> Result<Self, ApiError> {
        match call.content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => serde_json::from_slice(&call.body)
                .map(Self::Json)
                .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}"))),
            "application/merge-patch+json" => call.any_json().map(Self::Merge),
            "application/strategic-merge-patch+json" => call.any_json().map(Self::Strategic),
            "application/apply-patch+yaml" => call.any_json().map(Self::Apply),
            _ => Err(ApiError::unsupported_media_type(MEDIA_TYPES)),
        }
    }

    /// What the patch makes of an object. Only built-in kinds know how to merge their lists.
    pub(crate) fn apply_to(&self, object: &Value, is_builtin: bool) -> Result<Value, ApiError> {
        let mut object = object.clone();
        match self {
            Self::Json(operations) => json_patch::apply(&mut object, operations)?,
            Self::Merge(patch) | Self::Apply(patch) => merge::apply(&mut object, patch),
            Self::Strategic(patch) if is_builtin => strategic::apply(&mut object, patch),
            Self::Strategic(_) => return Err(ApiError::unsupported_media_type(MEDIA_TYPES)),
        }
        Ok(object)
    }
}

/// Patches an object; 201 if it was applied and thereby created.
pub(crate) fn answer(
    server: &Server,
    call: &Call,
    target: &Target,
    part: Part,
) -> Result<(Object, StatusCode), ApiError> {
    let patch = Patch::new(call)?;
    if let Patch::Apply(applied) = patch {
        return apply::answer(server, call, target, part, applied);
    }
    let (dry_run, is_builtin) = (call.is_dry_run(), !target.resource.custom);
    let writer = Writer::new(call, server.now());
    let mut state = server.state.lock();
    let object = update(&mut state, &server.config, target, part, dry_run, |object| {
        let mut new = patch.apply_to(object, is_builtin)?;
        writer.record(&mut new, object, part);
        Ok(new)
    })?;
    Ok((object, StatusCode::OK))
}
