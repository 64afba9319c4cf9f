//! Reads the inputs of a decision from a cluster.

use std::{
    cell::Cell,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures::{StreamExt, stream};
use hpa_calc::{
    HorizontalPodAutoscaler, Inputs, Pod, Readings, SelectedPods, Selector, Settings,
    api::{ConditionReason, ConditionType, CrossVersionObjectReference},
    defaults::apply_defaults,
    report::{ShortReport, TargetKey},
    settings::{PodSelection, SettingPolicy},
    suggestions::most_similar,
};
use hpa_collectors::collection::AutoscalerGroup;
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{
        AutoscalerDetail, effective_settings, fill_forecasts, fill_readings, settings_of_controller,
    },
    k8s::FieldManager,
    scale_target::{
        MapperConfig, Owners, RestMapper, ScaleClient, ScaleObject, ScaleUnavailable, read_scale,
    },
};
use hpa_metrics::CoalescingSettings;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value;

use super::{
    collector_advice::EnabledCollectors,
    idle, metrics_api_advice, rule_advice,
    subject::{StatusController, Subject, may_name_api, usable_selector},
};
use crate::{
    args::{AutoscalerApiArgument, ControllerArguments, ExplainHpaArguments, TargetApi, to_std},
    autoscaler_name::AutoscalerName,
    collectors::Scope,
    controller_options::setting_policy,
    debug_client::{DebugClient, KUBE_CONTROLLER_MANAGER, LeaseName, Unavailable},
    kubectl::{self, escape, get},
    manifests::string_at,
    metric_reader::MetricReader,
    rules_source,
    status::{self, ListedAutoscaler},
};

/// The maximum number of concurrent reads of scales. Their selectors show which other autoscalers
/// count the same pods.
const MAX_CONCURRENT_READS: usize = 8;
/// The maximum number of objects whose names are compared with that of a missing target.
const MAX_COMPARED_TARGETS: usize = 500;
/// The shortest past to read from the debug API, so that it usually has a value of every metric.
const MIN_PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// If the clock of a controller is further behind, the past is read by that clock.
const MAX_SKEW: SignedDuration = SignedDuration::from_secs(10);

fn collector_group(api: TargetApi) -> AutoscalerGroup {
    match api {
        TargetApi::Core => AutoscalerGroup::Core,
        TargetApi::Custom => AutoscalerGroup::Custom,
    }
}

/// Reads one autoscaler of a cluster.
pub(super) struct Cluster {
    client: Client,
    mapper: Arc<RestMapper>,
    scales: ScaleClient,
    owners: Owners,
    metrics: MetricReader,
    /// The time at which the series of rules were last read.
    relisted: Cell<Option<Instant>>,
    autoscaler: AutoscalerName,
    location: ControllerArguments,
    policy: SettingPolicy,
    since: Option<SignedDuration>,
    collectors: EnabledCollectors,
    placeholders: Vec<(&'static str, String)>,
}

impl Cluster {
    /// Starts the watches of collectors and schedules. Sends no other request, except to find the
    /// API of the autoscaler.
    pub(super) async fn new(arguments: &ExplainHpaArguments, name: &str) -> anyhow::Result<Self> {
        let clients = kubectl::clients(&arguments.cluster).await?;
        let api = match arguments.autoscaler_api {
            Some(AutoscalerApiArgument::Custom) => TargetApi::Custom,
            Some(AutoscalerApiArgument::Core | AutoscalerApiArgument::Both) | None => {
                TargetApi::Core
            }
        };
        let autoscaler = AutoscalerName::new(
            api,
            name,
            arguments.cluster.namespace.as_deref(),
            clients.api.default_namespace(),
        )?;
        let autoscaler = match arguments.autoscaler_api {
            Some(AutoscalerApiArgument::Both) if autoscaler.api == TargetApi::Core => {
                autoscaler.in_any_api(&clients.api).await
            }
            _ => autoscaler,
        };
        let timeout = to_std(arguments.cluster.request_timeout);
        let config = MapperConfig { request_timeout: timeout, ..MapperConfig::default() };
        let mapper = Arc::new(RestMapper::new(clients.api.clone(), config));
        let period = to_std(arguments.autoscaling.horizontal_pod_autoscaler_sync_period);
        // Each explanation reads new values.
        let sharing = CoalescingSettings::for_sync_period(period).with_freshness(Duration::ZERO);
        let scope = Scope {
            groups: vec![collector_group(autoscaler.api)],
            namespace: Some(autoscaler.namespace.clone()),
        };
        let sources = &arguments.sources;
        let metrics = MetricReader::new(&clients, mapper.clone(), sources, scope, timeout, sharing);
        Ok(Self {
            owners: Owners::new(clients.api.clone(), mapper.clone(), timeout),
            scales: ScaleClient::new(clients.api.clone(), timeout),
            metrics: metrics.await?,
            relisted: Cell::default(),
            client: clients.api.clone(),
            mapper,
            autoscaler,
            location: arguments.controller.clone(),
            policy: setting_policy(&arguments.autoscaling),
            since: arguments.since,
            collectors: EnabledCollectors::new(sources),
            placeholders: rule_advice::placeholders(&sources.rules),
        })
    }

