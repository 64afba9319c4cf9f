//! Reads the metrics of a decision from the sources that the flags of `hpa run` configure.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use hpa_calc::{Inputs, MetricsApi, Readings};
use hpa_collectors::{
    Compat,
    collection::CollectionSource,
    schedules::source::{ScheduleClient, Schedules},
};
use hpa_controller::{k8s::Clients, scale_target::RestMapper};
use hpa_lease::TaskPanics;
use hpa_metrics::{
    Catalog, ClientSettings, Coalescing, CoalescingSettings, DiscoveryMapper, Fallback, KindMapper,
    KubeMetricsClient, MetricSource, MetricsClient, Routed, read_all,
};
use hpa_prometheus::source::PrometheusSource;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::{
    args::SourceArguments,
    cached_pods::{CachedPods, FetchedPods},
    collectors::{self, Collectors, PrometheusClients, Scope},
    prometheus_metrics::RequestMetrics,
    rules_source, scaling_schedules,
};

/// Time limit for the first lists of autoscalers, pods and schedules. If they take longer, metrics
/// that need them fail.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads metrics from the sources that flags configure, and other metrics from the metrics APIs.
pub(crate) struct MetricReader {
    client: Arc<dyn MetricsClient>,
    pub(crate) rules: Option<Arc<PrometheusSource>>,
    collectors: Option<Collectors>,
    schedules: Option<Arc<Schedules>>,
    /// The pods of the decisions in progress. The rules query the metrics of these pods.
    pods: Arc<FetchedPods>,
}

impl MetricReader {
    /// Creates a reader and starts the watches of collectors and schedules. The caller must relist
    /// the series of the rules.
    pub(crate) async fn new(
        clients: &Clients,
        mapper: Arc<RestMapper>,
        arguments: &SourceArguments,
        scope: Scope,
        request_timeout: Duration,
        mut coalescing: CoalescingSettings,
    ) -> anyhow::Result<Self> {
        arguments.warn_of_unused_flags();
        let mut settings = ClientSettings::default();
        settings.request_timeout = request_timeout;
        let apis = KubeMetricsClient::new(clients.metrics.clone(), settings);
        let kinds = KindMapper::new(mapper, request_timeout);
        let pods = Arc::new(FetchedPods::default());
        let rules = rules_source::create_from_flags(
            &arguments.rules,
            Arc::new(DiscoveryMapper(clients.api.clone())),
            Arc::new(CachedPods(pods.clone())),
        );
        let rules = rules.await?.map(Arc::new);
        let schedules = scaling_schedules::start(
            &arguments.schedules,
            Compat::Off,
            clients.api.clone(),
            scope.namespace.iter().cloned().collect(),
            Arc::new(Timestamp::now),
            |_| {},
            &TaskPanics::default(),
        )?;
        let collectors = start_collectors(arguments, clients, scope)?;
        let mut sources: Vec<Arc<dyn MetricSource>> = Vec::new();
        if let Some(collectors) = &collectors {
            sources.push(Arc::new(CollectionSource::new(collectors.collection.clone())));
        }
        if let Some(rules) = &rules {
            sources.push(rules.clone());
        }
        let client: Arc<dyn MetricsClient> = if sources.is_empty() {
            Arc::new(Coalescing::new(apis, kinds, coalescing))
        } else {
            let source = Fallback::new(Arc::new(Routed::new(sources)), apis);
            // The threshold prevents namespace lists: rules have only the pods of the decisions,
            // not all pods of a namespace.
            coalescing.min_selectors = usize::MAX;
            Arc::new(Coalescing::new(source, kinds, coalescing))
        };
        let client = match &schedules {
            Some(schedules) => Arc::new(ScheduleClient::new(schedules.clone(), client)),
            None => client,
        };
        Ok(Self { client, rules, collectors, schedules, pods })
    }

    /// Whether a decision needs the series of the rules, because a rule may have one of its
    /// metrics. CPU and memory need no series.
    pub(crate) fn needs_series(&self, inputs: &Inputs) -> bool {
        let Some(rules) = &self.rules else { return false };
        let groups = rules.groups();
        let plan = inputs.plan();
        let mut apis = plan.queries().map(|(_, query)| query.api());
        apis.any(|api| api != MetricsApi::Resource && groups.has(api))
    }

    /// Reads the metrics of a decision. `inputs` has all other inputs.
    pub(crate) async fn read(&self, inputs: &Inputs) -> Readings {
        let plan = inputs.plan();
        let Some(selector) = plan.selector() else { return Readings::new() };
        if let Some(rules) = self.rules.as_ref().filter(|rules| rules.groups().resource) {
            // After a failure, the readings of CPU and memory have the error.
            _ = rules.compile().await;
        }
        _ = timeout(FIRST_LIST_TIMEOUT, self.wait_for_first_lists()).await;
        let namespace = &inputs.hpa.metadata.namespace;
        let selection = self.pods.add(namespace, selector, inputs.selected.pods.clone());
        let readings = read_all(&*self.client, inputs).await;
        drop(selection);
        readings
    }

    async fn wait_for_first_lists(&self) {
        if let Some(collectors) = &self.collectors {
            collectors.wait_for_first_lists().await;
        }
        if let Some(schedules) = &self.schedules {
            schedules.wait_for_first_list().await;
        }
    }
}

/// Starts the watches of collectors, if they are on.
fn start_collectors(
    arguments: &SourceArguments,
    clients: &Clients,
    scope: Scope,
) -> anyhow::Result<Option<Collectors>> {
    let SourceArguments { collectors: flags, rules, .. } = arguments;
    if !flags.collectors {
        return Ok(None);
    }
    let requests = Arc::new(RequestMetrics::new()?);
    let client = rules.prometheus.client(requests.clone())?;
    let servers = PrometheusClients::new(client, flags, &rules.prometheus, &requests)?;
    let panics = TaskPanics::default();
    let started = collectors::start(flags, Compat::Off, servers, &clients.api, scope, &panics);
    started.context("--collectors").map(Some)
}
