//! All kinds of targets.

use anyhow::{Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition,
};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{cpu_hpa_spec, cpu_metric};
use crate::control_plane::from_json;
use crate::metrics::Load;
use crate::test_env::{TestEnv, WAIT_LIMIT, message};
use crate::wait;
use crate::workload::Kind;

pub(super) async fn stateful_set(env: TestEnv) -> Result<()> {
    check_scaling(&env, Kind::STATEFUL_SET, "app").await
}

pub(super) async fn replica_set(env: TestEnv) -> Result<()> {
    check_scaling(&env, Kind::REPLICA_SET, "app").await
}

pub(super) async fn replication_controller(env: TestEnv) -> Result<()> {
    check_scaling(&env, Kind::REPLICATION_CONTROLLER, "app").await
}

/// Creates a target of the kind, and checks that it is scaled up and down.
async fn check_scaling(env: &TestEnv, kind: Kind, name: &str) -> Result<()> {
    let app = env.create_target(kind, name, 1).await?;
    env.set_cpu(name, Load::Total(200));
    env.create_hpa(name, app.hpa_spec(1, 10, cpu_metric(50))).await?;
    app.wait_for_replicas(4).await?;
    env.wait_for_event(name, "SuccessfulRescale", "New size: 4; reason: cpu resource utilization")
        .await?;
    env.wait_until_settled(name, 4).await?;
    env.set_cpu(name, Load::Total(50));
    app.wait_for_replicas(1).await?;
    env.wait_until_settled(name, 1).await?;
    Ok(())
}

/// Creates a CustomResourceDefinition with a scale subresource, and waits until it is served.
pub(super) async fn define_kind(env: &TestEnv, kind: Kind, versions: &[&str]) -> Result<()> {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            json!({
                "name": version, "served": true, "storage": *version == kind.version,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                }},
            })
        })
        .collect();
    let name = format!("{}.{}", kind.plural, kind.group);
    let definition: CustomResourceDefinition = from_json(json!({
        "metadata": {"name": name},
        "spec": {
            "group": kind.group, "scope": "Namespaced", "versions": versions,
            "names": {
                "kind": kind.kind, "plural": kind.plural, "singular": kind.kind.to_lowercase(),
            },
        },
    }))?;
    install_definition(&Api::all(env.client.clone()), &definition).await
}

/// Creates a definition, and waits until its kind is served.
pub(super) async fn install_definition(
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> Result<()> {
    api.create(&PostParams::default(), definition).await?;
    let name = definition.name_any();
    wait::object(api, &name, "the kind to be served", WAIT_LIMIT, |definition| {
        let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
        let is_established = |condition: &CustomResourceDefinitionCondition| {
            condition.type_ == "Established" && condition.status == "True"
        };
        conditions.is_some_and(|all| all.iter().any(is_established))
    })
    .await?;
    Ok(())
}

/// A kind that is defined while the controller runs, with an autoscaler for each of its versions.
pub(super) async fn custom_resource(env: TestEnv) -> Result<()> {
    let new = Kind::new("e2e.hpa-rs.test", "v1", "Widget", "widgets");
    define_kind(&env, new, &["v1", "v1beta1"]).await?;
    env.workloads.simulate_controller(new);
    let old = Kind { version: "v1beta1", ..new };
    tokio::try_join!(check_scaling(&env, new, "new"), check_scaling(&env, old, "old"))?;
    Ok(())
}

/// The kind is defined after the autoscaler was created.
pub(super) async fn unknown_kind(env: TestEnv) -> Result<()> {
    let kind = Kind::new("later.hpa-rs.test", "v1", "Gadget", "gadgets");
    let spec = cpu_hpa_spec(&kind.api_version(), kind.kind, "app", 2, 5);
    env.create_hpa("app", spec).await?;
    let hpa = env.wait_for_condition("app", "AbleToScale", "False", "FailedGetScale").await?;
    let text = message(&hpa, "AbleToScale");
    let prefix = "the HPA controller was unable to get the target's current scale: ";
    ensure!(text.starts_with(prefix) && text.contains("no matches for kind \"Gadget\""), "{text}");
    env.wait_for_event("app", "FailedGetScale", "no matches for kind \"Gadget\"").await?;

    define_kind(&env, kind, &["v1"]).await?;
    env.workloads.simulate_controller(kind);
    env.set_cpu("app", Load::PerPod(50));
    let app = env.create_target(kind, "app", 1).await?;
    app.wait_for_replicas(2).await?;
    let hpa = env.wait_until_settled("app", 2).await?;
    ensure!(!message(&hpa, "AbleToScale").contains("no matches"));
    Ok(())
}

/// The target is created after the autoscaler.
pub(super) async fn missing_target(env: TestEnv) -> Result<()> {
    env.create_hpa("app", cpu_hpa_spec("apps/v1", "Deployment", "app", 2, 5)).await?;
    let hpa = env.wait_for_condition("app", "AbleToScale", "False", "FailedGetScale").await?;
    let text = message(&hpa, "AbleToScale");
    ensure!(text.ends_with("deployments.apps \"app\" not found"), "{text}");
    env.wait_for_event("app", "FailedGetScale", "deployments.apps \"app\" not found").await?;
    env.set_cpu("app", Load::PerPod(50));
    let app = env.create_deployment("app", 2).await?;
    env.wait_until_settled("app", 2).await?;
    app.api.delete("app", &kube::api::DeleteParams::default()).await?;
    env.wait_for_condition("app", "AbleToScale", "False", "FailedGetScale").await?;
    Ok(())
}