    /// Reads all inputs of a decision.
    pub(super) async fn read(&self, settings: Settings) -> anyhow::Result<Subject> {
        let object = self.autoscaler.read(&self.client).await?;
        let controller = StatusController::from_managed_fields(&object);
        let mut hpa: HorizontalPodAutoscaler =
            serde_json::from_value(object).context("unable to decode the autoscaler")?;
        apply_defaults(&mut hpa.spec);
        let past = self.read_past(&hpa, &controller).await;
        let started = Timestamp::now();
        let controller_settings = past.as_ref().ok().map(|past| past.settings.into());
        let settings = effective_settings(settings, controller_settings);
        // A controller that has a record of the autoscaler may not have stored its status yet.
        let is_reference = controller.is_reference() && past.is_err();
        let mut settings = settings_of_controller(settings, &hpa, &self.policy, is_reference);
        if settings.has_ignored() {
            settings = settings.with_built_in_state(idle::describe_built_in(&self.client).await);
        }
        let target = self.read_target(&hpa).await;
        if let Err(unavailable) = &target {
            self.require_permission(&hpa, &settings, unavailable)?;
        }
        let similar_target = match &target {
            Err(_) => self.similar_target(&hpa.spec.scale_target_ref).await,
            Ok(_) => None,
        };
        let autoscalers = self.list_autoscalers().await;
        let idle = match (&past, &controller.name) {
            (Err(_), Some(manager)) => {
                let others = self.managers_of_namespace(&autoscalers, manager);
                let api = self.autoscaler.api.into();
                idle::detect(&self.client, &self.location, api, manager, others, &autoscalers).await
            }
            _ => None,
        };
        let scale = target.as_ref().map(|target| target.scale.clone());
        let scale = scale.map_err(|unavailable| unavailable.error.clone());
        let selector = scale.as_ref().ok().and_then(usable_selector);
        let selected = match (&selector, &target) {
            (Some(selector), Ok(target)) => {
                let are_owned = settings.pods == PodSelection::Owned;
                let owner = are_owned.then_some((target, &hpa.spec.scale_target_ref));
                self.select(selector, owner, &hpa).await?
            }
            _ => SelectedPods::default(),
        };
        let inputs = Inputs {
            hpa,
            scale,
            settings,
            selected,
            readings: Readings::new(),
            history: past.as_ref().ok().and_then(|past| past.history.clone()),
            now: Timestamp::now(),
        };
        self.relist().await?;
        let readings = self.metrics.read(&inputs).await;
        // Decide by the clock of the controller, which is behind this one in a simulation. Read the
        // time again, because the samples are newer than `started`.
        let clock_lag =
            past.as_ref().map_or(SignedDuration::ZERO, |past| started.duration_since(past.now));
        let now = Timestamp::now().checked_sub(clock_lag)?;
        let mut inputs = Inputs { readings, now, ..inputs };
        let values = past.as_ref().map(AutoscalerDetail::last_values).unwrap_or_default();
        let read_by_controller = fill_readings(&mut inputs, &values);
        let forecasts = past.as_ref().map(|past| past.forecasts.as_slice()).unwrap_or_default();
        fill_forecasts(&mut inputs, forecasts);
        let rules = self.metrics.rules();
        let mut metric_advice =
            rules.map(|rules| rule_advice::advise(rules, &inputs)).unwrap_or_default();
        self.collectors.add_advice(&inputs, &mut metric_advice);
        metrics_api_advice::add(&self.client, &inputs, &mut metric_advice).await;
        let name = Some(self.full_name());
        let other_autoscalers = self.other_autoscalers(&autoscalers, &inputs.hpa);
        Ok(Subject {
            inputs,
            name,
            other_autoscalers,
            controller,
            past,
            read_by_controller,
            idle,
            metric_advice,
            placeholders: self.placeholders.clone(),
            similar_target,
            missing_object_advice: Vec::new(),
            assumes_replicas: false,
            has_status_replicas: true,
        })
    }

