//! The testbed, the simulation and the controller, connected over HTTP.

mod controller;
mod loads;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use hpa_adapter::certificates::write_private;
use hpa_controller::{
    HpaKey, Observer, ReconcileBeforeStatusWrite, Telemetry, TelemetryOptions,
    debug::{DebugView, DecisionRecorder},
    k8s::{ClientConfig, ClientLimits, ClientSource, Clients},
};
use hpa_dashboard::{Dashboard, Options};
use hpa_testbed::{
    Config, Fault, Faults, ServerHandle, Testbed,
    clock::SimulatedClock,
    workload::{
        RunningSimulation, Simulation,
        load::{Load, Repeat},
        scenario::Scenario,
        seconds::Seconds,
    },
};
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::Instant,
};
use tracing::warn;

use self::{
    controller::{
        Controller, ControllerSetup, DemoClock, DemoRecordSource, REQUEST_TIMEOUT, settings,
        sync_period,
    },
    loads::DemoPastLoads,
};
use super::model::Decision;
use crate::{debug_api, serve::Server, version};

/// Memory for recorded decisions, in bytes.
const DECISION_MEMORY: usize = 16 << 20;

/// The product in the controller's user agent. Faults of scenarios match it.
const CONTROLLER_PRODUCT: &str = "hpa-rs";
/// The product in the dashboard's user agent.
const DASHBOARD_PRODUCT: &str = "hpa-dashboard";
/// The longest real time for which simulated time slows down because of one autoscaler's check.
const MAX_CHECK_TIME: Duration = Duration::from_secs(30);

/// The demo's simulated cluster, with the server and the controller that use it.
pub(crate) struct DemoCluster {
    pub(crate) testbed: Testbed,
    pub(crate) simulation: Simulation,
    /// Every decision of the controller.
    pub(crate) decisions: UnboundedReceiver<Decision>,
    pub(crate) controller: Controller,
    pub(crate) kubeconfig: PathBuf,
    /// Simulated seconds per real second.
    speed: f64,
    pending_checks: PendingChecks,
    debug_view: Arc<DebugView>,
    setup: ControllerSetup,
    _server: ServerHandle,
    _running: RunningSimulation,
}

/// The autoscalers that wait for the controller's first check whether forecasts help, each with the
/// time of its first decision without that check. A check takes real time, so simulated time slows
/// down until it ends, for at most [`MAX_CHECK_TIME`].
#[derive(Debug, Default)]
struct PendingChecks(BTreeMap<HpaKey, Instant>);

impl PendingChecks {
    fn update(&mut self, decision: &Decision) {
        if decision.waits_for_forecast {
            self.0.entry(decision.key.clone()).or_insert_with(Instant::now);
        } else {
            self.0.remove(&decision.key);
        }
    }

    fn is_waiting(&self) -> bool {
        self.0.values().any(|since| since.elapsed() < MAX_CHECK_TIME)
    }
}

/// Sends each decision to the playback.
struct DecisionSender {
    clock: Arc<DemoClock>,
    decisions: UnboundedSender<Decision>,
}

impl Observer for DecisionSender {
    fn concluded(&self, concluded: &ReconcileBeforeStatusWrite<'_>) {
        // Fails only while the demo ends.
        let _ = self.decisions.send(Decision::from_reconcile(concluded, self.clock.second()));
    }
}

impl DemoCluster {
    /// Starts the scenario, and writes a kubeconfig to `folder`. `speed` is simulated seconds per
    /// real second, `duration` is in simulated seconds.
    pub(crate) async fn start(
        scenario: Scenario,
        speed: f64,
        duration: f64,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let clock = SimulatedClock::new(start_time(speed, duration), speed);
        let faults = faults(&scenario, &clock)?;
        // The commands of the introduction have no --namespace, so the kubeconfig needs one.
        let first = scenario.workloads.first();
        let namespace = first.map_or("default".to_owned(), |first| first.namespace.clone());
        let simulation = Simulation::new(with_repeated_load(scenario), clock.clone());
        let config = Config { interceptor: Some(Arc::new(faults)), ..simulation.config() };
        let testbed = Testbed::new(config);
        let (address, server) = testbed
            .serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await
            .context("unable to listen on 127.0.0.1")?;
        let kubeconfig = folder.join("kubeconfig");
        write_private(&kubeconfig, &Testbed::kubeconfig_with_namespace(address, &namespace))
            .with_context(|| format!("unable to write {}", kubeconfig.display()))?;
        let clients = clients(&testbed, &kubeconfig, CONTROLLER_PRODUCT).await;
        let running = simulation
            .start(&testbed)
            .map_err(|error| anyhow!("unable to create the scenario's objects: {error}"))?;
        let (sender, decisions) = unbounded_channel();
        let clock = Arc::new(DemoClock::new(clock));
        let sender = DecisionSender { clock: Arc::clone(&clock), decisions: sender };
        let telemetry = Arc::new(Telemetry::new(TelemetryOptions {
            build: version::build_info(),
            ..TelemetryOptions::default()
        }));
        let recorder = Arc::new(DecisionRecorder::new(telemetry.clone(), DECISION_MEMORY));
        let observers: Vec<Arc<dyn Observer>> = vec![Arc::new(sender), recorder.clone()];
        let past_loads = Arc::new(DemoPastLoads::new(simulation.scenario(), clock.start));
        let observer = Arc::new(observers);
        let setup = ControllerSetup { clients, clock, observer, telemetry, past_loads };
        let debug_view = Arc::new(setup.debug_view(recorder));
        let controller = setup.start(speed);
        Ok(Self {
            testbed,
            simulation,
            decisions,
            controller,
            kubeconfig,
            speed,
            pending_checks: PendingChecks::default(),
            debug_view,
            setup,
            _server: server,
            _running: running,
        })
    }

