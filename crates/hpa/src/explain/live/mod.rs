//! Reads the inputs of a decision from a cluster.

mod selection;

use std::{
    cell::Cell,
    slice,
    time::{Duration, Instant},
};

use anyhow::bail;
use futures::future::OptionFuture;
use hpa_calc::{
    HorizontalPodAutoscaler, Inputs, Readings, SelectedPods, Settings,
    api::CrossVersionObjectReference,
    defaults::prepare_spec,
    report::{OverwrittenScalings, ShortReport},
    settings::SettingPolicy,
    suggestions::most_similar,
};
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{
        self, ActingController, AutoscalerDetail, effective_settings, fill_forecasts,
        fill_readings, settings_of_controller,
    },
    k8s::{FieldManager, StatusController},
    scale_target::{ScaleUnavailable, TargetReader},
};
use hpa_metrics::CoalescingSettings;
use hpa_prometheus::source::PrometheusSource;
use jiff::{SignedDuration, Timestamp};
use kube::Client;

use super::{
    MetricAdvisor, controllers,
    dump::SCALABLE,
    subject::{FoundController, Subject},
};
use crate::{
    args::{AutoscalerApiArgument, ControllerArguments, ExplainArguments, to_std},
    autoscaler_name::{self, AutoscalerName},
    collectors::Scope,
    controller_options::setting_policy,
    debug_client::Unavailable,
    kubectl::{self, escape},
    listed_autoscalers::{ListedAutoscaler, list_readable_autoscalers, set_other_autoscalers},
    liveness::{
        ControllerLease, KubeControllerManager, NamespaceWriters, SearchedAutoscaler,
        status_writers,
    },
    manifests::string_at,
    metric_reader::MetricReader,
    overwritten_events::activities_by_events,
    rules_source, terminal,
};

/// The maximum number of objects whose names are compared with that of a missing target.
const MAX_COMPARED_TARGETS: usize = 500;
/// The shortest past to read from the debug API. It usually has a value of every metric.
const MIN_PAST: SignedDuration = SignedDuration::from_mins(5);
/// If the clock of the controller lags by more, the past is read up to the time of that clock.
const MAX_CLOCK_LAG: SignedDuration = SignedDuration::from_secs(10);

/// The result of the search for the controller of an autoscaler.
struct ControllerSearch {
    found: FoundController,
    /// The lag of the controller's clock behind this one, by its record, or else by its lease. In a
    /// simulation, it can be days.
    clock_lag: SignedDuration,
    /// A clause about the leases, for warnings about settings that kube-controller-manager ignores.
    /// Empty if hpa-rs acts, or if no lease is known.
    lease_state: String,
    acting: ActingController,
}

/// Reads one autoscaler of a cluster.
pub(super) struct Cluster {
    client: Client,
    targets: TargetReader,
    metrics: MetricReader,
    /// The time at which the series of rules were last read.
    relisted: Cell<Option<Instant>>,
    /// Whether a message about the wait for series or metrics was printed.
    has_reported_delay: Cell<bool>,
    name: AutoscalerName,
    flags: ControllerArguments,
    request_timeout: Duration,
    policy: SettingPolicy,
    since: Option<SignedDuration>,
    advisor: MetricAdvisor,
}

impl Cluster {
    /// Starts the watches of collectors and schedules. Sends no other request, except to find the
    /// API of the autoscaler.
    pub(super) async fn new(arguments: &ExplainArguments, name: &str) -> anyhow::Result<Self> {
        let clients = kubectl::clients(&arguments.cluster).await?;
        let flag = arguments.autoscaler_api;
        let is_custom = flag == Some(AutoscalerApiArgument::Custom);
        let mut name = AutoscalerName::new(
            if is_custom { AutoscalerApi::Custom } else { AutoscalerApi::Core },
            name,
            arguments.cluster.namespace.as_deref(),
            clients.api.default_namespace(),
        )?;
        let may_be_custom = flag == Some(AutoscalerApiArgument::Both);
        if may_be_custom && name.key.api == AutoscalerApi::Core {
            name = name.in_any_api(&clients.api).await;
        }
        let timeout = to_std(arguments.cluster.request_timeout);
        let targets = TargetReader::new(&clients.api, timeout);
        let period = to_std(arguments.autoscaling.horizontal_pod_autoscaler_sync_period);
        // Each explanation reads new values.
        let mut sharing = CoalescingSettings::for_sync_period(period);
        sharing.freshness = Duration::ZERO;
        let (apis, namespace) = (vec![name.key.api], Some(name.key.namespace.to_string()));
        let scope = Scope { apis, namespace };
        let sources = &arguments.sources;
        let mapper = targets.mapper().clone();
        let metrics = MetricReader::new(&clients, mapper, sources, scope, timeout, sharing);
        Ok(Self {
            targets,
            metrics: metrics.await?,
            relisted: Cell::default(),
            has_reported_delay: Cell::default(),
            client: clients.api.clone(),
            name,
            flags: arguments.controller.clone(),
            request_timeout: timeout,
            policy: setting_policy(&arguments.autoscaling),
            since: arguments.since,
            advisor: MetricAdvisor::new(clients.api.clone(), sources),
        })
    }

