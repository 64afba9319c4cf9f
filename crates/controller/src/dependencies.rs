//! The dependencies of a controller, and the reasons why it exits on its own.

use std::{sync::Arc, time::Duration};

use hpa_calc::HorizontalPodAutoscaler;
use hpa_lease::{Clock, Election, LeaderTask, SystemClock, TaskPanicked};
use hpa_metrics::{
    Coalescing, Fallback, Isolating, IsolationSettings, KindMapper, KubeMetricsClient,
    MetricSource, MetricsClient,
};

use crate::{
    cache::{Caches, PodLookup, SuspensionDetector},
    config::Options,
    forecast::ForecastSource,
    informer::ReconcileTrigger,
    instance_scope::InstanceScope,
    k8s::{Clients, FieldManager},
    key::AutoscalerApi,
    metrics::{ObservedSource, Telemetry},
    peer_check::ActivePeer,
    reconcile::Observer,
    scale_target::RestMapper,
    worker::NextMetricChange,
};

/// The default of `--leader-elect-renew-deadline`.
const DEFAULT_RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// The reason why a controller exited without a shutdown.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An informer should run until the controller stops. Without it, a cache becomes stale.
    #[error("an informer stopped unexpectedly")]
    InformerEnded,
    /// A task of the leader should run until the controller stops.
    #[error(transparent)]
    TaskPanicked(#[from] TaskPanicked),
    /// The process has to be restarted to take part in the election again.
    #[error("lost the leader lease")]
    LeadershipLost,
    /// The controller has written nothing.
    #[error("another controller is active: {0}")]
    ActivePeer(Box<ActivePeer>),
}

/// The dependencies of a controller.
#[derive(Clone)]
pub struct Dependencies {
    pub clients: Clients,
    pub mapper: Arc<RestMapper>,
    pub metrics: Arc<dyn MetricsClient>,
    /// Receives the controller's pods when its caches have synced.
    pub pods: PodLookup,
    /// Receives the controller's informers and queue when it starts.
    pub trigger: ReconcileTrigger,
    pub next_metric_change: NextMetricChange,
    /// The source of past loads for forecasts.
    pub forecasts: ForecastSource,
    /// Additional tasks of the leader. They don't run in a dry run.
    pub leader_tasks: Vec<LeaderTask>,
    /// The clock for decisions.
    pub clock: Arc<dyn Clock>,
    /// Observes reconciles, in addition to `telemetry`.
    pub observer: Arc<dyn Observer>,
    pub telemetry: Arc<Telemetry>,
    /// `None` if this instance is the only one.
    pub election: Option<Election>,
    /// Whether to store histories for the next leader. Without an election, they are not stored.
    pub keep_history: bool,
    /// The APIs whose autoscalers are reconciled.
    pub apis: Vec<AutoscalerApi>,
    /// Whether to write nothing, and to compare the decisions with those of the controller that
    /// writes.
    pub dry_run: bool,
}

impl Dependencies {
    /// Dependencies with the metrics APIs of the API server and the system clock, but without an
    /// additional observer and without an election.
    pub fn new(clients: Clients, options: &Options) -> Self {
        Self::with_telemetry(clients, options, Arc::default(), false, None)
    }

    /// Like [`Dependencies::new`], with telemetry, and optionally with a source in the process.
    /// Metrics that this source doesn't have are read from the API server.
    pub fn with_telemetry(
        clients: Clients,
        options: &Options,
        telemetry: Arc<Telemetry>,
        dry_run: bool,
        in_process: Option<Arc<dyn MetricSource>>,
    ) -> Self {
        let mapper = Arc::new(RestMapper::new(clients.api.clone(), options.mapper_config()));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let settings = options.metrics_client_settings();
        let kinds = KindMapper::new(mapper.clone(), settings.request_timeout);
        let coalescing = options.coalescing_settings(dry_run);
        let isolation = IsolationSettings::for_sync_period(options.sync_period);
        let observed = |source| ObservedSource::new(source, telemetry.clone(), clock.clone());
        let cluster: Arc<dyn MetricSource> =
            Arc::new(KubeMetricsClient::new(clients.metrics.clone(), settings));
        let cluster = Isolating::new(observed(cluster), isolation);
        let metrics: Arc<dyn MetricsClient> = match in_process {
            Some(source) => {
                // Isolated on its own, because its responses say nothing about the API server.
                let source = Arc::new(Isolating::new(observed(source), isolation));
                Arc::new(Coalescing::new(Fallback::new(source, cluster), kinds, coalescing))
            }
            None => Arc::new(Coalescing::new(cluster, kinds, coalescing)),
        };
        Self {
            clients,
            mapper,
            metrics,
            pods: PodLookup::default(),
            trigger: ReconcileTrigger::default(),
            next_metric_change: Arc::new(|_: &HorizontalPodAutoscaler, _, _| None),
            forecasts: ForecastSource::default(),
            leader_tasks: Vec::new(),
            clock,
            observer: Arc::new(()),
            telemetry,
            election: None,
            keep_history: true,
            apis: vec![AutoscalerApi::Core],
            dry_run,
        }
    }

    /// Whether histories are stored for the next leader.
    pub fn stores_histories(&self) -> bool {
        self.election.is_some() && self.keep_history
    }

