//! Metric outages are reported and don't scale down.

use anyhow::{Result, ensure};

use super::{cpu_metric, external_metric, record_replicas};
use crate::metrics::{Load, Outage, Source};
use crate::test_env::{Hpa, TestEnv, has_condition, message};

pub(super) async fn resource_metrics_outage(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 4).await?;
    env.set_cpu("web", Load::Total(200));
    env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    env.wait_until_settled("web", 4).await?;
    // The controller keeps four replicas during the outage, and then scales to six.
    let recording = record_replicas(&web, 6).await;

    env.metrics.set_outage(&env.ns, Source::Resource, Some(Outage::Unavailable));
    let failed =
        |hpa: &Hpa| has_condition(hpa, "ScalingActive", "False", "FailedGetResourceMetric");
    let hpa = env.wait_for_hpa("web", "the outage", failed).await?;
    let text = message(&hpa, "ScalingActive");
    let prefix = "the HPA was unable to compute the replica count: failed to get cpu utilization: \
                  unable to get metrics for resource cpu: ";
    ensure!(text.starts_with(prefix), "{text}");
    env.wait_for_event("web", "FailedGetResourceMetric", "unable to get metrics for resource cpu")
        .await?;
    let first = "invalid metrics (1 invalid out of 1), first error is: ";
    env.wait_for_event("web", "FailedComputeMetricsReplicas", first).await?;

    env.metrics.set_outage(&env.ns, Source::Resource, Some(Outage::Empty));
    let hpa = env
        .wait_for_hpa("web", "the empty response", |hpa| {
            failed(hpa)
                && message(hpa, "ScalingActive")
                    .contains("no metrics returned from resource metrics API")
        })
        .await?;
    ensure!(
        hpa.status.is_some_and(|status| status.desired_replicas == 4),
        "desiredReplicas changed"
    );

    env.set_cpu("web", Load::Total(300));
    env.metrics.set_outage(&env.ns, Source::Resource, None);
    web.wait_for_replicas(6).await?;
    env.wait_until_settled("web", 6).await?;
    let seen = recording.await??;
    ensure!(seen == [4, 6], "the replicas during the outage: {seen:?}");
    Ok(())
}

pub(super) async fn external_metric_outage(env: TestEnv) -> Result<()> {
    let worker = env.create_deployment("worker", 3).await?;
    // The metric does not exist yet.
    env.create_hpa("worker", worker.hpa_spec(1, 10, external_metric("jobs", "10"))).await?;
    let failed = "FailedGetExternalMetric";
    let hpa = env.wait_for_condition("worker", "ScalingActive", "False", failed).await?;
    let text = message(&hpa, "ScalingActive");
    ensure!(text.contains("unable to get external metric"), "{text}");
    env.wait_for_event("worker", failed, "unable to get external metric").await?;
    let recording = record_replicas(&worker, 5).await;
    env.metrics.set_external(&env.ns, "jobs", &[("", "30")]);
    env.wait_until_settled("worker", 3).await?;
    env.metrics.set_outage(&env.ns, Source::External, Some(Outage::Unavailable));
    env.wait_for_condition("worker", "ScalingActive", "False", failed).await?;
    env.metrics.set_external(&env.ns, "jobs", &[("", "50")]);
    env.metrics.set_outage(&env.ns, Source::External, None);
    worker.wait_for_replicas(5).await?;
    let seen = recording.await??;
    ensure!(seen == [3, 5], "the replicas during the outage: {seen:?}");
    Ok(())
}
