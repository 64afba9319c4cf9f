//! Metrics are read, but a limit overrides their proposal.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::{cpu_metric, external_metric};
use super::{CONTROLLER, Expected, Site};

const ACTIVE: [&str; 3] = ["ScalingActive", "True", "ValidMetricFound"];

pub(super) async fn within_tolerance(site: Site) -> Result<Expected> {
    let target = site.create_deployment(4).await?;
    site.set_cpu(51);
    site.create_hpa(target.hpa_spec(2, 10, cpu_metric(50))).await?;
    Ok(site.expect(
        ACTIVE,
        &[
            "NAME stays at 4: cpu is at 51% of requests, target 50%; within tolerance",
            "scales to 5 when average cpu rises to 56m (56% of requests); now 51m",
            "scales to 3 when average cpu falls to",
        ],
    ))
}

pub(super) async fn at_max_replicas(site: Site) -> Result<Expected> {
    let target = site.create_deployment(4).await?;
    site.set_cpu(100);
    site.create_hpa(target.hpa_spec(2, 4, cpu_metric(50))).await?;
    Ok(site.expect(
        ["ScalingLimited", "True", "TooManyReplicas"],
        &[
            "NAME stays at 4: cpu is at 100% of requests, target 50%; maxReplicas is 4, metrics \
             ask for 8",
            "scales to 8 with a maxReplicas of 8",
            "Raise spec.maxReplicas if the cluster has room",
        ],
    ))
}

pub(super) async fn at_min_replicas(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    site.set_cpu(5);
    site.create_hpa(target.hpa_spec(2, 10, cpu_metric(50))).await?;
    Ok(site.expect(
        ["ScalingLimited", "True", "TooFewReplicas"],
        &[
            "NAME stays at 2: cpu is at 5% of requests, target 50%; minReplicas is 2, metrics ask \
             for 1",
            "scales to 1 with a minReplicas of 1",
        ],
    ))
}

/// The spec with scaling rules for one direction.
fn with_rules(mut spec: Value, direction: &str, rules: Value) -> Value {
    spec["behavior"] = json!({ direction: rules });
    spec
}

pub(super) async fn scale_up_disabled(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    site.set_cpu(100);
    let spec = target.hpa_spec(2, 10, cpu_metric(50));
    site.create_hpa(with_rules(spec, "scaleUp", json!({ "selectPolicy": "Disabled" }))).await?;
    Ok(site.expect(
        ["ScalingLimited", "True", "ScaleUpLimit"],
        &[
            "NAME stays at 2: cpu is at 100% of requests, target 50%; scale-up is disabled by \
             behavior.scaleUp.selectPolicy, metrics ask for 4",
            "spec.behavior.scaleUp.selectPolicy is Disabled. Set it to Max or Min",
        ],
    ))
}

pub(super) async fn held_by_policy(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    site.set_cpu(100);
    let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": 1800 });
    let spec = target.hpa_spec(2, 10, cpu_metric(50));
    site.create_hpa(with_rules(spec, "scaleUp", json!({ "policies": [policy] }))).await?;
    target.wait_for_replicas(3).await?;
    site.wait_for_reported_replicas(3).await?;
    Ok(site.expect(
        ["ScalingLimited", "True", "ScaleUpLimit"],
        &[
            "NAME would scale from 3 to 4: cpu is at 100% of requests",
            "; the controller last reported ScaleUpLimit",
            "1 Pods in 1800s, from 3: at most 4",
            "It reports ScaleUpLimit",
            "so it may stay at 3 for now",
        ],
    ))
}

pub(super) async fn held_by_stabilization(site: Site) -> Result<Expected> {
    let target = site.create_deployment(4).await?;
    site.set_cpu(10);
    let spec = target.hpa_spec(1, 10, cpu_metric(50));
    let rules = json!({ "stabilizationWindowSeconds": 600 });
    site.create_hpa(with_rules(spec, "scaleDown", rules)).await?;
    Ok(site.expect(
        ["AbleToScale", "True", "ScaleDownStabilized"],
        &[
            "NAME would scale from 4 to 1: cpu is at 10% of requests, target 50%; the controller \
             last reported ScaleDownStabilized",
            "window down 600s, up 0s; past recommendations are not known",
            "It reports ScaleDownStabilized",
            "so it may stay at 4 for now",
        ],
    ))
}

/// The annotation has no effect on kube-controller-manager.
pub(super) async fn paused(site: Site) -> Result<Expected> {
    let target = site.create_deployment(4).await?;
    let has_effect = site.controller == CONTROLLER;
    site.set_cpu(if has_effect { 100 } else { 50 });
    let object = json!({
        "metadata": {
            "name": site.name, "annotations": { "autoscaling.hpa-rs.dev/pause": "true" },
        },
        "spec": target.hpa_spec(2, 10, cpu_metric(50)),
    });
    site.env.hpas().create(&<_>::default(), &serde_json::from_value(object)?).await?;
    if !has_effect {
        return Ok(site.expect(ACTIVE, &["NAME stays at 4", "; within tolerance"]));
    }
    Ok(site.expect(
        ["Paused", "True", "PausedByAnnotation"],
        &[
            "NAME is paused by annotation since ",
            " and stays at 4: cpu is at 100% of requests, target 50%; without the pause, it would \
             scale to 8",
            "scales to 8 without the pause",
            "Remove the annotation autoscaling.hpa-rs.dev/pause",
        ],
    ))
}

pub(super) async fn scaled_to_zero(site: Site) -> Result<Expected> {
    let target = site.create_deployment(1).await?;
    site.env.metrics.set_external(&site.env.ns, "queue", &[("", "0")]);
    site.create_hpa(target.hpa_spec(0, 10, external_metric("queue", "10"))).await?;
    target.wait_for_replicas(0).await?;
    site.wait_for_reported_replicas(0).await?;
    // Before 1.36, kube-controller-manager has no condition for a target that it scaled to zero.
    let has_condition = site.controller == CONTROLLER || site.env.plane.minor_version()? >= 36;
    let condition = if has_condition { ["ScaledToZero", "True", "ScaledToZero"] } else { ACTIVE };
    Ok(site.expect(
        condition,
        &[
            "NAME stays at 0: queue is at 0, target 10",
            "scales to 1 when queue rises above 0; now 0",
        ],
    ))
}
