//! The parameters of requests that are refused.

use hpa_calc::validation::{Cause, CauseReason};

use crate::{
    error::{ApiError, Subject},
    request::Call,
};

/// Refuses a list whose parameters contradict each other.
pub(super) fn check_list(call: &Call) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    if is_given(call, "resourceVersionMatch")
        && !is_given(call, "resourceVersion")
        && !is_given(call, "continue")
    {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        causes.push(forbidden("resourceVersionMatch", why));
    }
    if is_given(call, "sendInitialEvents") {
        causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    refuse("ListOptions", &causes)?;
    match not_a_number(call) {
        Some(text) => Err(ApiError::bad_request(format!("invalid resource version: {text}"))),
        None => Ok(()),
    }
}

/// Refuses a watch whose parameters contradict each other.
pub(super) fn check_watch(call: &Call) -> Result<(), ApiError> {
    let streams = is_given(call, "sendInitialEvents");
    let mut causes = Vec::new();
    if streams && call.parameter("resourceVersionMatch") != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(forbidden("resourceVersionMatch", why));
    }
    if !streams && is_given(call, "resourceVersionMatch") {
        let why =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(forbidden("resourceVersionMatch", why));
    }
    refuse("ListOptions", &causes)?;
    not_a_number(call).map_or(Ok(()), |text| Err(ApiError::unforeseen(text)))
}

/// Refuses a dry run of some of the stages: there is none but of all.
pub(super) fn check_dry_run(call: &Call) -> Result<(), ApiError> {
    let given = call.parameter("dryRun");
    if given.is_empty() || given == "All" {
        return Ok(());
    }
    let kind = match call.method.as_str() {
        "POST" => "CreateOptions",
        "PUT" => "UpdateOptions",
        "PATCH" => "PatchOptions",
        "DELETE" => "DeleteOptions",
        _ => return Ok(()),
    };
    let message = format!("Unsupported value: [\"{given}\"]: supported values: \"All\"");
    refuse(
        kind,
        &[Cause { reason: CauseReason::NotSupported, message, field: "dryRun".to_owned() }],
    )
}

/// Refuses options, if there are causes to.
pub(super) fn refuse(kind: &str, causes: &[Cause]) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&Subject { group: "meta.k8s.io", plural: "", kind, name: "" }, causes))
}

fn is_given(call: &Call, name: &str) -> bool {
    !call.parameter(name).is_empty()
}

fn forbidden(field: &str, why: &str) -> Cause {
    let message = format!("Forbidden: {why}");
    Cause { reason: CauseReason::Forbidden, message, field: field.to_owned() }
}

/// What is wrong with a version that is no number.
fn not_a_number(call: &Call) -> Option<String> {
    let given = call.parameter("resourceVersion");
    if given.is_empty() || given.parse::<u64>().is_ok() {
        return None;
    }
    let why = format!("strconv.ParseUint: parsing \"{given}\": invalid syntax");
    Some(format!("resourceVersion: Invalid value: \"{given}\": {why}"))
}
