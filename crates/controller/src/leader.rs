//! The leader: restores histories, runs workers and leader tasks, and shuts them down.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use hpa_lease::{
    Election, LeaderContext, Leadership, LeaseHooks, Predecessor, TaskPanics, events::EventRecorder,
};
use hpa_metrics::LogLimit;
use jiff::Timestamp;
use kube::{Api, Client};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    cache::{SuspensionDetector, WatchAges},
    config::Options,
    dependencies::{Dependencies, RunError},
    forecast::Forecasts,
    forecast_checks::ForecastChecks,
    history_store::{HistoryHealth, HistoryStore, HistoryValidity},
    informer::{Informers, ScaleInformers},
    instance_scope::{INSTANCE_SCOPE, InstanceScope},
    metrics::Telemetry,
    peer_check::PeerWindow,
    reconcile::{Observer, Reconciler, WorkerSlots},
    scale_target::{Owners, ScaleClient},
    shadow::read_only,
    worker::{LateLog, Workers},
};

/// The annotation that a lease holder sets if it stores histories for its successor.
pub const KEEPS_HISTORY: &str = "hpa-controller/keeps-history";
/// The annotation with the time until which the stored histories are complete. The lease holder
/// sets it while writes of histories fail.
const HISTORY_COMPLETE_UNTIL: &str = "hpa-controller/history-complete-until";

/// The time that a shutdown leaves for the last writes of histories, after the grace period of
/// reconciles.
const HISTORY_GRACE: Duration = Duration::from_secs(5);

/// The hooks of the controller's lease. They add annotations about the handled autoscalers and the
/// stored histories, detect by the lease's resource versions that the API server was rewound, and
/// report the start and the end of failures to the telemetry.
pub(crate) struct ControllerLeaseHooks {
    /// Published as [`INSTANCE_SCOPE`]. `None` without leader election.
    pub(crate) scope: Option<InstanceScope>,
    pub(crate) keep_history: bool,
    pub(crate) history: Arc<HistoryHealth>,
    pub(crate) watch_ages: Arc<WatchAges>,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl LeaseHooks for ControllerLeaseHooks {
    fn annotations(&self) -> Vec<(&'static str, Option<String>)> {
        let until = self.history.unsaved_since();
        vec![
            (INSTANCE_SCOPE, self.scope.as_ref().and_then(InstanceScope::to_annotation)),
            (KEEPS_HISTORY, self.keep_history.then(|| "true".to_owned())),
            (HISTORY_COMPLETE_UNTIL, until.map(|until| until.to_string())),
        ]
    }

    fn on_lease_version(&self, known: &str, response: &str, sent: Instant) {
        self.watch_ages.detect_rewind("leases", known, response, sent);
    }

    /// Warns if the holder doesn't handle all autoscalers of this instance. Then two Helm releases
    /// use the same lease, or the options of one release changed.
    fn on_new_holder(&self, holder: &str, annotations: &BTreeMap<String, String>) {
        let annotation = annotations.get(INSTANCE_SCOPE);
        let holder_scope = annotation.and_then(|text| InstanceScope::parse(text, holder));
        let (Some(own), Some(scope)) = (&self.scope, holder_scope) else { return };
        if !scope.covers(own) {
            warn!(
                holder,
                holder_handles = scope.describe(),
                this_instance_handles = own.describe(),
                "the lease holder doesn't handle all autoscalers of this instance, which waits for \
                 the lease: give each Helm release its own lease name or namespace"
            );
        }
    }

    fn on_failing_since(&self, since: Option<Instant>) {
        self.telemetry.set_lease_failing_since(since);
    }
}

/// The validity of the stored histories. `None` if the predecessor had no history store: histories
/// of an earlier leader may be outdated.
fn history_validity(predecessor: &Predecessor) -> Option<HistoryValidity> {
    let Predecessor { renewed, annotations } = predecessor;
    annotations.get(KEEPS_HISTORY).filter(|value| *value == "true")?;
    // If the time is unreadable, no history counts as complete.
    let until = annotations.get(HISTORY_COMPLETE_UNTIL);
    let until = until.map(|until| until.parse().unwrap_or(Timestamp::UNIX_EPOCH));
    Some(HistoryValidity { until: until.unwrap_or(*renewed), is_complete: until.is_none() })
}

/// The controller on the instance that is the leader.
pub(crate) struct Leader<'a> {
    pub(crate) dependencies: Dependencies,
    pub(crate) options: Options,
    pub(crate) informers: Informers,
    pub(crate) suspension: Arc<SuspensionDetector>,
    pub(crate) forecasts: Arc<Forecasts>,
    pub(crate) history: Arc<HistoryHealth>,
    pub(crate) leadership: &'a Leadership,
    pub(crate) peer_window: Option<PeerWindow>,
}

