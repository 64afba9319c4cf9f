//! Metrics that can't be read.

use anyhow::Result;
use serde_json::json;

use super::super::{concat_metrics, cpu_metric, external_metric};
use super::{Expected, Site};
use crate::metrics::{Outage, Source};
use crate::test_env::TestEnv;

const FAILED: [&str; 3] = ["ScalingActive", "False", "FailedGetResourceMetric"];

pub(super) async fn one_metric_missing(site: Site) -> Result<Expected> {
    let target = site.create_deployment(4).await?;
    site.set_cpu(10);
    let metrics = concat_metrics([cpu_metric(50), external_metric("absent", "10")]);
    site.create_hpa(target.hpa_spec(1, 10, metrics)).await?;
    Ok(site.expect(
        ["ScalingActive", "False", "FailedGetExternalMetric"],
        &[
            "NAME stays at 4: absent cannot be read: ",
            "external.metrics.k8s.io lists no metrics, so its adapter may not reach Prometheus",
            "the autoscaler scales up by the others, but not down",
        ],
    ))
}

/// Moves the site to a new namespace whose CPU usage can't be read, and creates the target and the
/// autoscaler there.
async fn with_outage(site: Site, outage: Outage) -> Result<Site> {
    let ns = format!("{}-{}", site.env.ns, site.name);
    let env = TestEnv { ns, ..site.env };
    env.create_namespace().await?;
    env.metrics.set_outage(&env.ns, Source::Resource, Some(outage));
    let site = Site { env, ..site };
    let target = site.create_deployment(2).await?;
    site.create_hpa(target.hpa_spec(1, 10, cpu_metric(50))).await?;
    Ok(site)
}

pub(super) async fn metrics_api_down(site: Site) -> Result<Expected> {
    let site = with_outage(site, Outage::Unavailable).await?;
    Ok(site.expect(
        FAILED,
        &[
            "NAME stays at 2: cpu cannot be read: ",
            "Check that metrics.k8s.io works: kubectl get apiservices | grep metrics.k8s.io \
             names the service behind it.",
        ],
    ))
}

pub(super) async fn no_samples(site: Site) -> Result<Expected> {
    let site = with_outage(site, Outage::Empty).await?;
    Ok(site.expect(
        FAILED,
        &["NAME stays at 2: cpu cannot be read: ", "metrics.k8s.io works but has no value of cpu"],
    ))
}

pub(super) async fn container_unknown(site: Site) -> Result<Expected> {
    let target = site.create_deployment(2).await?;
    site.set_cpu(50);
    let source = json!({
        "name": "cpu", "container": "application",
        "target": { "type": "Utilization", "averageUtilization": 50 },
    });
    let metrics = json!([{ "type": "ContainerResource", "containerResource": source }]);
    site.create_hpa(target.hpa_spec(1, 10, metrics)).await?;
    Ok(site.expect(
        ["ScalingActive", "False", "FailedGetContainerResourceMetric"],
        &[
            "NAME stays at 2: ",
            "Correct the name of the container in spec.metrics[0], or select only pods that have \
             it",
        ],
    ))
}
