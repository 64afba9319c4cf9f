//! Scaling up, down, within bounds, by policies, and to zero.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{cpu_metric, external_metric};
use crate::metrics::Load;
use crate::test_env::{
    Hpa, TestEnv, condition, current_metric, has_condition, has_replicas, message,
};

const CPU: &str = "cpu resource utilization (percentage of request)";

pub(super) async fn scales_up_and_down_on_cpu(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::Total(100));
    env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    let hpa = env.wait_until_settled("web", 2).await?;
    ensure!(message(&hpa, "AbleToScale") == "recommended size matches current size");
    let expected = format!("the HPA was able to successfully calculate a replica count from {CPU}");
    ensure!(message(&hpa, "ScalingActive") == expected, "{}", message(&hpa, "ScalingActive"));
    ensure!(has_condition(&hpa, "ScalingLimited", "False", "DesiredWithinRange"));
    ensure!(message(&hpa, "ScalingLimited") == "the desired count is within the acceptable range");
    let last_scale_time = |hpa: &Hpa| hpa.status.clone().and_then(|status| status.last_scale_time);
    ensure!(last_scale_time(&hpa).is_none(), "nothing was scaled yet");
    let metric = current_metric(&hpa);
    ensure!(
        metric["resource"]["current"] == json!({"averageUtilization": 50, "averageValue": "50m"}),
        "{metric}"
    );

    env.set_cpu("web", Load::Total(400));
    // A scale-up at most doubles the replicas.
    for size in [4, 8] {
        let text = format!("New size: {size}; reason: {CPU} above target");
        env.wait_for_event("web", "SuccessfulRescale", &text).await?;
    }
    web.wait_for_replicas(8).await?;
    let hpa = env.wait_until_settled("web", 8).await?;
    ensure!(last_scale_time(&hpa).is_some(), "no lastScaleTime");

    env.set_cpu("web", Load::Total(100));
    env.wait_for_condition("web", "AbleToScale", "True", "ScaleDownStabilized").await?;
    web.wait_for_replicas(2).await?;
    env.wait_for_event("web", "SuccessfulRescale", "New size: 2; reason: All metrics below target")
        .await?;
    env.wait_until_settled("web", 2).await?;
    Ok(())
}

pub(super) async fn replicas_stay_within_bounds(env: TestEnv) -> Result<()> {
    let low = env.create_deployment("low", 1).await?;
    env.set_cpu("low", Load::PerPod(50));
    env.create_hpa("low", low.hpa_spec(3, 5, cpu_metric(50))).await?;
    low.wait_for_replicas(3).await?;
    env.wait_for_event(
        "low",
        "SuccessfulRescale",
        "New size: 3; reason: Current number of replicas below Spec.MinReplicas",
    )
    .await?;

    let high = env.create_deployment("high", 6).await?;
    env.set_cpu("high", Load::PerPod(50));
    env.create_hpa("high", high.hpa_spec(1, 4, cpu_metric(50))).await?;
    high.wait_for_replicas(4).await?;
    env.wait_for_event(
        "high",
        "SuccessfulRescale",
        "New size: 4; reason: Current number of replicas above Spec.MaxReplicas",
    )
    .await?;
    let hpa = env.wait_until_settled("high", 4).await?;
    ensure!(has_condition(&hpa, "ScalingLimited", "False", "DesiredWithinRange"));

    env.set_cpu("high", Load::PerPod(100));
    let hpa = env.wait_for_condition("high", "ScalingLimited", "True", "TooManyReplicas").await?;
    let text = "the desired replica count is more than the maximum replica count";
    ensure!(message(&hpa, "ScalingLimited") == text);
    env.set_cpu("low", Load::PerPod(1));
    let hpa = env.wait_for_condition("low", "ScalingLimited", "True", "TooFewReplicas").await?;
    let text = "the desired replica count is less than the minimum replica count";
    ensure!(message(&hpa, "ScalingLimited") == text);
    // Zero replicas set by a user are a pause.
    low.scale(0).await?;
    let hpa = env
        .wait_for_hpa("low", "the pause", |hpa| {
            has_condition(hpa, "ScalingActive", "False", "ScalingDisabled") && has_replicas(hpa, 0)
        })
        .await?;
    let text = "scaling is disabled since the replica count of the target is zero";
    ensure!(message(&hpa, "ScalingActive") == text);
    low.scale(4).await?;
    low.wait_for_replicas(3).await?;
    env.wait_for_condition("low", "ScalingActive", "True", "ValidMetricFound").await?;
    Ok(())
}

