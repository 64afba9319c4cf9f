//! Reads the inputs of the checks from a cluster.

use std::{collections::BTreeSet, future::ready};

use hpa_calc::settings::SettingPolicy;
use hpa_controller::debug::ControllerStatus;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value;

use super::autoscalers::is_overdue;
use crate::{
    args::{StatusArguments, to_std},
    debug_client::{Instance, LeaderPod, LeaseHolder, Unavailable},
    kubectl::{self, get, unavailability},
    listed_autoscalers::{
        ListScope, ListedAutoscaler, list_all_autoscalers, read_scales, set_activities,
        set_other_autoscalers, set_unstored_statuses,
    },
    liveness::{
        ControllerLease, Idle, KubeControllerManager, Leases, NamespaceWriters, status_writers,
    },
    manifests::{items, string_at},
    overwritten_events::latest_activities,
};

const AGGREGATION_GROUP: &str = "apiregistration.k8s.io";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The state of a cluster, as far as it could be read.
pub(super) struct ClusterState {
    /// The time at which the autoscalers were listed.
    pub(super) now: Timestamp,
    pub(super) autoscalers: Vec<ListedAutoscaler>,
    pub(super) scope: ListScope,
    /// The lease whose controller is checked.
    pub(super) lease: ControllerLease,
    /// A sentence about an API that the controller handles, but that isn't served.
    pub(super) missing_api: Option<String>,
    pub(super) writers: NamespaceWriters,
    pub(super) leader: Result<LeaderPod, Unavailable>,
    /// The debug API's URL from a flag. If set, lease and pod are not checked.
    pub(super) url: Option<String>,
    /// The names of the autoscalers that the instance at this URL reconciles. It may have no lease.
    /// For others, the leases decide.
    pub(super) reconciled_at_url: BTreeSet<String>,
    pub(super) status: Result<ControllerStatus, Unavailable>,
    /// See [`ControllerLease::clock_lead`].
    pub(super) clock_lead: SignedDuration,
    pub(super) built_in: KubeControllerManager,
    /// The `APIService`s whose group ends with `metrics.k8s.io`. `None` if the API server has no
    /// aggregation layer.
    pub(super) metrics_apis: anyhow::Result<Option<Vec<MetricsApiService>>>,
}

/// A version of a metrics API that is registered by an `APIService`.
pub(super) struct MetricsApiService {
    pub(super) group: String,
    pub(super) version: String,
    /// The reason why the API server can't reach the API. `None` if it can.
    pub(super) unavailable: Option<String>,
}

