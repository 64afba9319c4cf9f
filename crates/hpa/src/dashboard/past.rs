//! The past of autoscalers, from the debug API of their controller.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use hpa_controller::{HpaKey, k8s::FieldManager};
use hpa_dashboard::{Overdue, Past, PastSource};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::Mutex;

use crate::{
    args::ControllerArguments,
    dashboard::silence,
    debug_client::{DebugClient, LeaseHolder, LeaseName, Unavailable},
    liveness::Leases,
    status::KubeControllerManager,
};

/// The time for which the result of a search for the leader is used.
const FIND_INTERVAL: Duration = Duration::from_secs(60);
/// The duration of the past that the page shows.
const SPAN: SignedDuration = SignedDuration::from_hours(1);

/// Reads the debug API of the leader.
pub(super) struct ControllerPast {
    client: Client,
    location: ControllerArguments,
    last_search: Mutex<Option<LeaderSearch>>,
    /// When the lease was first seen without a holder, if it has had none since.
    released: Mutex<Option<Timestamp>>,
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
            released: Mutex::default(),
        }
    }

    /// When the lease was first seen without a holder. `None` if it has one or can't be read.
    async fn released_since(
        &self,
        holder: &Result<LeaseHolder, Unavailable>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut since = self.released.lock().await;
        *since = match holder {
            Err(Unavailable::NotHeld(_) | Unavailable::NoLease(_)) => since.or(Some(now)),
            _ => None,
        };
        *since
    }

    async fn api(&self, lease: LeaseName) -> Result<Arc<DebugClient>, Unavailable> {
        let mut last_search = self.last_search.lock().await;
        let is_current = |last_search: &&LeaderSearch| {
            last_search.lease == lease && last_search.at.elapsed() < FIND_INTERVAL
        };
        if let Some(last_search) = last_search.as_ref().filter(is_current) {
            return last_search.api.clone();
        }
        let api = DebugClient::find(&self.client, &self.location, &lease).await.map(Arc::new);
        *last_search = Some(LeaderSearch { lease, at: Instant::now(), api: api.clone() });
        api
    }

    async fn read(&self, key: &HpaKey, manager: Option<&str>) -> Result<Past, Unavailable> {
        let other_manager = manager.filter(|manager| !FieldManager::is_hpa_rs(manager));
        if let (Some(other_manager), None) = (other_manager, &self.location.controller_url) {
            return Err(Unavailable::OtherController(other_manager.to_owned()));
        }
        let api = self.api(LeaseName::choose(&self.location, manager)).await?;
        let since = Timestamp::now().checked_sub(SPAN).ok();
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
impl PastSource for ControllerPast {
    async fn past(
        &self,
        autoscaler: &HpaKey,
        manager: Option<&str>,
        after: Option<Timestamp>,
    ) -> Result<Past, String> {
        let past = self.read(autoscaler, manager).await;
        let mut past = past.map_err(|unavailable| unavailable.to_string())?;
        past.samples.retain(|sample| after.is_none_or(|after| sample.at > after));
        Ok(past)
    }

    async fn overdue(&self, managers: &[String], limit: SignedDuration) -> Vec<Overdue> {
        let lease = LeaseName::choose(&self.location, managers.iter().map(String::as_str));
        let items = match self.api(lease).await {
            Ok(api) => api.autoscalers().await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        items.iter().filter_map(|item| silence::overdue(item, limit)).collect()
    }

    async fn silence(&self, managers: &[String], limit: SignedDuration) -> Option<String> {
        let lease = LeaseName::choose(&self.location, managers.iter().map(String::as_str));
        if self.location.controller_url.is_none() {
            let holder = LeaseHolder::read(&self.client, &lease).await;
            let built_in = KubeControllerManager::read(&self.client).await;
            let now = Timestamp::now();
            let since = self.released_since(&holder, now).await;
            let leases = Leases { name: &lease, holder: &holder, built_in: &built_in, now };
            let sentence = silence::of_leases(&leases, managers, since);
            if sentence.is_some() || holder.is_err() {
                return sentence;
            }
        }
        let status = match self.api(lease).await {
            Ok(api) => api.status().await,
            Err(error) => Err(error),
        };
        match (status, &self.location.controller_url) {
            (Ok(status), _) => silence::of_status(&status, limit),
            (Err(error), Some(url)) => Some(silence::of_url(&url.to_string(), &error)),
            // The lease is renewed, so the controller runs. The page of an autoscaler says why its
            // past is unknown.
            (Err(_), None) => None,
        }
    }
}
