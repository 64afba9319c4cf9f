//! The past of autoscalers, from the debug API of their controller.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use hpa_controller::{HpaKey, debug::ActingController, k8s::FieldManager};
use hpa_dashboard::{ControllerRecords, OverdueAutoscaler, RecordSource, StatusWriter};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::Mutex;

use crate::{
    args::ControllerArguments,
    dashboard::inactivity,
    debug_client::{DebugClient, KUBE_CONTROLLER_MANAGER, LeaseHolder, LeaseName, Unavailable},
    liveness::{ControllerLease, KubeControllerManager},
};

/// The time for which the result of a search for the leader is used.
const SEARCH_LIFETIME: Duration = Duration::from_secs(60);
/// The age of the oldest decisions that the page has.
const DISPLAYED_PAST: SignedDuration = SignedDuration::from_hours(1);

/// Reads the debug API of the leader.
pub(super) struct ControllerPast {
    client: Client,
    location: ControllerArguments,
    last_search: Mutex<Option<LeaderSearch>>,
    /// The time at which the lease was first seen without a holder. `None` if it has one.
    released_since: Mutex<Option<Timestamp>>,
}

/// The result of a search for the leader: its debug API, or the reason why there is none.
#[derive(Clone)]
struct LeaderSearch {
    lease: LeaseName,
    at: Instant,
    api: Result<Arc<DebugClient>, Unavailable>,
}

impl ControllerPast {
    pub(super) fn new(client: Client, location: &ControllerArguments) -> Self {
        Self {
            client,
            location: location.clone(),
            last_search: Mutex::default(),
            released_since: Mutex::default(),
        }
    }

    async fn find_lease(&self, writers: &[StatusWriter]) -> ControllerLease {
        let managers: Vec<&str> = writers.iter().map(|writer| writer.manager.as_str()).collect();
        ControllerLease::find(&self.client, &self.location, managers).await
    }

    /// Reads the state of kube-controller-manager, with the time of its last write.
    async fn read_built_in(&self, writers: &[StatusWriter]) -> KubeControllerManager {
        let times = writers.iter().map(|writer| (Some(writer.manager.as_str()), writer.at));
        KubeControllerManager::read(&self.client).await.with_writes(times)
    }

    /// Updates and returns the time at which the lease was first seen without a holder. `None` if
    /// it has one or can't be read.
    async fn update_released_since(
        &self,
        holder: &Result<LeaseHolder, Unavailable>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut since = self.released_since.lock().await;
        *since = match holder {
            Err(Unavailable::NotHeld(_) | Unavailable::NoLease(_)) => since.or(Some(now)),
            _ => None,
        };
        *since
    }

    /// Returns the debug API of the leader, from the last search if that is recent.
    async fn leader_api(&self, lease: LeaseName) -> Result<Arc<DebugClient>, Unavailable> {
        let mut last_search = self.last_search.lock().await;
        let is_current = |last_search: &&LeaderSearch| {
            last_search.lease == lease && last_search.at.elapsed() < SEARCH_LIFETIME
        };
        if let Some(last_search) = last_search.as_ref().filter(is_current) {
            return last_search.api.clone();
        }
        let api = DebugClient::find(&self.client, &self.location, &lease).await.map(Arc::new);
        *last_search = Some(LeaderSearch { lease, at: Instant::now(), api: api.clone() });
        api
    }

    async fn read(
        &self,
        key: &HpaKey,
        manager: Option<&str>,
    ) -> Result<ControllerRecords, Unavailable> {
        let other_manager = manager.filter(|manager| !FieldManager::is_hpa_rs(manager));
        if let (Some(other_manager), None) = (other_manager, &self.location.controller_url) {
            return Err(Unavailable::OtherController(other_manager.to_owned()));
        }
        let api = self.leader_api(LeaseName::choose(&self.location, manager)).await?;
        let since = Timestamp::now().checked_sub(DISPLAYED_PAST).ok();
        let detail = api.autoscaler(key.api, &key.namespace, &key.name, since).await;
        if detail.is_err() {
            // Another instance may be the leader now.
            *self.last_search.lock().await = None;
        }
        match detail? {
            Some(detail) if detail.history.is_some() => Ok(detail.into()),
            Some(_) => Err(Unavailable::NotWorking(api.source.clone())),
            None => Err(Unavailable::UnknownAutoscaler),
        }
    }
}

#[async_trait]
impl RecordSource for ControllerPast {
    async fn past(
        &self,
        autoscaler: &HpaKey,
        manager: Option<&str>,
        after: Option<Timestamp>,
    ) -> Result<ControllerRecords, String> {
        let past = self.read(autoscaler, manager).await;
        let mut past = past.map_err(|unavailable| unavailable.to_string())?;
        past.samples.retain(|sample| after.is_none_or(|after| sample.at > after));
        Ok(past)
    }

    async fn autoscaler_inactivity(
        &self,
        autoscaler: &HpaKey,
        manager: &str,
        writers: &[StatusWriter],
    ) -> Option<String> {
        if self.location.controller_url.is_some() {
            return None;
        }
        let lease = if manager == KUBE_CONTROLLER_MANAGER {
            // hpa-rs may have replaced it. Other statuses name its lease.
            self.find_lease(writers).await
        } else {
            ControllerLease::find(&self.client, &self.location, [manager]).await
        };
        let built_in = self.read_built_in(writers).await;
        let leases = lease.with(&built_in);
        Some(leases.idle(autoscaler.api, manager)?.clause("this autoscaler"))
    }

    async fn successor(&self, writers: &[StatusWriter]) -> ActingController {
        if !writers.iter().any(|writer| writer.manager == KUBE_CONTROLLER_MANAGER) {
            return ActingController::Unknown;
        }
        let lease = self.find_lease(writers).await;
        let built_in = self.read_built_in(writers).await;
        let is_answering = self.location.controller_url.is_some() && {
            let status = async { self.leader_api(lease.name.clone()).await?.status().await };
            status.await.is_ok_and(|status| status.is_working)
        };
        lease.with(&built_in).acting_controller(Some(KUBE_CONTROLLER_MANAGER), is_answering)
    }

    async fn overdue(
        &self,
        writers: &[StatusWriter],
        limit: SignedDuration,
    ) -> Vec<OverdueAutoscaler> {
        let lease = self.find_lease(writers).await;
        let items = async { self.leader_api(lease.name).await?.autoscalers().await };
        let items = items.await.unwrap_or_default();
        items.iter().filter_map(|item| inactivity::overdue(item, limit)).collect()
    }

    async fn inactivity_sentence(
        &self,
        writers: &[StatusWriter],
        limit: SignedDuration,
    ) -> Option<String> {
        let lease = self.find_lease(writers).await;
        if self.location.controller_url.is_none() {
            let built_in = self.read_built_in(writers).await;
            let since = self.update_released_since(&lease.holder, Timestamp::now()).await;
            let sentence = inactivity::describe_leases(&lease.with(&built_in), writers, since);
            if sentence.is_some() || lease.holder.is_err() {
                return sentence;
            }
        }
        let status = async { self.leader_api(lease.name).await?.status().await };
        match (status.await, &self.location.controller_url) {
            (Ok(status), _) => inactivity::describe_status(&status, limit),
            (Err(error), Some(url)) => {
                Some(inactivity::describe_unreadable_url(&url.to_string(), &error))
            }
            // The lease has a holder, so a controller probably runs. The page of each autoscaler
            // has the reason why its past is unknown.
            (Err(_), None) => None,
        }
    }
}
