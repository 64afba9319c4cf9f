//! The objects a scenario starts with.

use serde_json::{Value, json};

use crate::{
    ApiError, Testbed, json,
    workload::scenario::{Scenario, WorkloadSpec},
};

/// Creates definitions, workloads, and then the other manifests, with the namespaces that any of them is in.
pub(super) fn create(testbed: &Testbed, scenario: &Scenario) -> Result<(), ApiError> {
    let manifests = scenario.manifests.iter();
    let is_early = |one: &&Value| {
        ["CustomResourceDefinition", "Namespace"].contains(&json::text(one, "/kind"))
    };
    let (early, late): (Vec<&Value>, Vec<&Value>) = manifests.partition(is_early);
    for manifest in early {
        testbed.apply(manifest.clone())?;
    }
    for workload in &scenario.workloads {
        require_namespace(testbed, &workload.namespace)?;
        testbed.apply(object(testbed, workload, scenario))?;
    }
    for manifest in late {
        require_namespace(testbed, json::text(manifest, "/metadata/namespace"))?;
        testbed.apply(manifest.clone())?;
    }
    Ok(())
}

fn require_namespace(testbed: &Testbed, name: &str) -> Result<(), ApiError> {
    if !name.is_empty() && testbed.get("v1", "Namespace", "", name).is_none() {
        testbed.apply(
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        )?;
    }
    Ok(())
}

/// The object of a workload.
fn object(testbed: &Testbed, workload: &WorkloadSpec, scenario: &Scenario) -> Value {
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
    let path = replicas_path(testbed, workload);
    let path: Vec<&str> = path.split('/').skip(1).collect();
    json::set(&mut object, &path, workload.replicas);
    for (member, value) in workload.spec.iter().flatten() {
        json::set(&mut object, &["spec", member], value.clone());
    }
    object
}

/// Where an object of this kind has its replicas, as a JSON pointer.
fn replicas_path(testbed: &Testbed, workload: &WorkloadSpec) -> String {
    let custom = testbed.scaled_custom_resources();
    let is_it = |version: &str, resource: &crate::registry::Resource| {
        workload.kind == resource.kind
            && workload.api_version() == Some(&resource.api_version(version))
    };
    let path = custom.iter().find_map(|resource| {
        let version = resource.versions.iter().find(|version| is_it(&version.name, resource))?;
        Some(version.scale.as_ref()?.spec_replicas.clone())
    });
    path.unwrap_or_else(|| "/spec/replicas".to_owned())
}
