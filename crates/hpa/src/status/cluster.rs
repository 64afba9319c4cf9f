//! Reads from a cluster what the checks need.

use std::collections::HashMap;

use anyhow::Context;
use hpa_calc::{
    HorizontalPodAutoscaler, Scale, Settings,
    api::{ConditionStatus, ConditionType},
    report::{ShortReport, Surroundings, TargetKey},
    settings::SettingPolicy,
};
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ControllerStatus, settings_of_controller},
};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::{built_in::KubeControllerManager, scales::read_scales};
use crate::{
    args::{AutoscalerApiArgument, StatusArguments, to_std},
    debug_client::{
        DebugClient, KUBE_CONTROLLER_MANAGER, LeaderPod, LeaseHolder, LeaseName, Unavailable,
    },
    explain::StatusController,
    kubectl::{self, escape, get, get_if_served},
    liveness::{Idle, Leases},
    manifests::string_at,
    terminal,
};

const AGGREGATION_GROUP: &str = "apiregistration.k8s.io";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The state of a cluster, as far as it could be read.
pub(super) struct ClusterState {
    pub(super) now: Timestamp,
    pub(super) autoscalers: Vec<ListedAutoscaler>,
    /// The lease whose controller is checked.
    pub(super) lease: LeaseName,
    pub(super) holder: Result<LeaseHolder, Unavailable>,
    pub(super) leader: Result<LeaderPod, Unavailable>,
    /// The debug API's URL from a flag. If set, lease and pod are not checked.
    pub(super) url: Option<String>,
    pub(super) status: Result<ControllerStatus, Unavailable>,
    pub(super) built_in: KubeControllerManager,
    /// The `APIService`s whose group ends with `metrics.k8s.io`. `None` if the API server has no
    /// aggregation layer.
    pub(super) metrics_apis: Result<Option<Vec<MetricsApiService>>, String>,
}

/// An autoscaler, and the controller that stored its status.
#[derive(Clone)]
pub(crate) struct ListedAutoscaler {
    pub(crate) api: AutoscalerApi,
    /// The key as text, such as `shop/web` or `rhpa/shop/web`.
    pub(crate) name: String,
    pub(crate) hpa: HorizontalPodAutoscaler,
    pub(super) created: Option<Timestamp>,
    /// The field manager that stored the status last.
    pub(crate) manager: Option<String>,
    /// The time when `manager` stored the status last.
    pub(crate) status_stored_at: Option<Timestamp>,
    /// The target's scale, if it was read.
    pub(super) scale: Option<Scale>,
    /// The names of the other autoscalers of the target.
    pub(super) other_autoscalers: Vec<String>,
}

/// A version of a metrics API that is registered by an `APIService`.
pub(super) struct MetricsApiService {
    pub(super) group: String,
    pub(super) version: String,
    /// The reason why the API server can't reach the API.
    pub(super) unavailable: Option<String>,
}

impl ClusterState {
    pub(super) fn leases(&self) -> Leases<'_> {
        let Self { lease: name, holder, built_in, now, .. } = self;
        Leases { name, holder, built_in, now: *now }
    }

    /// The reason why no controller acts on an autoscaler. `None` if a controller acts, or if it is
    /// unknown.
    pub(super) fn idle_reason(&self, autoscaler: &ListedAutoscaler) -> Option<Idle> {
        // The controller at the URL of the flag may have no lease.
        let is_working = self.status.as_ref().is_ok_and(|status| status.is_working);
        let manager = autoscaler.manager.as_ref().filter(|_| self.url.is_none() || !is_working)?;
        self.leases().idle(autoscaler.api, manager)
    }

    pub(super) async fn read(arguments: &StatusArguments) -> anyhow::Result<Self> {
        let client = kubectl::clients(&arguments.cluster).await?.api;
        let namespace = arguments.cluster.namespace.as_deref();
        let mut autoscalers =
            list_all_autoscalers(&client, arguments.autoscaler_api, namespace).await?;
        if autoscalers.is_empty() {
            kubectl::require_namespace(&client, namespace).await?;
        }
        let flags = &arguments.controller;
        let managers = autoscalers.iter().filter_map(|one| one.manager.as_deref());
        let lease = LeaseName::choose(flags, managers);
        let url = flags.controller_url.as_ref().map(ToString::to_string);
        let holder = LeaseHolder::read(&client, &lease).await;
        let leader = match &holder {
            Ok(holder) => holder.read_leader_pod(&client).await,
            Err(error) => Err(error.clone()),
        };
        let api = match &leader {
            _ if url.is_some() => DebugClient::find(&client, flags, &lease).await,
            Ok(leader) => DebugClient::for_leader(&client, &lease, leader).await,
            Err(error) => Err(error.clone()),
        };
        let status = match api {
            Ok(api) => api.status().await,
            Err(error) => Err(error),
        };
        let metrics_apis = list_metrics_apis(&client).await.map_err(|error| format!("{error:#}"));
        let now = Timestamp::now();
        let built_in = KubeControllerManager::read(&client).await.with_statuses(&autoscalers);
        let settings = status.as_ref().map(|status| status.settings.into()).unwrap_or_default();
        let (timeout, policy) =
            (to_std(arguments.cluster.request_timeout), SettingPolicy::default());
        read_scales(&client, timeout, &mut autoscalers, &settings, &policy).await;
        Ok(Self { now, autoscalers, lease, holder, leader, url, status, built_in, metrics_apis })
    }
}

