//! Wiring: informers, leader election, workers, shutdown.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use hpa_metrics::{
    Coalescing, Isolating, IsolationSettings, KubeMetricsClient, MetricsClient, MetricsSource,
};
use kube::{Api, Client};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    cache::{Caches, PodLookup},
    clock::{Clock, SystemClock},
    config::Options,
    events::{EventRecorder, EventWriterConfig},
    foresight::Foresight,
    history_store::{HistoryHealth, HistoryStore, StoredUntil},
    informer::{Informers, ReconcileTrigger, ScaleInformers},
    k8s::{Clients, FieldManager},
    key::AutoscalerApi,
    leader_election::{Candidate, Election, Leadership, Predecessor},
    leader_task::{LeaderContext, LeaderTask},
    metrics::{ObservedSource, Sources, Telemetry},
    peer_check::{ActivePeer, active_peer},
    queue::{InitialDelay, WorkQueue},
    reconcile::{Observer, PeerWarnings, Reconciler, WorkerSlots},
    scale_target::{RestMapper, ScaleClient},
    shadow::{ShadowRecords, read_only},
    suspension::SuspensionDetector,
    worker::Workers,
};

/// The default of `--leader-elect-renew-deadline`.
const DEFAULT_RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Why a controller ended without a shutdown.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An informer never ends by itself. Without it, a cache would become stale.
    #[error("an informer ended")]
    InformerEnded,
    /// The process has to be restarted to take part in the election again.
    #[error("lost the leader lease")]
    LeadershipLost,
    /// Nothing was written.
    #[error("another controller is active: {0}")]
    OtherController(Box<ActivePeer>),
}

/// What a controller needs from outside.
#[derive(Clone)]
pub struct Dependencies {
    pub clients: Clients,
    pub mapper: Arc<RestMapper>,
    pub metrics: Arc<dyn MetricsClient>,
    /// Receives the controller's pods when it starts.
    pub pods: PodLookup,
    /// Receives the controller's queue when it starts.
    pub trigger: ReconcileTrigger,
    /// When metrics are known to change.
    pub foresight: Arc<dyn Foresight>,
    /// What else the leader does. Not in a dry run.
    pub leader_tasks: Vec<LeaderTask>,
    /// The time that decisions are made with.
    pub clock: Arc<dyn Clock>,
    /// Receives every reconcile, in addition to `telemetry`.
    pub observer: Arc<dyn Observer>,
    pub telemetry: Arc<Telemetry>,
    /// `None`: this instance is the only one.
    pub election: Option<Election>,
    /// The APIs whose autoscalers are reconciled.
    pub apis: Vec<AutoscalerApi>,
    /// Write nothing, and compare the decisions with those of the controller that does.
    pub dry_run: bool,
}

impl Dependencies {
    /// The defaults: the metrics APIs of the API server, the system clock, no other observer, no
    /// election.
    pub fn new(clients: Clients, options: &Options) -> Self {
        Self::with_telemetry(clients, options, Arc::default())
    }

    /// [`Dependencies::new`] with this telemetry.
    pub fn with_telemetry(clients: Clients, options: &Options, telemetry: Arc<Telemetry>) -> Self {
        Self::with_source(clients, options, telemetry, false, |cluster, _| cluster)
    }

    /// [`Dependencies::with_telemetry`] for a dry run.
    pub fn for_dry_run(clients: Clients, options: &Options, telemetry: Arc<Telemetry>) -> Self {
        Self::with_source(clients, options, telemetry, true, |cluster, _| cluster)
    }

    /// Dependencies with another source of metrics. `source` gets that of the API server and the
    /// mapper of kinds.
    pub fn with_source<S: MetricsSource>(
        clients: Clients,
        options: &Options,
        telemetry: Arc<Telemetry>,
        dry_run: bool,
        source: impl FnOnce(KubeMetricsClient, Arc<RestMapper>) -> S,
    ) -> Self {
        let mapper = Arc::new(RestMapper::new(clients.api.clone(), options.mapper_config()));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let settings = options.metrics_client_settings();
        let cluster = KubeMetricsClient::new(clients.metrics.clone(), mapper.clone(), settings);
        let source = source(cluster, mapper.clone());
        let source = ObservedSource::new(source, telemetry.clone(), clock.clone());
        let isolation = IsolationSettings::for_sync_period(options.sync_period);
        let source = Isolating::new(source, isolation);
        let metrics = Coalescing::new(source, options.coalescing_settings(dry_run));
        Self {
            clients,
            mapper,
            metrics: Arc::new(metrics),
            pods: PodLookup::default(),
            trigger: ReconcileTrigger::default(),
            foresight: Arc::new(()),
            leader_tasks: Vec::new(),
            clock,
            observer: Arc::new(()),
            telemetry,
            election: None,
            apis: vec![AutoscalerApi::Core],
            dry_run,
        }
    }

