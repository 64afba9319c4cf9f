//! Creates the objects that a scenario starts with.

use serde_json::{Value, json};

use crate::{
    Testbed,
    error::ApiError,
    json,
    registry::Resource,
    workload::scenario::{Scenario, WorkloadSpec},
};

/// Creates CRDs and namespaces, then workloads, then the other manifests. Missing namespaces are
/// created as needed.
pub(super) fn create_objects(testbed: &Testbed, scenario: &Scenario) -> Result<(), ApiError> {
    let is_prerequisite = |manifest: &&Value| {
        ["CustomResourceDefinition", "Namespace"].contains(&json::str_at(manifest, "/kind"))
    };
    let (prerequisites, others): (Vec<&Value>, Vec<&Value>) =
        scenario.manifests.iter().partition(is_prerequisite);
    for manifest in prerequisites {
        testbed.apply(manifest.clone())?;
    }
    for workload in &scenario.workloads {
        ensure_namespace(testbed, &workload.namespace)?;
        testbed.apply(workload_object(testbed, workload, scenario))?;
    }
    for manifest in others {
        ensure_namespace(testbed, json::str_at(manifest, "/metadata/namespace"))?;
        testbed.apply(manifest.clone())?;
    }
    Ok(())
}

fn ensure_namespace(testbed: &Testbed, name: &str) -> Result<(), ApiError> {
    if !name.is_empty() && testbed.get("v1", "Namespace", "", name).is_none() {
        testbed.apply(
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        )?;
    }
    Ok(())
}

fn workload_object(testbed: &Testbed, workload: &WorkloadSpec, scenario: &Scenario) -> Value {
    let name = &workload.name;
    let labels = json!({ "app": name });
    let profile = workload.profile.as_ref().unwrap_or(&scenario.default_profile);
    let selector = if workload.kind == "ReplicationController" {
        labels.clone()
    } else {
        json!({ "matchLabels": labels })
    };
    let mut object = json!({
        "apiVersion": workload.api_version(), "kind": workload.kind,
        "metadata": { "name": name, "namespace": workload.namespace, "labels": labels },
        "spec": {
            "selector": selector,
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": profile.containers(&format!("{name}:1")) },
            },
        },
    });
    json::set_pointer(&mut object, &replicas_pointer(testbed, workload), workload.replicas);
    for (field, value) in workload.spec.iter().flatten() {
        json::set(&mut object, &["spec", field], value.clone());
    }
    object
}

/// The JSON pointer to the replicas of this kind.
fn replicas_pointer(testbed: &Testbed, workload: &WorkloadSpec) -> String {
    let is_kind_of = |version: &str, resource: &Resource| {
        workload.kind == resource.kind
            && workload.api_version() == Some(&resource.api_version(version))
    };
    let custom = testbed.scalable_custom_resources();
    let pointer = custom.iter().find_map(|resource| {
        let mut versions = resource.versions.iter();
        let version = versions.find(|version| is_kind_of(&version.name, resource))?;
        Some(version.scale.as_ref()?.spec_replicas.clone())
    });
    pointer.unwrap_or_else(|| "/spec/replicas".to_owned())
}