    /// Records whether the autoscaler waits for a check, which slows simulated time.
    pub(crate) fn track_pending_checks(&mut self, decision: &Decision) {
        self.pending_checks.update(decision);
        self.adjust_speed();
    }

    /// Sets the speed of simulated time, which is at most real time during checks.
    pub(crate) fn adjust_speed(&self) {
        let is_waiting = self.pending_checks.is_waiting();
        let speed = if is_waiting { self.speed.min(1.0) } else { self.speed };
        let clock = self.simulation.clock();
        if clock.speed().to_bits() != speed.to_bits() {
            clock.set_speed(speed);
        }
    }

    /// Continues in real time. A controller can't change its sync period, so a new controller
    /// replaces the running one. As after any restart without a stored history, the first
    /// recommendation of each autoscaler is its current replicas.
    pub(crate) async fn switch_to_real_time(&mut self) {
        self.speed = 1.0;
        self.simulation.clock().set_speed(1.0);
        self.controller.stop().await;
        self.controller = self.setup.start(1.0);
    }

    /// Serves the dashboard of the cluster. If it can't start, the demo continues without it.
    pub(crate) async fn start_dashboard(&self, scenario: &str) -> Option<Dashboard> {
        let clients = clients(&self.testbed, &self.kubeconfig, DASHBOARD_PRODUCT).await;
        let options = Options {
            title: format!("hpa demo: {scenario}"),
            sync_period: sync_period(self.speed),
            request_timeout: REQUEST_TIMEOUT,
            settings: settings(),
            clock: self.setup.clock.clone(),
            records: Some(Arc::new(DemoRecordSource(self.debug_view.clone()))),
            ..Options::default()
        };
        let started = Dashboard::start(&clients, options).await;
        started.inspect_err(|error| warn!(%error, "no dashboard")).ok()
    }

    /// Serves the debug API of the controller. If it can't start, the demo continues without it.
    pub(crate) async fn start_debug_api(&self) -> Option<(Server, SocketAddr)> {
        let started = debug_api::start_local(self.debug_view.clone()).await;
        started.inspect_err(|error| warn!(error = format!("{error:#}"), "no debug API")).ok()
    }

    /// Serves the cluster's metrics for Prometheus until the handle is dropped.
    pub(crate) async fn serve_metrics(
        &self,
        address: SocketAddr,
    ) -> anyhow::Result<(SocketAddr, ServerHandle)> {
        let served = self.simulation.serve_exposition(&self.testbed, address).await;
        served.with_context(|| format!("--metrics-address: unable to listen on {address}"))
    }

    /// Shuts the controller down, then the testbed.
    pub(crate) async fn stop(mut self) {
        self.controller.stop().await;
    }
}

/// The simulated time at the start: so far in the past that simulated time equals real time at the
/// end. If simulated time were ahead, kubectl would show negative ages, because it computes them
/// with its own clock.
fn start_time(speed: f64, duration: f64) -> Timestamp {
    let lead = SignedDuration::try_from_secs_f64(duration - duration / speed).unwrap_or_default();
    let now = Timestamp::now();
    now.checked_sub(lead).unwrap_or(now)
}

/// Repeats loads and arrivals after the end of the scenario, for `--hold` and a longer `--for`.
fn with_repeated_load(mut scenario: Scenario) -> Scenario {
    let every = Seconds::new(scenario.duration.get() + 1.0);
    let repeat = |load: &mut Load| {
        let unrepeated = std::mem::take(load);
        *load = Load::Repeat(Repeat { every, load: Box::new(unrepeated) });
    };
    scenario.workloads.iter_mut().map(|workload| &mut workload.load).for_each(repeat);
    scenario.queues.iter_mut().map(|queue| &mut queue.arrivals).for_each(repeat);
    scenario
}

