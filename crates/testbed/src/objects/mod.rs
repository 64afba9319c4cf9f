//! Creates, updates and deletes stored objects, with validation, defaults and generations.
//!
//! All writes of requests use these functions, and so do [`Testbed::apply`](crate::Testbed::apply)
//! and [`Testbed::delete`](crate::Testbed::delete).

mod admission;

use fastrand::Rng;
use hpa_calc::validation::CauseReason;
use hpa_simulate::workload::random;
use serde_json::Value;
use uuid::Uuid;

pub(crate) use self::admission::{admit_status, negative_value};
use crate::{
    autoscaler_v1,
    clock::format_time,
    config::Config,
    error::{ApiError, ObjectReference, new_cause},
    json_fields,
    registry::{establish, resource_from_crd},
    request_target::{RequestTarget, Subresource},
    server::State,
    store::{Object, ObjectId},
};

/// The length of the suffix that the server adds to a `generateName`.
const SUFFIX_LENGTH: usize = 5;

/// Fields of `metadata` that an update can't change. Only `generateName` can be set on creation.
const SERVER_FIELDS: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
    "selfLink",
];

/// Creates an object. With `dry_run`, returns it without storing it.
pub(crate) fn create(
    state: &mut State,
    config: &Config,
    target: &RequestTarget,
    mut object: Value,
    dry_run: bool,
) -> Result<Object, ApiError> {
    check_type(target, &mut object)?;
    if autoscaler_v1::is_v1(&object) {
        let target = RequestTarget { version: "v2".to_owned(), ..target.clone() };
        return create(state, config, &target, autoscaler_v1::from_v1(object), dry_run);
    }
    check_namespace(target, &mut object)?;
    check_namespace_exists(state, target)?;
    if !json_fields::str_at(&object, "/metadata/resourceVersion").is_empty() {
        return Err(ApiError::without_reason(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let prefix = json_fields::str_at(&object, "/metadata/generateName");
    if json_fields::str_at(&object, "/metadata/name").is_empty() && !prefix.is_empty() {
        let name = format!("{prefix}{}", random::suffix(&mut Rng::new(), SUFFIX_LENGTH));
        json_fields::set(&mut object, &["metadata", "name"], name);
    }
    let target = RequestTarget {
        name: json_fields::str_at(&object, "/metadata/name").to_owned(),
        ..target.clone()
    };
    let now = format_time((config.clock)());
    set_server_fields(&target, &mut object, &now)?;
    admission::admit(config, &target, &mut object, None)?;
    if state.store.get(&target.resource.key(), &target.id()).is_some() {
        return Err(ApiError::already_exists(&target.reference()));
    }
    if dry_run {
        return Ok(object.into());
    }
    if target.resource.is_crd() {
        establish(&mut object, &now);
        state.registry.insert(resource_from_crd(&object));
    }
    Ok(state.store.put(&target.resource.key(), target.id(), object))
}

/// Sets the metadata of a new object that only the server may set. Removes the status if it is
/// written separately.
fn set_server_fields(
    target: &RequestTarget,
    object: &mut Value,
    now: &str,
) -> Result<(), ApiError> {
    let metadata = json_fields::object_mut(
        json_fields::object_mut(object).entry("metadata").or_insert(Value::Null),
    );
    for field in SERVER_FIELDS.iter().filter(|field| **field != "generateName") {
        metadata.remove(*field);
    }
    metadata.remove("resourceVersion");
    metadata.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if target.resource.has_generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    if target.served_version()?.has_status {
        json_fields::remove(object, &["status"]);
    }
    Ok(())
}

fn check_namespace_exists(state: &State, target: &RequestTarget) -> Result<(), ApiError> {
    let Some(namespaces) = state.registry.find("", "v1", "namespaces") else { return Ok(()) };
    let id = (String::new(), target.namespace.clone());
    if !target.resource.namespaced || state.store.get(&namespaces.key(), &id).is_some() {
        return Ok(());
    }
    Err(ApiError::not_found(&namespaces.reference(&target.namespace)))
}

/// Updates an object. `change` computes the new object from the stored one. Then removes the object
/// if it is marked as deleted and has no finalizers left. With `dry_run`, returns the new object
/// without storing it.
pub(crate) fn update(
    state: &mut State,
    config: &Config,
    target: &RequestTarget,
    subresource: Subresource,
    dry_run: bool,
    change: impl FnOnce(&Value) -> Result<Value, ApiError>,
) -> Result<Object, ApiError> {
    let (key, id) = (target.resource.key(), target.id());
    let Some(old) = state.store.get(&key, &id).cloned() else {
        return Err(ApiError::not_found(&target.reference()));
    };
    let mut new = change(&target.in_requested_version(&old))?;
    check_type(target, &mut new)?;
    if autoscaler_v1::is_v1(&new) {
        new = autoscaler_v1::from_v1(new);
    }
    check_namespace(target, &mut new)?;
    check_identity(target, &new, &old)?;
    restore_server_fields(&mut new, &old);
    json_fields::copy(&old, &mut new, &["apiVersion"]);
    let mut new = restrict_to_subresource(target, subresource, new, &old)?;
    if subresource == Subresource::None {
        admission::admit(config, target, &mut new, Some(&old))?;
    } else {
        admit_status(target, &mut new)?;
    }
    update_generation(target, &mut new, &old)?;
    json_fields::copy(&old, &mut new, &["metadata", "resourceVersion"]);
    if new == *old {
        return Ok(old);
    }
    if dry_run {
        return Ok(new.into());
    }
    if target.resource.is_crd() {
        state.registry.insert(resource_from_crd(&new));
    }
    let object = state.store.put(&key, id, new);
    Ok(if can_be_removed(&object) { remove(state, target, object) } else { object })
}

/// Rejects an update with another name, resource version or UID than the stored object.
fn check_identity(target: &RequestTarget, new: &Value, old: &Value) -> Result<(), ApiError> {
    check_name(target, new)?;
    let version = json_fields::str_at(new, "/metadata/resourceVersion");
    if !version.is_empty() && version != json_fields::str_at(old, "/metadata/resourceVersion") {
        return Err(ApiError::modified(&target.reference()));
    }
    let uid = json_fields::str_at(new, "/metadata/uid");
    if !uid.is_empty() && uid != json_fields::str_at(old, "/metadata/uid") {
        // kube-apiserver validates updates twice and reports the cause twice.
        let message = format!("Invalid value: \"{uid}\": field is immutable");
        let cause = new_cause(CauseReason::Invalid, "metadata.uid", message);
        return Err(ApiError::invalid(&target.reference(), &[cause.clone(), cause]));
    }
    Ok(())
}

fn restore_server_fields(new: &mut Value, old: &Value) {
    for field in SERVER_FIELDS {
        json_fields::copy(old, new, &["metadata", field]);
    }
}

/// Discards changes to parts of the object that this request may not write.
fn restrict_to_subresource(
    target: &RequestTarget,
    subresource: Subresource,
    mut new: Value,
    old: &Value,
) -> Result<Value, ApiError> {
    if subresource == Subresource::Status {
        let mut result = old.clone();
        json_fields::copy(&new, &mut result, &["status"]);
        json_fields::copy(&new, &mut result, &["metadata", "managedFields"]);
        return Ok(result);
    }
    if target.served_version()?.has_status {
        json_fields::copy(old, &mut new, &["status"]);
    }
    Ok(new)
}

fn update_generation(target: &RequestTarget, new: &mut Value, old: &Value) -> Result<(), ApiError> {
    if !target.resource.has_generation {
        return Ok(());
    }
    let has_status = target.served_version()?.has_status;
    let top_level = |object| Value::as_object(object).into_iter().flatten();
    let affects_generation =
        |(name, _): &(&String, &Value)| *name != "metadata" && !(has_status && *name == "status");
    if top_level(new).filter(affects_generation).ne(top_level(old).filter(affects_generation)) {
        let generation = json_fields::i64_at(old, "/metadata/generation").unwrap_or_default() + 1;
        json_fields::set(new, &["metadata", "generation"], generation);
    }
    Ok(())
}

/// Whether the object is marked as deleted and has no finalizers left.
fn can_be_removed(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some() && !has_finalizers(object)
}

pub(crate) enum DeleteResult {
    /// The object was removed. This is its last state.
    Removed(Object),
    /// The object has finalizers: it is only marked as deleted.
    Finalizing(Object),
}

/// Deletes an object, or only marks it as deleted if it has finalizers.
pub(crate) fn delete(
    state: &mut State,
    target: &RequestTarget,
    now: &str,
) -> Result<DeleteResult, ApiError> {
    let (key, id) = (target.resource.key(), target.id());
    let Some(object) = state.store.get(&key, &id).cloned() else {
        return Err(ApiError::not_found(&target.reference()));
    };
    if has_finalizers(&object) {
        return Ok(DeleteResult::Finalizing(mark_deleted(state, target, &object, now)));
    }
    Ok(DeleteResult::Removed(remove(state, target, object)))
}

/// Removes an object. With a namespace or a CRD, also removes its objects, even those with
/// finalizers. Returns the last state of the object.
fn remove(state: &mut State, target: &RequestTarget, object: Object) -> Object {
    if target.resource.is_crd() {
        remove_custom_resources(state, &object);
    }
    if target.resource.is_namespace() {
        for (key, id) in state.store.ids_in_namespace(&target.name) {
            state.store.remove(&key, &id);
        }
    }
    state.store.remove(&target.resource.key(), &target.id()).unwrap_or(object)
}

fn mark_deleted(state: &mut State, target: &RequestTarget, object: &Object, now: &str) -> Object {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Object::clone(object);
    }
    let mut marked = (**object).clone();
    json_fields::set(&mut marked, &["metadata", "deletionTimestamp"], now);
    json_fields::set(&mut marked, &["metadata", "deletionGracePeriodSeconds"], 0);
    if let Some(generation) = json_fields::i64_at(object, "/metadata/generation") {
        json_fields::set(&mut marked, &["metadata", "generation"], generation + 1);
    }
    state.store.put(&target.resource.key(), target.id(), marked)
}

/// Removes the resource that a CRD defines, and its objects.
fn remove_custom_resources(state: &mut State, crd: &Value) {
    let resource = resource_from_crd(crd);
    let ids: Vec<ObjectId> =
        state.store.collection(&resource.key()).objects().keys().cloned().collect();
    for id in ids {
        state.store.remove(&resource.key(), &id);
    }
    state.registry.remove(&resource.key());
}

/// Rejects an object of another type than the target's. Sets a missing type, but rejects a custom
/// resource without a kind.
fn check_type(target: &RequestTarget, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request("the object provided is not an object"));
    }
    let (expected_version, expected_kind) =
        (target.resource.api_version(&target.version), &target.resource.kind);
    if target.resource.is_custom && json_fields::str_at(object, "/kind").is_empty() {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {expected_kind}): Object 'Kind' \
             is missing in '{object}'"
        )));
    }
    json_fields::set_default(object, &["apiVersion"], expected_version.as_str());
    json_fields::set_default(object, &["kind"], expected_kind.as_str());
    let (api_version, kind) =
        (json_fields::str_at(object, "/apiVersion"), json_fields::str_at(object, "/kind"));
    if api_version == expected_version && kind == expected_kind {
        return Ok(());
    }
    if !target.resource.is_custom {
        return Err(not_convertible(expected_kind, api_version, kind));
    }
    let text = if api_version == expected_version {
        format!("the kind in the data ({kind}) does not match the expected kind ({expected_kind})")
    } else {
        format!(
            "the API version in the data ({api_version}) does not match the expected API version \
             ({expected_version})"
        )
    };
    Err(ApiError::bad_request(text))
}

