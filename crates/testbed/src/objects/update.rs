//! Changing objects.

use serde_json::Value;

use super::{
    admission,
    checks::{SERVERS_OWN, check_namespace, check_type, has_finalizers},
};
use crate::{
    config::Config,
    error::ApiError,
    json,
    registry::resource_of,
    state::State,
    store::Object,
    target::{Part, Target},
};

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
    json::copy(&old, &mut new, &["apiVersion"]);
    let mut new = only_part(target, part, new, &old)?;
    if part == Part::Main {
        admission::admit(config, target, &mut new, Some(&old))?;
    } else {
        admission::admit_status(target, &mut new)?;
    }
    count_generation(target, &mut new, &old)?;
    json::copy(&old, &mut new, &["metadata", "resourceVersion"]);
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
    let name = json::str_at(new, "/metadata/name");
    if name != target.name {
        let text = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        );
        return Err(ApiError::bad_request(text));
    }
    let version = json::str_at(new, "/metadata/resourceVersion");
    if !version.is_empty() && version != json::str_at(old, "/metadata/resourceVersion") {
        return Err(ApiError::modified(&target.subject()));
    }
    let uid = json::str_at(new, "/metadata/uid");
    if !uid.is_empty() && uid != json::str_at(old, "/metadata/uid") {
        // Each of the two validations of an update says so.
        let cause = admission::immutable("metadata.uid", uid);
        return Err(ApiError::invalid(&target.subject(), &[cause.clone(), cause]));
    }
    Ok(())
}

fn keep_servers_own(new: &mut Value, old: &Value) {
    for member in SERVERS_OWN {
        json::copy(old, new, &["metadata", member]);
    }
}

/// The stored object with the part of the new one that the request may write.
fn only_part(target: &Target, part: Part, mut new: Value, old: &Value) -> Result<Value, ApiError> {
    if part == Part::Status {
        let mut result = old.clone();
        json::copy(&new, &mut result, &["status"]);
        json::copy(&new, &mut result, &["metadata", "managedFields"]);
        return Ok(result);
    }
    if target.served()?.has_status {
        json::copy(old, &mut new, &["status"]);
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
        let generation = json::i64_at(old, "/metadata/generation").unwrap_or_default() + 1;
        json::set(new, &["metadata", "generation"], generation);
    }
    Ok(())
}

/// Whether the object was deleted and nobody holds it any more.
pub(crate) fn is_finished(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some() && !has_finalizers(object)
}
