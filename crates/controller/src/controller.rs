//! Wiring: caches, queue, workers, and an orderly end.

use std::{
    collections::BTreeSet,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use futures::FutureExt;
use hpa_calc::settings::Settings;
use hpa_metrics_client::{
    ClientSettings, Coalescing, CoalescingSettings, KubeMetricsClient, MetricsClient,
};
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    cache::Caches,
    clock::{Clock, SystemClock},
    events::{EventRecorder, EventWriterConfig},
    history_store::HistoryStore,
    informer::{Informers, ScaleInformers},
    k8s::Clients,
    key::{AutoscalerApi, HpaKey},
    leader_election::{Candidate, Election, Leadership, Predecessor},
    metrics::{ObservedSource, Sources, Telemetry},
    queue::InitialDelay,
    queue::WorkQueue,
    reconcile::Reconciler,
    reconcile::observer::Observer,
    scale_target::{MapperConfig, RestMapper, ScaleClient},
    scope::Scope,
    shadow::read_only,
};

/// How a controller runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The engine's settings.
    pub settings: Settings,
    /// `--horizontal-pod-autoscaler-sync-period`: how often each autoscaler is reconciled.
    pub sync_period: Duration,
    /// `--concurrent-horizontal-pod-autoscaler-syncs`: how many are reconciled at once.
    pub workers: usize,
    /// The namespaces looked at; none for all.
    pub namespaces: Vec<String>,
    /// How long running reconciles may take to finish at the end.
    pub shutdown_grace: Duration,
    /// The deadline of a request that is no watch.
    pub request_timeout: Duration,
    /// Whether the scales of targets are known from watches; if not, each reconcile reads its target's.
    pub watch_scales: bool,
}

impl Options {
    /// Where is looked.
    fn scopes(&self) -> Vec<Scope> {
        match self.namespaces.as_slice() {
            [] => vec![None],
            namespaces => {
                namespaces.iter().cloned().collect::<BTreeSet<_>>().into_iter().map(Some).collect()
            }
        }
    }
}

/// Why a controller ended of itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A watch is endless; without it the controller would decide on what was.
    #[error("a watch ended")]
    WatchEnded,
    /// Another instance may lead now. What was cached is still good, but a fresh start is simpler to be sure of.
    #[error("lost the lease: another instance may lead now")]
    LeadershipLost,
}

/// What a controller reads, writes and tells by.
#[derive(Clone)]
pub struct Dependencies {
    /// The API server.
    pub clients: Clients,
    /// Kinds to resources.
    pub mapper: Arc<RestMapper>,
    /// The metrics APIs.
    pub metrics: Arc<dyn MetricsClient>,
    /// By which it is decided.
    pub clock: Arc<dyn Clock>,
    /// Is told of every reconcile, besides the telemetry.
    pub observer: Arc<dyn Observer>,
    /// Metrics and health.
    pub telemetry: Arc<Telemetry>,
    /// Decides whether this instance is the one that works; unset, it is.
    pub election: Option<Election>,
    /// The APIs whose autoscalers are handled.
    pub apis: Vec<AutoscalerApi>,
    /// Whether nothing is written, and decisions are compared with those of the controller that writes.
    pub dry_run: bool,
}

impl Dependencies {
    /// The usual ones: the metrics APIs of the API server, the machine's clock, nobody else who observes, and no
    /// election.
    pub fn new(clients: Clients, options: &Options) -> Self {
        Self::with_telemetry(clients, options, Arc::default())
    }

    /// As [`Dependencies::new`], with telemetry that somebody asks for.
    pub fn with_telemetry(clients: Clients, options: &Options, telemetry: Arc<Telemetry>) -> Self {
        Self::coalescing(
            clients,
            options,
            telemetry,
            CoalescingSettings::for_sync_period(options.sync_period),
        )
    }

    /// Those of a dry run, which writes nothing: an answer of a metrics API is not kept for the next who asks, so that
    /// it is as little older than the other controller's as can be.
    pub fn for_dry_run(clients: Clients, options: &Options, telemetry: Arc<Telemetry>) -> Self {
        let settings = CoalescingSettings::for_sync_period(options.sync_period);
        let settings = CoalescingSettings { freshness: Duration::ZERO, ..settings };
        Self { dry_run: true, ..Self::coalescing(clients, options, telemetry, settings) }
    }

