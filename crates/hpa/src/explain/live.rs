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
    api::CrossVersionObjectReference,
    defaults::apply_defaults,
    settings::{PodSelection, SettingPolicy},
};
use hpa_collectors::collection::AutoscalerGroup;
use hpa_controller::{
    debug::{AutoscalerDetail, effective_settings, fill_readings, settings_of_controller},
    k8s::FieldManager,
    scale_target::{MapperConfig, Owners, RestMapper, ScaleClient, ScaleObject, read_scale},
};
use hpa_metrics::CoalescingSettings;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value;

use super::subject::{Controller, Subject, usable_selector};
use crate::{
    args::{ControllerArguments, ExplainHpaArguments, TargetApi, to_std},
    collectors::Scope,
    controller_options::setting_policy,
    debug_client::{DebugClient, LeaseName, Unavailable},
    kubectl::{self, escape, get},
    lint::is_similar,
    manifests::text,
    metric_reader::MetricReader,
    rules_provider,
};

/// Limit for concurrent reads of scales, which are read to find other autoscalers of the same pods.
const MAX_CONCURRENT_READS: usize = 8;
const PAGE_SIZE: usize = 500;
/// If a namespace has more autoscalers, an error doesn't name them.
const MAX_NAMES: usize = 5;
/// The debug API is asked for at least this period, which has a value of every metric.
const LAST_DECISION: SignedDuration = SignedDuration::from_mins(5);
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
    /// The time when the series of rules were last read.
    relisted: Cell<Option<Instant>>,
    api: TargetApi,
    namespace: String,
    name: String,
    location: ControllerArguments,
    policy: SettingPolicy,
    since: Option<SignedDuration>,
}