    /// The field manager of status writes; `None` in dry run, which writes none.
    fn field_manager(&self) -> Option<FieldManager> {
        let manager = self.election.as_ref().map_or_else(FieldManager::default, |election| {
            FieldManager::for_lease(&election.config.namespace, &election.config.name)
        });
        (!self.dry_run).then_some(manager)
    }

    /// Detects suspensions that would end a leadership.
    fn suspension_detector(&self, caches: &Caches) -> SuspensionDetector {
        let threshold =
            self.election.as_ref().map_or(DEFAULT_RENEW_DEADLINE, |it| it.config.renew_deadline);
        SuspensionDetector::new(self.clock.clone(), threshold, caches.watch_ages.clone())
    }
}

/// Runs a controller until `shutdown` is cancelled, then lets running reconciles finish. While
/// another instance is the leader, only the informers run.
pub async fn run(
    dependencies: Dependencies,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let telemetry = dependencies.telemetry.clone();
    let lease = dependencies.election.as_ref().map(|election| election.config.name.clone());
    let set_leader = |is_leader| {
        if let Some(lease) = &lease {
            telemetry.set_leader(lease, is_leader);
        }
    };
    set_leader(false);
    let informers = Informers {
        caches: Caches::new(&options.scopes()),
        queue: Arc::new(WorkQueue::not_started()),
        undecodable: Arc::new(AtomicU64::new(0)),
        intervals: options.watch_intervals(),
        dry_run: dependencies.dry_run,
        field_manager: dependencies.field_manager(),
    };
    dependencies.pods.attach(informers.caches.pods.clone());
    dependencies.trigger.attach(informers.clone());
    let shadow = Arc::new(ShadowRecords::default());
    telemetry.attach(Sources {
        autoscalers: informers.caches.autoscalers.clone(),
        queue: informers.queue.clone(),
        undecodable: informers.undecodable.clone(),
        shadow: shadow.clone(),
        watch_ages: informers.caches.watch_ages.clone(),
    });
    let suspension = Arc::new(dependencies.suspension_detector(&informers.caches));
    let mut running_informers = JoinSet::new();
    let synced = start_informers(&mut running_informers, &dependencies, &informers, &options);
    tokio::select! {
        () = all_synced(synced) => {}
        () = shutdown.cancelled() => return Ok(()),
        _ = running_informers.join_next() => return Err(RunError::InformerEnded),
    }
    check_for_peer(&dependencies, &options, &informers.caches)?;
    telemetry.set_synced();
    let (autoscalers, pods) = (informers.caches.autoscalers.len(), informers.caches.pods.len());
    info!(autoscalers, pods, "caches synced");
    let history = Arc::new(HistoryHealth::default());
    telemetry.attach_history(history.clone());
    let (election, clock) = (dependencies.election.as_ref(), dependencies.clock.clone());
    let ages = informers.caches.watch_ages.clone();
    let candidate = Candidate::for_controller(election, clock, history.clone(), ages);
    let outcome = tokio::select! {
        acquired = candidate.leadership().acquired() => match acquired {
            Some(predecessor) => {
                set_leader(true);
                let leadership = candidate.leadership();
                let leader = Leader {
                    dependencies,
                    options,
                    informers,
                    suspension,
                    shadow,
                    history,
                    leadership,
                };
                leader.run(predecessor, &mut running_informers, &shutdown).await
            }
            None => Err(RunError::LeadershipLost),
        },
        () = shutdown.cancelled() => Ok(()),
        _ = running_informers.join_next() => Err(RunError::InformerEnded),
    };
    drop(running_informers);
    set_leader(false);
    // Last, when nothing is written any more.
    candidate.release().await;
    info!("stopped");
    outcome
}

