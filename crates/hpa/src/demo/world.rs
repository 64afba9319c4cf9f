//! The testbed, the simulation and the controller, wired together.

use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use hpa_calc::settings::Settings;
use hpa_controller::{
    controller::{Dependencies, Options, RunError},
    k8s::{ClientConfig, ClientLimits, ClientSource, Clients},
    reconcile::observer::{Observer, Reconciled},
};
use hpa_testbed::{
    Config, Fault, Faults, ServerHandle, Testbed,
    workload::{
        RunningSimulation, Simulation,
        clock::SimulatedClock,
        load::{Load, Repeat},
        scenario::Scenario,
        seconds::Seconds,
    },
};
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{clock::DemoClock, decision::Decision};

/// How often the controller reconciles each autoscaler, in simulated seconds.
const SYNC_PERIOD: f64 = 15.0;
/// And at least how far apart in real time.
const SHORTEST_SYNC_PERIOD: Duration = Duration::from_millis(20);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
const WORKERS: usize = 5;
/// The user agent's product of the controller, by which faults know it.
const CLIENT: &str = "hpa-rs";

/// All that runs.
pub(crate) struct DemoCluster {
    /// The cluster.
    pub(crate) testbed: Testbed,
    /// What lives in it.
    pub(crate) simulation: Simulation,
    /// The decisions as they are made.
    pub(crate) decisions: UnboundedReceiver<Decision>,
    /// The controller, which does not end of itself.
    pub(crate) controller: JoinHandle<Result<(), RunError>>,
    /// Where the kubeconfig is.
    pub(crate) kubeconfig: PathBuf,
    shutdown: CancellationToken,
    _server: ServerHandle,
    _running: RunningSimulation,
}

/// Tells decisions in words.
struct Reporter {
    clock: Arc<DemoClock>,
    decisions: UnboundedSender<Decision>,
}

impl Observer for Reporter {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        // Nobody listens at the end.
        let _ = self.decisions.send(Decision::of(reconciled, self.clock.second()));
    }
}

impl DemoCluster {
    /// Starts everything: the scenario at this speed, of which so many simulated seconds will be seen.
    pub(crate) async fn start(
        scenario: Scenario,
        speed: f64,
        span: f64,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let clock = SimulatedClock::new(beginning(speed, span), speed);
        let faults = faults(&scenario, &clock)?;
        let simulation = Simulation::new(endless(scenario), clock.clone());
        let config = Config { interceptor: Some(Arc::new(faults)), ..simulation.config() };
        let testbed = Testbed::new(config);
        let (address, server) = testbed
            .serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await
            .context("cannot listen on 127.0.0.1")?;
        let kubeconfig = folder.join("kubeconfig");
        write_private(&kubeconfig, &Testbed::kubeconfig(address))
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let clients = clients(&testbed, &kubeconfig).await;
        let running = simulation
            .start(&testbed)
            .map_err(|error| anyhow!("the scenario's objects: {error}"))?;
        let (sender, decisions) = unbounded_channel();
        let options = options(speed);
        let demo_clock = Arc::new(DemoClock::new(clock));
        let reporter = Reporter { clock: Arc::clone(&demo_clock), decisions: sender };
        let parts = Dependencies {
            clock: demo_clock,
            observer: Arc::new(reporter),
            ..Dependencies::new(clients, &options)
        };
        let shutdown = CancellationToken::new();
        let controller =
            tokio::spawn(hpa_controller::controller::run(parts, options, shutdown.clone()));
        Ok(Self {
            testbed,
            simulation,
            decisions,
            controller,
            kubeconfig,
            shutdown,
            _server: server,
            _running: running,
        })
    }

    /// Ends everything, the controller in its orderly way.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        if !self.controller.is_finished() {
            // It keeps to its grace period.
            let _ = (&mut self.controller).await;
        }
    }
}

/// When the clock has to begin so that it shows the real time at the end: what kubectl reckons from its own clock, such as
/// ages, is then never negative.
fn beginning(speed: f64, span: f64) -> Timestamp {
    let ahead = SignedDuration::try_from_secs_f64(span - span / speed).unwrap_or_default();
    let now = Timestamp::now();
    now.checked_sub(ahead).unwrap_or(now)
}

/// The scenario with loads that begin again after its end.
fn endless(mut scenario: Scenario) -> Scenario {
    let every = Seconds::new(scenario.duration.get() + 1.0);
    let repeat = |load: &mut Load| {
        let once = std::mem::take(load);
        *load = Load::Repeat(Repeat { every, load: Box::new(once) });
    };
    scenario.workloads.iter_mut().map(|one| &mut one.load).for_each(repeat);
    scenario.queues.iter_mut().map(|one| &mut one.arrivals).for_each(repeat);
    scenario
}

/// The scenario's faults, in simulated time.
fn faults(scenario: &Scenario, clock: &SimulatedClock) -> anyhow::Result<Faults> {
    let faults = Faults::with_clock(scenario.seed, clock.as_fn());
    for (index, fault) in scenario.faults.iter().enumerate() {
        let fault = Fault::from_json(fault).with_context(|| format!("faults[{index}]"))?;
        faults.add(fault);
    }
    Ok(faults)
}

/// Writes a file that nobody else can read.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Clients by the kubeconfig, as those of any cluster. Where the environment keeps it from being used (it names a proxy,
/// say), the controller is given the server without a socket.
async fn clients(testbed: &Testbed, kubeconfig: &Path) -> Clients {
    let limits = ClientLimits { request_timeout: REQUEST_TIMEOUT, ..ClientLimits::default() };
    let source = ClientSource::Kubeconfig { path: Some(kubeconfig.to_owned()), context: None };
    match Clients::new(&ClientConfig { source, api: limits, metrics: limits }).await {
        Ok(clients) => clients,
        Err(error) => {
            warn!(error = error.to_string(), "the controller runs without HTTP");
            Clients::from_service(testbed.service_named(CLIENT), &limits)
        }
    }
}

fn options(speed: f64) -> Options {
    let sync_period = Duration::from_secs_f64(SYNC_PERIOD / speed).max(SHORTEST_SYNC_PERIOD);
    Options {
        settings: Settings { strict_scale_to_zero: true, ..Settings::default() },
        sync_period,
        workers: WORKERS,
        namespaces: Vec::new(),
        shutdown_grace: SHUTDOWN_GRACE,
        request_timeout: REQUEST_TIMEOUT,
        watch_scales: true,
    }
}
