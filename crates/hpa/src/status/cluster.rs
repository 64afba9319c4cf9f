//! Reads the inputs of the checks from a cluster.

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
    debug_client::{BUILT_IN, DebugClient, Leader, LeaseHolder, LeaseName, Unavailable},
    explain::StatusController,
    kubectl::{self, escape, get, get_if_served},
    liveness::{Idle, Leases},
    manifests::text,
    terminal,
};

const AGGREGATION: &str = "apiregistration.k8s.io";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The inputs of the checks. Inputs that could not be read are errors with the reason.
pub(super) struct Observed {
    pub(super) now: Timestamp,
    pub(super) autoscalers: Vec<ObservedAutoscaler>,
    pub(super) lease: LeaseName,
    pub(super) holder: Result<LeaseHolder, Unavailable>,
    pub(super) leader: Result<Leader, Unavailable>,
    /// The URL of the debug API from a flag. If set, lease and pod are not read.
    pub(super) url: Option<String>,
    pub(super) status: Result<ControllerStatus, Unavailable>,
    pub(super) built_in: KubeControllerManager,
    /// The APIs whose group ends with `metrics.k8s.io`. `None` if the API server has no aggregation
    /// layer.
    pub(super) metrics_apis: Result<Option<Vec<MetricsApiService>>, String>,
}

#[derive(Clone)]
pub(crate) struct ObservedAutoscaler {
    pub(crate) api: AutoscalerApi,
    pub(crate) name: String,
    pub(crate) hpa: HorizontalPodAutoscaler,
    pub(super) created: Option<Timestamp>,
    /// The field manager that stored the status last.
    pub(crate) manager: Option<String>,
    /// The time of that manager's last write of the status.
    pub(crate) stored: Option<Timestamp>,
    /// The target's scale, if it was read.
    pub(super) scale: Option<Scale>,
    /// The names of the other autoscalers of the target.
    pub(super) of_same_target: Vec<String>,
}

/// A registered metrics API.
pub(super) struct MetricsApiService {
    pub(super) group: String,
    pub(super) version: String,
    /// The reason why the API server can't reach the API.
    pub(super) unavailable: Option<String>,
}

impl Observed {
    pub(super) fn leases(&self) -> Leases<'_> {
        let Self { lease: name, holder, built_in, now, .. } = self;
        Leases { name, holder, built_in, now: *now }
    }

    /// The reason why no controller acts on an autoscaler. `None` if one does, or if it is unknown.
    pub(super) fn idle(&self, autoscaler: &ObservedAutoscaler) -> Option<Idle> {
        // A debug API that a flag names may be that of a controller without a lease.
        let is_working = self.status.as_ref().is_ok_and(|status| status.is_working);
        let manager = autoscaler.manager.as_ref().filter(|_| self.url.is_none() || !is_working)?;
        self.leases().idle(autoscaler.api, manager)
    }

    pub(super) async fn read(arguments: &StatusArguments) -> anyhow::Result<Self> {
        let client = kubectl::clients(&arguments.cluster).await?.api;
        let namespace = arguments.cluster.namespace.as_deref();
        let mut autoscalers = list_all(&client, arguments.autoscaler_api, namespace).await?;
        if autoscalers.is_empty() {
            kubectl::require_namespace(&client, namespace).await?;
        }
        let flags = &arguments.controller;
        let managers = autoscalers.iter().filter_map(|one| one.manager.as_deref());
        let lease = LeaseName::choose(flags, managers);
        let url = flags.controller_url.as_ref().map(ToString::to_string);
        let holder = LeaseHolder::read(&client, &lease).await;
        let leader = match &holder {
            Ok(holder) => holder.leader(&client).await,
            Err(error) => Err(error.clone()),
        };
        let api = match &leader {
            _ if url.is_some() => DebugClient::find(&client, flags, &lease).await,
            Ok(leader) => DebugClient::of_leader(&client, &lease, leader).await,
            Err(error) => Err(error.clone()),
        };
        let status = match api {
            Ok(api) => api.status().await,
            Err(error) => Err(error),
        };
        let metrics_apis = metrics_apis(&client).await.map_err(|error| format!("{error:#}"));
        let now = Timestamp::now();
        let built_in = KubeControllerManager::read(&client).await;
        let settings = status.as_ref().map(|status| status.settings.into()).unwrap_or_default();
        let (timeout, policy) =
            (to_std(arguments.cluster.request_timeout), SettingPolicy::default());
        read_scales(&client, timeout, &mut autoscalers, &settings, &policy).await;
        Ok(Self { now, autoscalers, lease, holder, leader, url, status, built_in, metrics_apis })
    }
}