/// The scenario's faults, in simulated time.
fn faults(scenario: &Scenario, clock: &SimulatedClock) -> anyhow::Result<Faults> {
    let faults = Faults::with_clock(scenario.seed, clock.clone());
    for (index, fault) in scenario.faults.iter().enumerate() {
        let fault = Fault::from_json(fault).with_context(|| format!("faults[{index}]"))?;
        faults.add(fault);
    }
    Ok(faults)
}

/// Creates clients from the kubeconfig, as for any cluster. If the environment prevents that, for
/// example because it names a proxy, the clients call the testbed directly.
async fn clients(testbed: &Testbed, kubeconfig: &Path, product: &'static str) -> Clients {
    let limits = ClientLimits { request_timeout: REQUEST_TIMEOUT, ..ClientLimits::default() };
    let source = ClientSource::Kubeconfig { path: Some(kubeconfig.to_owned()), context: None };
    let user_agent = (product != CONTROLLER_PRODUCT).then(|| HeaderValue::from_static(product));
    let config = ClientConfig {
        source,
        api: limits,
        metrics: limits,
        user_agent,
        ..ClientConfig::default()
    };
    match Clients::new(&config).await {
        Ok(clients) => clients,
        Err(error) => {
            warn!(
                error = error.to_string(),
                "unable to use the kubeconfig; requests are sent without HTTP"
            );
            Clients::from_service(testbed.service_named(product), &limits)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hpa_dashboard::RecordSource;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::demo::model::steady_decision;

    #[test]
    fn each_check_has_its_own_time_limit() {
        let mut pending_checks = PendingChecks::default();
        let decision = |name: &str, waits_for_forecast| {
            let key = HpaKey::new("default", name);
            Decision { key, waits_for_forecast, ..steady_decision() }
        };
        pending_checks.update(&decision("web", true));
        assert!(pending_checks.is_waiting());
        let expired = Instant::now().checked_sub(MAX_CHECK_TIME).unwrap();
        pending_checks.0.insert(HpaKey::new("default", "web"), expired);
        pending_checks.update(&decision("web", true));
        assert!(!pending_checks.is_waiting());
        pending_checks.update(&decision("api", true));
        assert!(pending_checks.is_waiting());
        pending_checks.update(&decision("api", false));
        assert!(!pending_checks.is_waiting());
    }

    const SCENARIO: &str = "
workloads: [{name: web, replicas: 2}]
manifests:
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: web, namespace: default}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    maxReplicas: 9
";

    #[tokio::test]
    async fn kubeconfig_has_the_namespace_of_the_first_workload() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            SCENARIO.replace("{name: web, replicas", "{name: web, namespace: shop, replicas");
        let scenario = Scenario::parse(&text.replace("namespace: default", "namespace: shop"));
        let cluster = DemoCluster::start(scenario.unwrap(), 100.0, 600.0, folder.path()).await;
        let cluster = cluster.unwrap();
        let kubeconfig = fs::read_to_string(&cluster.kubeconfig).unwrap();
        assert!(kubeconfig.contains("namespace: \"shop\"\n"), "{kubeconfig}");
        cluster.stop().await;
    }

    #[tokio::test]
    async fn decisions_are_recorded_and_reconciles_slow_down_in_real_time() {
        let folder = tempfile::tempdir().unwrap();
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let mut cluster = DemoCluster::start(scenario, 100.0, 600.0, folder.path()).await.unwrap();
        // Reconciles are 150 ms apart.
        for _ in 0..3 {
            let decision = timeout(Duration::from_secs(20), cluster.decisions.recv()).await;
            assert_eq!(&*decision.unwrap().unwrap().key.name, "web");
        }
        // The recorder runs after the sender, so it may lack the last decision.
        let key = HpaKey::new("default", "web");
        let source = DemoRecordSource(cluster.debug_view.clone());
        let records = source.records(&key, None, None).await.unwrap();
        assert!(records.samples.len() >= 2 && records.history.is_some(), "{records:?}");
        assert!(!records.decisions.is_empty() && records.decisions.len() < records.samples.len());
        let last = records.samples.last().unwrap().at;
        let next = source.records(&key, None, Some(last)).await.unwrap();
        assert!(next.samples.iter().all(|sample| sample.at > last));
        cluster.switch_to_real_time().await;
        while cluster.decisions.try_recv().is_ok() {}
        // Reconciles are now 15 s apart.
        sleep(Duration::from_secs(2)).await;
        let decisions = std::iter::from_fn(|| cluster.decisions.try_recv().ok()).count();
        assert!(decisions <= 1, "{decisions}");
        cluster.stop().await;
    }
}