    /// Reads all inputs of a decision.
    pub(super) async fn read(&self, settings: Settings) -> anyhow::Result<Subject> {
        let object = self.name.read(&self.client).await?;
        let controller = StatusController::of_object(&object, kubectl::now());
        let name = self.name.key.to_string();
        let mut hpa = autoscaler_name::decode_named(&object, &format!("the autoscaler {name}"))?;
        prepare_spec(&mut hpa.spec);
        let namespace = Some(&*self.name.key.namespace);
        let mut autoscalers = list_readable_autoscalers(&self.client, namespace).await;
        let ControllerSearch { found, clock_lag, lease_state, acting } =
            self.find_controller(&hpa, &controller, &autoscalers).await;
        let detail = found.record.as_ref().ok();
        let controller_settings = detail.map(|detail| detail.settings.into());
        let settings = effective_settings(settings, controller_settings);
        let mut settings = settings_of_controller(settings, &hpa, &self.policy, acting);
        if settings.has_ignored_settings() {
            settings = settings.with_built_in_state(lease_state);
        }
        let (scale, selected, similar_target) = match self.targets.scale(&hpa).await {
            Ok(target) => {
                let selected = self.select(&target, &hpa, &settings, &autoscalers, detail).await?;
                (Ok(target.scale), selected, None)
            }
            Err(unavailable) => {
                self.require_permission(&hpa, &settings, &unavailable)?;
                let similar_target = self.similar_target(&hpa.spec.scale_target_ref).await;
                (Err(unavailable.error), SelectedPods::default(), similar_target)
            }
        };
        let inputs = Inputs {
            hpa,
            scale,
            settings,
            selected,
            readings: Readings::new(),
            history: detail.and_then(|detail| detail.history.clone()),
            now: kubectl::now(),
        };
        let mut inputs = self.read_metrics(inputs, clock_lag).await?;
        let filled = detail.map(|detail| fill_from_record(&mut inputs, detail));
        let read_by_controller = filled.unwrap_or_default();
        let rules = self.metrics.rules.as_deref();
        let metric_advice = self.advisor.advise(rules, &inputs).await;
        set_other_autoscalers(&mut autoscalers, inputs.now);
        let overwritten_scalings = self.overwritten_scalings(detail, inputs.now).await;
        let own = autoscalers.into_iter().find(|one| one.name == name);
        (inputs.selected.sharing_target, inputs.selected.bounds_conflict) =
            own.map(|own| (own.other_autoscalers, own.bounds_conflict)).unwrap_or_default();
        Ok(Subject {
            inputs,
            name: Some(name),
            controller,
            found,
            overwritten_scalings,
            read_by_controller,
            warning: rules.and_then(PrometheusSource::server_warning),
            metric_advice,
            placeholders: self.advisor.placeholders().to_vec(),
            similar_target,
            missing_object_advice: Vec::new(),
            assumes_replicas: false,
            has_status_replicas: true,
        })
    }

    /// The scalings that another client has overwritten, by the controller's record or else by its
    /// events.
    async fn overwritten_scalings(
        &self,
        record: Option<&AutoscalerDetail>,
        now: Timestamp,
    ) -> Option<OverwrittenScalings> {
        if let Some(record) = record {
            return record.autoscaler.overwritten();
        }
        let HpaKey { namespace, name, .. } = &self.name.key;
        let activities = activities_by_events(&self.client, Some(namespace), Some(name), now).await;
        activities.get(&self.name.key.to_string())?.overwritten_scalings
    }

