//! Several autoscalers of the same pods, concurrently or one after the other.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::cpu_metric;
use crate::metrics::Load;
use crate::test_env::{Hpa, TestEnv, has_condition, has_replicas, message, spec_replicas};
use crate::wait;

pub(super) async fn ambiguous_selector(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::PerPod(50));
    env.create_hpa("one", web.hpa_spec(1, 5, cpu_metric(50))).await?;
    env.wait_until_settled("one", 2).await?;
    env.create_hpa("two", web.hpa_spec(1, 5, cpu_metric(50))).await?;
    for name in ["one", "two"] {
        let hpa =
            env.wait_for_condition(name, "ScalingActive", "False", "AmbiguousSelector").await?;
        let text = message(&hpa, "ScalingActive");
        let prefix = "pods by selector app=web are controlled by multiple HPAs: [";
        let both = ["one", "two"].iter().all(|other| text.contains(&format!("{}/{other}", env.ns)));
        ensure!(text.starts_with(prefix) && both, "{text}");
        env.wait_for_event(name, "AmbiguousSelector", prefix).await?;
    }
    // Neither scales.
    env.set_cpu("web", Load::PerPod(100));
    let seen = wait::observe_for(&web.api, "web", Duration::from_secs(3)).await?;
    ensure!(seen.iter().all(|web| spec_replicas(web) == 2), "one of them scaled");

    env.set_cpu("web", Load::Total(100));
    env.delete_hpa("two").await?;
    env.wait_until_settled("one", 2).await?;
    env.set_cpu("web", Load::Total(150));
    web.wait_for_replicas(3).await?;
    Ok(())
}

pub(super) async fn recreated_autoscaler_starts_without_recommendations(
    env: TestEnv,
) -> Result<()> {
    let _controller = env
        .start_controller("patient", &["--horizontal-pod-autoscaler-downscale-stabilization=5m"])?;
    let web = env.create_deployment("web", 8).await?;
    env.set_cpu("web", Load::Total(400));
    let before = env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    env.wait_until_settled("web", 8).await?;
    env.set_cpu("web", Load::Total(100));
    let stabilized = |hpa: &Hpa| {
        has_condition(hpa, "AbleToScale", "True", "ScaleDownStabilized") && has_replicas(hpa, 8)
    };
    env.wait_for_hpa("web", "the stabilization", stabilized).await?;

    // With the old recommendations, the controller would scale to eight again.
    env.delete_hpa("web").await?;
    web.scale(2).await?;
    let after = env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    ensure!(before.metadata.uid != after.metadata.uid);
    env.wait_until_settled("web", 2).await?;
    let seen = wait::observe_for(&web.api, "web", Duration::from_secs(3)).await?;
    ensure!(seen.iter().all(|web| spec_replicas(web) == 2), "recommendations were inherited");
    Ok(())
}