    /// The name as in conditions, with a prefix for the custom API.
    fn full_name(&self) -> String {
        let AutoscalerName { api, namespace, name } = &self.autoscaler;
        HpaKey::for_api((*api).into(), namespace.as_str(), name.as_str()).to_string()
    }

    /// Lists the autoscalers of the namespace, of both APIs. An API that can't be listed has none.
    async fn list_autoscalers(&self) -> Vec<ListedAutoscaler> {
        let namespace = Some(self.autoscaler.namespace.as_str());
        let mut autoscalers = Vec::new();
        for api in AutoscalerApi::ALL {
            let listed = status::list_autoscalers(&self.client, api, namespace).await;
            autoscalers.extend(listed.unwrap_or_default());
        }
        autoscalers
    }

    /// The names of the other autoscalers of the target.
    fn other_autoscalers(
        &self,
        autoscalers: &[ListedAutoscaler],
        hpa: &HorizontalPodAutoscaler,
    ) -> Vec<String> {
        let (target, own_name) = (TargetKey::new(hpa), self.full_name());
        let of_target =
            autoscalers.iter().filter(|autoscaler| TargetKey::new(&autoscaler.hpa) == target);
        of_target
            .map(|autoscaler| autoscaler.name.clone())
            .filter(|name| *name != own_name)
            .collect()
    }