/// The tasks of a leader, in the order in which they end.
struct RunningTasks {
    workers: JoinSet<()>,
    background: JoinSet<()>,
    event_writer: JoinSet<()>,
    history_store: JoinSet<()>,
    stop_history_store: CancellationToken,
    panics: TaskPanics,
}

impl RunningTasks {
    /// Lets running reconciles and event writes finish.
    async fn finish(&mut self) {
        while self.workers.join_next().await.is_some() {}
        // Stopped before the event writer, because these tasks own event recorders.
        self.background.shutdown().await;
        // The writer ends once all recorders are dropped and its queue is empty.
        self.event_writer.join_next().await;
    }
}

impl Leader<'_> {
    /// Reconciles until the leadership is lost, an informer ends, a task panics or `shutdown` is
    /// cancelled.
    pub(crate) async fn run(
        self,
        predecessor: Option<Predecessor>,
        running_informers: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> Result<(), RunError> {
        let tasks = self.start(predecessor).await;
        let outcome = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            _ = running_informers.join_next() => Err(RunError::InformerEnded),
            panicked = tasks.panics.panicked() => Err(panicked.into()),
            // Aborts running reconciles.
            () = self.leadership.lost() => return Err(RunError::LeadershipLost),
        };
        self.shut_down(tasks).await;
        outcome
    }

    /// Restores the histories and starts the workers.
    async fn start(&self, predecessor: Option<Predecessor>) -> RunningTasks {
        let Dependencies { clients, telemetry, dry_run, .. } = &self.dependencies;
        let client =
            if *dry_run { read_only(&clients.api) } else { self.leadership.fence(&clients.api) };
        let (stop_history_store, panics) = (CancellationToken::new(), TaskPanics::default());
        let mut history_store = JoinSet::new();
        let mut observers =
            vec![telemetry.clone() as Arc<dyn Observer>, self.dependencies.observer.clone()];
        if let Some(election) = &self.dependencies.election
            && self.dependencies.keep_history
        {
            let store = self.restore_histories(election, predecessor).await;
            observers.push(store.clone());
            let store = store.run(stop_history_store.clone());
            history_store.spawn(panics.clone().catch("history store", store));
        }
        // This is the first check since the start, because a standby doesn't check.
        self.suspension.check();
        // Until its start, the queue ignores the informers' additions.
        self.informers.queue.start();
        self.ignore_past_peer_writes();
        self.informers.requeue_all();
        let (events, writer) = EventRecorder::new(client.clone());
        telemetry.attach_events(events.dropped().clone());
        let mut event_writer = JoinSet::new();
        event_writer.spawn(panics.clone().catch("event writer", writer.run()));
        let context = LeaderContext { client: client.clone(), events: events.clone() };
        let background = self.start_background_tasks(&context, &panics);
        let reconciler = Arc::new(self.reconciler(client, events, Arc::new(observers)));
        info!(dry_run, "started reconciling");
        let mut workers = JoinSet::new();
        let all_workers = Workers {
            queue: self.informers.queue.clone(),
            reconciler,
            telemetry: telemetry.clone(),
            sync_period: self.options.sync_period,
            slots: WorkerSlots::new(self.options.workers),
            suspension: self.suspension.clone(),
            next_metric_change: self.dependencies.next_metric_change.clone(),
            late_log: LateLog::default(),
            epoch: Instant::now(),
        };
        workers.spawn(panics.clone().catch("workers", all_workers.run()));
        telemetry.set_working(true);
        RunningTasks {
            workers,
            background,
            event_writer,
            history_store,
            stop_history_store,
            panics,
        }
    }

    fn start_background_tasks(&self, context: &LeaderContext, panics: &TaskPanics) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if !self.dependencies.dry_run {
            for task in &self.dependencies.leader_tasks {
                tasks.spawn(task.clone().run(context.clone(), panics.clone()));
            }
            let checks = ForecastChecks {
                forecasts: self.forecasts.clone(),
                autoscalers: self.informers.caches.autoscalers.clone(),
                settings: self.informers.settings.clone(),
                clock: self.dependencies.clock.clone(),
            };
            tasks.spawn(panics.clone().catch("forecast checks", checks.run()));
        }
        tasks
    }

    /// Ignores the peer's writes from before the leadership, which may be old.
    fn ignore_past_peer_writes(&self) {
        for (_, autoscaler) in self.informers.caches.autoscalers.all() {
            autoscaler.peer_writes.ignore_past();
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
            let watch_ages = informers.caches.watch_ages.clone();
            ScaleInformers::new(client, options.scopes(), options.watch_intervals(), watch_ages)
        });
        Reconciler {
            client: client.clone(),
            settings: informers.settings.clone(),
            timeout: options.reconcile_timeout(),
            status_interval: options.status_interval,
            autoscalers: informers.caches.autoscalers.clone(),
            pods: informers.caches.pods.clone(),
            selectors: informers.caches.selectors.clone(),
            watch_ages: informers.caches.watch_ages.clone(),
            mapper: dependencies.mapper.clone(),
            owners: Owners::new(
                client.clone(),
                dependencies.mapper.clone(),
                options.request_timeout,
            ),
            scales: ScaleClient::new(client, options.request_timeout),
            scale_informers,
            metrics: dependencies.metrics.clone(),
            events,
            clock: dependencies.clock.clone(),
            observer,
            forecasts: self.forecasts.clone(),
            field_manager: dependencies.field_manager().unwrap_or_default(),
            peer_log_limit: LogLimit::default(),
            unlogged_peer_writes: AtomicU64::new(0),
            peer_window: self.peer_window,
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
            self.informers.settings.clone(),
            self.informers.caches.autoscalers.clone(),
            self.dependencies.clock.clone(),
            self.history.clone(),
            // The longest leader change: the lease expires, and then the successor acquires it and
            // reads the histories.
            election.config.lease_duration.saturating_mul(2),
        );
        let validity = predecessor.as_ref().and_then(history_validity);
        store.restore(validity).await;
        Arc::new(store)
    }

    /// Lets running reconciles and event writes finish within the grace period, then history writes
    /// within their own grace period.
    async fn shut_down(&self, mut tasks: RunningTasks) {
        let (telemetry, grace) = (&self.dependencies.telemetry, self.options.shutdown_grace);
        info!("shutting down, waiting for running reconciles");
        telemetry.set_stopping();
        self.informers.queue.shut_down();
        let stop = async {
            if timeout(grace, tasks.finish()).await.is_err() {
                // `hpa shadow-report` has no grace period: at its end, it interrupts reconciles.
                if !grace.is_zero() {
                    warn!(?grace, "reconciles did not finish within the grace period");
                }
                tasks.workers.shutdown().await;
            }
            tasks.stop_history_store.cancel();
            if timeout(HISTORY_GRACE, tasks.history_store.join_next()).await.is_err() {
                warn!(grace = ?HISTORY_GRACE, "histories were not stored within the grace period");
            }
        };
        tokio::select! {
            () = stop => {}
            () = self.leadership.lost() => warn!("lost the leader lease while shutting down"),
        }
        telemetry.set_working(false);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a timestamp")
    }

    fn predecessor_with(keep_history: bool, unsaved_since: Option<i64>) -> Predecessor {
        let history = Arc::new(HistoryHealth::default());
        history.set_unsaved(unsaved_since.map(|at| (second(at), Instant::now())));
        let hooks = ControllerLeaseHooks {
            scope: None,
            keep_history,
            history,
            watch_ages: Arc::default(),
            telemetry: Arc::default(),
        };
        let annotations = hooks.annotations().into_iter();
        let annotations = annotations.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Predecessor { renewed: second(20), annotations: annotations.collect() }
    }

    #[rstest]
    #[case::all_is_stored(predecessor_with(true, None), Some((20, true)))]
    #[case::writes_fail(predecessor_with(true, Some(15)), Some((15, false)))]
    #[case::no_history_store(predecessor_with(false, Some(15)), None)]
    fn lease_has_the_time_until_which_histories_are_complete(
        #[case] predecessor: Predecessor,
        #[case] expected: Option<(i64, bool)>,
    ) {
        let validity = history_validity(&predecessor);
        let validity = validity.map(|validity| (validity.until, validity.is_complete));
        assert_eq!(validity, expected.map(|(until, is_complete)| (second(until), is_complete)));
    }

    #[test]
    fn unreadable_time_marks_histories_as_incomplete() {
        let mut predecessor = predecessor_with(true, None);
        predecessor.annotations.insert(HISTORY_COMPLETE_UNTIL.to_owned(), "soon".to_owned());
        let validity = history_validity(&predecessor).expect("a history store");
        assert_eq!((validity.until, validity.is_complete), (Timestamp::UNIX_EPOCH, false));
    }
}
