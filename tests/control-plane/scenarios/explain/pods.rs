//! Pods that are not counted, or shouldn't be.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::SignedDuration;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::{cpu_metric, external_metric};
use super::{Expected, Site};
use crate::control_plane::from_json;
use crate::workload::{POD_AGE, container, running_status};

const ACTIVE: [&str; 3] = ["ScalingActive", "True", "ValidMetricFound"];
const FAILED: [&str; 3] = ["ScalingActive", "False", "FailedGetResourceMetric"];

async fn set_status(site: &Site, pod: &str, status: Value) -> Result<()> {
    let api = Api::<Pod>::namespaced(site.env.client.clone(), &site.env.ns);
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(pod, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Creates a pod that the target doesn't own but its selector matches.
async fn add_pod(site: &Site, pod: &str, containers: Value) -> Result<()> {
    let api = Api::<Pod>::namespaced(site.env.client.clone(), &site.env.ns);
    let object = json!({
        "metadata": { "name": pod, "labels": { "app": site.name } },
        "spec": { "containers": containers },
    });
    api.create(&PostParams::default(), &from_json(object)?).await?;
    set_status(site, pod, running_status(POD_AGE, true)).await
}

/// Creates an autoscaler of four pods. Two of them have this status and count as 0. maxReplicas
/// keeps the controller from scaling before it has observed the status.
async fn create_with_two_unready_pods(site: &Site, status: impl Fn() -> Value) -> Result<()> {
    let target = site.create_deployment(4).await?;
    for index in [1, 3] {
        set_status(site, &format!("{}-{index}", site.name), status()).await?;
    }
    site.set_cpu(100);
    site.create_hpa(target.hpa_spec(2, 4, cpu_metric(50))).await
}

pub(super) async fn pending_pods(site: Site) -> Result<Expected> {
    create_with_two_unready_pods(&site, || json!({ "phase": "Pending" })).await?;
    Ok(site.expect(
        ACTIVE,
        &[
            "NAME stays at 4: cpu is at 100% of requests, target 50%; 100% of the target with 2 \
             unready pods counted as 0; within tolerance",
            "unready (2): NAME-1, NAME-3: each is pending",
        ],
    ))
}

pub(super) async fn starting_pods(site: Site) -> Result<Expected> {
    create_with_two_unready_pods(&site, || running_status(SignedDuration::ZERO, false)).await?;
    Ok(site.expect(
        ACTIVE,
        &[
            "NAME stays at 4: cpu is at 100% of requests, target 50%; 100% of the target with 2 \
             unready pods counted as 0; within tolerance",
            "unready (2): NAME-1, NAME-3: each started recently and is not ready",
        ],
    ))
}

pub(super) async fn unready_pods(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    for index in [0, 1] {
        set_status(&site, &format!("{}-{index}", site.name), running_status(POD_AGE, false))
            .await?;
    }
    site.set_cpu(100);
    site.create_hpa(target.hpa_spec(1, 2, cpu_metric(50))).await?;
    Ok(site.expect(
        FAILED,
        &[
            "NAME stays at 2: cpu cannot be read: ",
            "No pod has a sample of cpu that counts: NAME-0, NAME-1. Check why the pods are not \
             ready",
        ],
    ))
}

pub(super) async fn request_missing(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    let job = format!("{}-job", site.name);
    add_pod(&site, &job, json!([{ "name": "proxy", "image": "none" }])).await?;
    site.set_cpu(50);
    site.create_hpa(target.hpa_spec(1, 10, cpu_metric(50))).await?;
    Ok(site.expect(
        FAILED,
        &[
            "NAME stays at 2: cpu cannot be read: ",
            "missing request for cpu in container proxy of Pod NAME-job",
            "Set the request in every container of every pod that the selector matches (missing \
             in NAME-job)",
        ],
    ))
}

pub(super) async fn foreign_pods(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    add_pod(&site, &format!("{}-job", site.name), json!([container("app")])).await?;
    site.set_cpu(50);
    site.create_hpa(target.hpa_spec(1, 10, cpu_metric(50))).await?;
    Ok(site.expect(
        ACTIVE,
        &[
            "counted (3): NAME-0, NAME-1, NAME-job",
            "The selector matches 3 pods, but the target has 2",
            "Give the target labels of its own.",
        ],
    ))
}

/// During a rolling update, both replica sets have pods.
pub(super) async fn surplus_pods(site: Site) -> Result<Expected> {
    let target = super::targets::unmanaged_target(
        &site,
        4,
        json!({
            "replicas": 5, "selector": format!("app={}", site.name),
        }),
    )
    .await?;
    for index in 0..5 {
        add_pod(&site, &format!("{}-{index}", site.name), json!([container("app")])).await?;
    }
    site.env.metrics.set_external(&site.env.ns, "rate", &[("", "40")]);
    site.create_hpa(target.hpa_spec(1, 10, external_metric("rate", "10"))).await?;
    Ok(site.expect(
        ACTIVE,
        &[
            "NAME stays at 4: rate is at 8 per pod, target 10; metrics ask for 4",
            "The target has 5 pods for 4 replicas, as during a rolling update",
            "Lower maxSurge to limit that.",
        ],
    ))
}
