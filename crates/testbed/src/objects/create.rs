//! Creating objects.

use serde_json::Value;
use uuid::Uuid;

use super::{
    admission,
    checks::{SERVERS_OWN, check_namespace, check_type},
};
use crate::{
    config::Config,
    error::ApiError,
    json, names,
    registry::{establish, resource_of},
    state::State,
    store::Object,
    target::Target,
};

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
    if !json::str_at(&object, "/metadata/resourceVersion").is_empty() {
        return Err(ApiError::unforeseen(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let prefix = json::str_at(&object, "/metadata/generateName");
    if json::str_at(&object, "/metadata/name").is_empty() && !prefix.is_empty() {
        let name = names::generate_name(prefix);
        json::set(&mut object, &["metadata", "name"], name);
    }
    let target =
        Target { name: json::str_at(&object, "/metadata/name").to_owned(), ..target.clone() };
    let now = names::timestamp((config.clock)());
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
    let metadata =
        json::object_mut(json::object_mut(object).entry("metadata").or_insert(Value::Null));
    for member in SERVERS_OWN.iter().filter(|member| **member != "generateName") {
        metadata.remove(*member);
    }
    metadata.remove("resourceVersion");
    metadata.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if target.resource.counts_generations {
        metadata.insert("generation".to_owned(), 1.into());
    }
    if target.served()?.has_status {
        json::remove(object, &["status"]);
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
