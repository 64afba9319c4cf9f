//! The sources of metrics that flags turn on.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail};
use hpa_adapter::Metrics;
use hpa_collectors::collection::CollectionSource;
use hpa_controller::AutoscalerApi;
use hpa_lease::{LeaderTask, TaskPanics};
use hpa_metrics::{DiscoveryMapper, KubeObjects, MetricSource, ResourceMapper};
use hpa_prometheus::client::Client;
use hpa_prometheus::rules::{Compat, Config, RuleSet};
use hpa_prometheus::source::{PrometheusSettings, PrometheusSource, RulesFile, Servers};
use jiff::Timestamp;
use tracing::info;

use super::{clients::KubeClients, discovery_log, prometheus_url::compatible_url};
use crate::{
    args::{AdapterArguments, DEFAULT_PROMETHEUS_URL},
    collectors::{self, Collectors, PrometheusClients, Scope},
    prometheus_metrics::{RequestMetrics, query_metrics, rule_metrics},
    scaling_schedules,
};

/// The usual sync period of the autoscalers that read metrics.
const SYNC_PERIOD: Duration = Duration::from_secs(15);

/// The sources of metrics that flags turn on, and the tasks that need the lease.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) metrics: Vec<Arc<dyn MetricSource>>,
    /// The source in `metrics` whose groups a changed rules file may extend.
    pub(super) rules: Option<Arc<PrometheusSource>>,
    pub(super) leader_tasks: Vec<LeaderTask>,
    /// The panics of the tasks that the sources have started.
    panics: TaskPanics,
}

impl Sources {
    pub(super) async fn start(
        arguments: &AdapterArguments,
        clients: &KubeClients,
        metrics: &Metrics,
        panics: &TaskPanics,
    ) -> anyhow::Result<Self> {
        let requests = Arc::new(RequestMetrics::new()?);
        metrics.register((*requests).clone())?;
        let mut sources = Self { panics: panics.clone(), ..Self::default() };
        sources.add_schedules(arguments, clients)?;
        sources.add_collectors(arguments, clients, &requests, metrics)?;
        sources.add_rules(arguments, clients, requests, metrics).await?;
        Ok(sources)
    }

    fn add_schedules(
        &mut self,
        arguments: &AdapterArguments,
        clients: &KubeClients,
    ) -> anyhow::Result<()> {
        let schedules = scaling_schedules::start(
            &arguments.schedules,
            arguments.compat.collectors_compat(),
            clients.lister.clone(),
            Vec::new(),
            Arc::new(Timestamp::now),
            |_| {},
            &self.panics,
        )?;
        let Some(schedules) = schedules else { return Ok(()) };
        self.leader_tasks.push(scaling_schedules::status_writer(schedules.clone()));
        self.metrics.push(schedules);
        Ok(())
    }

    fn add_collectors(
        &mut self,
        arguments: &AdapterArguments,
        clients: &KubeClients,
        requests: &Arc<RequestMetrics>,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        let flags = &arguments.collectors;
        if !flags.collectors {
            return Ok(());
        }
        let client = arguments.prometheus.client(requests.clone())?;
        let servers = PrometheusClients::new(client, flags, &arguments.prometheus, requests)?;
        let Collectors { collection, metrics: counters, .. } = collectors::start(
            flags,
            arguments.compat.collectors_compat(),
            servers,
            &clients.lister,
            Scope { apis: vec![AutoscalerApi::Core], namespace: None },
            &self.panics,
        )?;
        metrics.register(counters)?;
        self.leader_tasks.push(collectors::problem_reporter(collection.clone()));
        self.metrics.push(Arc::new(CollectionSource::for_api(collection)));
        Ok(())
    }

