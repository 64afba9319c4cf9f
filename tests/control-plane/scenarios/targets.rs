//! Every kind of target.

use anyhow::{Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::cpu;
use crate::control_plane::from;
use crate::metrics::Load;
use crate::wait;
use crate::workload::Kind;
use crate::world::{PATIENCE, World, is, message};

pub(super) async fn stateful_set(w: World) -> Result<()> {
    built_in(w, Kind::STATEFUL_SET).await
}

pub(super) async fn replica_set(w: World) -> Result<()> {
    built_in(w, Kind::REPLICA_SET).await
}

pub(super) async fn replication_controller(w: World) -> Result<()> {
    built_in(w, Kind::REPLICATION_CONTROLLER).await
}

async fn built_in(w: World, kind: Kind) -> Result<()> {
    follows_load(&w, kind, "app").await
}

/// Scales a new target of the kind up and down again.
async fn follows_load(w: &World, kind: Kind, name: &str) -> Result<()> {
    let app = w.target(kind, name, 1).await?;
    w.cpu(name, Load::Total(200));
    w.hpa(name, app.hpa(1, 10, cpu(50))).await?;
    app.at(4).await?;
    w.event(name, "SuccessfulRescale", "New size: 4; reason: cpu resource utilization").await?;
    w.settled(name, 4).await?;
    w.cpu(name, Load::Total(50));
    app.at(1).await?;
    w.settled(name, 1).await?;
    Ok(())
}

/// Defines a kind with a scale and waits until it is served.
pub(super) async fn define(w: &World, kind: Kind, versions: &[&str]) -> Result<()> {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            json!({
                "name": version, "served": true, "storage": *version == kind.version,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                }},
            })
        })
        .collect();
    let name = format!("{}.{}", kind.plural, kind.group);
    let definition: CustomResourceDefinition = from(json!({
        "metadata": {"name": name},
        "spec": {
            "group": kind.group, "scope": "Namespaced", "versions": versions,
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.to_lowercase()},
        },
    }))?;
    let api = Api::<CustomResourceDefinition>::all(w.client.clone());
    api.create(&PostParams::default(), &definition).await?;
    wait::object(&api, &name, "the kind to be served", PATIENCE, |definition| {
        let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions
            .is_some_and(|all| all.iter().any(|c| c.type_ == "Established" && c.status == "True"))
    })
    .await?;
    Ok(())
}

/// A kind that came after the controller; by either of its versions.
pub(super) async fn custom_resource(w: World) -> Result<()> {
    let new = Kind::new("e2e.hpa-rs.test", "v1", "Widget", "widgets");
    define(&w, new, &["v1", "v1beta1"]).await?;
    w.workloads.follow(new);
    let old = Kind { version: "v1beta1", ..new };
    tokio::try_join!(follows_load(&w, new, "new"), follows_load(&w, old, "old"))?;
    Ok(())
}

/// A kind that does not exist when its autoscaler is made.
pub(super) async fn unknown_kind(w: World) -> Result<()> {
    let kind = Kind::new("later.hpa-rs.test", "v1", "Gadget", "gadgets");
    let target = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": "app"});
    w.hpa(
        "app",
        json!({"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5, "metrics": cpu(50)}),
    )
    .await?;
    let hpa = w
        .hpa_until("app", "no target", |hpa| is(hpa, "AbleToScale", "False", "FailedGetScale"))
        .await?;
    let text = message(&hpa, "AbleToScale");
    let prefix = "the HPA controller was unable to get the target's current scale: ";
    ensure!(text.starts_with(prefix) && text.contains("no matches for kind \"Gadget\""), "{text}");
    w.event("app", "FailedGetScale", "no matches for kind \"Gadget\"").await?;

    define(&w, kind, &["v1"]).await?;
    w.workloads.follow(kind);
    w.cpu("app", Load::PerPod(50));
    let app = w.target(kind, "app", 1).await?;
    app.at(2).await?;
    let hpa = w.settled("app", 2).await?;
    ensure!(!message(&hpa, "AbleToScale").contains("no matches"));
    Ok(())
}

/// A target that does not exist when its autoscaler is made.
pub(super) async fn missing_target(w: World) -> Result<()> {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"});
    w.hpa(
        "app",
        json!({"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5, "metrics": cpu(50)}),
    )
    .await?;
    let hpa = w
        .hpa_until("app", "no target", |hpa| is(hpa, "AbleToScale", "False", "FailedGetScale"))
        .await?;
    let text = message(&hpa, "AbleToScale");
    ensure!(text.ends_with("deployments.apps \"app\" not found"), "{text}");
    w.event("app", "FailedGetScale", "deployments.apps \"app\" not found").await?;
    w.cpu("app", Load::PerPod(50));
    let app = w.deployment("app", 2).await?;
    w.settled("app", 2).await?;
    // Gone again.
    app.api.delete("app", &kube::api::DeleteParams::default()).await?;
    w.hpa_until("app", "no target again", |hpa| is(hpa, "AbleToScale", "False", "FailedGetScale"))
        .await?;
    Ok(())
}
