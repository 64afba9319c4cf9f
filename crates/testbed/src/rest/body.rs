//! Reads request bodies (JSON or protobuf), and validates their fields.

use axum::body::Body;
use hpa_calc::validation::CauseReason;
use http::{HeaderValue, Response, header};
use serde_json::Value;

use crate::{
    error::{ApiError, ObjectReference, new_cause},
    json_fields,
    patch::Patch,
    request::ApiRequest,
    request_target::RequestTarget,
    schema::{
        DecodeError, DecodedObject, FieldProblem, Shape, decode_json, decode_protobuf,
        decode_value, is_protobuf, message_for_kind,
    },
};

/// The required kind of a body.
#[derive(Clone, Copy)]
pub(super) struct BodyKind<'a> {
    kind: &'a str,
    version: &'a str,
    shape: Shape<'a>,
}

/// A body without its unknown fields, and the warnings about unknown and duplicate fields.
pub(super) struct DecodedBody {
    pub(super) value: Value,
    pub(super) warnings: Vec<String>,
}

impl<'a> BodyKind<'a> {
    pub(super) fn for_target(target: &'a RequestTarget) -> Result<Self, ApiError> {
        let (resource, version) = (&target.resource, target.served_version()?);
        let shape = if resource.is_custom {
            version.schema.as_ref().map_or(Shape::Any, Shape::CustomResource)
        } else {
            let message = message_for_kind(&resource.group, &version.name, &resource.kind);
            message.map_or(Shape::Any, Shape::Message)
        };
        Ok(Self { kind: &resource.kind, version: &version.name, shape })
    }

    pub(super) fn for_scale() -> Self {
        let message = message_for_kind("autoscaling", "v1", "Scale");
        Self { kind: "Scale", version: "v1", shape: message.map_or(Shape::Any, Shape::Message) }
    }

    pub(super) fn for_delete_options() -> Self {
        Self { kind: "DeleteOptions", version: "v1", shape: Shape::Any }
    }

    fn error(&self, detail: &str) -> ApiError {
        ApiError::unreadable_body(self.kind, self.version, self.kind, detail)
    }

    /// Reads the body of a request that is not a patch.
    pub(super) fn read(&self, request: &ApiRequest) -> Result<DecodedBody, ApiError> {
        if is_protobuf(request.media_type()) {
            let value = decode_protobuf(&request.body).map_err(|error| {
                let kind = self.kind;
                ApiError::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): {error}"
                ))
            })?;
            return Ok(DecodedBody { value, warnings: Vec::new() });
        }
        request.require_json()?;
        let decoded = decode_json(&request.body, self.shape).map_err(|error| match error {
            DecodeError::Syntax(_) => ApiError::bad_request(error.to_string()),
            DecodeError::Type(text) => self.error(&text),
        })?;
        apply_field_validation(decoded, request, |problems| {
            self.error(&format!("strict decoding error: {problems}"))
        })
    }

    /// Applies a patch to an object, and checks the fields of the result. Errors quote the patch or
    /// its result: see [`Patch::describe`].
    pub(super) fn apply_patch(
        &self,
        request: &ApiRequest,
        patch: &Patch,
        object: &Value,
    ) -> Result<DecodedBody, ApiError> {
        let patched = patch.apply_to(object)?;
        let invalid = |text: &str| {
            let message = format!("Invalid value: {:?}: {text}", patch.describe(&patched));
            let cause = new_cause(CauseReason::Invalid, "patch", message);
            let reference = ObjectReference { group: "", plural: "", kind: "", name: "" };
            ApiError::invalid(&reference, &[cause])
        };
        let decoded = decode_value(&patched, self.shape);
        let mut decoded = decoded.map_err(|error| invalid(&error.to_string()))?;
        decoded.problems.splice(0..0, patch.duplicate_fields(request));
        apply_field_validation(decoded, request, |problems| {
            invalid(&format!("strict decoding error: {problems}"))
        })
    }

    /// Checks the configuration of a server-side apply: unknown fields are always errors.
    pub(super) fn check_applied(
        &self,
        target: &RequestTarget,
        applied: &Value,
    ) -> Result<(), ApiError> {
        let decoded = decode_value(applied, self.shape);
        let problem = match decoded {
            Ok(DecodedObject { problems, .. }) => {
                let Some(FieldProblem::Unknown(path)) = problems.first() else { return Ok(()) };
                format!(".{path}: field not declared in schema")
            }
            Err(error) => error.to_string(),
        };
        let namespace = json_fields::str_at(applied, "/metadata/namespace");
        Err(ApiError::without_reason(format!(
            "failed to create typed patch object ({namespace}/{}; {}, Kind={}): {problem}",
            target.name,
            target.resource.api_version(self.version),
            self.kind
        )))
    }
}

/// Treats the problems of a decoded body as the request's `fieldValidation` says.
fn apply_field_validation(
    decoded: DecodedObject,
    request: &ApiRequest,
    error: impl FnOnce(&str) -> ApiError,
) -> Result<DecodedBody, ApiError> {
    let DecodedObject { value, problems } = decoded;
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    match request.parameter("fieldValidation") {
        "Strict" if !problems.is_empty() => Err(error(&problems.join(", "))),
        "Ignore" => Ok(DecodedBody { value, warnings: Vec::new() }),
        _ => Ok(DecodedBody { value, warnings: problems }),
    }
}

/// Adds a `Warning` header for each warning.
pub(super) fn add_warnings(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        // Field names in warnings may contain invalid header characters.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {warning:?}")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