    /// Adds the metrics to the inputs of a decision, and sets its time by the clock of the
    /// controller.
    async fn read_metrics(
        &self,
        inputs: Inputs,
        clock_lag: SignedDuration,
    ) -> anyhow::Result<Inputs> {
        self.relist(&inputs).await?;
        let report_delay = || {
            if !self.has_reported_delay.replace(true) {
                terminal::warn("waiting for the metrics");
            }
        };
        let read = self.metrics.read(&inputs);
        let mut readings = rules_source::notify_of_delay(read, report_delay).await;
        // The clock of samples is mostly right. In a simulation, it lags like the controller's.
        readings.set_clock_lead((-clock_lag).max(SignedDuration::ZERO));
        // The samples are newer than the controller's record.
        let now = kubectl::now().checked_sub(clock_lag)?;
        Ok(Inputs { readings, now, ..inputs })
    }

    /// Fails if the user may not read the target's scale: the controller may be permitted to, so
    /// the failure says nothing about its decision.
    fn require_permission(
        &self,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        ScaleUnavailable { error, is_forbidden, .. }: &ScaleUnavailable,
    ) -> anyhow::Result<()> {
        if *is_forbidden {
            let HpaKey { namespace, name, .. } = &self.name.key;
            bail!(
                "unable to explain {namespace}/{name}: {error}. The controller has its own \
                 permissions. Its last status: {}",
                ShortReport::new(hpa, settings).sentence
            );
        }
        Ok(())
    }

    /// Finds the controller that acts on the autoscaler, and reads its record of it.
    async fn find_controller(
        &self,
        hpa: &HorizontalPodAutoscaler,
        controller: &StatusController,
        autoscalers: &[ListedAutoscaler],
    ) -> ControllerSearch {
        let now = kubectl::now();
        let manager = controller.name.as_deref();
        let statuses = status_writers(autoscalers);
        let HpaKey { api, namespace, .. } = &self.name.key;
        let of_api = statuses.iter().filter(|one| one.key.api == *api);
        let of_api: Vec<_> = of_api.cloned().collect();
        let searched = SearchedAutoscaler { namespace, manager };
        let lease =
            ControllerLease::find_in_cluster(&self.client, &self.flags, Some(searched), &of_api);
        let lease = lease.await;
        let is_new = manager.is_none() && hpa.status.conditions.is_empty();
        let needs_built_in = is_new || manager.is_some();
        let built_in = needs_built_in.then(|| KubeControllerManager::read(&self.client));
        let (record, built_in) =
            tokio::join!(self.read_record(hpa, &lease), OptionFuture::from(built_in));
        let hpa_rs_answers = record.is_ok();
        let built_in = built_in.map(|built_in| built_in.with_statuses(&statuses));
        let writers = NamespaceWriters::new(&statuses);
        let leases = built_in.as_ref().map(|built_in| lease.with(built_in, &writers, now));
        // An instance that answers may not have stored the status yet.
        let mut acting = ActingController::of_status(controller, hpa_rs_answers);
        let (mut idle, mut conflict, mut lease_state) = (None, None, String::new());
        if let Some(leases) = leases.as_ref().filter(|_| is_new && !hpa_rs_answers) {
            idle = leases.idle_without_status(*api, namespace);
        }
        if let Some((manager, leases)) = manager.zip(leases) {
            if !hpa_rs_answers || leases.may_built_in_act(Some(namespace)) {
                acting =
                    leases.acting_controller(*api, Some(namespace), Some(manager), hpa_rs_answers);
            }
            idle = leases.idle(*api, namespace, manager).filter(|_| !hpa_rs_answers);
            let own = statuses.iter().find(|status| status.key == self.name.key);
            conflict = own.and_then(|own| leases.conflicts(slice::from_ref(own)).pop());
            lease_state = controllers::describe_leases(&leases, manager);
        }
        let hpa_rs_acts = acting == ActingController::HpaRs || conflict.is_some();
        let (record, record_source, clock_lag, clock_lead) = match record {
            Ok((detail, source, lag)) => {
                (Ok(detail), Some(source), lag, lease.clock_lead(Some(-lag)))
            }
            Err(error) => {
                let cause = self.cause_without_record(error, controller, hpa_rs_acts);
                let clock_lead = if acting.is_kube_controller_manager() {
                    SignedDuration::ZERO
                } else {
                    lease.clock_lead(None)
                };
                (Err(cause), None, -clock_lead, clock_lead)
            }
        };
        let is_hidden = !hpa_rs_answers && lease.describe_hidden().is_some();
        let found =
            FoundController { record, record_source, idle, conflict, is_hidden, clock_lead };
        ControllerSearch { found, clock_lag, lease_state, acting }
    }