impl Cluster {
    /// Sends no request, but starts the watches of collectors and schedules.
    pub(super) async fn new(arguments: &ExplainHpaArguments, name: &str) -> anyhow::Result<Self> {
        let clients = kubectl::clients(&arguments.cluster).await?;
        let flag = arguments.cluster.namespace.as_deref();
        let (namespace, name) = match (name.split_once('/'), flag) {
            (Some((namespace, _)), Some(flag)) if namespace != flag => {
                bail!("{name} is not in the namespace {flag} that --namespace names")
            }
            (Some((namespace, name)), _) => (namespace, name),
            (None, flag) => (flag.unwrap_or(clients.api.default_namespace()), name),
        };
        let timeout = to_std(arguments.cluster.request_timeout);
        let config = MapperConfig { request_timeout: timeout, ..MapperConfig::default() };
        let mapper = Arc::new(RestMapper::new(clients.api.clone(), config));
        let period = to_std(arguments.autoscaling.horizontal_pod_autoscaler_sync_period);
        // Each explanation reads new values.
        let sharing = CoalescingSettings::for_sync_period(period).with_freshness(Duration::ZERO);
        let scope = Scope {
            groups: vec![collector_group(arguments.autoscaler_api)],
            namespace: Some(namespace.to_owned()),
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
            api: arguments.autoscaler_api,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            location: arguments.controller.clone(),
            policy: setting_policy(&arguments.autoscaling),
            since: arguments.since,
        })
    }

    /// Reads all inputs of a decision.
    pub(super) async fn read(&self, settings: Settings) -> anyhow::Result<Subject> {
        let object = self.autoscaler().await?;
        let controller = Controller::from_managed_fields(&object);
        let mut hpa: HorizontalPodAutoscaler =
            serde_json::from_value(object).context("unable to decode the autoscaler")?;
        apply_defaults(&mut hpa.spec);
        let past = self.past(&hpa, &controller).await;
        let started = Timestamp::now();
        let remembered = past.as_ref().ok().map(|past| past.settings.into());
        let settings = effective_settings(settings, remembered);
        let target = self.target(&hpa).await;
        let is_reference = controller.is_reference();
        let settings = settings_of_controller(settings, &hpa, &self.policy, is_reference);
        let scale = target.as_ref().map(|target| target.scale.clone()).map_err(Clone::clone);
        let selector = scale.as_ref().ok().and_then(usable_selector);
        let selected = match (&selector, &target) {
            (Some(selector), Ok(target)) => {
                let are_owned = settings.pods == PodSelection::Owned;
                let owner = are_owned.then_some((target, &hpa.spec.scale_target_ref));
                self.select(selector, owner).await?
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
        // By the clock of the controller, which differs from this one in a simulation. The samples
        // are newer than the time at which the reads began.
        let behind =
            past.as_ref().map_or(SignedDuration::ZERO, |past| started.duration_since(past.now));
        let now = Timestamp::now().checked_sub(behind)?;
        let mut inputs = Inputs { readings, now, ..inputs };
        let values = past.as_ref().map(AutoscalerDetail::last_values).unwrap_or_default();
        let read_by_controller = fill_readings(&mut inputs, &values);
        Ok(Subject { inputs, controller, past, read_by_controller })
    }

    /// The record of the leader's debug API.
    async fn past(
        &self,
        hpa: &HorizontalPodAutoscaler,
        controller: &Controller,
    ) -> Result<AutoscalerDetail, Unavailable> {
        let manager = controller.name.as_deref();
        let is_other = manager.is_some_and(|manager| !FieldManager::is_hpa_rs(manager));
        if let (true, None, Some(name)) = (is_other, &self.location.controller_url, manager) {
            return Err(Unavailable::OtherController(name.to_owned()));
        }
        let lease = LeaseName::choose(&self.location, manager);
        let api = DebugClient::find(&self.client, &self.location, &lease).await?;
        let window = self.since.unwrap_or_default().max(LAST_DECISION);
        let read = async |now: Timestamp| {
            let since = now.checked_sub(window).ok();
            api.autoscaler(self.api.into(), &self.namespace, &self.name, since).await
        };
        let now = Timestamp::now();
        let mut detail = read(now).await?;
        // In a simulation, the clock of the controller is behind.
        let other = detail.as_ref().map(|detail| detail.now);
        if let Some(other) = other.filter(|other| now.duration_since(*other) > MAX_SKEW) {
            detail = read(other).await?;
        }
        match detail.filter(|detail| detail.autoscaler.uid == hpa.metadata.uid) {
            Some(detail) if detail.history.is_some() => Ok(detail),
            Some(_) => Err(Unavailable::NotWorking(api.source)),
            None => Err(Unavailable::UnknownAutoscaler),
        }
    }

    async fn autoscaler(&self) -> anyhow::Result<Value> {
        let name = escape(&self.name);
        let path = format!("{}/{name}", self.autoscalers_path());
        let own_name = format!("{}/{}", self.namespace, self.name);
        let error = match get::<Value>(&self.client, &path).await {
            Ok(object) => return Ok(object),
            Err(error) => error,
        };
        let (other, flag) = match self.api {
            TargetApi::Core => (TargetApi::Custom, "custom"),
            TargetApi::Custom => (TargetApi::Core, "core"),
        };
        let path = format!("{}/{name}", self.autoscalers_path_of(other));
        if get::<Value>(&self.client, &path).await.is_ok() {
            bail!(
                "{own_name} is an autoscaler of {}, not of {}: add --autoscaler-api={flag}",
                other.api_version(),
                self.api.api_version()
            );
        }
        if let Some(others) = self.others().await {
            bail!("there is no autoscaler {own_name}{others}");
        }
        Err(error.context(format!("unable to read the autoscaler {own_name}")))
    }

    /// The autoscalers that may be meant, if those of the namespace can be listed and the name is
    /// not among them.
    async fn others(&self) -> Option<String> {
        let list: Value = get(&self.client, &self.autoscalers_path()).await.ok()?;
        let items = list.get("items")?.as_array()?;
        let names: Vec<_> = items.iter().map(|item| text(item, "/metadata/name")).collect();
        if names.contains(&self.name.as_str()) {
            return None;
        }
        let namespace = &self.namespace;
        let similar: Vec<_> =
            names.iter().copied().filter(|name| is_similar(name, &self.name)).collect();
        Some(match (names.as_slice(), similar.as_slice()) {
            ([], _) => format!(": the namespace {namespace} has none"),
            (_, [_, ..]) => format!(". Similar: {}", similar.join(", ")),
            (names, []) if names.len() <= MAX_NAMES => {
                format!(". The namespace {namespace} has {}", names.join(", "))
            }
            (names, []) => format!(". The namespace {namespace} has {} others", names.len()),
        })
    }

    fn autoscalers_path(&self) -> String {
        self.autoscalers_path_of(self.api)
    }

    fn autoscalers_path_of(&self, api: TargetApi) -> String {
        let namespace = escape(&self.namespace);
        let (group, resource) = (api.api_version(), hpa_crd::PLURAL);
        format!("/apis/{group}/namespaces/{namespace}/{resource}")
    }

    async fn target(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<ScaleObject, hpa_calc::ScaleReadError> {
        let target = &hpa.spec.scale_target_ref;
        let read = read_scale(&self.mapper, &self.scales, &self.namespace, target).await;
        read.map(|(object, _)| object).map_err(|unavailable| unavailable.error)
    }

    /// The pods of the selector (and of the owner, if one is given), and the autoscalers that
    /// select any of them.
    async fn select(
        &self,
        selector: &Selector,
        owner: Option<(&ScaleObject, &CrossVersionObjectReference)>,
    ) -> anyhow::Result<SelectedPods> {
        let pods = self.pods(selector).await?;
        let selected = match owner {
            Some((target, reference)) => {
                self.owners.only_owned(&self.namespace, pods, target, reference).await
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
        let list: Value = get(&self.client, &self.autoscalers_path())
            .await
            .context("unable to list the autoscalers of the namespace")?;
        let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        let selected = &pods;
        let others = items.into_iter().filter_map(|item| serde_json::from_value(item).ok());
        let others = others.map(|hpa: HorizontalPodAutoscaler| async move {
            let selector = usable_selector(&self.target(&hpa).await.ok()?.scale)?;
            let selects = selected.iter().any(|pod| selector.matches_by(|key| pod.label(key)));
            selects.then(|| format!("{}/{}", self.namespace, hpa.metadata.name))
        });
        let others = stream::iter(others).buffer_unordered(MAX_CONCURRENT_READS);
        let mut autoscalers: Vec<String> = others.filter_map(|name| async { name }).collect().await;
        autoscalers.sort();
        Ok(SelectedPods { pods, autoscalers, ..SelectedPods::default() })
    }

    async fn pods(&self, selector: &Selector) -> anyhow::Result<Vec<Arc<Pod>>> {
        let namespace = escape(&self.namespace);
        let selector = escape(&selector.to_string());
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods?labelSelector={selector}&limit={PAGE_SIZE}"
        );
        let (mut pods, mut token) = (Vec::new(), String::new());
        loop {
            let page: Value = get(&self.client, &format!("{path}{token}"))
                .await
                .context("unable to list pods")?;
            let items = page.get("items").and_then(Value::as_array).into_iter().flatten();
            for item in items {
                let pod: Pod = serde_json::from_value(item.clone()).with_context(|| {
                    format!("unable to decode pod {}", text(item, "/metadata/name"))
                })?;
                pods.push(Arc::new(pod));
            }
            match text(&page, "/metadata/continue") {
                "" => return Ok(pods),
                next => token = format!("&continue={}", escape(next)),
            }
        }
    }

    /// Reads the series of the rules, if there are rules and the relist interval has passed.
    async fn relist(&self) -> anyhow::Result<()> {
        let Some(rules) = self.metrics.rules() else { return Ok(()) };
        let interval = rules.settings().relist_interval;
        if self.relisted.get().is_some_and(|last| last.elapsed() < interval) {
            return Ok(());
        }
        rules_provider::relist(rules).await?;
        self.relisted.set(Some(Instant::now()));
        Ok(())
    }
}