    /// The field managers of the statuses in this API. Empty unless `manager` is
    /// kube-controller-manager, which hpa-rs may have replaced.
    fn managers_of_namespace<'a>(
        &self,
        autoscalers: &'a [ListedAutoscaler],
        manager: &str,
    ) -> impl Iterator<Item = &'a str> {
        let api: AutoscalerApi = self.autoscaler.api.into();
        let is_replaceable = manager == KUBE_CONTROLLER_MANAGER;
        autoscalers
            .iter()
            .filter(move |autoscaler| is_replaceable && autoscaler.api == api)
            .filter_map(|autoscaler| autoscaler.manager.as_deref())
    }

    /// Fails if the user may not read the target's scale, because the controller may.
    fn require_permission(
        &self,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        ScaleUnavailable { error, is_forbidden, .. }: &ScaleUnavailable,
    ) -> anyhow::Result<()> {
        if *is_forbidden {
            let AutoscalerName { namespace, name, .. } = &self.autoscaler;
            bail!(
                "unable to explain {namespace}/{name}: {error}. The controller has its own \
                 permissions. Its last status: {}",
                ShortReport::new(hpa, settings).sentence
            );
        }
        Ok(())
    }

    /// Reads the record of the autoscaler from the debug API of the leader or of
    /// `--controller-url`.
    async fn read_past(
        &self,
        hpa: &HorizontalPodAutoscaler,
        controller: &StatusController,
    ) -> Result<AutoscalerDetail, Unavailable> {
        let manager = controller.name.as_deref();
        let other_manager = manager.filter(|manager| !FieldManager::is_hpa_rs(manager));
        let lease = LeaseName::choose(&self.location, manager);
        let record = self.read_record(hpa, &lease).await;
        match other_manager.filter(|_| self.location.controller_url.is_none()) {
            // An instance of hpa-rs may have a record although it has not stored the status yet.
            Some(name) => record.map_err(|_| Unavailable::OtherController(name.to_owned())),
            None => record,
        }
    }

    async fn read_record(
        &self,
        hpa: &HorizontalPodAutoscaler,
        lease: &LeaseName,
    ) -> Result<AutoscalerDetail, Unavailable> {
        let api = DebugClient::find(&self.client, &self.location, lease).await?;
        let window = self.since.unwrap_or_default().max(MIN_PERIOD);
        let AutoscalerName { api: autoscaler_api, namespace, name } = &self.autoscaler;
        let read_until = async |now: Timestamp| {
            let since = now.checked_sub(window).ok();
            api.autoscaler((*autoscaler_api).into(), namespace, name, since).await
        };
        let now = Timestamp::now();
        let mut detail = read_until(now).await?;
        // In a simulation, the clock of the controller is behind.
        let controller_now = detail.as_ref().map(|detail| detail.now);
        if let Some(controller_now) =
            controller_now.filter(|controller_now| now.duration_since(*controller_now) > MAX_SKEW)
        {
            detail = read_until(controller_now).await?;
        }
        match detail.filter(|detail| detail.autoscaler.uid == hpa.metadata.uid) {
            Some(detail) if detail.history.is_some() => Ok(detail),
            Some(_) => Err(Unavailable::NotWorking(api.source)),
            None => Err(Unavailable::UnknownAutoscaler),
        }
    }

    /// The object of the namespace whose name is like that of a missing target. Only for kinds of
    /// the group `apps`. `None` if the target exists, or if the objects can't be listed.
    async fn similar_target(&self, target: &CrossVersionObjectReference) -> Option<String> {
        let resource = match target.kind.as_str() {
            _ if !target.api_version.starts_with("apps/") => return None,
            "Deployment" => "deployments",
            "ReplicaSet" => "replicasets",
            "StatefulSet" => "statefulsets",
            _ => return None,
        };
        let namespace = escape(&self.autoscaler.namespace);
        let path =
            format!("/apis/apps/v1/namespaces/{namespace}/{resource}?limit={MAX_COMPARED_TARGETS}");
        let page: Value = get(&self.client, &path).await.ok()?;
        let items = page.get("items").and_then(Value::as_array)?;
        let names: Vec<&str> = items.iter().map(|item| string_at(item, "/metadata/name")).collect();
        let name = target.name.as_str();
        let similar = most_similar(name, names.iter().copied());
        similar.filter(|_| !names.contains(&name)).map(ToOwned::to_owned)
    }

    async fn read_target(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<ScaleObject, ScaleUnavailable> {
        let target = &hpa.spec.scale_target_ref;
        let scale =
            read_scale(&self.mapper, &self.scales, &self.autoscaler.namespace, target).await;
        scale.map(|(object, _)| object)
    }

    /// The pods that match the selector and, if there is an owner, belong to it. Also the
    /// autoscalers that select any of these pods.
    async fn select(
        &self,
        selector: &Selector,
        owner: Option<(&ScaleObject, &CrossVersionObjectReference)>,
        hpa: &HorizontalPodAutoscaler,
    ) -> anyhow::Result<SelectedPods> {
        let pods = self.list_pods(selector).await?;
        let selected = match owner {
            Some((target, reference)) => {
                self.owners.only_owned(&self.autoscaler.namespace, pods, target, reference).await
            }
            None => SelectedPods::new(pods),
        };
        let SelectedPods { pods, ownership_error, .. } = selected;
        if ownership_error.is_some() {
            return Ok(SelectedPods { ownership_error, ..SelectedPods::default() });
        }
        if pods.is_empty() {
            return Ok(SelectedPods::default());
        }
        let selected = &pods;
        let others = self.handled_autoscalers(hpa).await?;
        let others = others.into_iter().map(|(name, hpa)| async move {
            let selector = usable_selector(&self.read_target(&hpa).await.ok()?.scale)?;
            let selects = selected.iter().any(|pod| selector.matches_by(|key| pod.label(key)));
            selects.then_some(name)
        });
        let others = stream::iter(others).buffer_unordered(MAX_CONCURRENT_READS);
        let mut autoscalers: Vec<String> = others.filter_map(|name| async { name }).collect().await;
        autoscalers.sort();
        let own_name = Some(self.full_name());
        Ok(SelectedPods { pods, autoscalers, own_name, ..SelectedPods::default() })
    }

    /// The autoscalers of the namespace that the controller handles, named as in its conditions.
    async fn handled_autoscalers(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> anyhow::Result<Vec<(String, HorizontalPodAutoscaler)>> {
        let active = hpa.status.condition(&ConditionType::ScalingActive);
        let ambiguous = active.filter(|one| one.reason == ConditionReason::AmbiguousSelector);
        let mut autoscalers = Vec::new();
        for api in [TargetApi::Core, TargetApi::Custom] {
            let is_same_api = api == self.autoscaler.api;
            // A controller of one API doesn't watch the objects of the other API. It handles both
            // if its message about the ambiguous selector names autoscalers of both.
            let names_api =
                || ambiguous.is_some_and(|condition| may_name_api(&condition.message, api));
            if !is_same_api && !names_api() {
                continue;
            }
            let list = get::<Value>(&self.client, &self.autoscaler.list_path(api)).await;
            let list = match list {
                Ok(list) => list,
                Err(error) if is_same_api => {
                    return Err(error.context("unable to list the autoscalers of the namespace"));
                }
                // The other API may not be served.
                Err(_) => continue,
            };
            let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
            autoscalers.extend(items.filter_map(|item| {
                let hpa: HorizontalPodAutoscaler = serde_json::from_value(item.clone()).ok()?;
                let namespace = self.autoscaler.namespace.as_str();
                let key = HpaKey::for_api(api.into(), namespace, hpa.metadata.name.as_str());
                Some((key.to_string(), hpa))
            }));
        }
        Ok(autoscalers)
    }

    async fn list_pods(&self, selector: &Selector) -> anyhow::Result<Vec<Arc<Pod>>> {
        let namespace = escape(&self.autoscaler.namespace);
        let selector = escape(&selector.to_string());
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
        let items = kubectl::list(&self.client, &path).await.context("unable to list pods")?;
        let decode = |item: Value| {
            let name = string_at(&item, "/metadata/name").to_owned();
            let pod = serde_json::from_value(item);
            pod.map(Arc::new).with_context(|| format!("unable to decode pod {name}"))
        };
        items.into_iter().map(decode).collect()
    }

    /// Reads the series of the rules, if there are rules and the relist interval has passed.
    async fn relist(&self) -> anyhow::Result<()> {
        let Some(rules) = self.metrics.rules() else { return Ok(()) };
        let interval = rules.settings().relist_interval;
        if self.relisted.get().is_some_and(|last| last.elapsed() < interval) {
            return Ok(());
        }
        rules_source::relist(rules).await?;
        self.relisted.set(Some(Instant::now()));
        Ok(())
    }
}
