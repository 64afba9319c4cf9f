//! Metrics from Prometheus in the controller's process: `hpa run --metrics-config`.

use std::sync::Arc;

use anyhow::{Context, bail};
use async_trait::async_trait;
use hpa_calc::{Selector, api::PodPhase};
use hpa_controller::{Dependencies, Options, Telemetry, cache::PodLookup, k8s::Clients};
use hpa_prometheus::Client;
use hpa_provider::{
    DiscoveryMapper, ListError, ObjectKey, ObjectLister, ObjectMetadata, PrometheusProvider,
    PrometheusSettings, ProviderSource, RulesFile, Servers,
};
use hpa_rules::{ApiResource, Compat, Config, GroupResource};
use tracing::info;

use crate::{
    args::{RunArguments, to_std},
    prometheus_metrics::{RequestMetrics, RuleMetrics},
    query_exports::QueryCollector,
};

/// Metrics from Prometheus.
pub(crate) struct Metrics {
    provider: Arc<PrometheusProvider>,
    pods: PodLookup,
}

impl Metrics {
    /// Reads the rules file and starts the discovery. `None` if no file is configured.
    pub(crate) async fn new(
        arguments: &RunArguments,
        clients: &Clients,
        telemetry: &Telemetry,
    ) -> anyhow::Result<Option<Self>> {
        let Some(path) = &arguments.metrics.metrics_config else {
            return Ok(None);
        };
        let name = || format!("--metrics-config {}", path.display());
        let file = RulesFile::read(path.clone()).with_context(name)?;
        let config = Config::parse(&file.text).with_context(name)?;
        if !config.rules.is_empty() {
            let flags = &arguments.prometheus;
            if flags.max_age() < flags.metrics_relist_interval {
                bail!("--metrics-max-age must not be less than --metrics-relist-interval");
            }
        }
        let requests = Arc::new(RequestMetrics::new()?);
        telemetry.attach_collector(requests.clone());
        let server = arguments.prometheus.server(Compat::Off)?;
        let client = server.map(|server| Client::new(server, requests.clone())).transpose()?;
        let servers =
            Servers::new(client, requests).permitting(arguments.prometheus.server_permissions());
        let pods = PodLookup::default();
        let period = to_std(arguments.autoscaling.horizontal_pod_autoscaler_sync_period);
        let settings = PrometheusSettings {
            sharing: arguments.sharing.settings(period),
            ..arguments.prometheus.discovery(Compat::Off)
        };
        let provider = PrometheusProvider::new(
            config,
            servers,
            settings,
            Arc::new(DiscoveryMapper(clients.api.clone())),
            Arc::new(ControllerPods(pods.clone())),
        );
        let provider = Arc::new(provider.with_context(name)?);
        telemetry.attach_collector(Arc::new(RuleMetrics::new(provider.clone())?));
        // A file that is missing or wrong is an error of the command line. Later, it can be a
        // rotation in progress.
        provider.check_files().await.context("unable to connect to Prometheus")?;
        info!(file = %path.display(), "reading metrics from Prometheus");
        tokio::spawn({
            let provider = provider.clone();
            async move { provider.run(Some(file)).await }
        });
        Ok(Some(Self { provider, pods }))
    }

    /// The dependencies of a controller that reads these metrics first.
    pub(crate) fn dependencies(
        self,
        clients: Clients,
        options: &Options,
        telemetry: Arc<Telemetry>,
        dry_run: bool,
    ) -> anyhow::Result<Dependencies> {
        let provider = self.provider;
        telemetry.attach_collector(Arc::new(QueryCollector::for_provider(
            "hpa_controller",
            provider.clone(),
        )?));
        let dependencies =
            Dependencies::with_source(clients, options, telemetry, dry_run, |cluster, mapper| {
                ProviderSource::new(provider, mapper, cluster)
            });
        Ok(Dependencies { pods: self.pods, ..dependencies })
    }
}

/// The pods of the controller's cache. It reads no other objects by selector.
struct ControllerPods(PodLookup);

impl ControllerPods {
    fn select(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<Arc<hpa_calc::Pod>>, ListError> {
        self.0.select(namespace, selector).ok_or(ListError::NotSynced("pods"))
    }
}

#[async_trait]
impl ObjectLister for ControllerPods {
    async fn names(
        &self,
        resource: &ApiResource,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        if resource.group_resource != GroupResource::pods() {
            return Err(ListError::NotCached(resource.group_resource.to_string()));
        }
        let pods = self.select(namespace, selector)?;
        Ok(pods.iter().map(|pod| pod.name.to_string()).collect())
    }

    async fn running_pods(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<ObjectMetadata>, ListError> {
        let pods = self.select(namespace, selector)?;
        let running = pods.iter().filter(|pod| pod.phase == PodPhase::Running);
        let metadata = running.map(|pod| ObjectMetadata {
            key: ObjectKey::new(namespace, &pod.name),
            labels: pod
                .labels
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            creation_timestamp: None,
        });
        Ok(metadata.collect())
    }

    async fn running_pod(&self, pod: &ObjectKey) -> Result<Option<ObjectMetadata>, ListError> {
        let pods = self.running_pods(&pod.namespace, &Selector::everything()).await?;
        Ok(pods.into_iter().find(|own| own.key == *pod))
    }

    async fn nodes(&self, _: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        Err(ListError::NotCached("nodes".to_owned()))
    }

    async fn node(&self, _: &str) -> Result<Option<ObjectMetadata>, ListError> {
        Err(ListError::NotCached("nodes".to_owned()))
    }
}
