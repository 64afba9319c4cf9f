//! Reads metrics from Prometheus by rules, like the controller and the adapter.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Result, bail, ensure};
use hpa_metrics::{
    Catalog as _, FixedMapper, ObjectKey, ObjectMetadata,
    resource::{ApiResource, ApiResources, GroupResource},
    test_doubles::FixedObjects,
};
use hpa_prometheus::client::{Client, InstantQuery, Settings, TimeoutParameter};
use hpa_prometheus::rules::{Config, results::QueryResult};
use hpa_prometheus::source::{PrometheusSettings, PrometheusSource, Servers, SharingSettings};
use jiff::Timestamp;
use tokio::time::{Instant, interval};

use crate::fixture::COMPLETE;

/// Deadline for Prometheus to start and to scrape all samples.
const LIMIT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A query that has a result once the cookbook's recording rule has evaluated enough samples.
const RECORDED_RATE: &str = r#"namespace_deployment:http_requests:rate5m{deployment="web"} > 49.9"#;
/// The namespace of the autoscaler.
pub(crate) const NAMESPACE: &str = "shop";
/// The pods of the autoscaler's target.
const PODS: [&str; 3] = ["web-1", "web-2", "web-3"];

pub(crate) struct Reader {
    url: String,
    client: Client,
    pub(crate) resources: ApiResources,
}

impl Reader {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let client = Client::new(Settings::new("fixture", url)?, Arc::new(()))?;
        Ok(Self { url: url.to_owned(), client, resources: resources() })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// A reader whose queries are evaluated at this time.
    pub(crate) fn at(&self, time: Timestamp) -> Result<Self> {
        Self::new(&format!("{}/?time={}", self.url, time.as_second()))
    }

    /// Waits until all samples are scraped and the recording rule has evaluated them.
    pub(crate) async fn wait_until_complete(&self) -> Result<()> {
        for query in [COMPLETE, RECORDED_RATE] {
            self.wait_for_result(query).await?;
        }
        Ok(())
    }

    /// Polls until a query has a result. Prometheus has no API to wait for one.
    pub(crate) async fn wait_for_result(&self, query: &str) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        let mut polls = interval(POLL_INTERVAL);
        let request =
            InstantQuery { query: query.to_owned(), timeout: TimeoutParameter::default() };
        loop {
            polls.tick().await;
            let last = match self.client.query(&request).await.as_deref() {
                Ok(QueryResult::Vector(Some(samples))) if !samples.is_empty() => return Ok(()),
                Ok(_) => "no result".to_owned(),
                Err(error) => error.to_string(),
            };
            if Instant::now() > deadline {
                bail!("waited {LIMIT:?} for {query}: {last}");
            }
        }
    }

    /// A source of the metrics of a rules file, which has discovered their series.
    pub(crate) async fn source(&self, file: &str) -> Result<PrometheusSource> {
        self.source_with(file, None).await
    }

    /// Like [`Self::source`], but shares queries if there are settings for it.
    pub(crate) async fn source_with(
        &self,
        file: &str,
        sharing: Option<SharingSettings>,
    ) -> Result<PrometheusSource> {
        let pod = |name| {
            let key = ObjectKey::new(NAMESPACE, name);
            (GroupResource::pods(), ObjectMetadata { key, ..ObjectMetadata::default() })
        };
        let objects = FixedObjects { objects: PODS.map(pod).into(), ..FixedObjects::default() };
        let source = PrometheusSource::new(
            Config::parse(file)?,
            Servers::new(Some(self.client.clone()), Arc::new(())),
            PrometheusSettings { sharing, ..PrometheusSettings::default() },
            Arc::new(FixedMapper(self.resources.clone())),
            Arc::new(objects),
        )?;
        source.relist().await?;
        let problems = source.problems();
        ensure!(problems.is_empty(), "{problems:?}");
        Ok(source)
    }
}

/// The names of all metrics, as discovery lists them: custom ones with their resource.
pub(crate) fn metric_names(source: &PrometheusSource) -> Vec<String> {
    let custom = source.custom_metrics().into_iter();
    let custom = custom.map(|listed| format!("{}/{}", listed.resource, listed.metric));
    let external = source.external_metrics().into_iter().map(|listed| listed.metric);
    let mut all: Vec<String> = custom.chain(external).collect();
    all.sort();
    all
}

/// The kinds that the rules refer to.
pub(crate) fn resources() -> ApiResources {
    let kinds = [
        ("", "Pod", "pods"),
        ("", "Namespace", "namespaces"),
        ("", "Node", "nodes"),
        ("", "Service", "services"),
        ("apps", "Deployment", "deployments"),
        ("networking.k8s.io", "Ingress", "ingresses"),
    ];
    ApiResources::new(kinds.map(|(group, kind, plural)| ApiResource {
        group_resource: GroupResource::new(group, plural),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        singular: kind.to_lowercase(),
    }))
}

/// Compares values with a tolerance of 0.5 %.
pub(crate) fn compare(found: &BTreeMap<String, f64>, expected: &[(&str, f64)]) -> Result<()> {
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let expected_names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    ensure!(names == expected_names, "values of {names:?}, expected {expected_names:?}");
    for (value, (name, expected)) in found.values().zip(expected) {
        let difference = (value - expected).abs();
        ensure!(difference <= expected.abs() * 0.005, "{name} is {value}, expected {expected}");
    }
    Ok(())
}