/// Fails if another controller is active on the autoscalers, unless that is allowed or expected.
/// Another release of this project is only logged: a rollout that changes the lease would otherwise
/// wait forever for the pods that it replaces.
fn check_for_peer(
    dependencies: &Dependencies,
    options: &Options,
    caches: &Caches,
) -> Result<(), RunError> {
    if dependencies.dry_run {
        return Ok(());
    }
    let now = dependencies.clock.now();
    let Some(peer) = active_peer(&caches.autoscalers, options.sync_period, now) else {
        return Ok(());
    };
    if !options.allow_other_controller && !peer.write.is_by_hpa_rs() {
        return Err(RunError::OtherController(Box::new(peer)));
    }
    warn!("another controller is active: {peer}");
    Ok(())
}

/// Starts the informers of pods and autoscalers. Returns the receivers that become `true` when a
/// cache has synced.
fn start_informers(
    tasks: &mut JoinSet<()>,
    dependencies: &Dependencies,
    informers: &Informers,
    options: &Options,
) -> Vec<watch::Receiver<bool>> {
    let initial_delay = InitialDelay::for_period(options.sync_period);
    let client = &dependencies.clients.api;
    let mut synced = Vec::new();
    for scope in options.scopes() {
        let (pods_synced, receiver) = watch::channel(false);
        synced.push(receiver);
        tasks.spawn(informers.clone().watch_pods(client.clone(), scope.clone(), pods_synced));
        for api in &dependencies.apis {
            let (autoscalers_synced, receiver) = watch::channel(false);
            synced.push(receiver);
            tasks.spawn(informers.clone().watch_autoscalers(
                *api,
                client.clone(),
                scope.clone(),
                autoscalers_synced,
                initial_delay,
            ));
        }
    }
    synced
}

async fn all_synced(synced: Vec<watch::Receiver<bool>>) {
    for mut synced in synced {
        if synced.wait_for(|synced| *synced).await.is_err() {
            // The informer ended. Its `JoinSet` reports that.
            std::future::pending::<()>().await;
        }
    }
}

/// The controller on the instance that is the leader.
struct Leader<'a> {
    dependencies: Dependencies,
    options: Options,
    informers: Informers,
    suspension: Arc<SuspensionDetector>,
    shadow: Arc<ShadowRecords>,
    history: Arc<HistoryHealth>,
    leadership: &'a Leadership,
}

/// The tasks of a leader, in the order in which they end.
struct LeaderTasks {
    workers: JoinSet<()>,
    others: JoinSet<()>,
    event_writer: JoinSet<()>,
    history_store: JoinSet<()>,
    stop_history_store: CancellationToken,
}

