//! The past of autoscalers and the activity of their controllers, from debug APIs and leases.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ActingController, AutoscalerItem, ControllerStatus},
    k8s::FieldManager,
};
use hpa_dashboard::{
    AutoscalerStatusWriter, ControllerActivity, ControllerRecords, PastDecision, RecordSource,
    UnstoredStatus,
};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::Mutex;

use crate::{
    args::ControllerArguments,
    dashboard::inactivity,
    debug_client::{DebugClient, LeaseHolder, LeaseName, Unavailable, item_key},
    liveness::{ControllerLease, KubeControllerManager, Leases, NamespaceWriters, Writer},
};

/// The time for which the result of a search for the leader is used.
const SEARCH_LIFETIME: Duration = Duration::from_secs(60);
/// The age of the oldest decisions that the page has.
const DISPLAYED_PAST: SignedDuration = SignedDuration::from_hours(1);

/// Reads the leases of controllers, and the debug API of the leader.
pub(super) struct ControllerPast {
    client: Client,
    location: ControllerArguments,
    last_search: Mutex<Option<LeaderSearch>>,
    /// For each lease that is missing or has no holder, the time at which that was first seen.
    released_since: Mutex<BTreeMap<LeaseName, Timestamp>>,
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

    /// Finds the lease of hpa-rs.
    async fn find_lease(&self, writers: &[AutoscalerStatusWriter]) -> ControllerLease {
        let statuses: Vec<(&str, &str)> =
            writers.iter().map(|one| (one.namespace.as_str(), one.manager.as_str())).collect();
        ControllerLease::find(&self.client, &self.location, None, statuses).await
    }

    /// Reads the state of kube-controller-manager, with the time of its last write.
    async fn read_built_in(&self, writers: &[AutoscalerStatusWriter]) -> KubeControllerManager {
        let times = writers.iter().map(|writer| (Some(writer.manager.as_str()), writer.at));
        KubeControllerManager::read(&self.client).await.with_writes(times)
    }

    /// Updates and returns [`Self::released_since`].
    async fn update_released_since(&self, leases: &Leases<'_>) -> BTreeMap<LeaseName, Timestamp> {
        let mut since = self.released_since.lock().await;
        let released = leases.hpa_rs_leases().filter(|(_, holder)| {
            matches!(holder, Err(Unavailable::NotHeld { .. } | Unavailable::NoLease(_)))
        });
        let released = released.map(|(name, _)| {
            let first_seen = since.get(name).copied().unwrap_or(leases.now);
            (name.clone(), first_seen)
        });
        let released: BTreeMap<_, _> = released.collect();
        since.clone_from(&released);
        released
    }

    /// A sentence about the leases whose controllers make no decisions. `None` if there are none.
    async fn describe_leases(
        &self,
        leases: &Leases<'_>,
        writers: &[AutoscalerStatusWriter],
    ) -> Option<String> {
        let since = self.update_released_since(leases).await;
        inactivity::describe_leases(leases, writers, &since)
    }

    /// A sentence about a controller that makes no decisions, by its debug API.
    fn describe_status(
        &self,
        status: &Result<ControllerStatus, Unavailable>,
        limit: SignedDuration,
    ) -> Option<String> {
        match (status, &self.location.controller_url) {
            (Ok(status), _) => inactivity::describe_status(status, limit),
            (Err(error), Some(url)) => {
                Some(inactivity::describe_unreadable_url(&url.to_string(), error))
            }
            // If the lease has a holder, a controller probably runs. The page of each autoscaler
            // has the reason why its past is unknown.
            (Err(_), None) => None,
        }
    }

    /// Returns the debug API of the leader, from the last search if that is recent. `holder` is that
    /// of the lease if it was read before.
    async fn leader_api(
        &self,
        lease: LeaseName,
        holder: Option<&LeaseHolder>,
    ) -> Result<Arc<DebugClient>, Unavailable> {
        let mut last_search = self.last_search.lock().await;
        let is_current = |last_search: &&LeaderSearch| {
            last_search.lease == lease && last_search.at.elapsed() < SEARCH_LIFETIME
        };
        if let Some(last_search) = last_search.as_ref().filter(is_current) {
            return last_search.api.clone();
        }
        let api = match holder {
            Some(holder) => DebugClient::for_holder(&self.client, holder).await,
            None => DebugClient::find(&self.client, &self.location, &lease).await,
        };
        let api = api.map(Arc::new);
        *last_search = Some(LeaderSearch { lease, at: Instant::now(), api: api.clone() });
        api
    }

