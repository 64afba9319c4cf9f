//! Checks of written objects that don't depend on the kind.

use hpa_calc::validation::{Cause, CauseReason};
use serde_json::Value;

use crate::{
    error::{ApiError, ObjectReference},
    json,
    target::Target,
};

/// Fields of `metadata` that only the server writes.
pub(super) const SERVER_FIELDS: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
    "selfLink",
];

pub(super) fn check_type(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request("the object provided is not an object"));
    }
    let (expected, kind) = (target.resource.api_version(&target.version), &target.resource.kind);
    if target.resource.is_custom && json::str_at(object, "/kind").is_empty() {
        let text = format!("must be of type {kind}): Object 'Kind' is missing in '{object}'");
        return Err(ApiError::bad_request(format!("the object provided is unrecognized ({text}")));
    }
    json::set_default(object, &["apiVersion"], expected.as_str());
    json::set_default(object, &["kind"], kind.as_str());
    let (given, given_kind) = (json::str_at(object, "/apiVersion"), json::str_at(object, "/kind"));
    if given == expected && given_kind == kind {
        return Ok(());
    }
    if !target.resource.is_custom {
        return Err(not_convertible(kind, given, given_kind));
    }
    let text = if given == expected {
        format!("the kind in the data ({given_kind}) does not match the expected kind ({kind})")
    } else {
        format!(
            "the API version in the data ({given}) does not match the expected API version \
             ({expected})"
        )
    };
    Err(ApiError::bad_request(text))
}

/// The error for an object of another type than the URL's.
pub(crate) fn not_convertible(kind: &str, given: &str, given_kind: &str) -> ApiError {
    let version = given.rsplit('/').next().unwrap_or_default();
    let why = format!("no kind \"{given_kind}\" is registered for version \"{given}\"");
    let text =
        format!("{given_kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
    ApiError::bad_request(text)
}

pub(crate) fn check_namespace(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if !target.resource.namespaced {
        json::remove(object, &["metadata", "namespace"]);
        return Ok(());
    }
    let given = json::str_at(object, "/metadata/namespace");
    if given.is_empty() {
        json::set(object, &["metadata", "namespace"], target.namespace.as_str());
    } else if given != target.namespace {
        let text =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(text));
    }
    Ok(())
}

/// Rejects an object whose UID differs from the stored one.
pub(crate) fn check_uid(target: &Target, new: &Value, old: &Value) -> Result<(), ApiError> {
    let (given, stored) = (json::str_at(new, "/metadata/uid"), json::str_at(old, "/metadata/uid"));
    if given.is_empty() || given == stored {
        return Ok(());
    }
    let path = [target.resource.plural.as_str(), &target.namespace, &target.name];
    let path: Vec<&str> = path.into_iter().filter(|part| !part.is_empty()).collect();
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, \
         AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {given}, UID in object meta: {stored}",
        path.join("/"),
    );
    Err(ApiError::conflict(&target.reference(), &why))
}

/// Rejects a PUT of a custom resource without a resource version.
pub(crate) fn check_version_given(target: &Target, new: &Value) -> Result<(), ApiError> {
    if !target.resource.is_custom || !json::str_at(new, "/metadata/resourceVersion").is_empty() {
        return Ok(());
    }
    let message = "Invalid value: 0: must be specified for an update".to_owned();
    let (reason, field) = (CauseReason::Invalid, "metadata.resourceVersion".to_owned());
    let reference = target.reference();
    Err(ApiError::invalid(
        &ObjectReference { kind: reference.plural, ..reference },
        &[Cause { reason, message, field }],
    ))
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    json::array_at(object, "/metadata/finalizers").next().is_some()
}
