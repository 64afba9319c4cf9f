//! Starts the informers, takes part in the leader election, and shuts down.

use std::sync::{Arc, atomic::AtomicU64};

use hpa_lease::Candidate;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    cache::Caches,
    config::Options,
    dependencies::{Dependencies, RunError},
    forecast::Forecasts,
    history_store::HistoryHealth,
    informer::Informers,
    leader::{ControllerLeaseHooks, Leader},
    metrics::TelemetrySources,
    peer_check::{PeerWindow, active_peer},
    queue::WorkQueue,
};

/// Runs a controller until `shutdown` is cancelled or an error ends it. Running reconciles may
/// finish, unless the lease is lost. While another instance is the leader, only the informers run.
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
    let informers = new_informers(&dependencies, &options);
    dependencies.trigger.attach(informers.clone());
    let forecasts = Arc::new(Forecasts::new(dependencies.forecasts.clone(), options.sync_period));
    let history = Arc::new(HistoryHealth::default());
    telemetry.attach(telemetry_sources(&informers, &forecasts, &history));
    let suspension = Arc::new(dependencies.suspension_detector(&informers.caches));
    let mut running_informers = JoinSet::new();
    let synced = start_informers(&mut running_informers, &dependencies, &informers, &options);
    tokio::select! {
        () = all_synced(synced) => {}
        () = shutdown.cancelled() => return Ok(()),
        _ = running_informers.join_next() => return Err(RunError::InformerEnded),
    }
    let peer_window = check_for_peer(&dependencies, &options, &informers)?;
    dependencies.pods.attach(informers.caches.pods.clone());
    telemetry.set_synced();
    let (autoscalers, pods) = (informers.caches.autoscalers.len(), informers.caches.pods.len());
    info!(autoscalers, pods, "caches synced");
    let hooks = Arc::new(lease_hooks(&dependencies, &options, &informers, &history));
    let clock = dependencies.clock.clone();
    let candidate = Candidate::new(dependencies.election.as_ref(), clock, hooks);
    let outcome = tokio::select! {
        acquired = candidate.leadership().acquired() => match acquired {
            Ok(predecessor) => {
                set_leader(true);
                let leadership = candidate.leadership();
                let leader = Leader {
                    dependencies,
                    options,
                    informers,
                    suspension,
                    forecasts,
                    history,
                    leadership,
                    peer_window,
                };
                leader.run(predecessor, &mut running_informers, &shutdown).await
            }
            Err(_) => Err(RunError::LeadershipLost),
        },
        () = shutdown.cancelled() => Ok(()),
        _ = running_informers.join_next() => Err(RunError::InformerEnded),
    };
    drop(running_informers);
    set_leader(false);
    // Last, because the next leader may write from then on.
    candidate.release().await;
    info!("stopped");
    outcome
}

fn new_informers(dependencies: &Dependencies, options: &Options) -> Informers {
    Informers {
        caches: Caches::new(&options.scopes()),
        queue: Arc::new(WorkQueue::default()),
        undecodable_count: Arc::new(AtomicU64::new(0)),
        intervals: options.watch_intervals(),
        sync_period: options.sync_period,
        dry_run: dependencies.dry_run,
        settings: options.setting_source(),
        field_manager: dependencies.field_manager(),
        clock: dependencies.clock.clone(),
    }
}

fn telemetry_sources(
    informers: &Informers,
    forecasts: &Arc<Forecasts>,
    history: &Arc<HistoryHealth>,
) -> TelemetrySources {
    TelemetrySources {
        autoscalers: informers.caches.autoscalers.clone(),
        queue: informers.queue.clone(),
        undecodable_count: informers.undecodable_count.clone(),
        watch_ages: informers.caches.watch_ages.clone(),
        forecasts: forecasts.clone(),
        history: history.clone(),
    }
}

fn lease_hooks(
    dependencies: &Dependencies,
    options: &Options,
    informers: &Informers,
    history: &Arc<HistoryHealth>,
) -> ControllerLeaseHooks {
    ControllerLeaseHooks {
        scope: dependencies.instance_scope(options),
        keep_history: dependencies.keep_history,
        history: history.clone(),
        watch_ages: informers.caches.watch_ages.clone(),
        telemetry: dependencies.telemetry.clone(),
    }
}

/// Fails if another controller is active in all namespaces with autoscalers, unless an option
/// allows that. In a dry run, a peer is expected. Another Helm release of hpa-rs is only logged: a
/// rollout that changes the lease would otherwise wait forever for the pods that it replaces.
///
/// Returns a window if only some namespaces have writes of another controller. Then the controller
/// starts, and leaves each autoscaler alone whose status a peer wrote within this window.
fn check_for_peer(
    dependencies: &Dependencies,
    options: &Options,
    informers: &Informers,
) -> Result<Option<PeerWindow>, RunError> {
    if dependencies.dry_run {
        return Ok(None);
    }
    let window = PeerWindow::new(options.sync_period);
    let now = dependencies.clock.now();
    let Some(peer) = active_peer(&informers.caches.autoscalers, &informers.settings, window, now)
    else {
        return Ok(None);
    };
    if options.allows_active_peer || peer.write.is_by_hpa_rs() {
        warn!("another controller is active: {peer}");
        return Ok(None);
    }
    if peer.is_in_all_namespaces() {
        return Err(RunError::ActivePeer(Box::new(peer)));
    }
    let (with_write, all) = (peer.namespace_count, peer.all_namespace_count);
    warn!(
        "another controller may be active: {peer}. Such writes are in {with_write} of {all} \
         namespaces, and a user of these may have forged them. Each autoscaler is left alone for \
         two sync periods, at least 30s, after another controller has written its status"
    );
    Ok(Some(window))
}

/// Starts the informers of pods and autoscalers. Returns the receivers that become `true` when a
/// cache has synced.
fn start_informers(
    tasks: &mut JoinSet<()>,
    dependencies: &Dependencies,
    informers: &Informers,
    options: &Options,
) -> Vec<watch::Receiver<bool>> {
    let client = &dependencies.clients.api;
    let mut receivers = Vec::new();
    let mut new_sender = || {
        let (sender, receiver) = watch::channel(false);
        receivers.push(receiver);
        sender
    };
    for scope in options.scopes() {
        let synced = new_sender();
        tasks.spawn(informers.clone().watch_pods(client.clone(), scope.clone(), synced));
        for api in &dependencies.apis {
            let (client, scope, synced) = (client.clone(), scope.clone(), new_sender());
            tasks.spawn(informers.clone().watch_autoscalers(*api, client, scope, synced));
        }
    }
    receivers
}

async fn all_synced(receivers: Vec<watch::Receiver<bool>>) {
    for mut receiver in receivers {
        if receiver.wait_for(|synced| *synced).await.is_err() {
            // The informer ended. Its `JoinSet` reports that.
            std::future::pending::<()>().await;
        }
    }
}