    /// Like [`Self::leader_api`], for a lease that was read before. If its holder isn't known,
    /// returns that error without a search for the leader. A holder that may be a tenant's invention
    /// isn't asked.
    async fn holder_api(&self, lease: &ControllerLease) -> Result<Arc<DebugClient>, Unavailable> {
        match &lease.holder {
            _ if self.location.controller_url.is_some() => {
                self.leader_api(lease.name.clone(), None).await
            }
            Err(error) => Err(error.clone()),
            Ok(_) if !lease.may_answer_for_all => Err(Unavailable::Unconfirmed(lease.name.clone())),
            Ok(holder) => self.leader_api(lease.name.clone(), Some(holder)).await,
        }
    }

    /// Reads the status of the instance, the names of the autoscalers that it reconciles if it is
    /// the one at `--controller-url`, and its autoscalers if they were read for that.
    async fn read_status(
        &self,
        lease: &ControllerLease,
    ) -> (Result<ControllerStatus, Unavailable>, BTreeSet<String>, Option<Vec<AutoscalerItem>>)
    {
        let read = async { self.holder_api(lease).await?.instance(&self.location).await };
        match read.await {
            Ok(instance) => {
                let at_url = instance.reconciled_at_url();
                (Ok(instance.status), at_url, instance.items)
            }
            Err(error) => (Err(error), BTreeSet::new(), None),
        }
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
        let named = manager.and_then(LeaseName::of_manager);
        let api = self.leader_api(LeaseName::choose(&self.location, named.as_ref()), None).await;
        let api = api.map_err(|error| error.for_writer(manager))?;
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
        let lease = self.find_lease(writers).await;
        let built_in = self.read_built_in(writers).await;
        let namespaces = namespace_writers(writers);
        let leases = lease.with(&built_in, &namespaces);
        let (status, at_url, items) = self.read_status(&lease).await;
        // Without an answer from the URL, it is unknown on which autoscalers its instance acts.
        let is_unknown = self.location.controller_url.is_some() && status.is_err();
        let is_by_lease =
            |one: &&AutoscalerStatusWriter| !is_unknown && !at_url.contains(&name_of(one));
        let by_lease: Vec<_> = writers.iter().filter(is_by_lease).cloned().collect();
        let lost = self.describe_leases(&leases, &by_lease).await;
        let idle = if lost.is_some() { idle_clauses(&leases, &by_lease) } else { BTreeMap::new() };
        let inactivity = lost.or_else(|| self.describe_status(&status, limit));
        let failed_writes = status.ok().and_then(|status| status.failed_status_writes);
        let items = match items {
            Some(items) => Ok(items),
            None if inactivity.is_some() => {
                async { self.holder_api(&lease).await?.autoscalers().await }.await
            }
            None => Ok(Vec::new()),
        };
        let items = items.unwrap_or_default();
        // The holder may be a tenant's invention, which must not answer for other namespaces.
        let is_local = lease.local.contains(&lease.name);
        let items = items.iter().filter(|item| !is_local || item.namespace == lease.name.namespace);
        let of_inactive = items.clone().filter(|_| inactivity.is_some());
        let overdue = of_inactive.filter_map(|item| inactivity::overdue(item, limit)).collect();
        let unstored = items.filter_map(unstored_status).collect();
        let acting = acting_controllers(&leases, writers, &at_url);
        let failed_writes = failed_writes.map(|failed| format!("Statuses may be old: {failed}."));
        let conflict = describe_conflict(&leases, writers);
        let status_problems = failed_writes.into_iter().chain(conflict).collect();
        ControllerActivity { inactivity, idle, status_problems, overdue, unstored, acting }
    }
}

/// The autoscaler and its last decision, if its status could not be stored.
fn unstored_status(item: &AutoscalerItem) -> Option<UnstoredStatus> {
    Some(UnstoredStatus {
        key: item_key(item),
        error: item.status_write_error.clone()?,
        last_decision: item.last.clone().map(PastDecision::from),
    })
}

fn namespace_writers(writers: &[AutoscalerStatusWriter]) -> NamespaceWriters {
    let statuses = writers.iter();
    NamespaceWriters::new(
        statuses.map(|one| (one.api, one.namespace.as_str(), one.manager.as_str(), one.at)),
    )
}

/// A clause for each autoscaler on which no controller acts.
fn idle_clauses(
    leases: &Leases<'_>,
    writers: &[AutoscalerStatusWriter],
) -> BTreeMap<HpaKey, String> {
    let clauses = writers.iter().filter_map(|one| {
        let idle = leases.idle(one.api, &one.namespace, &one.manager)?;
        Some((key_of(one), idle.clause("this autoscaler")))
    });
    clauses.collect()
}