    /// The cause to report if the debug API has no record because of `error`. Only hpa-rs has a
    /// debug API. `hpa_rs_acts` is whether it acts on the autoscaler, alone or beside others.
    fn cause_without_record(
        &self,
        error: Unavailable,
        controller: &StatusController,
        hpa_rs_acts: bool,
    ) -> Unavailable {
        let manager = controller.name.as_deref();
        let is_replaced = controller.is_kube_controller_manager() && hpa_rs_acts;
        let has_debug_api = self.flags.controller_url.is_some() || is_replaced;
        match manager.filter(|manager| !has_debug_api && !FieldManager::is_hpa_rs(manager)) {
            Some(name) => Unavailable::OtherController(name.to_owned()),
            None => error.for_writer(manager),
        }
    }

    /// Reads the record of the autoscaler from the debug API of the leader or of
    /// `--controller-url`. Returns it with the pod or the URL, and with the lag of the controller's
    /// clock.
    async fn read_record(
        &self,
        hpa: &HorizontalPodAutoscaler,
        lease: &ControllerLease,
    ) -> Result<(AutoscalerDetail, String, SignedDuration), Unavailable> {
        let (client, leader) = (&self.client, lease.leader_pod(&self.client));
        let api = lease.debug_client(client, &self.flags, self.request_timeout, leader).await?;
        let window = self.since.unwrap_or_default().max(MIN_PAST);
        let read_as_of = async |now: Timestamp| {
            let since = now.checked_sub(window).ok();
            api.autoscaler(&self.name.key, since).await
        };
        let requested_at = kubectl::now();
        let mut detail = read_as_of(requested_at).await?;
        let mut clock_lag = SignedDuration::ZERO;
        if let Some(controller_now) = detail.as_ref().map(|detail| detail.now) {
            clock_lag = debug::clock_lag(controller_now, requested_at, kubectl::now());
            if clock_lag > MAX_CLOCK_LAG {
                detail = read_as_of(controller_now).await?;
            }
        }
        match detail.filter(|detail| detail.autoscaler.uid == hpa.metadata.uid) {
            Some(detail) if detail.history.is_some() => Ok((detail, api.source, clock_lag)),
            Some(_) => Err(Unavailable::NotWorking(api.source)),
            None => Err(Unavailable::UnknownAutoscaler),
        }
    }

    /// The object of the namespace whose name is like that of a missing target. Only for kinds of
    /// the group `apps`. `None` if the target exists, or if the objects can't be listed.
    async fn similar_target(&self, target: &CrossVersionObjectReference) -> Option<String> {
        let kind = target.kind.as_str();
        if !target.api_version.starts_with("apps/") || !SCALABLE.contains(&kind) {
            return None;
        }
        let resource = kind.to_lowercase() + "s";
        let namespace = escape(&self.name.key.namespace);
        let path =
            format!("/apis/apps/v1/namespaces/{namespace}/{resource}?limit={MAX_COMPARED_TARGETS}");
        let items = kubectl::list_first_page(&self.client, &path).await.ok()?;
        let names: Vec<&str> = items.iter().map(|item| string_at(item, "/metadata/name")).collect();
        let name = target.name.as_str();
        let similar = most_similar(name, names.iter().copied());
        similar.filter(|_| !names.contains(&name)).map(ToOwned::to_owned)
    }

    /// Reads the series of the rules if the decision needs them and the relist interval has passed.
    async fn relist(&self, inputs: &Inputs) -> anyhow::Result<()> {
        let needed = self.metrics.rules.as_deref().filter(|_| self.metrics.needs_series(inputs));
        let Some(rules) = needed else { return Ok(()) };
        let interval = rules.settings().relist_interval;
        if self.relisted.get().is_some_and(|last| last.elapsed() < interval) {
            return Ok(());
        }
        let report_delay = || {
            if !self.has_reported_delay.replace(true) {
                rules_source::warn_of_delay(rules);
            }
        };
        rules_source::relist(rules, report_delay).await?;
        self.relisted.set(Some(Instant::now()));
        Ok(())
    }
}

/// Replaces readings by the controller's values, and adds its forecasts. Returns the names of the
/// metrics with replaced readings.
fn fill_from_record(inputs: &mut Inputs, record: &AutoscalerDetail) -> Vec<String> {
    let (values, errors) = (record.last_values(), record.last_errors());
    let replaced = fill_readings(inputs, &values, record.are_values_current(), errors);
    fill_forecasts(inputs, &record.forecasts);
    replaced
}
