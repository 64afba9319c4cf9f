//! Metrics that `hpa run` reads in its process: by rules from Prometheus (`--metrics-config`), and
//! by annotations of autoscalers (`--collectors`).

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail};
use hpa_collectors::collection::{CollectedMetrics, CollectionSource};
use hpa_controller::{Dependencies, Options, Telemetry, cache::PodLookup, k8s::Clients};
use hpa_lease::TaskPanics;
use hpa_metrics::{DiscoveryMapper, MetricSource, ObjectLister, Routed};
use hpa_prometheus::client::Client;
use hpa_prometheus::rules::{Compat, Config};
use hpa_prometheus::source::{PrometheusSettings, PrometheusSource, RulesFile, Servers};
use tokio::time::timeout;
use tracing::info;

use crate::{
    args::{RunArguments, to_std},
    cached_pods::CachedPods,
    collectors::{self, Collectors, PrometheusClients, Scope},
    prometheus_metrics::{RequestMetrics, query_metrics, rule_metrics},
    rules_source::refuse_invalid_rules,
};

/// The maximum time for which the start waits for the series of rules and the lists of collectors.
const FIRST_DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The metric sources in this process: the rules of `--metrics-config`, and the collectors.
pub(crate) struct Sources {
    /// The rules of `--metrics-config`.
    pub(crate) rules: Option<Arc<PrometheusSource>>,
    collection: Option<Arc<CollectedMetrics>>,
    pods: PodLookup,
}

impl Sources {
    /// Reads the rules file and starts its discovery and the watches of collectors. Waits for their
    /// first results, for at most [`FIRST_DISCOVERY_TIMEOUT`]. `None` if neither rules nor
    /// collectors are configured.
    pub(crate) async fn new(
        arguments: &RunArguments,
        clients: &Clients,
        telemetry: &Telemetry,
        panics: &TaskPanics,
    ) -> anyhow::Result<Option<Self>> {
        if arguments.metrics_config.is_none() && !arguments.collectors.collectors {
            return Ok(None);
        }
        let requests = Arc::new(RequestMetrics::new()?);
        telemetry.attach_collector(requests.clone());
        let client = arguments.prometheus.client(requests.clone())?;
        let pods = PodLookup::default();
        let rules = start_rules(
            arguments,
            clients,
            telemetry,
            client.clone(),
            requests.clone(),
            &pods,
            panics,
        );
        let rules = rules.await?;
        let collection =
            start_collection(arguments, clients, telemetry, client, &requests, panics)?;
        let sources = Self { rules, collection, pods };
        // Before the first discovery, each reconcile that needs these metrics would fail.
        _ = timeout(FIRST_DISCOVERY_TIMEOUT, sources.wait_for_first_discovery()).await;
        Ok(Some(sources))
    }

    async fn wait_for_first_discovery(&self) {
        if let Some(rules) = &self.rules {
            rules.wait_for_first_discovery().await;
        }
        if let Some(collection) = &self.collection {
            collection.wait_for_first_list().await;
        }
    }

    /// The dependencies of a controller that reads metrics from these sources. It reads all other
    /// metrics from the metrics APIs.
    pub(crate) fn dependencies(
        self,
        clients: Clients,
        options: &Options,
        telemetry: Arc<Telemetry>,
        dry_run: bool,
    ) -> anyhow::Result<Dependencies> {
        let mut metric_sources: Vec<Arc<dyn MetricSource>> = Vec::new();
        if let Some(collection) = &self.collection {
            metric_sources.push(Arc::new(CollectionSource::new(collection.clone())));
        }
        if let Some(rules) = self.rules {
            let metrics = query_metrics("hpa_controller", rules.clone())?;
            telemetry.attach_collector(Arc::new(metrics));
            metric_sources.push(rules);
        }
        let source = Arc::new(Routed::new(metric_sources));
        let dependencies =
            Dependencies::with_telemetry(clients, options, telemetry, dry_run, Some(source));
        let reporters = self.collection.map(collectors::problem_reporter);
        Ok(Dependencies {
            pods: self.pods,
            leader_tasks: reporters.into_iter().collect(),
            ..dependencies
        })
    }
}

/// Reads the rules file, if there is one, and starts the discovery.
async fn start_rules(
    arguments: &RunArguments,
    clients: &Clients,
    telemetry: &Telemetry,
    client: Option<Client>,
    requests: Arc<RequestMetrics>,
    pods: &PodLookup,
    panics: &TaskPanics,
) -> anyhow::Result<Option<Arc<PrometheusSource>>> {
    let Some(path) = &arguments.metrics_config else {
        return Ok(None);
    };
    let flags = &arguments.prometheus;
    flags.warn_of_relist_interval();
    let flag = || format!("--metrics-config {}", path.display());
    let file = RulesFile::read(path.clone()).with_context(flag)?;
    let config = Config::parse(&file.text).with_context(flag)?;
    refuse_invalid_rules(&config).with_context(flag)?;
    if !config.rules.is_empty() && flags.max_age() < flags.relist_interval() {
        bail!("--metrics-max-age must not be less than --metrics-relist-interval");
    }
    let servers = Servers::new(client, requests).permitting(flags.server_permissions());
    let period = to_std(arguments.autoscaling.horizontal_pod_autoscaler_sync_period);
    let settings = PrometheusSettings {
        sharing: arguments.sharing.settings(period),
        ..flags.discovery_settings(Compat::Off)
    };
    let source = PrometheusSource::new(
        config,
        servers,
        settings,
        Arc::new(DiscoveryMapper(clients.api.clone())),
        Arc::new(CachedPods(pods.clone())),
    );
    let source = Arc::new(source.with_context(flag)?);
    telemetry.attach_collector(Arc::new(rule_metrics(source.clone())?));
    // A missing or invalid certificate or token is an error only at the start. Later, a rotation of
    // the file may be in progress.
    source.check_files().await.context("unable to connect to Prometheus")?;
    info!(file = %path.display(), "reading metrics from Prometheus");
    panics.spawn("discovery of metrics", {
        let source = source.clone();
        async move { source.run(Some(file)).await }
    });
    Ok(Some(source))
}

/// Starts the watches of collectors, if they are on.
fn start_collection(
    arguments: &RunArguments,
    clients: &Clients,
    telemetry: &Telemetry,
    client: Option<Client>,
    requests: &Arc<RequestMetrics>,
    panics: &TaskPanics,
) -> anyhow::Result<Option<Arc<CollectedMetrics>>> {
    let flags = &arguments.collectors;
    if !flags.collectors {
        return Ok(None);
    }
    if !arguments.cluster.namespaces.is_empty() {
        bail!("--collectors reads autoscalers and pods of all namespaces: leave out --namespace");
    }
    let servers = PrometheusClients::new(client, flags, &arguments.prometheus, requests)?;
    let Collectors { collection, metrics, objects } = collectors::start(
        flags,
        Compat::Off,
        servers,
        &clients.api,
        Scope { apis: arguments.cluster.autoscaler_api.apis(), namespace: None },
        panics,
    )?;
    telemetry.attach_collector(Arc::new(metrics));
    telemetry.attach_metric_caches(move || objects.unsynced_caches());
    Ok(Some(collection))
}