/// Lists the autoscalers of the APIs that `flag` selects, or else of all served APIs.
pub(crate) async fn list_all_autoscalers(
    client: &Client,
    flag: Option<AutoscalerApiArgument>,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<ListedAutoscaler>> {
    if let Some(flag) = flag {
        let mut all = Vec::new();
        for api in flag.apis() {
            all.extend(list_autoscalers(client, api, namespace).await?);
        }
        set_other_autoscalers(&mut all);
        return Ok(all);
    }
    let mut all = list_autoscalers(client, AutoscalerApi::Core, namespace).await?;
    let api = AutoscalerApi::Custom;
    let group = format!("/apis/{}", api.api_version());
    if !matches!(get_if_served::<Value>(client, &group).await, Ok(None)) {
        match list_autoscalers(client, api, namespace).await {
            Ok(others) => all.extend(others),
            Err(error) => terminal::warn(format!("{error:#}")),
        }
    }
    set_other_autoscalers(&mut all);
    Ok(all)
}

/// Sets `other_autoscalers` of each autoscaler.
pub(super) fn set_other_autoscalers(all: &mut [ListedAutoscaler]) {
    let mut by_target = HashMap::<TargetKey, Vec<String>>::new();
    for one in &*all {
        by_target.entry(TargetKey::new(&one.hpa)).or_default().push(one.name.clone());
    }
    for one in all {
        let names = by_target.get(&TargetKey::new(&one.hpa)).into_iter().flatten();
        one.other_autoscalers = names.filter(|name| **name != one.name).cloned().collect();
    }
}

/// Lists the autoscalers of an API.
pub(crate) async fn list_autoscalers(
    client: &Client,
    api: AutoscalerApi,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<ListedAutoscaler>> {
    let namespace = namespace.map(|name| format!("namespaces/{}/", escape(name)));
    let (version, scope) = (api.api_version(), namespace.unwrap_or_default());
    let path = format!("/apis/{version}/{scope}{}", hpa_crd::PLURAL);
    let objects = kubectl::list(client, &path).await;
    let objects = objects.with_context(|| format!("unable to list autoscalers of {version}"))?;
    objects.iter().map(|object| ListedAutoscaler::decode(api, object)).collect()
}

impl ListedAutoscaler {
    pub(super) fn decode(api: AutoscalerApi, object: &Value) -> anyhow::Result<Self> {
        let (namespace, name) =
            (string_at(object, "/metadata/namespace"), string_at(object, "/metadata/name"));
        let name = HpaKey::for_api(api, namespace, name).to_string();
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(object.clone())
            .with_context(|| format!("unable to decode the autoscaler {name}"))?;
        let controller = StatusController::from_managed_fields(object);
        Ok(Self {
            created: string_at(object, "/metadata/creationTimestamp").parse().ok(),
            manager: controller.name,
            status_stored_at: controller.at.and_then(|at| at.parse().ok()),
            api,
            name,
            hpa,
            scale: None,
            other_autoscalers: Vec::new(),
        })
    }

    /// Summarizes the stored status. `settings` are those of the controller's flags.
    pub(crate) fn short_report(&self, settings: &Settings, policy: &SettingPolicy) -> ShortReport {
        let is_reference = self.manager.as_deref() == Some(KUBE_CONTROLLER_MANAGER);
        let resolved = settings_of_controller(settings.clone(), &self.hpa, policy, is_reference);
        let surroundings =
            Surroundings { scale: self.scale.as_ref(), other_autoscalers: &self.other_autoscalers };
        ShortReport::with_surroundings(&self.hpa, &resolved, surroundings)
    }

    /// The reason of the condition that prevents scaling, if there is one.
    pub(super) fn failed_reason(&self) -> Option<String> {
        let types = [ConditionType::AbleToScale, ConditionType::ScalingActive];
        let mut conditions = types.iter().filter_map(|kind| self.hpa.status.condition(kind));
        let failed = conditions.find(|condition| condition.status == ConditionStatus::False)?;
        Some(failed.reason.to_string())
    }
}

/// Lists the registered metrics APIs. `None` if the API server has no aggregation layer.
async fn list_metrics_apis(client: &Client) -> anyhow::Result<Option<Vec<MetricsApiService>>> {
    let groups: Value = get(client, "/apis").await?;
    let groups = groups.get("groups").and_then(Value::as_array).into_iter().flatten();
    let mut groups = groups.map(|group| string_at(group, "/name"));
    if !groups.any(|group| group == AGGREGATION_GROUP) {
        return Ok(None);
    }
    let list: Value = get(client, API_SERVICES).await?;
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    let is_of_metrics = |item: &&Value| string_at(item, "/spec/group").ends_with("metrics.k8s.io");
    Ok(Some(items.filter(is_of_metrics).map(MetricsApiService::decode).collect()))
}

impl MetricsApiService {
    pub(super) fn decode(object: &Value) -> Self {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let available = conditions.find(|one| string_at(one, "/type") == "Available");
        let unavailable = match available {
            Some(condition) if string_at(condition, "/status") == "True" => None,
            Some(condition) => Some(string_at(condition, "/message").to_owned()),
            None => Some("the API server has not checked it yet".to_owned()),
        };
        Self {
            group: string_at(object, "/spec/group").to_owned(),
            version: string_at(object, "/spec/version").to_owned(),
            unavailable,
        }
    }
}