    fn coalescing(
        clients: Clients,
        options: &Options,
        telemetry: Arc<Telemetry>,
        sharing: CoalescingSettings,
    ) -> Self {
        let defaults = MapperConfig::default();
        let config = MapperConfig {
            request_timeout: options.request_timeout,
            // A kind that was missed is looked for again by the next reconcile.
            min_refresh_interval: defaults.min_refresh_interval.min(options.sync_period),
            ..defaults
        };
        let mapper = Arc::new(RestMapper::new(clients.api.clone(), config));
        let settings = ClientSettings {
            deadline: options.request_timeout,
            version_lifetime: options.sync_period,
            ..ClientSettings::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let source = KubeMetricsClient::new(clients.metrics.clone(), mapper.clone(), settings);
        let source = ObservedSource::new(source, telemetry.clone(), clock.clone());
        let metrics = Coalescing::new(source, sharing);
        Self {
            clients,
            mapper,
            metrics: Arc::new(metrics),
            clock,
            observer: Arc::new(()),
            telemetry,
            election: None,
            apis: vec![AutoscalerApi::Core],
            dry_run: false,
        }
    }
}

/// Runs a controller until `shutdown` is cancelled; then lets running reconciles finish. Where there is an election, the
/// caches are filled and kept while another instance leads.
pub async fn run(
    parts: Dependencies,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let telemetry = parts.telemetry.clone();
    let scopes = options.scopes();
    let informers = Informers {
        caches: Caches::new(&scopes),
        queue: Arc::new(WorkQueue::default()),
        undecodable: Arc::new(AtomicU64::new(0)),
        // So that what was missed is known in time for the next reconcile but one.
        relist_interval: options.sync_period / 2,
        dry_run: parts.dry_run,
    };
    telemetry.attach(Sources {
        autoscalers: informers.caches.autoscalers.clone(),
        queue: informers.queue.clone(),
        undecodable: informers.undecodable.clone(),
    });
    let mut watches = JoinSet::new();
    let synced = start_watches(&mut watches, &parts, &informers, scopes, options.sync_period);
    tokio::select! {
        () = all_synced(synced) => {}
        () = shutdown.cancelled() => return Ok(()),
        _ = watches.join_next() => return Err(RunError::WatchEnded),
    }
    telemetry.set_synced();
    info!(
        autoscalers = informers.caches.autoscalers.len(),
        pods = informers.caches.pods.len(),
        "the caches are filled"
    );
    let candidate = Candidate::new(parts.election.as_ref(), parts.clock.clone());
    let gained = tokio::select! {
        gained = candidate.leadership().gained() => gained.map(Some).ok_or(RunError::LeadershipLost),
        () = shutdown.cancelled() => Ok(None),
        _ = watches.join_next() => Err(RunError::WatchEnded),
    };
    let outcome = match gained {
        Ok(Some(predecessor)) => {
            let leader = Leader { leadership: candidate.leadership(), predecessor };
            leader.work(parts, &options, &informers, &mut watches, &shutdown).await
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    drop(watches);
    // Only now that nothing is written any more.
    candidate.leave().await;
    info!("stopped");
    outcome
}

/// The instance that works.
struct Leader<'a> {
    leadership: &'a Leadership,
    predecessor: Option<Predecessor>,
}

impl Leader<'_> {
    /// Reconciles until the leadership is lost, a watch ends or `shutdown` is cancelled.
    async fn work(
        &self,
        parts: Dependencies,
        options: &Options,
        informers: &Informers,
        watches: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> Result<(), RunError> {
        let Dependencies {
            clients,
            mapper,
            metrics,
            clock,
            mut observer,
            telemetry,
            election,
            dry_run,
            ..
        } = parts;
        let client =
            if dry_run { read_only(&clients.api) } else { self.leadership.fence(&clients.api) };
        let keeping = CancellationToken::new();
        let mut keepers = JoinSet::new();
        observer = Arc::new(vec![telemetry.clone() as Arc<dyn Observer>, observer]);
        if let Some(election) = election {
            telemetry.set_leading(&election.config.name, true);
            if election.config.keep_history {
                let keeper = self.keeper(&election, options, informers, &clock).await;
                observer = Arc::new(vec![observer, keeper.clone()]);
                keepers.spawn(keeper.run(keeping.clone()));
            }
        }
        // Filling the caches, or waiting for the lease, may have taken longer than all were spread over.
        informers.requeue_all(InitialDelay::for_period(options.sync_period));
        let (events, writer) = EventRecorder::new(client.clone(), EventWriterConfig::default());
        telemetry.attach_events(events.dropped().clone());
        let mut recording = JoinSet::new();
        recording.spawn(writer.run());
        // A dry run looks as closely as it can.
        let scale_informers = (options.watch_scales && !dry_run).then(|| {
            ScaleInformers::new(clients.api.clone(), options.scopes(), informers.relist_interval)
        });
        let reconciler = Arc::new(Reconciler {
            client: client.clone(),
            settings: options.settings,
            autoscalers: informers.caches.autoscalers.clone(),
            pods: informers.caches.pods.clone(),
            selectors: informers.caches.selectors.clone(),
            mapper,
            scales: ScaleClient::new(client, options.request_timeout),
            scale_informers,
            metrics,
            events,
            clock,
            observer,
            dry_run,
        });
        info!(dry_run, "reconciling");
        let mut workers = JoinSet::new();
        for _ in 0..options.workers {
            let (queue, reconciler) = (informers.queue.clone(), reconciler.clone());
            workers.spawn(work(queue, reconciler, telemetry.clone(), options.sync_period));
        }
        telemetry.set_working(true);
        drop(reconciler);
        let outcome = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            _ = watches.join_next() => Err(RunError::WatchEnded),
            // What is under way ends here.
            () = self.leadership.lost() => return Err(RunError::LeadershipLost),
        };
        info!("shutting down: running reconciles finish");
        telemetry.set_stopping();
        informers.queue.shut_down();
        let finish = async {
            while workers.join_next().await.is_some() {}
            // The recorder ends when all its handles are gone and its queue is empty.
            recording.join_next().await;
            keeping.cancel();
            keepers.join_next().await;
        };
        tokio::select! {
            finished = tokio::time::timeout(options.shutdown_grace, finish) => if finished.is_err() {
                warn!(grace = ?options.shutdown_grace, "some reconciles did not finish in time");
            },
            () = self.leadership.lost() => warn!("lost the lease while shutting down"),
        }
        telemetry.set_working(false);
        outcome
    }

    /// Restores the histories, and keeps them from now on.
    async fn keeper(
        &self,
        election: &Election,
        options: &Options,
        informers: &Informers,
        clock: &Arc<dyn Clock>,
    ) -> Arc<HistoryStore> {
        let client = self.leadership.fence(&election.client);
        let (settings, autoscalers) = (options.settings, informers.caches.autoscalers.clone());
        let keeper =
            HistoryStore::new(client, &election.config, settings, autoscalers, clock.clone());
        keeper.restore(self.predecessor).await;
        Arc::new(keeper)
    }
}

fn start_watches(
    watches: &mut JoinSet<()>,
    parts: &Dependencies,
    informers: &Informers,
    scopes: Vec<Scope>,
    sync_period: Duration,
) -> Vec<watch::Receiver<bool>> {
    let spread = InitialDelay::for_period(sync_period);
    let mut synced = Vec::new();
    for scope in scopes {
        let (pods_synced, receiver) = watch::channel(false);
        synced.push(receiver);
        let client = parts.clients.api.clone();
        watches.spawn(informers.clone().watch_pods(client, scope.clone(), pods_synced));
        for api in &parts.apis {
            let (autoscalers_synced, receiver) = watch::channel(false);
            synced.push(receiver);
            let client = parts.clients.api.clone();
            watches.spawn(informers.clone().watch_autoscalers(
                *api,
                client,
                scope.clone(),
                autoscalers_synced,
                spread,
            ));
        }
    }
    synced
}

async fn all_synced(synced: Vec<watch::Receiver<bool>>) {
    for mut synced in synced {
        if synced.wait_for(|synced| *synced).await.is_err() {
            // Its watch ended, which is noticed as such.
            std::future::pending::<()>().await;
        }
    }
}

/// Reconciles what is due, one after the other, until the queue is shut down.
async fn work(
    queue: Arc<WorkQueue<HpaKey>>,
    reconciler: Arc<Reconciler>,
    telemetry: Arc<Telemetry>,
    period: Duration,
) {
    while let Some(lease) = queue.get().await {
        // Counted from when it was due: a reconcile that takes its time does not shift those to come.
        let begun = Instant::now();
        let next = begun - lease.lateness() + period;
        let key = lease.key().clone();
        telemetry.taken(&key, lease.lateness(), period);
        // A defect that one object brings out is not to stop the others.
        if AssertUnwindSafe(reconciler.reconcile(&key)).catch_unwind().await.is_err() {
            error!(hpa = %key, "the reconcile panicked; the autoscaler is tried again after a period");
        }
        if reconciler.autoscalers.get(&key).is_some() {
            telemetry.scheduled(&key, next);
            queue.add_after(key, next.saturating_duration_since(Instant::now()));
        } else {
            // Deleted meanwhile: the reconcile may have registered its selector again.
            reconciler.selectors.remove(&key);
        }
        telemetry.worked(begun.elapsed());
        lease.done();
    }
}