impl ClusterState {
    pub(super) fn leases(&self) -> Leases<'_> {
        self.lease.with(&self.built_in, &self.writers, self.now)
    }

    /// Whether only the autoscalers of one namespace are checked. Then the user may be a tenant,
    /// who needs no rights in the namespace of the controller.
    pub(super) fn is_of_one_namespace(&self) -> bool {
        self.scope.namespace.is_some()
    }

    /// Whether the user is a tenant who may not read the lease of the controller.
    pub(super) fn is_controller_hidden(&self) -> bool {
        let is_forbidden = self.lease.describe_hidden().is_some();
        is_forbidden && self.url.is_none() && self.is_of_one_namespace()
    }

    /// Whether the checked lease could be read, and an instance may hold it.
    pub(super) fn may_lease_be_held(&self) -> bool {
        let may_be_held = |holder: &LeaseHolder| holder.has_unreadable_time || !holder.is_expired();
        self.lease.holder.as_ref().is_ok_and(may_be_held)
    }

    /// Sets the controller that acts on each autoscaler, which may have replaced the one that
    /// stored the status last.
    pub(super) fn set_acting_controllers(&mut self) {
        // `Self::leases` would borrow the autoscalers.
        let leases = self.lease.with(&self.built_in, &self.writers, self.now);
        for one in &mut self.autoscalers {
            let namespace = Some(one.hpa.metadata.namespace.as_str());
            let manager = one.controller.name.as_deref();
            let hpa_rs_answers = self.reconciled_at_url.contains(&one.name);
            one.acting = leases.acting_controller(one.api, namespace, manager, hpa_rs_answers);
        }
        // The bounds depend on the acting controllers: kube-controller-manager ignores schedules.
        set_other_autoscalers(&mut self.autoscalers, self.now);
    }

    /// The reason why no controller acts on an autoscaler. `None` if a controller acts, or if it is
    /// unknown.
    pub(super) fn idle_reason(&self, autoscaler: &ListedAutoscaler) -> Option<Idle> {
        if self.reconciled_at_url.contains(&autoscaler.name) {
            return None;
        }
        let mut idle = self.leases().idle_listed(autoscaler)?;
        // An instance with an unknown lease would have stored a status by now.
        idle.is_certain |= autoscaler.controller.name.is_none() && is_overdue(self, autoscaler);
        Some(idle)
    }

    pub(super) async fn read(arguments: &StatusArguments) -> anyhow::Result<Self> {
        let client = kubectl::clients(&arguments.cluster).await?.api;
        let namespace = arguments.cluster.namespace.as_deref();
        let (mut autoscalers, scope) =
            list_all_autoscalers(&client, arguments.autoscaler_api, namespace).await?;
        let now = kubectl::now();
        let flags = &arguments.controller;
        let timeout = to_std(arguments.cluster.request_timeout);
        let statuses = status_writers(&autoscalers);
        let lease = ControllerLease::find_in_cluster(&client, flags, None, &statuses).await;
        let url = flags.controller_url.as_ref().map(ToString::to_string);
        let leader = lease.leader_pod(&client).await;
        let (instance, metrics_apis, built_in, missing_api) = tokio::join!(
            lease.instance(&client, flags, timeout, ready(leader.clone())),
            list_metrics_apis(&client),
            KubeControllerManager::read(&client),
            lease.missing_api(&client, &statuses)
        );
        let responded_at = kubectl::now();
        let instance_lead = instance.as_ref().ok().map(|one| one.clock_lead(now, responded_at));
        let clock_lead = lease.clock_lead(instance_lead);
        let controller_now = now.checked_add(clock_lead).unwrap_or(now);
        let built_in = built_in.with_statuses(&statuses);
        let reconciled_at_url =
            instance.as_ref().map(Instance::reconciled_at_url).unwrap_or_default();
        let unstored = instance.as_ref().map(Instance::unstored_statuses).unwrap_or_default();
        let namespace = scope.namespace.as_deref();
        let answering = instance.as_ref().ok();
        let activities = latest_activities(&client, answering, namespace, controller_now).await;
        set_activities(&mut autoscalers, activities);
        let mut status = instance.map(|instance| instance.status);
        if let Ok(status) = &mut status {
            let failed = status.failed_status_writes.take();
            status.failed_status_writes = set_unstored_statuses(&mut autoscalers, unstored, failed);
        }
        let settings = status.as_ref().map(|status| status.settings.into()).unwrap_or_default();
        let policy = SettingPolicy::default();
        let mut cluster = Self {
            now,
            writers: NamespaceWriters::new(&statuses),
            autoscalers,
            scope,
            lease,
            missing_api,
            leader,
            url,
            reconciled_at_url,
            status,
            clock_lead,
            built_in,
            metrics_apis,
        };
        cluster.set_acting_controllers();
        read_scales(&client, timeout, &mut cluster.autoscalers, &settings, &policy).await;
        Ok(cluster)
    }
}

/// Lists the registered metrics APIs. `None` if the API server has no aggregation layer.
async fn list_metrics_apis(client: &Client) -> anyhow::Result<Option<Vec<MetricsApiService>>> {
    let served: Value = get(client, "/apis").await?;
    let mut groups = items(served.get("groups"));
    if !groups.any(|group| string_at(group, "/name") == AGGREGATION_GROUP) {
        return Ok(None);
    }
    let list: Value = get(client, API_SERVICES).await?;
    let is_of_metrics = |item: &&Value| string_at(item, "/spec/group").ends_with("metrics.k8s.io");
    let services = items(list.get("items")).filter(is_of_metrics);
    Ok(Some(services.map(MetricsApiService::decode).collect()))
}

impl MetricsApiService {
    /// Group and version, such as `metrics.k8s.io/v1beta1`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    pub(super) fn decode(object: &Value) -> Self {
        Self {
            group: string_at(object, "/spec/group").to_owned(),
            version: string_at(object, "/spec/version").to_owned(),
            unavailable: unavailability(object).map(ToOwned::to_owned),
        }
    }
}
