//! Creating and changing objects: one path for PUT, PATCH and the scale.

use hpa_calc::validation::{Cause, CauseReason};
use serde_json::{Value, json};

use super::{Target, admission};
use crate::{
    config::Config,
    error::{ApiError, Subject},
    json, names,
    registry::{establish, resource_of},
    server::State,
    store::Object,
};

/// What of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status, if that is apart.
    Main,
    /// The status alone.
    Status,
}

/// Members of `metadata` that only the server writes.
const SERVERS_OWN: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
    "selfLink",
];

/// Creates an object.
pub(crate) fn create(
    state: &mut State,
    config: &Config,
    target: &Target,
    mut object: Value,
    dry_run: bool,
) -> Result<Object, ApiError> {
    check_type(target, &mut object)?;
    check_namespace(target, &mut object)?;
    require_namespace(state, target)?;
    if !json::text(&object, "/metadata/resourceVersion").is_empty() {
        return Err(ApiError::unforeseen(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let prefix = json::text(&object, "/metadata/generateName");
    if json::text(&object, "/metadata/name").is_empty() && !prefix.is_empty() {
        let name = names::generate(prefix);
        json::set(&mut object, &["metadata", "name"], name);
    }
    let target =
        Target { name: json::text(&object, "/metadata/name").to_owned(), ..target.clone() };
    let now = names::time((config.clock)());
    begin(&target, &mut object, &now)?;
    admission::admit(config, &target, &mut object, None)?;
    if state.store.get(&target.resource.key(), &target.id()).is_some() {
        return Err(ApiError::already_exists(&target.subject()));
    }
    if dry_run {
        return Ok(object.into());
    }
    if target.resource.is_definition() {
        establish(&mut object, &now);
        state.registry.insert(resource_of(&object));
    }
    Ok(state.store.put(&target.resource.key(), target.id(), object))
}

/// Gives a new object what the server gives it.
fn begin(target: &Target, object: &mut Value, now: &str) -> Result<(), ApiError> {
    let metadata = json::members(json::members(object).entry("metadata").or_insert(Value::Null));
    for member in SERVERS_OWN.iter().filter(|member| **member != "generateName") {
        metadata.remove(*member);
    }
    metadata.remove("resourceVersion");
    metadata.insert("uid".to_owned(), names::uid().into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if target.resource.counts_generations {
        metadata.insert("generation".to_owned(), 1.into());
    }
    if target.served()?.has_status {
        json::remove(object, &["status"]);
    }
    Ok(())
}

fn check_type(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request("the object provided is not an object"));
    }
    let (wanted, kind) = (target.resource.api_version(&target.version), &target.resource.kind);
    if target.resource.custom && json::text(object, "/kind").is_empty() {
        let text = format!("must be of type {kind}): Object 'Kind' is missing in '{object}'");
        return Err(ApiError::bad_request(format!("the object provided is unrecognized ({text}")));
    }
    json::set_default(object, &["apiVersion"], wanted.as_str());
    json::set_default(object, &["kind"], kind.as_str());
    let (given, given_kind) = (json::text(object, "/apiVersion"), json::text(object, "/kind"));
    if given == wanted && given_kind == kind {
        return Ok(());
    }
    if !target.resource.custom {
        return Err(not_convertible(kind, given, given_kind));
    }
    let text = if given == wanted {
        format!("the kind in the data ({given_kind}) does not match the expected kind ({kind})")
    } else {
        format!(
            "the API version in the data ({given}) does not match the expected API version ({wanted})"
        )
    };
    Err(ApiError::bad_request(text))
}

/// The answer to an object of another type than the path is about.
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
    let given = json::text(object, "/metadata/namespace");
    if given.is_empty() {
        json::set(object, &["metadata", "namespace"], target.namespace.as_str());
    } else if given != target.namespace {
        let text =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(text));
    }
    Ok(())
}

fn require_namespace(state: &State, target: &Target) -> Result<(), ApiError> {
    let Some(namespaces) = state.registry.find("", "v1", "namespaces") else { return Ok(()) };
    let id = (String::new(), target.namespace.clone());
    if !target.resource.namespaced || state.store.get(&namespaces.key(), &id).is_some() {
        return Ok(());
    }
    Err(ApiError::not_found(&namespaces.subject(&target.namespace)))
}

/// Refuses a PUT of an object that is not the one that is stored.
pub(crate) fn check_uid(target: &Target, new: &Value, old: &Value) -> Result<(), ApiError> {
    let (given, stored) = (json::text(new, "/metadata/uid"), json::text(old, "/metadata/uid"));
    if given.is_empty() || given == stored {
        return Ok(());
    }
    let place = [target.resource.plural.as_str(), &target.namespace, &target.name];
    let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {given}, UID in object meta: {stored}",
        place.join("/"),
    );
    Err(ApiError::conflict(&target.subject(), &why))
}