pub(super) async fn behavior_policies(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 1).await?;
    env.set_cpu("web", Load::PerPod(100));
    let mut spec = web.hpa_spec(1, 10, cpu_metric(50));
    spec["behavior"] =
        json!({"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 600}]}});
    env.create_hpa("web", spec).await?;
    // The policy allows two more in ten minutes.
    web.wait_for_replicas(3).await?;
    let hpa = env.wait_for_hpa("web", "the policy", |hpa| {
        has_condition(hpa, "ScalingLimited", "True", "ScaleUpLimit") && has_replicas(hpa, 3)
    });
    let text = "the desired replica count is increasing faster than the maximum scale rate";
    ensure!(message(&hpa.await?, "ScalingLimited") == text);
    // The bounds override all policies.
    env.patch_hpa("web", json!({"spec": {"behavior": {"scaleUp": {"selectPolicy": "Disabled"}}}}))
        .await?;
    env.patch_hpa("web", json!({"spec": {"minReplicas": 5}})).await?;
    web.wait_for_replicas(5).await?;
    Ok(())
}

pub(super) async fn scale_to_zero_and_back(env: TestEnv) -> Result<()> {
    let worker = env.create_deployment("worker", 2).await?;
    env.metrics.set_external(&env.ns, "jobs", &[("", "20")]);
    env.create_hpa("worker", worker.hpa_spec(0, 10, external_metric("jobs", "10"))).await?;
    env.wait_until_settled("worker", 2).await?;

    env.metrics.set_external(&env.ns, "jobs", &[("", "0")]);
    worker.wait_for_replicas(0).await?;
    env.wait_for_event(
        "worker",
        "SuccessfulRescale",
        "New size: 0; reason: All metrics below target",
    )
    .await?;
    let hpa = env
        .wait_for_hpa("worker", "ScaledToZero=True", |hpa| {
            has_condition(hpa, "ScaledToZero", "True", "ScaledToZero")
                && has_condition(hpa, "ScalingActive", "True", "ValidMetricFound")
        })
        .await?;
    ensure!(message(&hpa, "ScaledToZero") == "the HPA controller scaled the workload to zero");

    env.metrics.set_external(&env.ns, "jobs", &[("", "30")]);
    worker.wait_for_replicas(3).await?;
    env.wait_for_event("worker", "SuccessfulRescale", "New size: 3; reason: external metric jobs")
        .await?;
    let hpa = env.wait_for_condition("worker", "ScaledToZero", "False", "NotScaledToZero").await?;
    ensure!(
        message(&hpa, "ScaledToZero") == "the HPA controller did not scale the workload to zero"
    );

    // Zero replicas set by a user are a pause, regardless of the metric.
    worker.scale(0).await?;
    let hpa = env
        .wait_for_hpa("worker", "the pause", |hpa| {
            has_condition(hpa, "ScalingActive", "False", "ScalingDisabled") && has_replicas(hpa, 0)
        })
        .await?;
    ensure!(condition(&hpa, "ScaledToZero").is_none_or(|condition| condition.status == "False"));
    worker.scale(1).await?;
    worker.wait_for_replicas(3).await?;
    env.wait_until_settled("worker", 3).await?;
    Ok(())
}

/// KEDA creates an autoscaler with a minimum of 1 and an external metric that it selects by label,
/// and scales the target between 0 and 1 itself.
pub(super) async fn keda_activates_the_target(env: TestEnv) -> Result<()> {
    let worker = env.create_deployment("worker", 1).await?;
    let set_metric = |value: &str| {
        let series = [("scaledobject.keda.sh/name=worker", value), ("other=1", "1000")];
        env.metrics.set_external(&env.ns, "s0-queue", &series);
    };
    let selector = json!({"matchLabels": {"scaledobject.keda.sh/name": "worker"}});
    let metrics = json!([{"type": "External", "external": {
        "metric": {"name": "s0-queue", "selector": selector},
        "target": {"type": "AverageValue", "averageValue": "10"},
    }}]);
    set_metric("0");
    env.create_hpa("keda-hpa-worker", worker.hpa_spec(1, 100, metrics)).await?;
    env.wait_until_settled("keda-hpa-worker", 1).await?;

    // Deactivated by KEDA.
    worker.scale(0).await?;
    env.wait_for_hpa("keda-hpa-worker", "zero replicas", |hpa| {
        has_condition(hpa, "ScalingActive", "False", "ScalingDisabled") && has_replicas(hpa, 0)
    })
    .await?;
    set_metric("30");
    // Activated by KEDA.
    worker.scale(1).await?;
    worker.wait_for_replicas(3).await?;
    env.wait_until_settled("keda-hpa-worker", 3).await?;
    set_metric("0");
    worker.wait_for_replicas(1).await?;
    Ok(())
}
