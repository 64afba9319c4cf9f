//! Metrics that fail: nothing is scaled down for want of them, and all is said.

use anyhow::{Result, ensure};

use super::{cpu, external, record};
use crate::metrics::{Load, Outage, Source};
use crate::world::{World, is, message};

pub(super) async fn resource_metrics_outage(w: World) -> Result<()> {
    let web = w.deployment("web", 4).await?;
    w.cpu("web", Load::Total(200));
    w.hpa("web", web.hpa(1, 10, cpu(50))).await?;
    w.settled("web", 4).await?;
    // After the outage there will be six; nothing else in between.
    let record = record(&web, 6).await;

    w.metrics.set_outage(&w.ns, Source::Resource, Some(Outage::Unavailable));
    let failed =
        |hpa: &crate::world::Hpa| is(hpa, "ScalingActive", "False", "FailedGetResourceMetric");
    let hpa = w.hpa_until("web", "the outage", failed).await?;
    let text = message(&hpa, "ScalingActive");
    let prefix = "the HPA was unable to compute the replica count: failed to get cpu utilization: \
                  unable to get metrics for resource cpu: ";
    ensure!(text.starts_with(prefix), "{text}");
    w.event("web", "FailedGetResourceMetric", "unable to get metrics for resource cpu").await?;
    let first = "invalid metrics (1 invalid out of 1), first error is: ";
    w.event("web", "FailedComputeMetricsReplicas", first).await?;

    w.metrics.set_outage(&w.ns, Source::Resource, Some(Outage::Empty));
    let hpa = w
        .hpa_until("web", "the empty answer", |hpa| {
            failed(hpa)
                && message(hpa, "ScalingActive")
                    .contains("no metrics returned from resource metrics API")
        })
        .await?;
    ensure!(
        hpa.status.is_some_and(|status| status.desired_replicas == 4),
        "desiredReplicas changed"
    );

    w.cpu("web", Load::Total(300));
    w.metrics.set_outage(&w.ns, Source::Resource, None);
    web.at(6).await?;
    w.settled("web", 6).await?;
    let seen = record.await??;
    ensure!(seen == [4, 6], "the replicas during the outage: {seen:?}");
    Ok(())
}

pub(super) async fn external_metric_outage(w: World) -> Result<()> {
    let worker = w.deployment("worker", 3).await?;
    // A metric that does not exist yet.
    w.hpa("worker", worker.hpa(1, 10, external("jobs", "10"))).await?;
    let failed =
        |hpa: &crate::world::Hpa| is(hpa, "ScalingActive", "False", "FailedGetExternalMetric");
    let hpa = w.hpa_until("worker", "no metric", failed).await?;
    let text = message(&hpa, "ScalingActive");
    ensure!(text.contains("unable to get external metric"), "{text}");
    w.event("worker", "FailedGetExternalMetric", "unable to get external metric").await?;
    let record = record(&worker, 5).await;
    w.metrics.set_external(&w.ns, "jobs", &[("", "30")]);
    w.settled("worker", 3).await?;
    w.metrics.set_outage(&w.ns, Source::External, Some(Outage::Unavailable));
    w.hpa_until("worker", "the outage", failed).await?;
    w.metrics.set_external(&w.ns, "jobs", &[("", "50")]);
    w.metrics.set_outage(&w.ns, Source::External, None);
    worker.at(5).await?;
    let seen = record.await??;
    ensure!(seen == [3, 5], "the replicas during the outage: {seen:?}");
    Ok(())
}
