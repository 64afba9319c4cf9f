//! The past of autoscalers and the activity of their controllers, from debug APIs and leases.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ActingController, AutoscalerItem},
    k8s::FieldManager,
};
use hpa_dashboard::{
    AutoscalerStatusWriter, ControllerActivity, ControllerRecords, IdleAutoscaler, PastDecision,
    RecordSource, UnstoredStatus, WrongClock,
};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::Mutex;

use crate::{
    args::ControllerArguments,
    dashboard::inactivity::{self, IdleStatus},
    debug_client::{DebugClient, Instance, LeaseKey, Unavailable, describe_wrong_clock, item_key},
    findings::capitalized,
    kubectl,
    liveness::{Conflict, ControllerLease, KubeControllerManager, Leases, NamespaceWriters},
};

/// The time for which the result of a search for the leader is used.
const SEARCH_LIFETIME: Duration = Duration::from_secs(60);
/// If a debug API takes longer to fail, pages don't wait for it again until the next poll.
const MAX_FAILURE_DELAY: Duration = Duration::from_secs(2);
/// The age of the oldest decisions that the page has.
const DISPLAYED_PAST: SignedDuration = SignedDuration::from_hours(1);

/// Reads the leases of controllers, and the debug API of the leader.
pub(super) struct ClusterRecordSource {
    client: Client,
    flags: ControllerArguments,
    request_timeout: Duration,
    last_search: Mutex<Option<LeaderSearch>>,
    /// For each lease that is missing or has no holder, the time at which that was first seen.
    released_since: Mutex<BTreeMap<LeaseKey, Timestamp>>,
    /// The lease and the error of the debug API, if it took long to fail in the last poll. Pages
    /// don't wait for it again until the next poll.
    slow_failure: Mutex<Option<(LeaseKey, Unavailable)>>,
}

/// The result of a search for the leader: its debug API, or the reason why there is none.
#[derive(Clone)]
struct LeaderSearch {
    lease: LeaseKey,
    at: Instant,
    api: Result<Arc<DebugClient>, Unavailable>,
}

impl ClusterRecordSource {
    pub(super) fn new(
        client: Client,
        flags: &ControllerArguments,
        request_timeout: Duration,
    ) -> Self {
        Self {
            client,
            flags: flags.clone(),
            request_timeout,
            last_search: Mutex::default(),
            released_since: Mutex::default(),
            slow_failure: Mutex::default(),
        }
    }

    /// Updates and returns [`Self::released_since`].
    async fn update_released_since(&self, leases: &Leases<'_>) -> BTreeMap<LeaseKey, Timestamp> {
        let mut since = self.released_since.lock().await;
        let released = leases.hpa_rs_leases().filter(|(_, holder)| {
            matches!(holder, Err(Unavailable::NotHeld { .. } | Unavailable::NoLease(_)))
        });
        let released = released.map(|(name, _)| {
            let first_seen = since.get(name).copied().unwrap_or_else(kubectl::now);
            (name.clone(), first_seen)
        });
        let released: BTreeMap<_, _> = released.collect();
        since.clone_from(&released);
        released
    }