impl Leader<'_> {
    /// Reconciles until the leadership is lost, an informer ends or `shutdown` is cancelled.
    async fn run(
        self,
        predecessor: Option<Predecessor>,
        running_informers: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> Result<(), RunError> {
        let tasks = self.start(predecessor).await;
        let outcome = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            _ = running_informers.join_next() => Err(RunError::InformerEnded),
            // Aborts running reconciles.
            () = self.leadership.lost() => return Err(RunError::LeadershipLost),
        };
        self.shut_down(tasks).await;
        outcome
    }

    /// Restores the histories and starts the workers.
    async fn start(&self, predecessor: Option<Predecessor>) -> LeaderTasks {
        let Dependencies { clients, telemetry, dry_run, .. } = &self.dependencies;
        let client =
            if *dry_run { read_only(&clients.api) } else { self.leadership.fence(&clients.api) };
        let stop_history_store = CancellationToken::new();
        let mut history_store = JoinSet::new();
        let mut observer: Arc<dyn Observer> = Arc::new(vec![
            telemetry.clone() as Arc<dyn Observer>,
            self.dependencies.observer.clone(),
        ]);
        if let Some(election) = &self.dependencies.election
            && election.config.keep_history
        {
            let store = self.restore_histories(election, predecessor).await;
            observer = Arc::new(vec![observer, store.clone()]);
            history_store.spawn(store.run(stop_history_store.clone()));
        }
        // A standby doesn't check.
        self.suspension.check();
        // Until now, the informers' additions were ignored.
        self.informers.queue.start();
        self.ignore_past_peer_writes();
        self.informers.requeue_all(InitialDelay::for_period(self.options.sync_period));
        let (events, writer) = EventRecorder::new(client.clone(), EventWriterConfig::default());
        telemetry.attach_events(events.dropped().clone());
        let mut event_writer = JoinSet::new();
        event_writer.spawn(writer.run());
        let others =
            self.start_others(LeaderContext { client: client.clone(), events: events.clone() });
        let reconciler = Arc::new(self.reconciler(client, events, observer));
        info!(dry_run, "reconciling");
        let mut workers = JoinSet::new();
        let running = Workers {
            queue: self.informers.queue.clone(),
            reconciler,
            telemetry: telemetry.clone(),
            sync_period: self.options.sync_period,
            slots: WorkerSlots::new(self.options.workers),
            suspension: self.suspension.clone(),
            foresight: self.dependencies.foresight.clone(),
        };
        workers.spawn(running.run());
        telemetry.set_working(true);
        LeaderTasks { workers, others, event_writer, history_store, stop_history_store }
    }

    fn start_others(&self, context: LeaderContext) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if !self.dependencies.dry_run {
            for task in &self.dependencies.leader_tasks {
                tasks.spawn(task.run(context.clone()));
            }
        }
        tasks
    }

    /// A standby doesn't report a peer's writes, and those from before its leadership may be old.
    fn ignore_past_peer_writes(&self) {
        for (_, autoscaler) in self.informers.caches.autoscalers.all() {
            autoscaler.ignore_past_peer_writes();
        }
    }

    fn reconciler(
        &self,
        client: Client,
        events: EventRecorder,
        observer: Arc<dyn Observer>,
    ) -> Reconciler {
        let Self { dependencies, options, informers, .. } = self;
        // A dry run reads each scale, for the best comparison.
        let scale_informers = (options.watch_scales && !dependencies.dry_run).then(|| {
            let client = dependencies.clients.api.clone();
            let ages = informers.caches.watch_ages.clone();
            ScaleInformers::new(client, options.scopes(), options.watch_intervals(), ages)
        });
        Reconciler {
            client: client.clone(),
            settings: options.settings,
            timeout: options.reconcile_timeout(),
            status_interval: options.status_interval,
            autoscalers: informers.caches.autoscalers.clone(),
            pods: informers.caches.pods.clone(),
            selectors: informers.caches.selectors.clone(),
            watch_ages: informers.caches.watch_ages.clone(),
            mapper: dependencies.mapper.clone(),
            scales: ScaleClient::new(client, options.request_timeout),
            scale_informers,
            metrics: dependencies.metrics.clone(),
            events,
            clock: dependencies.clock.clone(),
            observer,
            shadow: self.shadow.clone(),
            field_manager: dependencies.field_manager().unwrap_or_default(),
            peer_warnings: PeerWarnings::default(),
            dry_run: dependencies.dry_run,
        }
    }

    async fn restore_histories(
        &self,
        election: &Election,
        predecessor: Option<Predecessor>,
    ) -> Arc<HistoryStore> {
        let client = self.leadership.fence(&election.client);
        let store = HistoryStore::new(
            Api::namespaced(client, &election.config.namespace),
            election.config.name.clone(),
            self.options.settings,
            self.informers.caches.autoscalers.clone(),
            self.dependencies.clock.clone(),
            self.history.clone(),
        );
        // A predecessor without a history store does not vouch for what an earlier one stored.
        let until = predecessor.filter(|last| last.kept_history).map(|last| StoredUntil {
            time: last.history_complete_until.unwrap_or(last.renewed),
            is_complete: last.history_complete_until.is_none(),
        });
        store.restore(until).await;
        Arc::new(store)
    }

    /// Lets running reconciles, event writes and history writes finish, within the grace period.
    async fn shut_down(&self, mut tasks: LeaderTasks) {
        let (telemetry, grace) = (&self.dependencies.telemetry, self.options.shutdown_grace);
        info!("shutting down, waiting for running reconciles");
        telemetry.set_stopping();
        self.informers.queue.shut_down();
        let finish = async {
            while tasks.workers.join_next().await.is_some() {}
            // They hold recorders of events.
            tasks.others.shutdown().await;
            // Ends once all recorders are dropped and its queue is empty.
            tasks.event_writer.join_next().await;
            tasks.stop_history_store.cancel();
            tasks.history_store.join_next().await;
        };
        tokio::select! {
            finished = tokio::time::timeout(grace, finish) => if finished.is_err() {
                warn!(?grace, "reconciles did not finish within the grace period");
            },
            () = self.leadership.lost() => warn!("lost the leader lease while shutting down"),
        }
        telemetry.set_working(false);
    }
}