/// Lists the autoscalers of the APIs that `flag` selects, or else of all served APIs.
pub(crate) async fn list_all(
    client: &Client,
    flag: Option<AutoscalerApiArgument>,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<ObservedAutoscaler>> {
    if let Some(flag) = flag {
        let mut all = Vec::new();
        for api in flag.apis() {
            all.extend(list(client, api, namespace).await?);
        }
        name_shared_targets(&mut all);
        return Ok(all);
    }
    let mut all = list(client, AutoscalerApi::Core, namespace).await?;
    let api = AutoscalerApi::Custom;
    let group = format!("/apis/{}", api.api_version());
    if !matches!(get_if_served::<Value>(client, &group).await, Ok(None)) {
        match list(client, api, namespace).await {
            Ok(others) => all.extend(others),
            Err(error) => terminal::warn(format!("{error:#}")),
        }
    }
    name_shared_targets(&mut all);
    Ok(all)
}

/// Names the other autoscalers of each one's target.
pub(super) fn name_shared_targets(all: &mut [ObservedAutoscaler]) {
    let mut by_target = HashMap::<TargetKey, Vec<String>>::new();
    for one in &*all {
        by_target.entry(TargetKey::new(&one.hpa)).or_default().push(one.name.clone());
    }
    for one in all {
        let names = by_target.get(&TargetKey::new(&one.hpa)).into_iter().flatten();
        one.of_same_target = names.filter(|name| **name != one.name).cloned().collect();
    }
}

/// Lists the autoscalers of an API.
pub(crate) async fn list(
    client: &Client,
    api: AutoscalerApi,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<ObservedAutoscaler>> {
    let namespace = namespace.map(|name| format!("namespaces/{}/", escape(name)));
    let (version, scope) = (api.api_version(), namespace.unwrap_or_default());
    let path = format!("/apis/{version}/{scope}{}", hpa_crd::PLURAL);
    let objects = kubectl::list(client, &path).await;
    let objects = objects.with_context(|| format!("unable to list autoscalers of {version}"))?;
    objects.iter().map(|object| ObservedAutoscaler::decode(api, object)).collect()
}

impl ObservedAutoscaler {
    pub(super) fn decode(api: AutoscalerApi, object: &Value) -> anyhow::Result<Self> {
        let (namespace, name) =
            (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let name = HpaKey::for_api(api, namespace, name).to_string();
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(object.clone())
            .with_context(|| format!("unable to decode the autoscaler {name}"))?;
        let controller = StatusController::from_managed_fields(object);
        Ok(Self {
            created: text(object, "/metadata/creationTimestamp").parse().ok(),
            manager: controller.name,
            stored: controller.at.and_then(|at| at.parse().ok()),
            api,
            name,
            hpa,
            scale: None,
            of_same_target: Vec::new(),
        })
    }

    /// Summarizes the stored status. `settings` are those of the controller's flags.
    pub(crate) fn short_report(&self, settings: &Settings, policy: &SettingPolicy) -> ShortReport {
        let is_reference = self.manager.as_deref() == Some(BUILT_IN);
        let resolved = settings_of_controller(settings.clone(), &self.hpa, policy, is_reference);
        let surroundings =
            Surroundings { scale: self.scale.as_ref(), of_same_target: &self.of_same_target };
        ShortReport::in_cluster(&self.hpa, &resolved, surroundings)
    }

    /// The reason of the condition that prevents scaling.
    pub(super) fn failed_reason(&self) -> Option<String> {
        let types = [ConditionType::AbleToScale, ConditionType::ScalingActive];
        let mut conditions = types.iter().filter_map(|kind| self.hpa.status.condition(kind));
        let failed = conditions.find(|condition| condition.status == ConditionStatus::False)?;
        Some(failed.reason.to_string())
    }
}

/// The registered metrics APIs. `None` if the API server has no aggregation layer.
async fn metrics_apis(client: &Client) -> anyhow::Result<Option<Vec<MetricsApiService>>> {
    let groups: Value = get(client, "/apis").await?;
    let groups = groups.get("groups").and_then(Value::as_array).into_iter().flatten();
    let mut groups = groups.map(|group| text(group, "/name"));
    if !groups.any(|group| group == AGGREGATION) {
        return Ok(None);
    }
    let list: Value = get(client, API_SERVICES).await?;
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    let is_of_metrics = |item: &&Value| text(item, "/spec/group").ends_with("metrics.k8s.io");
    Ok(Some(items.filter(is_of_metrics).map(MetricsApiService::decode).collect()))
}

impl MetricsApiService {
    pub(super) fn decode(object: &Value) -> Self {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let available = conditions.find(|one| text(one, "/type") == "Available");
        let unavailable = match available {
            Some(condition) if text(condition, "/status") == "True" => None,
            Some(condition) => Some(text(condition, "/message").to_owned()),
            None => Some("the API server has not checked it yet".to_owned()),
        };
        Self {
            group: text(object, "/spec/group").to_owned(),
            version: text(object, "/spec/version").to_owned(),
            unavailable,
        }
    }
}
