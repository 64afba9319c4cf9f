//! Validates the query parameters of requests.

use hpa_calc::validation::{Cause, CauseReason};

use crate::{
    error::{ApiError, ObjectReference, new_cause},
    request::ApiRequest,
};

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
    check_resource_version(request)
        .map_err(|text| ApiError::bad_request(format!("invalid resource version: {text}")))
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
    check_resource_version(request).map_err(ApiError::without_reason)
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
    if ["", "Ignore", "Strict", "Warn"].contains(&value) {
        return Ok(());
    }
    let kind = options_kind(request).filter(|kind| *kind != "DeleteOptions");
    let Some(kind) = kind else { return Ok(()) };
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

/// Rejects a resource version that isn't a number. The error is the message.
fn check_resource_version(request: &ApiRequest) -> Result<(), String> {
    let value = request.parameter("resourceVersion");
    if value.is_empty() || value.parse::<u64>().is_ok() {
        return Ok(());
    }
    let detail = format!("strconv.ParseUint: parsing \"{value}\": invalid syntax");
    Err(format!("resourceVersion: Invalid value: \"{value}\": {detail}"))
}