/// A sentence about the controllers that have stored statuses recently, if there are several.
fn describe_conflict(leases: &Leases<'_>, writers: &[AutoscalerStatusWriter]) -> Option<String> {
    let statuses = writers.iter().map(|one| (one.manager.as_str(), one.at, name_of(one)));
    leases.describe_conflict(&Writer::all(statuses))
}

fn key_of(AutoscalerStatusWriter { api, namespace, name, .. }: &AutoscalerStatusWriter) -> HpaKey {
    HpaKey::for_api(*api, namespace.as_str(), name.as_str())
}

fn name_of(writer: &AutoscalerStatusWriter) -> String {
    key_of(writer).to_string()
}

/// The controllers that act on autoscalers of the core API, by the field manager of the status.
/// `at_url` has the autoscalers that the instance at `--controller-url` reconciles.
fn acting_controllers(
    leases: &Leases<'_>,
    writers: &[AutoscalerStatusWriter],
    at_url: &BTreeSet<String>,
) -> BTreeMap<String, ActingController> {
    let api = AutoscalerApi::Core;
    let mut namespaces = BTreeMap::<&str, BTreeSet<&str>>::new();
    for writer in writers.iter().filter(|writer| writer.api == api) {
        namespaces.entry(&writer.manager).or_default().insert(&writer.namespace);
    }
    let acting = |(manager, namespaces): (&str, BTreeSet<&str>)| {
        // A lease for one namespace says nothing about autoscalers of several.
        let namespace = namespaces.first().copied().filter(|_| namespaces.len() == 1);
        let mut of_manager =
            writers.iter().filter(|writer| writer.api == api && writer.manager == manager);
        let is_answering = of_manager.all(|writer| at_url.contains(&name_of(writer)));
        let acting = leases.acting_controller(api, namespace, Some(manager), is_answering);
        (manager.to_owned(), acting)
    };
    namespaces.into_iter().map(acting).collect()
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::any};
    use hpa_testbed::{Action, Config, Interceptor, RequestInfo, Testbed};
    use hpa_tests::harness::{TestbedExt, objects, serve};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::{debug_api::MARKER_HEADER, debug_client::KUBE_CONTROLLER_MANAGER};

    fn location(namespace: Option<&str>) -> ControllerArguments {
        ControllerArguments {
            controller_namespace: namespace.map(str::to_owned),
            controller_lease: namespace.map(|_| "hpa".to_owned()),
            controller_url: None,
        }
    }

    fn writer(name: &str, manager: &str, at: Option<Timestamp>) -> AutoscalerStatusWriter {
        AutoscalerStatusWriter {
            api: AutoscalerApi::Core,
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            manager: manager.to_owned(),
            at,
        }
    }

    /// No instance holds `hpa`, so the usual leases of both namespaces are read.
    #[rstest]
    #[case::released(
        "",
        None,
        ActingController::Unknown { is_built_in_writer: false },
        &["hpa", "hpa-controller", "hpa-controller", KUBE_CONTROLLER_MANAGER]
    )]
    #[case::held("b_1", Some("shop"), ActingController::HpaRs, &["hpa", KUBE_CONTROLLER_MANAGER])]
    #[tokio::test]
    async fn activity_reads_each_lease_once(
        #[case] holder: &str,
        #[case] namespace: Option<&str>,
        #[case] acting: ActingController,
        #[case] expected: &[&str],
    ) {
        let reads = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let recorded = reads.clone();
        let interceptor = move |request: &RequestInfo| {
            if request.resource == "leases" {
                recorded.lock().push(request.name.clone());
            }
            Action::Pass
        };
        let interceptor: Option<Arc<dyn Interceptor>> = Some(Arc::new(interceptor));
        let testbed = Testbed::new(Config { interceptor, ..Config::default() });
        let now = Timestamp::now();
        let built_in = objects::lease("kube-system", KUBE_CONTROLLER_MANAGER, "a_1", now);
        let own = objects::lease("shop", "hpa", holder, now);
        testbed.apply_all([objects::namespace(), own, built_in]);
        let source = ControllerPast::new(testbed.client(), &location(namespace));
        let manager = "hpa-controller:shop/hpa";
        let writers = [writer("web", manager, None)];
        let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
        assert_eq!(activity.acting, BTreeMap::from([(manager.to_owned(), acting)]));
        assert_eq!(*reads.lock(), expected);
    }

    fn testbed_with_expired_leases() -> Testbed {
        let testbed = Testbed::new(Config::default());
        let old = "2026-01-01T00:00:00Z".parse().expect("a time");
        let leases = [("shop", "hpa"), ("kube-system", KUBE_CONTROLLER_MANAGER)];
        let leases = leases.map(|(namespace, name)| objects::lease(namespace, name, "a_1", old));
        testbed.apply_all([objects::namespace()]);
        testbed.apply_all(leases);
        testbed
    }

    #[tokio::test]
    async fn each_autoscaler_without_a_controller_has_a_clause() {
        let testbed = testbed_with_expired_leases();
        let source = ControllerPast::new(testbed.client(), &location(None));
        let writers = [writer("a", "hpa-controller:shop/hpa", None), writer("b", "k3s", None)];
        let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
        let clause = "No controller with a lease acts on this autoscaler".to_owned();
        assert_eq!(activity.idle, BTreeMap::from([(HpaKey::new("shop", "a"), clause)]));
        assert!(activity.inactivity.is_some());
    }

    /// The instance reconciles the autoscaler `a`, and can't store its status.
    #[tokio::test]
    async fn debug_api_at_a_url_answers_only_for_its_autoscalers() {
        let status = json!({
            "build": { "version": "0.1.0", "revision": "6f7a8b9c0d", "date": "unknown" },
            "now": "2026-01-01T00:00:00Z", "isLeader": true, "isWorking": true, "dryRun": false,
            "syncPeriodSeconds": 15.0,
            "settings": {
                "tolerance": 0.1, "downscaleStabilizationSeconds": 300.0,
                "cpuInitializationPeriodSeconds": 300.0, "initialReadinessDelaySeconds": 30.0,
                "scaleToZero": true,
            },
            "queue": { "due": 0, "queued": 1, "inProgress": 0, "longestRunningSeconds": 0.0 },
            "cacheAgesSeconds": {}, "undecodableObjects": 0, "historyUnsavedSeconds": 0.0,
            "autoscalers": 1, "failing": 1,
            "failedStatusWrites": { "autoscalers": 1, "error": "cannot patch" },
            "decisionMemory": { "limitBytes": 1, "usedBytes": 0, "perAutoscalerBytes": 1 },
        });
        let item = json!({
            "api": "core", "namespace": "shop", "name": "a", "uid": "u", "isFailing": true,
            "statusWriteError": "cannot patch",
        });
        let list = json!({ "now": "2026-01-01T00:00:00Z", "items": [item] });
        let reply = |body: Value| any(async move || ([(MARKER_HEADER, "v1")], body.to_string()));
        let router = Router::new()
            .route("/debug/v1/status", reply(status))
            .route("/debug/v1/autoscalers", reply(list));
        let url = format!("http://{}", serve(router).await);
        let testbed = testbed_with_expired_leases();
        let controller_url = Some(url.parse().expect("a URL"));
        let location = ControllerArguments { controller_url, ..location(None) };
        let source = ControllerPast::new(testbed.client(), &location);
        let writers = ["a", "b"].map(|name| writer(name, "hpa-controller:shop/hpa", None));
        let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
        let idle: Vec<_> = activity.idle.into_keys().collect();
        assert_eq!(idle, [HpaKey::new("shop", "b")]);
        let problem = "Statuses may be old: the controller can't store the status of 1 autoscaler: \
                       cannot patch.";
        assert_eq!(activity.status_problems, [problem]);
        let unstored: Vec<_> = activity.unstored.into_iter().map(|one| one.key).collect();
        assert_eq!(unstored, [HpaKey::new("shop", "a")]);
    }

    #[tokio::test]
    async fn controllers_that_both_store_statuses_are_a_conflict() {
        let testbed = Testbed::new(Config::default());
        let now = Timestamp::now();
        let own = objects::lease("shop", "hpa", "a_1", now);
        let built_in = objects::lease("kube-system", KUBE_CONTROLLER_MANAGER, "a_1", now);
        testbed.apply_all([objects::namespace(), own, built_in]);
        let source = ControllerPast::new(testbed.client(), &location(None));
        let conflict = async |age: i64| {
            let at = |seconds| Some(now - SignedDuration::from_secs(seconds));
            let of_hpa_rs = writer("a", "hpa-controller:shop/hpa", at(5));
            let writers = [of_hpa_rs, writer("b", KUBE_CONTROLLER_MANAGER, at(age))];
            let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
            assert_eq!(activity.inactivity, None);
            activity.status_problems.into_iter().next()
        };
        let both = "Several controllers stored the statuses: hpa-controller:shop/hpa (shop/a), \
                    kube-controller-manager (shop/b). hpa status says more.";
        assert_eq!(conflict(10).await.as_deref(), Some(both));
        assert_eq!(conflict(600).await, None, "a status that doesn't change keeps its writer");
    }
}
