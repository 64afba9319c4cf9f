//! Creates objects.

use serde_json::Value;
use uuid::Uuid;

use super::{
    admission,
    checks::{SERVER_FIELDS, check_namespace, check_type},
};
use crate::{
    autoscaler_v1,
    config::Config,
    error::ApiError,
    json, names,
    registry::{establish, resource_from_crd},
    state::State,
    store::Object,
    target::Target,
};

pub(crate) fn create(
    state: &mut State,
    config: &Config,
    target: &Target,
    mut object: Value,
    dry_run: bool,
) -> Result<Object, ApiError> {
    check_type(target, &mut object)?;
    if autoscaler_v1::is_v1(&object) {
        let target = Target { version: "v2".to_owned(), ..target.clone() };
        return create(state, config, &target, autoscaler_v1::from_v1(object), dry_run);
    }
    check_namespace(target, &mut object)?;
    check_namespace_exists(state, target)?;
    if !json::str_at(&object, "/metadata/resourceVersion").is_empty() {
        return Err(ApiError::without_reason(
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

/// Sets the fields of a new object that the server owns.
fn set_server_fields(target: &Target, object: &mut Value, now: &str) -> Result<(), ApiError> {
    let metadata =
        json::object_mut(json::object_mut(object).entry("metadata").or_insert(Value::Null));
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
        json::remove(object, &["status"]);
    }
    Ok(())
}

fn check_namespace_exists(state: &State, target: &Target) -> Result<(), ApiError> {
    let Some(namespaces) = state.registry.find("", "v1", "namespaces") else { return Ok(()) };
    let id = (String::new(), target.namespace.clone());
    if !target.resource.namespaced || state.store.get(&namespaces.key(), &id).is_some() {
        return Ok(());
    }
    Err(ApiError::not_found(&namespaces.reference(&target.namespace)))
}
