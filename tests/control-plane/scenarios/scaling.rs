//! What any autoscaler does: up, down, to its bounds, at the speed of its policies, to zero.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{cpu, external};
use crate::metrics::Load;
use crate::world::{World, at, condition, current_metric, is, message};

const CPU: &str = "cpu resource utilization (percentage of request)";

pub(super) async fn up_and_down_on_cpu(w: World) -> Result<()> {
    let web = w.deployment("web", 2).await?;
    w.cpu("web", Load::Total(100));
    w.hpa("web", web.hpa(1, 10, cpu(50))).await?;
    let hpa = w.settled("web", 2).await?;
    ensure!(message(&hpa, "AbleToScale") == "recommended size matches current size");
    let expected = format!("the HPA was able to successfully calculate a replica count from {CPU}");
    ensure!(message(&hpa, "ScalingActive") == expected, "{}", message(&hpa, "ScalingActive"));
    ensure!(is(&hpa, "ScalingLimited", "False", "DesiredWithinRange"));
    ensure!(message(&hpa, "ScalingLimited") == "the desired count is within the acceptable range");
    let status = hpa.status.clone().unwrap_or_default();
    ensure!(status.last_scale_time.is_none(), "nothing was scaled yet");
    let metric = current_metric(&hpa);
    ensure!(
        metric["resource"]["current"] == json!({"averageUtilization": 50, "averageValue": "50m"}),
        "{metric}"
    );

    w.cpu("web", Load::Total(400));
    // Twice as many at most, in one step; the target follows.
    w.event("web", "SuccessfulRescale", &format!("New size: 4; reason: {CPU} above target"))
        .await?;
    w.event("web", "SuccessfulRescale", &format!("New size: 8; reason: {CPU} above target"))
        .await?;
    web.at(8).await?;
    let hpa = w.settled("web", 8).await?;
    ensure!(hpa.status.clone().unwrap_or_default().last_scale_time.is_some(), "no lastScaleTime");

    w.cpu("web", Load::Total(100));
    w.hpa_until("web", "the stabilization", |hpa| {
        is(hpa, "AbleToScale", "True", "ScaleDownStabilized")
    })
    .await?;
    web.at(2).await?;
    w.event("web", "SuccessfulRescale", "New size: 2; reason: All metrics below target").await?;
    w.settled("web", 2).await?;
    Ok(())
}

pub(super) async fn bounds(w: World) -> Result<()> {
    let low = w.deployment("low", 1).await?;
    w.cpu("low", Load::PerPod(50));
    w.hpa("low", low.hpa(3, 5, cpu(50))).await?;
    low.at(3).await?;
    w.event(
        "low",
        "SuccessfulRescale",
        "New size: 3; reason: Current number of replicas below Spec.MinReplicas",
    )
    .await?;

    let high = w.deployment("high", 6).await?;
    w.cpu("high", Load::PerPod(50));
    w.hpa("high", high.hpa(1, 4, cpu(50))).await?;
    high.at(4).await?;
    w.event(
        "high",
        "SuccessfulRescale",
        "New size: 4; reason: Current number of replicas above Spec.MaxReplicas",
    )
    .await?;
    let hpa = w.settled("high", 4).await?;
    ensure!(is(&hpa, "ScalingLimited", "False", "DesiredWithinRange"));

    w.cpu("high", Load::PerPod(100));
    let hpa = w
        .hpa_until("high", "the upper bound", |hpa| {
            is(hpa, "ScalingLimited", "True", "TooManyReplicas")
        })
        .await?;
    let text = "the desired replica count is more than the maximum replica count";
    ensure!(message(&hpa, "ScalingLimited") == text);
    w.cpu("low", Load::PerPod(1));
    let hpa = w
        .hpa_until("low", "the lower bound", |hpa| {
            is(hpa, "ScalingLimited", "True", "TooFewReplicas")
        })
        .await?;
    let text = "the desired replica count is less than the minimum replica count";
    ensure!(message(&hpa, "ScalingLimited") == text);
    // A paused target: zero replicas, by hand.
    low.set(0).await?;
    let hpa = w
        .hpa_until("low", "the pause", |hpa| {
            is(hpa, "ScalingActive", "False", "ScalingDisabled") && at(hpa, 0)
        })
        .await?;
    let text = "scaling is disabled since the replica count of the target is zero";
    ensure!(message(&hpa, "ScalingActive") == text);
    low.set(4).await?;
    low.at(3).await?;
    w.hpa_until("low", "the end of the pause", |hpa| {
        is(hpa, "ScalingActive", "True", "ValidMetricFound")
    })
    .await?;
    Ok(())
}

pub(super) async fn behavior_policies(w: World) -> Result<()> {
    let web = w.deployment("web", 1).await?;
    w.cpu("web", Load::PerPod(100));
    let mut spec = web.hpa(1, 10, cpu(50));
    spec["behavior"] =
        json!({"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 600}]}});
    w.hpa("web", spec).await?;
    // Two more than there were, and no more for ten minutes.
    web.at(3).await?;
    let hpa = w.hpa_until("web", "the policy", |hpa| {
        is(hpa, "ScalingLimited", "True", "ScaleUpLimit") && at(hpa, 3)
    });
    let text = "the desired replica count is increasing faster than the maximum scale rate";
    ensure!(message(&hpa.await?, "ScalingLimited") == text);
    // The bounds of the specification win over any policy.
    w.patch_hpa("web", json!({"spec": {"behavior": {"scaleUp": {"selectPolicy": "Disabled"}}}}))
        .await?;
    w.patch_hpa("web", json!({"spec": {"minReplicas": 5}})).await?;
    web.at(5).await?;
    Ok(())
}

pub(super) async fn scale_to_zero_and_back(w: World) -> Result<()> {
    let worker = w.deployment("worker", 2).await?;
    w.metrics.set_external(&w.ns, "jobs", &[("", "20")]);
    w.hpa("worker", worker.hpa(0, 10, external("jobs", "10"))).await?;
    w.settled("worker", 2).await?;

    w.metrics.set_external(&w.ns, "jobs", &[("", "0")]);
    worker.at(0).await?;
    w.event("worker", "SuccessfulRescale", "New size: 0; reason: All metrics below target").await?;
    let hpa = w
        .hpa_until("worker", "its own zero", |hpa| {
            is(hpa, "ScaledToZero", "True", "ScaledToZero")
                && is(hpa, "ScalingActive", "True", "ValidMetricFound")
        })
        .await?;
    ensure!(message(&hpa, "ScaledToZero") == "the HPA controller scaled the workload to zero");

    w.metrics.set_external(&w.ns, "jobs", &[("", "30")]);
    worker.at(3).await?;
    w.event("worker", "SuccessfulRescale", "New size: 3; reason: external metric jobs").await?;
    let hpa = w
        .hpa_until("worker", "the end of zero", |hpa| {
            is(hpa, "ScaledToZero", "False", "NotScaledToZero")
        })
        .await?;
    ensure!(
        message(&hpa, "ScaledToZero") == "the HPA controller did not scale the workload to zero"
    );

    // Zero by hand is a pause, whatever the metric says.
    worker.set(0).await?;
    let hpa = w
        .hpa_until("worker", "the pause", |hpa| {
            is(hpa, "ScalingActive", "False", "ScalingDisabled") && at(hpa, 0)
        })
        .await?;
    ensure!(condition(&hpa, "ScaledToZero").is_none_or(|condition| condition.status == "False"));
    worker.set(1).await?;
    worker.at(3).await?;
    w.settled("worker", 3).await?;
    Ok(())
}
