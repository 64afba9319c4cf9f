//! Metrics from Prometheus in the controller's process: `hpa run --metrics-config`.

use std::sync::Arc;

use anyhow::{Context, bail};
use hpa_controller::{Dependencies, Options, Telemetry, cache::PodLookup, k8s::Clients};
use hpa_prometheus::Client;
use hpa_provider::{
    DiscoveryMapper, PrometheusProvider, PrometheusSettings, ProviderSource, RulesFile, Servers,
};
use hpa_rules::{Compat, Config};
use tracing::info;

use crate::{
    args::{RunArguments, to_std},
    cached_pods::CachedPods,
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
            Arc::new(CachedPods(pods.clone())),
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
