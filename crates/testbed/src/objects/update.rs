//! Updates objects.

use serde_json::Value;

use super::{
    admission,
    checks::{SERVER_FIELDS, check_namespace, check_type, has_finalizers},
};
use crate::{
    autoscaler_v1,
    config::Config,
    error::ApiError,
    json,
    registry::resource_from_crd,
    state::State,
    store::Object,
    target::{Subresource, Target},
};

/// Updates an object. `change` computes the new object from the stored one.
pub(crate) fn update(
    state: &mut State,
    config: &Config,
    target: &Target,
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
    keep_server_fields(&mut new, &old);
    json::copy(&old, &mut new, &["apiVersion"]);
    let mut new = restrict_to_subresource(target, subresource, new, &old)?;
    if subresource == Subresource::None {
        admission::admit(config, target, &mut new, Some(&old))?;
    } else {
        admission::admit_status(target, &mut new)?;
    }
    update_generation(target, &mut new, &old)?;
    json::copy(&old, &mut new, &["metadata", "resourceVersion"]);
    if new == *old {
        return Ok(old);
    }
    if dry_run {
        return Ok(new.into());
    }
    if target.resource.is_crd() {
        state.registry.insert(resource_from_crd(&new));
    }
    let object = state.store.put(&key, id.clone(), new);
    if can_be_removed(&object) {
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
        return Err(ApiError::modified(&target.reference()));
    }
    let uid = json::str_at(new, "/metadata/uid");
    if !uid.is_empty() && uid != json::str_at(old, "/metadata/uid") {
        // kube-apiserver validates updates twice and reports the cause twice.
        let cause = admission::immutable("metadata.uid", uid);
        return Err(ApiError::invalid(&target.reference(), &[cause.clone(), cause]));
    }
    Ok(())
}

fn keep_server_fields(new: &mut Value, old: &Value) {
    for field in SERVER_FIELDS {
        json::copy(old, new, &["metadata", field]);
    }
}

/// Discards changes to parts of the object that this request may not write.
fn restrict_to_subresource(
    target: &Target,
    subresource: Subresource,
    mut new: Value,
    old: &Value,
) -> Result<Value, ApiError> {
    if subresource == Subresource::Status {
        let mut result = old.clone();
        json::copy(&new, &mut result, &["status"]);
        json::copy(&new, &mut result, &["metadata", "managedFields"]);
        return Ok(result);
    }
    if target.served_version()?.has_status {
        json::copy(old, &mut new, &["status"]);
    }
    Ok(new)
}

fn update_generation(target: &Target, new: &mut Value, old: &Value) -> Result<(), ApiError> {
    if !target.resource.has_generation {
        return Ok(());
    }
    let has_status = target.served_version()?.has_status;
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

/// Whether a deleted object has no finalizers left.
pub(crate) fn can_be_removed(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some() && !has_finalizers(object)
}