    /// The field manager of status writes. `None` in a dry run, which writes no status.
    pub(crate) fn field_manager(&self) -> Option<FieldManager> {
        let manager = self.election.as_ref().map_or_else(FieldManager::default, |election| {
            FieldManager::for_lease(&election.config.namespace, &election.config.name)
        });
        (!self.dry_run).then_some(manager)
    }

    /// The autoscalers that this instance handles as the holder of its lease. `None` without an
    /// election.
    pub(crate) fn instance_scope(&self, options: &Options) -> Option<InstanceScope> {
        let holder = self.election.as_ref()?.config.identity.clone();
        // A dry run acts on none.
        let apis = if self.dry_run { Vec::new() } else { self.apis.clone() };
        let namespaces = options.scopes().into_iter().flatten().collect();
        Some(InstanceScope { holder, apis, namespaces })
    }

    /// A detector that ignores suspensions shorter than the renew deadline, or than its default
    /// without an election.
    pub(crate) fn suspension_detector(&self, caches: &Caches) -> SuspensionDetector {
        let threshold = self
            .election
            .as_ref()
            .map_or(DEFAULT_RENEW_DEADLINE, |election| election.config.renew_deadline);
        SuspensionDetector::new(self.clock.clone(), threshold, caches.watch_ages.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use async_trait::async_trait;
    use hpa_calc::{Selector, Settings, readings::MetricQuery, settings::SettingPolicy};
    use hpa_lease::ElectionConfig;
    use hpa_metrics::{
        ApiGroups, Catalog, ExternalValues, MetricError, Query, Values,
        source::{ListedCustomMetric, ListedExternalMetric},
    };
    use http::{Request, Response};
    use kube::client::Body;
    use tokio::time::Instant;

    use super::*;
    use crate::k8s::ClientLimits;

    /// A source whose only metric is the external metric `own`.
    struct InProcess;

    impl Catalog for InProcess {
        fn groups(&self) -> ApiGroups {
            ApiGroups { external: true, ..ApiGroups::default() }
        }

        fn readiness(&self) -> Result<(), Vec<String>> {
            Ok(())
        }

        fn has(&self, query: &Query) -> bool {
            matches!(query, Query::External(query) if query.metric == "own")
        }

        fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
            Vec::new()
        }

        fn external_metrics(&self) -> Vec<ListedExternalMetric> {
            Vec::new()
        }
    }

    #[async_trait]
    impl MetricSource for InProcess {
        fn catalog(&self) -> &dyn Catalog {
            self
        }

        async fn read(&self, _: &Query) -> Result<Values, MetricError> {
            Ok(Values::External(ExternalValues::default()))
        }
    }

    /// Clients whose requests get no response.
    fn hanging_clients() -> Clients {
        let hanging = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        Clients::from_service(hanging, &ClientLimits::default())
    }

    fn options() -> Options {
        Options {
            settings: Settings::default(),
            setting_policy: SettingPolicy::default(),
            sync_period: Duration::from_secs(15),
            workers: 1,
            namespaces: Vec::new(),
            shutdown_grace: Duration::ZERO,
            request_timeout: Duration::from_secs(10),
            allows_active_peer: false,
            watch_scales: true,
            status_interval: Duration::ZERO,
        }
    }

    #[tokio::test]
    async fn scope_on_the_lease_has_the_namespaces_of_the_options() {
        let clients = hanging_clients();
        let config = ElectionConfig {
            namespace: "scaling".to_owned(),
            name: "hpa".to_owned(),
            identity: "a_1".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        };
        let election = Some(Election { client: clients.api.clone(), config });
        let namespaces = ["shop", "blog", "shop"].map(str::to_owned).to_vec();
        let options = Options { namespaces, ..options() };
        let dependencies = Dependencies { election, ..Dependencies::new(clients, &options) };
        let expected = InstanceScope {
            holder: "a_1".to_owned(),
            apis: vec![AutoscalerApi::Core],
            namespaces: ["blog", "shop"].map(str::to_owned).to_vec(),
        };
        assert_eq!(dependencies.instance_scope(&options), Some(expected));
        let dry_run = Dependencies { dry_run: true, ..dependencies };
        let scope = dry_run.instance_scope(&options).expect("a scope");
        assert!(!scope.handles(AutoscalerApi::Core, Some("shop")));
    }

    #[tokio::test(start_paused = true)]
    async fn responses_of_an_in_process_source_do_not_close_the_breaker_of_a_hanging_api() {
        let (clients, options) = (hanging_clients(), options());
        let source = Some(Arc::new(InProcess) as Arc<dyn MetricSource>);
        let Dependencies { metrics, .. } =
            Dependencies::with_telemetry(clients, &options, Arc::default(), false, source);
        let seconds = async |metric: &str| {
            let start = Instant::now();
            let metric_selector = Selector::everything();
            let query = MetricQuery::External { metric: metric.to_owned(), metric_selector };
            let values = metrics.read("shop", &Selector::everything(), &query).await;
            assert!(values.is_err(), "there are no items");
            start.elapsed().as_secs()
        };
        for _ in 0..4 {
            assert_eq!((seconds("own").await, seconds("a").await), (0, 10));
        }
        assert_eq!(tokio::join!(seconds("a"), seconds("b")), (10, 0), "the breaker is open");
    }
}
