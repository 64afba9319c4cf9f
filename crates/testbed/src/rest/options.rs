//! Validation of query parameters.

use hpa_calc::validation::{Cause, CauseReason};

use crate::{
    error::{ApiError, ObjectReference},
    request::ApiRequest,
};

/// Rejects contradictory parameters of a list.
pub(super) fn check_list(request: &ApiRequest) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    if has(request, "resourceVersionMatch")
        && !has(request, "resourceVersion")
        && !has(request, "continue")
    {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        causes.push(forbidden("resourceVersionMatch", why));
    }
    if has(request, "sendInitialEvents") {
        causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    reject_options("ListOptions", &causes)?;
    match invalid_resource_version(request) {
        Some(text) => Err(ApiError::bad_request(format!("invalid resource version: {text}"))),
        None => Ok(()),
    }
}

/// Rejects contradictory parameters of a watch.
pub(super) fn check_watch(request: &ApiRequest) -> Result<(), ApiError> {
    let sends_initial = has(request, "sendInitialEvents");
    let mut causes = Vec::new();
    if sends_initial && request.parameter("resourceVersionMatch") != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(forbidden("resourceVersionMatch", why));
    }
    if !sends_initial && has(request, "resourceVersionMatch") {
        let why =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(forbidden("resourceVersionMatch", why));
    }
    reject_options("ListOptions", &causes)?;
    invalid_resource_version(request).map_or(Ok(()), |text| Err(ApiError::without_reason(text)))
}

/// Rejects values of `dryRun` other than `All`.
pub(super) fn check_dry_run(request: &ApiRequest) -> Result<(), ApiError> {
    let given = request.parameter("dryRun");
    if given.is_empty() || given == "All" {
        return Ok(());
    }
    let Some(kind) = options_kind(request) else { return Ok(()) };
    let message = format!("Unsupported value: [\"{given}\"]: supported values: \"All\"");
    reject_options(
        kind,
        &[Cause { reason: CauseReason::NotSupported, message, field: "dryRun".to_owned() }],
    )
}

/// Rejects unknown values of `fieldValidation`.
pub(super) fn check_field_validation(request: &ApiRequest) -> Result<(), ApiError> {
    let given = request.parameter("fieldValidation");
    let kind = options_kind(request).filter(|kind| *kind != "DeleteOptions");
    let (Some(kind), false) = (kind, ["", "Ignore", "Strict", "Warn"].contains(&given)) else {
        return Ok(());
    };
    let supported = r#"supported values: "", "Ignore", "Strict", "Warn""#;
    let message = format!("Unsupported value: \"{given}\": {supported}");
    let (reason, field) = (CauseReason::NotSupported, "fieldValidation".to_owned());
    reject_options(kind, &[Cause { reason, message, field }])
}

/// The kind of the options that a writing request has as query parameters.
fn options_kind(request: &ApiRequest) -> Option<&'static str> {
    match request.method.as_str() {
        "POST" => Some("CreateOptions"),
        "PUT" => Some("UpdateOptions"),
        "PATCH" => Some("PatchOptions"),
        "DELETE" => Some("DeleteOptions"),
        _ => None,
    }
}

/// Returns an error if there are causes.
pub(super) fn reject_options(kind: &str, causes: &[Cause]) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(
        &ObjectReference { group: "meta.k8s.io", plural: "", kind, name: "" },
        causes,
    ))
}

fn has(request: &ApiRequest, name: &str) -> bool {
    !request.parameter(name).is_empty()
}

fn forbidden(field: &str, why: &str) -> Cause {
    let message = format!("Forbidden: {why}");
    Cause { reason: CauseReason::Forbidden, message, field: field.to_owned() }
}

/// The message for a resource version that isn't a number.
fn invalid_resource_version(request: &ApiRequest) -> Option<String> {
    let given = request.parameter("resourceVersion");
    if given.is_empty() || given.parse::<u64>().is_ok() {
        return None;
    }
    let why = format!("strconv.ParseUint: parsing \"{given}\": invalid syntax");
    Some(format!("resourceVersion: Invalid value: \"{given}\": {why}"))
}