/// Refuses a PUT of a custom resource that does not say which version it replaces.
pub(crate) fn check_version_given(target: &Target, new: &Value) -> Result<(), ApiError> {
    if !target.resource.custom || !json::text(new, "/metadata/resourceVersion").is_empty() {
        return Ok(());
    }
    let message = "Invalid value: 0: must be specified for an update".to_owned();
    let (reason, field) = (CauseReason::Invalid, "metadata.resourceVersion".to_owned());
    let subject = target.subject();
    Err(ApiError::invalid(
        &Subject { kind: subject.plural, ..subject },
        &[Cause { reason, message, field }],
    ))
}

/// Changes an object: `change` makes the new one of the stored one.
pub(crate) fn update(
    state: &mut State,
    config: &Config,
    target: &Target,
    part: Part,
    dry_run: bool,
    change: impl FnOnce(&Value) -> Result<Value, ApiError>,
) -> Result<Object, ApiError> {
    let (key, id) = (target.resource.key(), target.id());
    let Some(old) = state.store.get(&key, &id).cloned() else {
        return Err(ApiError::not_found(&target.subject()));
    };
    // What is stored may be of another version than the one asked for.
    let mut shown = (*old).clone();
    json::set(&mut shown, &["apiVersion"], target.resource.api_version(&target.version));
    let mut new = change(&shown)?;
    check_type(target, &mut new)?;
    check_namespace(target, &mut new)?;
    check_identity(target, &new, &old)?;
    keep_servers_own(&mut new, &old);
    json::carry(&old, &mut new, &["apiVersion"]);
    let mut new = only_part(target, part, new, &old)?;
    if part == Part::Main {
        admission::admit(config, target, &mut new, Some(&old))?;
    } else {
        admission::admit_status(target, &mut new)?;
    }
    count_generation(target, &mut new, &old)?;
    json::carry(&old, &mut new, &["metadata", "resourceVersion"]);
    if new == *old {
        return Ok(old);
    }
    if dry_run {
        return Ok(new.into());
    }
    if target.resource.is_definition() {
        state.registry.insert(resource_of(&new));
    }
    let object = state.store.put(&key, id.clone(), new);
    if is_finished(&object) {
        return Ok(state.store.remove(&key, &id).unwrap_or(object));
    }
    Ok(object)
}

fn check_identity(target: &Target, new: &Value, old: &Value) -> Result<(), ApiError> {
    let name = json::text(new, "/metadata/name");
    if name != target.name {
        let text = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        );
        return Err(ApiError::bad_request(text));
    }
    let version = json::text(new, "/metadata/resourceVersion");
    if !version.is_empty() && version != json::text(old, "/metadata/resourceVersion") {
        return Err(ApiError::modified(&target.subject()));
    }
    let uid = json::text(new, "/metadata/uid");
    if !uid.is_empty() && uid != json::text(old, "/metadata/uid") {
        // Each of the two validations of an update says so.
        let cause = admission::immutable("metadata.uid", uid);
        return Err(ApiError::invalid(&target.subject(), &[cause.clone(), cause]));
    }
    Ok(())
}

fn keep_servers_own(new: &mut Value, old: &Value) {
    for member in SERVERS_OWN {
        json::carry(old, new, &["metadata", member]);
    }
}

/// The stored object with the part of the new one that the request may write.
fn only_part(target: &Target, part: Part, mut new: Value, old: &Value) -> Result<Value, ApiError> {
    if part == Part::Status {
        let mut result = old.clone();
        json::carry(&new, &mut result, &["status"]);
        json::carry(&new, &mut result, &["metadata", "managedFields"]);
        return Ok(result);
    }
    if target.served()?.has_status {
        json::carry(old, &mut new, &["status"]);
    }
    Ok(new)
}

fn count_generation(target: &Target, new: &mut Value, old: &Value) -> Result<(), ApiError> {
    if !target.resource.counts_generations {
        return Ok(());
    }
    let has_status = target.served()?.has_status;
    let counted = |object: &Value| {
        let mut object = object.clone();
        json::remove(&mut object, &["metadata"]);
        if has_status {
            json::remove(&mut object, &["status"]);
        }
        object
    };
    if counted(new) != counted(old) {
        let generation = json::number(old, "/metadata/generation").unwrap_or_default() + 1;
        json::set(new, &["metadata", "generation"], generation);
    }
    Ok(())
}

/// Whether the object was deleted and nobody holds it any more.
pub(crate) fn is_finished(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some() && !has_finalizers(object)
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    json::items(object, "/metadata/finalizers").next().is_some()
}

/// The `Status` of a success.
pub(crate) fn success(target: &Target, uid: &str) -> Value {
    let mut details = json!({ "name": target.name, "kind": target.resource.plural, "uid": uid });
    if !target.resource.group.is_empty() {
        json::set(&mut details, &["group"], target.resource.group.as_str());
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
