//! Reads request bodies (JSON or protobuf), and validates fields and options.

use axum::body::Body;
use hpa_calc::validation::{Cause, CauseReason};
use http::{HeaderValue, Response, header};
use serde_json::Value;

use crate::{
    error::{ApiError, ObjectReference, new_cause},
    json_fields,
    patch::Patch,
    request::ApiRequest,
    request_target::RequestTarget,
    schema::{
        DecodeError, DecodedObject, Shape, decode_json, decode_protobuf, decode_value, is_protobuf,
        message_for_kind,
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

    /// Applies a patch to an object, and checks the fields of the result. Errors contain the patch.
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
                let Some(first) = problems.into_iter().next() else { return Ok(()) };
                let path = first.split('"').nth(1).unwrap_or_default().to_owned();
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

/// Rejects invalid and contradictory parameters of a list.
pub(super) fn check_list_options(request: &ApiRequest) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    if has_parameter(request, "resourceVersionMatch")
        && !has_parameter(request, "resourceVersion")
        && !has_parameter(request, "continue")
    {
        let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        causes.push(forbidden("resourceVersionMatch", detail));
    }
    if has_parameter(request, "sendInitialEvents") {
        causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    reject_options("ListOptions", &causes)?;
    invalid_resource_version(request).map_or(Ok(()), |text| {
        Err(ApiError::bad_request(format!("invalid resource version: {text}")))
    })
}

/// Rejects invalid and contradictory parameters of a watch.
pub(super) fn check_watch_options(request: &ApiRequest) -> Result<(), ApiError> {
    let sends_initial = has_parameter(request, "sendInitialEvents");
    let mut causes = Vec::new();
    if sends_initial && request.parameter("resourceVersionMatch") != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(forbidden("resourceVersionMatch", detail));
    }
    if !sends_initial && has_parameter(request, "resourceVersionMatch") {
        let detail =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(forbidden("resourceVersionMatch", detail));
    }
    reject_options("ListOptions", &causes)?;
    invalid_resource_version(request).map_or(Ok(()), |text| Err(ApiError::without_reason(text)))
}

/// Rejects values of `dryRun` other than `All`.
pub(super) fn check_dry_run(request: &ApiRequest) -> Result<(), ApiError> {
    let value = request.parameter("dryRun");
    if value.is_empty() || value == "All" {
        return Ok(());
    }
    let Some(kind) = options_kind(request) else { return Ok(()) };
    let message = format!("Unsupported value: [\"{value}\"]: supported values: \"All\"");
    reject_options(kind, &[new_cause(CauseReason::NotSupported, "dryRun", message)])
}

/// Rejects unknown values of `fieldValidation`.
pub(super) fn check_field_validation(request: &ApiRequest) -> Result<(), ApiError> {
    let value = request.parameter("fieldValidation");
    let kind = options_kind(request).filter(|kind| *kind != "DeleteOptions");
    let (Some(kind), false) = (kind, ["", "Ignore", "Strict", "Warn"].contains(&value)) else {
        return Ok(());
    };
    let supported = r#"supported values: "", "Ignore", "Strict", "Warn""#;
    let message = format!("Unsupported value: \"{value}\": {supported}");
    reject_options(kind, &[new_cause(CauseReason::NotSupported, "fieldValidation", message)])
}

/// The kind of the options that a write takes as query parameters.
fn options_kind(request: &ApiRequest) -> Option<&'static str> {
    match request.method.as_str() {
        "POST" => Some("CreateOptions"),
        "PUT" => Some("UpdateOptions"),
        "PATCH" => Some("PatchOptions"),
        "DELETE" => Some("DeleteOptions"),
        _ => None,
    }
}

/// Returns an error about the request's options if there are causes.
pub(super) fn reject_options(kind: &str, causes: &[Cause]) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(
        &ObjectReference { group: "meta.k8s.io", plural: "", kind, name: "" },
        causes,
    ))
}

fn has_parameter(request: &ApiRequest, name: &str) -> bool {
    !request.parameter(name).is_empty()
}

fn forbidden(field: &str, detail: &str) -> Cause {
    new_cause(CauseReason::Forbidden, field, format!("Forbidden: {detail}"))
}

/// The message for a resource version that isn't a number.
fn invalid_resource_version(request: &ApiRequest) -> Option<String> {
    let value = request.parameter("resourceVersion");
    if value.is_empty() || value.parse::<u64>().is_ok() {
        return None;
    }
    let detail = format!("strconv.ParseUint: parsing \"{value}\": invalid syntax");
    Some(format!("resourceVersion: Invalid value: \"{value}\": {detail}"))
}