    /// Sentences about controllers that make no decisions, by the leases and by the debug API.
    /// `idle` has the autoscalers on which no controller acts.
    fn describe_inactivity(
        &self,
        idle: &[IdleStatus<'_>],
        instance: &Result<Instance, Unavailable>,
        limit: SignedDuration,
    ) -> Option<String> {
        let of_leases = inactivity::describe_idle(idle);
        let of_instance = match (instance, &self.flags.controller_url) {
            (Ok(instance), _) if of_leases.is_none() => {
                inactivity::describe_late_decisions(&instance.status, limit)
            }
            // The instance at the URL may act on any autoscaler, without a lease.
            (Err(error), Some(_)) => Some(error.sentence_about_url()),
            // If the lease has a holder, a controller probably runs. The page of each autoscaler
            // has the reason why its past is unknown.
            (Ok(_), _) | (Err(_), None) => None,
        };
        let sentences: Vec<_> = of_leases.into_iter().chain(of_instance).collect();
        (!sentences.is_empty()).then(|| sentences.join(" ") + " The rest of the page may be old.")
    }

    /// The error of the instance's clock, or else of the clock of the lease's holder. `None` if the
    /// clock is right. The instance was read after `requested_at`.
    fn find_wrong_clock(
        &self,
        lease: &ControllerLease,
        instance: &Result<Instance, Unavailable>,
        requested_at: Timestamp,
    ) -> Option<WrongClock> {
        let instance = instance.as_ref().ok();
        let of_instance = instance.map(|one| one.clock_lead(requested_at, kubectl::now()));
        let lead = lease.clock_lead(of_instance);
        let clause = describe_wrong_clock(lead)?;
        let sentence = capitalized(&clause) + ".";
        // The instance at the URL may not hold the lease.
        let is_of_lease = self.flags.controller_url.is_none() || of_instance != Some(lead);
        let manager = is_of_lease.then(|| lease.name.manager().as_str().to_owned());
        Some(WrongClock { lead, clause, sentence, manager })
    }

    /// The autoscalers of `writers` on which the instance has decided within `limit`. With
    /// `--controller-url`, the instance reconciles the autoscalers of `at_url`. Without it, the
    /// instance reconciles those whose status names the lease.
    fn recently_decided(
        &self,
        lease: &ControllerLease,
        instance: &Result<Instance, Unavailable>,
        writers: &[AutoscalerStatusWriter],
        at_url: &BTreeSet<String>,
        limit: SignedDuration,
    ) -> BTreeSet<HpaKey> {
        let status = instance.as_ref().ok().map(|instance| &instance.status);
        let is_deciding = status.is_some_and(|status| {
            let is_late = inactivity::describe_late_decisions(status, limit).is_some();
            status.is_working && !status.dry_run && !is_late
        });
        let manager = lease.name.manager();
        let is_reconciled = |one: &&AutoscalerStatusWriter| match &self.flags.controller_url {
            Some(_) => at_url.contains(&one.key.to_string()),
            None => one.manager == manager.as_str(),
        };
        let writers = writers.iter().filter(is_reconciled).filter(|_| is_deciding);
        writers.map(|one| one.key.clone()).collect()
    }

    /// Returns the debug API of the leader, from the last search if that is recent. `found` is the
    /// lease if it was read before.
    async fn leader_api(
        &self,
        lease: LeaseKey,
        found: Option<&ControllerLease>,
    ) -> Result<Arc<DebugClient>, Unavailable> {
        // Held during a search, so that concurrent reads share it.
        let mut last_search = self.last_search.lock().await;
        let is_current = |last_search: &&LeaderSearch| {
            last_search.lease == lease && last_search.at.elapsed() < SEARCH_LIFETIME
        };
        if let Some(last_search) = last_search.as_ref().filter(is_current) {
            return last_search.api.clone();
        }
        let (client, flags, timeout) = (&self.client, &self.flags, self.request_timeout);
        let api = match found {
            Some(found) => {
                let leader = found.leader_pod(client);
                found.debug_client(client, flags, timeout, leader).await
            }
            None => DebugClient::find(client, flags, timeout, &lease).await,
        };
        let api = api.map(Arc::new);
        *last_search = Some(LeaderSearch { lease, at: Instant::now(), api: api.clone() });
        api
    }

    /// Like [`Self::leader_api`], for a lease that was read before. If its holder isn't known,
    /// returns that error without a search for the leader. Doesn't ask a holder that a tenant may
    /// have invented.
    async fn holder_api(&self, lease: &ControllerLease) -> Result<Arc<DebugClient>, Unavailable> {
        if self.flags.controller_url.is_none() {
            lease.holder.as_ref().map_err(Unavailable::clone)?;
            if !lease.may_answer_for_all {
                return Err(Unavailable::Unconfirmed(lease.name.clone()));
            }
        }
        self.leader_api(lease.name.clone(), Some(lease)).await
    }

    /// Reads the state of the instance that holds the lease. If the read takes long to fail, stores
    /// the error in [`Self::slow_failure`].
    async fn read_instance(&self, lease: &ControllerLease) -> Result<Instance, Unavailable> {
        let start = tokio::time::Instant::now();
        let instance = async { self.holder_api(lease).await?.instance().await }.await;
        let slow_failure = instance.as_ref().err().filter(|_| start.elapsed() > MAX_FAILURE_DELAY);
        if slow_failure.is_some() {
            // Another instance may be the leader now.
            *self.last_search.lock().await = None;
        }
        let slow_failure = slow_failure.map(|error| (lease.name.clone(), error.clone()));
        *self.slow_failure.lock().await = slow_failure;
        instance
    }

    /// Reads the records of an autoscaler whose status the field manager `manager` stored last.
    async fn read(
        &self,
        key: &HpaKey,
        manager: Option<&str>,
    ) -> Result<ControllerRecords, Unavailable> {
        let other_manager = manager.filter(|manager| !FieldManager::is_hpa_rs(manager));
        if let (Some(other_manager), None) = (other_manager, &self.flags.controller_url) {
            return Err(Unavailable::OtherController(other_manager.to_owned()));
        }
        let named = manager.and_then(LeaseKey::of_manager);
        let lease = LeaseKey::choose(&self.flags, named.as_ref());
        let is_of_lease = |of: &LeaseKey| self.flags.controller_url.is_some() || *of == lease;
        if let Some((of, error)) = &*self.slow_failure.lock().await
            && is_of_lease(of)
        {
            return Err(error.clone().for_writer(manager));
        }
        let api = self.leader_api(lease, None).await;
        let api = api.map_err(|error| error.for_writer(manager))?;
        let since = kubectl::now().checked_sub(DISPLAYED_PAST).ok();
        let detail = api.autoscaler(key, since).await;
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
impl RecordSource for ClusterRecordSource {
    async fn records(
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

    async fn activity(
        &self,
        writers: &[AutoscalerStatusWriter],
        limit: SignedDuration,
    ) -> ControllerActivity {
        let lease = ControllerLease::find(&self.client, &self.flags, None, writers).await;
        // The responses have shown the API server's clock.
        let now = kubectl::now();
        let (built_in, instance) =
            tokio::join!(KubeControllerManager::read(&self.client), self.read_instance(&lease));
        let wrong_clock = self.find_wrong_clock(&lease, &instance, now);
        let hidden = lease.describe_hidden().filter(|_| instance.is_err());
        let hidden = hidden.map(|clause| capitalized(&clause) + ".");
        let built_in = built_in.with_statuses(writers);
        let namespaces = NamespaceWriters::new(writers);
        let leases = lease.with(&built_in, &namespaces, now);
        let at_url = instance.as_ref().map(Instance::reconciled_at_url).unwrap_or_default();
        let is_by_lease = |one: &&AutoscalerStatusWriter| !at_url.contains(&one.key.to_string());
        let by_lease: Vec<_> = writers.iter().filter(is_by_lease).cloned().collect();
        let released = self.update_released_since(&leases).await;
        let idle = inactivity::find_idle(&leases, &by_lease, &released);
        let inactivity = self.describe_inactivity(&idle, &instance, limit);
        let idle = idle.into_iter().map(|one| {
            let clause = one.idle.clause("this autoscaler");
            (one.key.clone(), IdleAutoscaler { clause, reason: one.idle.reason() })
        });
        let idle = idle.collect();
        let recently_decided = self.recently_decided(&lease, &instance, writers, &at_url, limit);
        let missing_api = lease.missing_api(&self.client, writers).await.map(|text| text + ".");
        let stale_caches =
            instance.as_ref().ok().and_then(|instance| instance.status.stale_caches_sentence());
        let (instance_time, failed_writes, items) = match instance {
            Ok(Instance { status, items, .. }) => (status.now, status.failed_status_writes, items),
            Err(_) => (now, None, None),
        };
        let items = items.unwrap_or_default();
        // A tenant may have invented the holder, which must not answer for other namespaces.
        let is_local = lease.local.contains(&lease.name);
        let items = items.iter().filter(|item| !is_local || item.namespace == lease.name.namespace);
        let overdue_after = inactivity.as_ref().map(|_| limit);
        let of_items = activity_of_items(items, overdue_after, instance_time);
        let acting = acting_controllers(&leases, writers, &at_url);
        // If the autoscalers are known, the dashboard counts those that it shows.
        let failed_writes = failed_writes.filter(|_| of_items.unstored.is_empty()).map(|failed| {
            format!(
                "Statuses may be old: {failed}. It is unknown which ones; this page may not show \
                 them."
            )
        });
        let conflicts = leases.conflicts(writers);
        let conflicts = conflicts.iter().map(Conflict::sentence);
        let status_problems = stale_caches.into_iter().chain(hidden).chain(missing_api);
        let status_problems = status_problems.chain(failed_writes).chain(conflicts).collect();
        ControllerActivity {
            inactivity,
            idle,
            status_problems,
            acting,
            wrong_clock,
            recently_decided,
            ..of_items
        }
    }
}

/// The activity that the autoscalers in a debug API show at `now` by its clock. None is overdue
/// without `overdue_after`.
fn activity_of_items<'a>(
    items: impl Iterator<Item = &'a AutoscalerItem> + Clone,
    overdue_after: Option<SignedDuration>,
    now: Timestamp,
) -> ControllerActivity {
    let read_at = kubectl::now();
    let overdue = items.clone().filter_map(|item| {
        let since = read_at.checked_sub(inactivity::overdue_age(item, overdue_after?)?).ok()?;
        Some((item_key(item), since))
    });
    ControllerActivity {
        overdue: overdue.collect(),
        unstored: items.clone().filter_map(unstored_status).collect(),
        autoscalers: items.map(|item| (item_key(item), item.activity(now))).collect(),
        ..ControllerActivity::default()
    }
}

/// The autoscaler and its last decision, if its status could not be stored.
fn unstored_status(item: &AutoscalerItem) -> Option<(HpaKey, UnstoredStatus)> {
    let error = item.status_write_error.clone()?;
    let last_decision = item.last.clone().map(PastDecision::from);
    Some((item_key(item), UnstoredStatus { error, last_decision }))
}

/// The controllers that act on autoscalers of the core API, by namespace and by the field manager
/// of the status. `at_url` has the autoscalers that the instance at `--controller-url` reconciles.
fn acting_controllers(
    leases: &Leases<'_>,
    writers: &[AutoscalerStatusWriter],
    at_url: &BTreeSet<String>,
) -> BTreeMap<(Arc<str>, String), ActingController> {
    let api = AutoscalerApi::Core;
    let mut answers_by_writer = BTreeMap::<(&Arc<str>, &String), bool>::new();
    for AutoscalerStatusWriter { key, manager, .. } in writers {
        if key.api == api {
            let answers = answers_by_writer.entry((&key.namespace, manager)).or_insert(true);
            *answers &= at_url.contains(&key.to_string());
        }
    }
    let acting = |((namespace, manager), hpa_rs_answers): ((&Arc<str>, &String), bool)| {
        let acting =
            leases.acting_controller(api, Some(&**namespace), Some(manager), hpa_rs_answers);
        ((namespace.clone(), manager.clone()), acting)
    };
    answers_by_writer.into_iter().map(acting).collect()
}

#[cfg(test)]
mod tests;