    /// Adds the metrics of the rules file. The file is optional if there are other sources.
    async fn add_rules(
        &mut self,
        arguments: &AdapterArguments,
        clients: &KubeClients,
        requests: Arc<RequestMetrics>,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        if arguments.config.is_none() && !self.metrics.is_empty() {
            return Ok(());
        }
        let client = prometheus_client(arguments, requests.clone()).await?;
        let prometheus = client.settings().url_without_credentials();
        let (file, config) = read_rules(arguments)?;
        let flags = &arguments.prometheus;
        flags.warn_of_relist_interval();
        // Otherwise, series would disappear between discoveries. prometheus-adapter checks this
        // only if there are rules for custom metrics.
        if !config.rules.is_empty() && flags.max_age() < flags.relist_interval() {
            bail!("max age must not be less than relist interval (--metrics-max-age)");
        }
        info!(
            rules = config.rules.len(),
            external_rules = config.external_rules.len(),
            resource_rules = config.resource_rules.is_some(),
            prometheus,
            "loaded the rules"
        );
        let servers = Servers::new(Some(client), requests).permitting(flags.server_permissions());
        let source = create_rules_source(arguments, config, servers, clients, &self.panics).await?;
        metrics.register(rule_metrics(source.clone())?)?;
        metrics.register(query_metrics("hpa_adapter", source.clone())?)?;
        self.panics.spawn("discovery of metrics", {
            let source = source.clone();
            async move { source.run(Some(file)).await }
        });
        self.panics.spawn("log of discoveries", discovery_log::log_discoveries(source.clone()));
        self.metrics.push(source.clone());
        self.rules = Some(source);
        Ok(())
    }
}

/// Creates the client of Prometheus. Reads its certificates and tokens once, so that errors are
/// reported at the start.
async fn prometheus_client(
    arguments: &AdapterArguments,
    requests: Arc<RequestMetrics>,
) -> anyhow::Result<Client> {
    let compat = arguments.compat.rules_compat();
    let flags = &arguments.prometheus;
    let error = "unable to construct Prometheus client";
    if flags.prometheus_auth_incluster && flags.prometheus_auth_config.is_some() {
        bail!(
            "{error}: may not use both in-cluster auth and an explicit kubeconfig at the same time"
        );
    }
    let url =
        compatible_url(flags.prometheus_url.as_deref().unwrap_or(DEFAULT_PROMETHEUS_URL), compat)
            .context(error)?;
    let settings = flags.settings(&url, compat).context(error)?;
    let client = Client::new(settings, requests).context(error)?;
    client.check_files().await.context(error)?;
    Ok(client)
}

fn read_rules(arguments: &AdapterArguments) -> anyhow::Result<(RulesFile, Config)> {
    let error = "unable to load metrics discovery config";
    let Some(path) = &arguments.config else {
        bail!(
            "{error}: no metrics discovery configuration file specified (make sure to use --config)"
        );
    };
    let file = RulesFile::read(path.clone())
        .with_context(|| format!("{error}: unable to read {}", path.display()))?;
    let config =
        Config::parse(&file.text).with_context(|| format!("{error}: {}", path.display()))?;
    Ok((file, config))
}

/// Creates the source of the rules' metrics, which has no series before its first discovery.
/// Starts the watches of pods and nodes that the rules need.
async fn create_rules_source(
    arguments: &AdapterArguments,
    config: Config,
    servers: Servers,
    clients: &KubeClients,
    panics: &TaskPanics,
) -> anyhow::Result<Arc<PrometheusSource>> {
    let compat = arguments.compat.rules_compat();
    let mapper = Arc::new(DiscoveryMapper(clients.lister.clone()));
    if compat == Compat::Reference {
        // prometheus-adapter doesn't start with a rule that it can't use.
        let resources = mapper.load().await.context("unable to construct RESTMapper")?;
        if let Some(rule) = RuleSet::compile(&config, &resources).first_error() {
            bail!("unable to construct the metrics provider: {}", rule.describe());
        }
    }
    let objects = KubeObjects::new(clients.lister.clone());
    let objects = Arc::new(match compat {
        Compat::Off => objects,
        Compat::Reference => objects.with_pod_lists(),
    });
    let settings = PrometheusSettings {
        sharing: arguments.sharing.settings(SYNC_PERIOD),
        ..arguments.prometheus.discovery_settings(compat)
    };
    let source = PrometheusSource::new(config, servers, settings, mapper, objects.clone());
    let source = Arc::new(source.context("unable to use the rules")?);
    // External rules need no pods. With external rules only, the chart may not permit pod watches.
    panics.spawn("watch of pods for rules", {
        let (source, objects) = (source.clone(), objects.clone());
        async move {
            source.wait_for_groups(|groups| groups.custom || groups.resource).await;
            objects.watch_pods().await;
        }
    });
    panics.spawn("watch of nodes for rules", {
        let source = source.clone();
        async move {
            source.wait_for_groups(|groups| groups.resource).await;
            objects.watch_nodes().await;
        }
    });
    Ok(source)
}