/// The error for a body of another type than `expected_kind`, which the URL determines.
pub(crate) fn not_convertible(expected_kind: &str, api_version: &str, kind: &str) -> ApiError {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let detail = format!("no kind \"{kind}\" is registered for version \"{api_version}\"");
    ApiError::unreadable_body(kind, version, expected_kind, &detail)
}

/// Rejects an object of another namespace than the target's. Sets a missing namespace, and removes
/// the namespace of a cluster-scoped object.
pub(crate) fn check_namespace(target: &RequestTarget, object: &mut Value) -> Result<(), ApiError> {
    if !target.resource.namespaced {
        json_fields::remove(object, &["metadata", "namespace"]);
        return Ok(());
    }
    let namespace = json_fields::str_at(object, "/metadata/namespace");
    if namespace.is_empty() {
        json_fields::set(object, &["metadata", "namespace"], target.namespace.as_str());
    } else if namespace != target.namespace {
        let text =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(text));
    }
    Ok(())
}

/// Rejects an object with another name than the URL.
pub(crate) fn check_name(target: &RequestTarget, object: &Value) -> Result<(), ApiError> {
    let name = json_fields::str_at(object, "/metadata/name");
    if name == target.name {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        target.name
    )))
}

/// Rejects an object or a scale with another UID than the stored object. As in kube-apiserver, the
/// UID of a PUT is a precondition, whose error differs from that of an immutable field.
pub(crate) fn check_uid(target: &RequestTarget, new: &Value, old: &Value) -> Result<(), ApiError> {
    let (uid, stored) =
        (json_fields::str_at(new, "/metadata/uid"), json_fields::str_at(old, "/metadata/uid"));
    if uid.is_empty() || uid == stored {
        return Ok(());
    }
    let path = [target.resource.plural.as_str(), &target.namespace, &target.name];
    let path: Vec<&str> = path.into_iter().filter(|part| !part.is_empty()).collect();
    let detail = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: \
         {stored}",
        path.join("/"),
    );
    Err(ApiError::conflict(&target.reference(), &detail))
}

/// Rejects a PUT of a custom resource without a resource version.
pub(crate) fn require_resource_version(
    target: &RequestTarget,
    new: &Value,
) -> Result<(), ApiError> {
    if !target.resource.is_custom
        || !json_fields::str_at(new, "/metadata/resourceVersion").is_empty()
    {
        return Ok(());
    }
    let message = "Invalid value: 0: must be specified for an update";
    let cause = new_cause(CauseReason::Invalid, "metadata.resourceVersion", message);
    let reference = target.reference();
    Err(ApiError::invalid(&ObjectReference { kind: reference.plural, ..reference }, &[cause]))
}

fn has_finalizers(object: &Value) -> bool {
    json_fields::array_at(object, "/metadata/finalizers").next().is_some()
}
