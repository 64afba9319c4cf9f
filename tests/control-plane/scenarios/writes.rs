//! Other writers of the same objects, and no needless writes of our own.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::{cpu, record};
use crate::metrics::Load;
use crate::wait;
use crate::world::{Target, World, at, is, spec_replicas};

/// Changes an annotation of the target often enough to get between a reading and a write, but not always.
async fn hammer(target: Target) -> Result<()> {
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    for count in 0_u64.. {
        pace.tick().await;
        let patch =
            Patch::Merge(json!({"metadata": {"annotations": {"count": count.to_string()}}}));
        target.api.patch(&target.name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// The target changes all the time, but not its replicas: scaling goes on.
pub(super) async fn conflicts(w: World) -> Result<()> {
    let web = w.deployment("web", 1).await?;
    w.cpu("web", Load::Total(50));
    w.hpa("web", web.hpa(1, 10, cpu(50))).await?;
    w.settled("web", 1).await?;
    let scaling = async {
        for replicas in [2, 4, 3, 5, 1] {
            w.cpu("web", Load::Total(50 * i64::from(replicas)));
            web.at(replicas).await?;
            w.event("web", "SuccessfulRescale", &format!("New size: {replicas}; ")).await?;
        }
        Ok(())
    };
    tokio::select! {
        result = scaling => result,
        result = hammer(web.clone()) => result,
    }
}

/// Replicas set by hand between the reading of a scale and its write count: the write is decided again, not forced.
pub(super) async fn manual_change_wins(w: World) -> Result<()> {
    let web = w.deployment("web", 2).await?;
    w.cpu("web", Load::PerPod(50));
    w.hpa("web", web.hpa(1, 20, cpu(50))).await?;
    w.settled("web", 2).await?;
    let mut writes = w.hold_scale_writes(&web).await?;

    // More than the new lower bound that it is about to apply.
    let record = record(&web, 6).await;
    w.patch_hpa("web", json!({"spec": {"minReplicas": 4}})).await?;
    let write = writes.next().await?;
    web.set(6).await?;
    drop(write);
    w.settled("web", 6).await?;
    let seen = record.await??;
    ensure!(seen == [2, 6], "the replicas: {seen:?}");

    // A pause.
    w.patch_hpa("web", json!({"spec": {"minReplicas": 8}})).await?;
    let write = writes.next().await?;
    web.set(0).await?;
    let watch = wait::during(&web.api, "web", Duration::from_secs(3));
    drop(write);
    let paused = w.hpa_until("web", "the pause", |hpa| {
        is(hpa, "ScalingActive", "False", "ScalingDisabled") && at(hpa, 0)
    });
    let (seen, paused) = tokio::join!(watch, paused);
    let replicas: Vec<i64> = seen?.iter().map(spec_replicas).collect();
    ensure!(replicas.iter().all(|replicas| *replicas == 0), "after the pause: {replicas:?}");
    paused?;
    Ok(())
}

/// Five periods in which nothing changes are five periods without a write, be all well or not.
pub(super) async fn no_writes_when_steady(w: World) -> Result<()> {
    let good = w.deployment("good", 2).await?;
    w.cpu("good", Load::PerPod(52));
    w.hpa("good", good.hpa(1, 5, cpu(50))).await?;
    let bad = w.deployment("bad", 2).await?;
    w.hpa("bad", bad.hpa(1, 5, cpu(50))).await?;
    let lost = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "lost"});
    w.hpa("lost", json!({"scaleTargetRef": lost, "maxReplicas": 5, "metrics": cpu(50)})).await?;
    w.settled("good", 2).await?;
    w.hpa_until("bad", "the failure", |hpa| {
        is(hpa, "ScalingActive", "False", "FailedGetResourceMetric")
    })
    .await?;
    w.hpa_until("lost", "the failure", |hpa| is(hpa, "AbleToScale", "False", "FailedGetScale"))
        .await?;
    // One more period for the second status, after which no more is expected.
    wait::during(&w.hpas(), "good", Duration::from_millis(1500)).await?;

    let hpas = w.hpas();
    let five = Duration::from_secs(5);
    let (a, b, c) = tokio::try_join!(
        wait::during(&hpas, "good", five),
        wait::during(&hpas, "bad", five),
        wait::during(&hpas, "lost", five),
    )?;
    for seen in [a, b, c] {
        let texts: Vec<String> = seen.iter().map(|hpa| json!(hpa.status).to_string()).collect();
        ensure!(
            seen.len() == 1,
            "{} writes in five periods:\n{}",
            seen.len() - 1,
            texts.join("\n")
        );
    }
    // Nor is there an event that speaks of the healthy one.
    let events = w.events().list(&ListParams::default().fields("involvedObject.name=good")).await?;
    ensure!(events.items.is_empty(), "{}", json!(events.items));
    Ok(())
}
