//! The target can't be scaled, or must not be.

use anyhow::Result;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::{cpu_hpa_spec, cpu_metric};
use super::{Expected, Site};
use crate::control_plane::from_json;
use crate::test_env::Target;

const SCALE_UNAVAILABLE: [&str; 3] = ["AbleToScale", "False", "FailedGetScale"];

/// Creates a target without a workload controller, with a status.
pub(super) async fn unmanaged_target(site: &Site, replicas: i32, status: Value) -> Result<Target> {
    let Site { env, name, unmanaged_kind, .. } = site;
    let api: Api<DynamicObject> =
        Api::namespaced_with(env.client.clone(), &env.ns, &unmanaged_kind.resource());
    let object = json!({
        "apiVersion": unmanaged_kind.api_version(), "kind": unmanaged_kind.kind,
        "metadata": { "name": name }, "spec": { "replicas": replicas },
    });
    api.create(&PostParams::default(), &from_json(object)?).await?;
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(Target { kind: *unmanaged_kind, name: name.clone(), api })
}

pub(super) async fn disabled_at_zero(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    target.scale(0).await?;
    target.wait_for_replicas(0).await?;
    site.create_hpa(target.hpa_spec(2, 10, cpu_metric(50))).await?;
    Ok(site.expect(
        ["ScalingActive", "False", "ScalingDisabled"],
        &[
            "NAME stays at 0: autoscaling is off because the target is at 0 replicas",
            "To turn it on: kubectl scale Deployment NAME --replicas=2 --namespace",
        ],
    ))
}

pub(super) async fn target_missing(site: Site) -> Result<Expected> {
    site.create_hpa(cpu_hpa_spec("apps/v1", "Deployment", &site.name, 1, 5)).await?;
    Ok(site.expect(
        SCALE_UNAVAILABLE,
        &[
            "NAME can't decide: ",
            "deployments.apps \"NAME\" not found",
            "Check that Deployment NAME exists",
            "kubectl get Deployment NAME --subresource=scale --namespace",
        ],
    ))
}

pub(super) async fn kind_unknown(site: Site) -> Result<Expected> {
    site.create_hpa(cpu_hpa_spec("apps/v1", "Deploymint", &site.name, 1, 5)).await?;
    Ok(site.expect(
        SCALE_UNAVAILABLE,
        &[
            "NAME can't decide: ",
            "kubectl api-resources lists the kinds that the API server serves, and apps/v1, kind \
             Deploymint is not one of them",
        ],
    ))
}

pub(super) async fn selector_missing(site: Site) -> Result<Expected> {
    let target = unmanaged_target(&site, 2, json!({ "replicas": 2 })).await?;
    site.create_hpa(target.hpa_spec(1, 10, cpu_metric(50))).await?;
    Ok(site.expect(
        ["ScalingActive", "False", "InvalidSelector"],
        &["NAME stays at 2: ", "has no status.selector", "labelSelectorPath"],
    ))
}

pub(super) async fn target_shared(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    site.set_cpu(50);
    let other = format!("{}-too", site.name);
    site.env.create_hpa(&other, target.hpa_spec(2, 5, cpu_metric(50))).await?;
    site.create_hpa(target.hpa_spec(1, 10, cpu_metric(50))).await?;
    Ok(site.expect(
        ["ScalingActive", "False", "AmbiguousSelector"],
        &[
            "NAME isn't scaled: ",
            "NAME-too selects the same pods",
            "are controlled by multiple HPAs",
            "Only one autoscaler may select a pod. Merge this one and ",
            "NAME-too into one autoscaler with several metrics: they have one target",
        ],
    ))
}
