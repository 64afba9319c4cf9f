//! Concurrent writers of the same objects, and no needless writes by the controller.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::json;

use super::{cpu_hpa_spec, cpu_metric, record_replicas};
use crate::metrics::Load;
use crate::test_env::{Target, TestEnv, WAIT_LIMIT, has_condition, has_replicas, spec_replicas};
use crate::wait;

/// Changes an annotation of the target often enough that some scale writes conflict.
async fn write_annotations(target: Target) -> Result<()> {
    let mut interval = tokio::time::interval(Duration::from_millis(10));
    for count in 0_u64.. {
        interval.tick().await;
        let patch =
            Patch::Merge(json!({"metadata": {"annotations": {"count": count.to_string()}}}));
        target.api.patch(&target.name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// Waits for the event of a scaling, or for the event of a failed scale write that is no conflict.
/// A busy API server may apply a write and respond with an error, such as a timeout. The controller
/// reports that error, because it can't detect that the write was applied.
async fn wait_for_rescale_event(env: &TestEnv, replicas: i32) -> Result<()> {
    let size = format!("New size: {replicas}; ");
    let config = watcher::Config::default().fields("involvedObject.name=web");
    let awaited = format!("an event {size:?} about web that is no conflict");
    wait::first_match(&env.events(), config, &awaited, WAIT_LIMIT, |event| {
        let message = event.message.unwrap_or_default();
        let is_conflict = message.contains("the object has been modified");
        (message.contains(&size) && !is_conflict).then_some(())
    })
    .await
}

pub(super) async fn scaling_continues_despite_conflicts(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 1).await?;
    env.set_cpu("web", Load::Total(50));
    env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    env.wait_until_settled("web", 1).await?;
    let scaling = async {
        for replicas in [2, 4, 3, 5, 1] {
            env.set_cpu("web", Load::Total(50 * i64::from(replicas)));
            web.wait_for_replicas(replicas).await?;
            wait_for_rescale_event(&env, replicas).await?;
        }
        Ok(())
    };
    tokio::select! {
        result = scaling => result,
        result = write_annotations(web.clone()) => result,
    }
}

/// If a user scales between the read and the write of a scale, the controller decides again.
pub(super) async fn manual_change_is_not_overwritten(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::PerPod(50));
    env.create_hpa("web", web.hpa_spec(1, 20, cpu_metric(50))).await?;
    env.wait_until_settled("web", 2).await?;
    let mut writes = env.hold_scale_writes(&web).await?;

    // A user scales beyond the new minReplicas, which the controller is about to enforce.
    let recording = record_replicas(&web, 6).await;
    env.patch_hpa("web", json!({"spec": {"minReplicas": 4}})).await?;
    let write = writes.next().await?;
    web.scale(6).await?;
    drop(write);
    env.wait_until_settled("web", 6).await?;
    let seen = recording.await??;
    ensure!(seen == [2, 6], "the replicas: {seen:?}");

    // A user scales to zero, which is a pause.
    env.patch_hpa("web", json!({"spec": {"minReplicas": 8}})).await?;
    let write = writes.next().await?;
    web.scale(0).await?;
    let watch = wait::observe_for(&web.api, "web", Duration::from_secs(3));
    drop(write);
    let paused = env.wait_for_hpa("web", "the pause", |hpa| {
        has_condition(hpa, "ScalingActive", "False", "ScalingDisabled") && has_replicas(hpa, 0)
    });
    let (seen, paused) = tokio::join!(watch, paused);
    let replicas: Vec<i64> = seen?.iter().map(spec_replicas).collect();
    ensure!(replicas.iter().all(|replicas| *replicas == 0), "after the pause: {replicas:?}");
    paused?;
    Ok(())
}

/// Without changes, five sync periods pass without a write, for healthy and failing autoscalers.
pub(super) async fn steady_state_writes_nothing(env: TestEnv) -> Result<()> {
    let good = env.create_deployment("good", 2).await?;
    env.set_cpu("good", Load::PerPod(52));
    env.create_hpa("good", good.hpa_spec(1, 5, cpu_metric(50))).await?;
    let bad = env.create_deployment("bad", 2).await?;
    env.create_hpa("bad", bad.hpa_spec(1, 5, cpu_metric(50))).await?;
    env.create_hpa("lost", cpu_hpa_spec("apps/v1", "Deployment", "lost", 1, 5)).await?;
    env.wait_until_settled("good", 2).await?;
    env.wait_for_condition("bad", "ScalingActive", "False", "FailedGetResourceMetric").await?;
    env.wait_for_condition("lost", "AbleToScale", "False", "FailedGetScale").await?;
    // The second status write, which is the last one, needs one more period.
    wait::observe_for(&env.hpas(), "good", Duration::from_millis(1500)).await?;

    let hpas = env.hpas();
    let five_periods = Duration::from_secs(5);
    let (a, b, c) = tokio::try_join!(
        wait::observe_for(&hpas, "good", five_periods),
        wait::observe_for(&hpas, "bad", five_periods),
        wait::observe_for(&hpas, "lost", five_periods),
    )?;
    for seen in [a, b, c] {
        let texts: Vec<String> = seen.iter().map(|hpa| json!(hpa.status).to_string()).collect();
        ensure!(seen.len() == 1, "not one state in five periods:\n{}", texts.join("\n"));
    }
    // The healthy autoscaler has no event either.
    let events =
        env.events().list(&ListParams::default().fields("involvedObject.name=good")).await?;
    ensure!(events.items.is_empty(), "{}", json!(events.items));
    Ok(())
}
