//! More than one autoscaler of the same pods, at the same time or one after the other.

use anyhow::{Result, ensure};

use super::cpu;
use crate::metrics::Load;
use crate::world::{World, is, message};

pub(super) async fn ambiguous_selector(w: World) -> Result<()> {
    let web = w.deployment("web", 2).await?;
    w.cpu("web", Load::PerPod(50));
    w.hpa("one", web.hpa(1, 5, cpu(50))).await?;
    w.settled("one", 2).await?;
    w.hpa("two", web.hpa(1, 5, cpu(50))).await?;
    for name in ["one", "two"] {
        let hpa = w
            .hpa_until(name, "both to stop", |hpa| {
                is(hpa, "ScalingActive", "False", "AmbiguousSelector")
            })
            .await?;
        let text = message(&hpa, "ScalingActive");
        let prefix = "pods by selector app=web are controlled by multiple HPAs: [";
        let both = ["one", "two"].iter().all(|other| text.contains(&format!("{}/{other}", w.ns)));
        ensure!(text.starts_with(prefix) && both, "{text}");
        w.event(name, "AmbiguousSelector", prefix).await?;
    }
    // Neither scales.
    w.cpu("web", Load::PerPod(100));
    let seen = crate::wait::during(&web.api, "web", std::time::Duration::from_secs(3)).await?;
    ensure!(seen.iter().all(|web| crate::world::spec_replicas(web) == 2), "one of them scaled");

    w.cpu("web", Load::Total(100));
    w.delete_hpa("two").await?;
    w.settled("one", 2).await?;
    w.cpu("web", Load::Total(150));
    web.at(3).await?;
    Ok(())
}

/// An autoscaler of the same name starts without the recommendations of the one before.
pub(super) async fn recreation_forgets(w: World) -> Result<()> {
    let _controller =
        w.controller("patient", &["--horizontal-pod-autoscaler-downscale-stabilization=5m"])?;
    let web = w.deployment("web", 8).await?;
    w.cpu("web", Load::Total(400));
    let before = w.hpa("web", web.hpa(1, 10, cpu(50))).await?;
    w.settled("web", 8).await?;
    w.cpu("web", Load::Total(100));
    let stabilized = |hpa: &crate::world::Hpa| {
        is(hpa, "AbleToScale", "True", "ScaleDownStabilized") && crate::world::at(hpa, 8)
    };
    w.hpa_until("web", "the stabilization", stabilized).await?;

    // With the old recommendations, two would become eight again.
    w.delete_hpa("web").await?;
    web.set(2).await?;
    let after = w.hpa("web", web.hpa(1, 10, cpu(50))).await?;
    ensure!(before.metadata.uid != after.metadata.uid);
    w.settled("web", 2).await?;
    let seen = crate::wait::during(&web.api, "web", std::time::Duration::from_secs(3)).await?;
    ensure!(
        seen.iter().all(|web| crate::world::spec_replicas(web) == 2),
        "recommendations were inherited"
    );
    Ok(())
}
